"""The command: environments, workers one after another, tables. See the package's docstring."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from .environments import PEERS, ROOT, InstallError, Peer, build_wheel, make_environment
from .table import compact_table, finished, full_table, write_tables
from .worker import ONE_THREAD


def run_worker(python: Path, peer: Peer, size: str, repeats: int, budget: float, kinds: str) -> tuple[list[dict[str, Any]], str | None]:
    """Rows of one peer as they come, and the reason where its worker ended early."""
    environment = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONHOME")}
    environment |= {**ONE_THREAD, "PYTHONPATH": str(ROOT / "benchmarks"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(python), "-m", "peers.worker", peer.name, "--size", size, "--kinds", kinds]
    command += ["--repeats", str(repeats), "--budget", str(budget)]
    rows = []
    with (
        tempfile.TemporaryDirectory() as nowhere,
        tempfile.TemporaryFile("w+") as errors,
    ):  # not the checkout: its lrgittins would be imported
        with subprocess.Popen(command, cwd=nowhere, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    row = json.loads(line)
                    rows.append(row)
                    said = "over budget" if "over_budget" in row else f"{row['ratio']:.2f} times"
                    click.echo(f"  {row['work']}: {said}", err=True)
        if process.returncode:
            errors.seek(0)
            lines = [line.strip() for line in errors if line.strip()]
            return rows, lines[-1] if lines else f"its worker ended with code {process.returncode}"
    return rows, None


def merge(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """New rows after the old ones that they do not replace; a row that stood in for a slower one goes with that one."""
    done = {(row["peer"], row["size"], row["work"]) for row in new}

    def replaced(row: dict[str, Any]) -> bool:
        return any((row["peer"], row["size"], row.get(name)) in done for name in ("work", "instead_of"))

    return [row for row in old if not replaced(row)] + new


@click.command(help="Times lrgittins against its peers: an environment per peer, interleaved runs, ratios and differences of the answers.")
@click.option("--only", default="", help="Comma-separated peers; default all: " + ", ".join(peer.name for peer in PEERS) + ".")
@click.option("--kinds", default="", help="Comma-separated kinds of rows (point, intervals, tasks, step, roots); default all.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="Rounds; slow peers get what fits --budget.")
@click.option(
    "--budget",
    default=400.0,
    show_default=True,
    type=click.FloatRange(0.0, min_open=True),
    help="CPU seconds that a peer's runs of one row may take together. Where the untimed run and one round take longer, a smaller input is "
    "tried, and the table says so.",
)
@click.option("--size", default="full", show_default=True, type=click.Choice(["small", "full"]))
@click.option("--keep-envs", type=click.Path(path_type=Path, file_okay=False), help="Folder of the environments, kept and used again.")
@click.option("--wheel", type=click.Path(path_type=Path, exists=True), help="A built lrgittins to time instead of the checkout.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Rows as JSON. Rows in it that are not run again are kept.")
@click.option("--no-run", is_flag=True, help="Run nothing: tables from --json alone.")
@click.option("--write", multiple=True, type=click.Path(path_type=Path, exists=True), help="File with table markers to fill (repeatable).")
def main(
    only: str,
    kinds: str,
    repeats: int,
    budget: float,
    size: str,
    keep_envs: Path | None,
    wheel: Path | None,
    json_file: Path | None,
    no_run: bool,
    write: tuple[Path, ...],
) -> None:
    names = [name.strip() for name in only.split(",") if name.strip()] or [peer.name for peer in PEERS]
    unknown = set(names) - {peer.name for peer in PEERS}
    if unknown:
        raise click.BadParameter(f"unknown peers {sorted(unknown)}; known are {[peer.name for peer in PEERS]}", param_hint="--only")
    if no_run and not (json_file and json_file.exists()):
        raise click.UsageError("--no-run takes its rows from a file: give an existing --json")
    rows: list[dict[str, Any]] = json.loads(json_file.read_text(encoding="utf-8")) if json_file and json_file.exists() else []
    failures: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        folder = keep_envs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        built = wheel or (folder if no_run else build_wheel(folder))
        for peer in (peer for peer in PEERS if peer.name in names and not no_run):
            click.echo(f"{peer.name}: installing", err=True)
            try:
                python = make_environment(peer, folder / peer.name, built)
            except InstallError as error:
                failures[peer.name] = f"It cannot be installed from PyPI here: {error}"
                click.echo(f"{peer.name}: {failures[peer.name]}", err=True)
                continue
            new, reason = run_worker(python, peer, size, repeats, budget, kinds)
            if reason is not None:
                failures[peer.name] = f"Its worker stopped after {len(new)} rows: {reason}"
                click.echo(f"{peer.name}: {failures[peer.name]}", err=True)
            today = datetime.date.today().isoformat()
            rows = merge(rows, [{"date": today, **row} for row in new])
            if json_file:
                json_file.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    place = {peer.name: position for position, peer in enumerate(PEERS)}
    shown = sorted((row for row in rows if row["size"] == size), key=lambda row: place[row["peer"]])
    absent = {peer.name: f"It has no rows of size {size!r} yet." for peer in PEERS if all(row["peer"] != peer.name for row in shown)}
    full = full_table(shown, {**absent, **failures})
    click.echo(full)
    for path in write:
        write_tables(path, {"peers:full": full, "peers:compact": compact_table(shown)})
    timed = finished(shown)
    missed = [row for row in timed if row["ratio"] < row["wanted"]]
    click.echo(f"\n{len(timed)} rows, {len(missed)} below what is wanted, {len(shown) - len(timed)} over budget", err=True)
    sys.exit(1 if failures and not shown else 0)


if __name__ == "__main__":
    main()
