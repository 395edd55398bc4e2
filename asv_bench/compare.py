"""List what became slower or larger than a factor: python compare.py [OLD] [NEW] [--factor 1.5] [--write].

OLD and NEW are result files of asv (results/MACHINE/*.json) or baselines. Without NEW, the newest result file is compared with OLD,
or with baseline.json. `--write` stores the new figures as baseline.json instead. Exit code 1 where anything is listed.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline.json"
SCHEMA = "lrgittins.benchmarks"
GATED = ("time_", "timeraw_", "peakmem_", "mem_")


def load(path: Path) -> dict[str, Any]:
    """Figures of a result file or a baseline: {"benchmark(parameters)": value}, with what is known of the machine."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.get("schema") == SCHEMA:
        return data
    if "results" not in data or "result_columns" not in data:
        raise click.ClickException(f"{path} is neither a result file of asv nor a baseline")
    figures: dict[str, float] = {}
    for name, values in data["results"].items():
        row = dict(zip(data["result_columns"], values, strict=False))
        results, combinations = row.get("result"), list(itertools.product(*(row.get("params") or [])))
        for parameters, value in zip(combinations, results or [None] * len(combinations), strict=True):
            label = f"{name}({', '.join(parameter.strip(chr(39)) for parameter in parameters)})" if parameters else name
            if isinstance(value, (int, float)) and math.isfinite(value):
                figures[label] = value
    about = {key: data.get("params", {}).get(key) for key in ("cpu", "num_cpu", "os", "ram")}
    return {"schema": SCHEMA, "commit": data.get("commit_hash"), "machine": about, "figures": figures}


def newest_result() -> Path:
    """The result file written last."""
    found = [path for path in (HERE / "results").glob("*/*.json") if path.name != "machine.json"]
    if not found:
        raise click.ClickException("no result files: run `asv run --python=same --set-commit-hash $(git rev-parse HEAD)` first")
    return max(found, key=lambda path: path.stat().st_mtime)


def is_gated(label: str) -> bool:
    """Whether smaller is better (times and memory), as opposed to a tracked number."""
    return label.split("(")[0].rsplit(".", 1)[-1].startswith(GATED)


def worse(old: dict[str, float], new: dict[str, float], factor: float) -> list[str]:
    """Times and memory that grew by more than `factor`."""
    lines = []
    for label in sorted(old.keys() & new.keys(), key=lambda label: -(new[label] / old[label] if old[label] > 0 else 0.0)):
        if is_gated(label) and new[label] > factor * old[label]:
            lines.append(f"{new[label] / old[label]:6.2f} x  {old[label]:.4g} -> {new[label]:.4g}  {label}")
    return lines


def changed(old: dict[str, float], new: dict[str, float]) -> list[str]:
    """Tracked numbers that moved by more than 1 %."""
    labels = sorted(label for label in old.keys() & new.keys() if not is_gated(label))
    return [f"{old[label]:.6g} -> {new[label]:.6g}  {label}" for label in labels if not math.isclose(old[label], new[label], rel_tol=0.01)]


@click.command(help=__doc__)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--factor", default=1.5, show_default=True, type=click.FloatRange(min=1.0))
@click.option("--write", is_flag=True, help="Store the new figures as baseline.json.")
def main(files: tuple[Path, ...], factor: float, write: bool) -> None:
    if len(files) > (1 if write else 2):
        raise click.UsageError("give one file with --write, two at most without")
    if write:
        source = files[0] if files else newest_result()
        data = load(source)
        BASELINE.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        click.echo(f"wrote {BASELINE.name}: {len(data['figures'])} figures of {source.name}")
        return
    old_path = files[0] if files else BASELINE
    if not old_path.exists():
        raise click.ClickException("there is no baseline.json yet: store one with --write")
    old, new = load(old_path), load(files[1] if len(files) == 2 else newest_result())
    if old["machine"] != new["machine"]:
        click.echo("note: the two come from different machines", err=True)
    slower, moved = worse(old["figures"], new["figures"], factor), changed(old["figures"], new["figures"])
    missing = sorted(old["figures"].keys() - new["figures"].keys())
    for title, lines in (
        (f"worse by more than {factor:g} x", slower),
        ("tracked numbers that changed", moved),
        ("no longer measured", missing),
    ):
        if lines:
            click.echo(f"{title}:")
            click.echo("\n".join(f"  {line}" for line in lines))
    compared = len(old["figures"].keys() & new["figures"].keys())
    click.echo(f"{compared} figures compared, {len(slower)} worse by more than {factor:g} x")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
