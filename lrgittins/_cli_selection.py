"""The commands ``select`` and ``roots``, and the selection half of ``demo``."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._cli_common import INPUT, Reporter, check_out, common_options, echo_json, examples, number, shorten, table
from ._cli_formats import SCORE_FORMATS, read_samples
from ._optional import import_optional
from .errors import MissingExtraError, ParameterError, ResponseError

if TYPE_CHECKING:
    import pandas as pd

    from .comparison import PolicyComparison
    from .responses import ResponseMatrix
    from .root_schedule import RootSchedule

PICTURES = (".png", ".svg", ".pdf")
DEMO_PICTURE = "lrgittins_demo_selection.png"
DEMO_POLICIES = ("gittins", "gittins-g", "ucb-e", "sysrs")
# Assumed for the demo, as the data set has no token counts: the order of magnitude of WildBench prompts and answers.
DEMO_TOKENS: dict[str, Any] = {"input_tokens": 1000, "output_tokens": 600}
DEMO_FRACTIONS = (0.01, 0.02, 0.05, 0.10)


# ------------------------------------------------------------------------------------------------------- select


@click.command(
    epilog=examples(
        "lrgittins select scores.csv",
        "lrgittins select scores.parquet --arm model --example item --policy gittins,sysrs --runs 50",
        "lrgittins select scores.csv --costs prices.csv --budget 0.05 --out regret.png",
        "lrgittins select scores.csv --cost usd --seed 7 --json --quiet",
        "lrgittins select results --format lm-eval --tasks gsm8k,mmlu --score acc",
    )
)
@click.argument("file", type=INPUT)
@click.option("--format", "form", type=click.Choice(SCORE_FORMATS), default="table", show_default=True,
              help="A table of scores, or a folder of lm-evaluation-harness sample logs (--score names the metric).")  # fmt: skip
@click.option("--filter", metavar="NAME", help="The filter whose samples count (lm-eval).")
@click.option("--tasks", metavar="NAMES", help="Only these tasks of the logs, separated by commas (lm-eval).")
@click.option("--costs", type=INPUT, help="Table with the price per example of every arm.")
@click.option("--price", metavar="COL", help="Column of the --costs table with the price.  [default: cost, or the only other column]")
@click.option("--cost", metavar="COL", help="Column of FILE with the cost of each cell.")
@click.option("--arm", default="arm", show_default=True, metavar="COL", help="Column of the arm.")
@click.option("--example", default="example", show_default=True, metavar="COL", help="Column of the example id.")
@click.option("--score", default="score", show_default=True, metavar="COL", help="Column of the score.")
@click.option("--score-range", type=float, nargs=2, default=(0.0, 1.0), show_default=True, help="Lowest and highest possible score.")
@click.option("--budget", type=float, default=0.1, show_default=True, help="Fraction of the cost of evaluating everything.")
@click.option("--policy", default="gittins,ucb-e", show_default=True, metavar="NAMES", help="Policies, separated by commas.")
@click.option("--batch-size", type=click.IntRange(min=1), default=8, show_default=True, help="Examples per batch.")
@click.option("--runs", type=click.IntRange(min=1), default=20, show_default=True, help="Seeded runs of every policy.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Worker processes (-1: all cores).")
@click.option("--strict", is_flag=True, help="Refuse a batch that would cross the budget.")
@click.option("--out", type=click.Path(path_type=Path),
              help="Write the result: .csv, .csv.gz, .parquet (every batch), .json, .html, or a picture: .png, .svg, .pdf")  # fmt: skip
@common_options
def select(
    file: Path,
    form: str,
    filter: str | None,
    tasks: str | None,
    costs: Path | None,
    price: str | None,
    cost: str | None,
    arm: str,
    example: str,
    score: str,
    score_range: tuple[float, float],
    budget: float,
    policy: str,
    batch_size: int,
    runs: int,
    jobs: int,
    strict: bool,
    out: Path | None,
    as_json: bool,
    seed: int,
    report: Reporter,
) -> None:
    """Replay policies on the scores in FILE: what each would have recommended, for how much, and when it stops.

    FILE is long (a row per arm and example) or wide (a row per arm): .parquet, .csv, .csv.gz, .jsonl or .jsonl.gz. With --format lm-eval it
    is a folder with one subfolder of logs per model.
    """
    suffix = None if out is None else check_out(out, WRITERS, "a comparison")
    if suffix in PICTURES:
        import_optional("matplotlib.figure", extra="plot", purpose="the picture")
    if costs is not None and cost is not None:
        raise ParameterError("--costs (prices by arm) and --cost (a column of costs by cell) exclude each other; give one of them")
    if price is not None and costs is None:
        raise ParameterError("--price names a column of the table --costs; give that too")

    from .compare import compare
    from .policy_names import check_policy
    from .replay import check_budget
    from .responses import ResponseMatrix

    check_budget(budget)
    names = [check_policy(name.strip()) for name in policy.split(",") if name.strip()]
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise ParameterError(f"--policy names {again!r} {names.count(again)} times; give each policy once")
    report(f"reading {shorten(file, 80)}")
    prices: Any = cost if costs is None else read_prices(costs, arm, price)
    columns: dict[str, Any] = {"arm": arm, "example": example, "score": score, "cost": prices, "score_range": score_range}
    try:
        if form == "lm-eval":
            responses = read_samples(file, filter=filter, tasks=tasks, **columns)
        elif filter is not None or tasks is not None:
            raise ParameterError(f"--{'tasks' if filter is None else 'filter'} is for --format lm-eval")
        else:
            responses = ResponseMatrix.read(file, **columns)
    except ResponseError as error:
        if costs is None or "cost has no entry" not in str(error):
            raise
        raise ResponseError(f"{str(error).replace('cost has no entry', f'{costs} has no price')}; it has {_some(prices)}") from None
    report(describe_matrix(responses))
    result = compare(
        responses, names, budget=budget, strict=strict, n_runs=runs, n_jobs=jobs, random_state=seed, progress=not report.quiet,
        batch_size=batch_size,
    )  # fmt: skip
    if out is not None and suffix is not None:
        WRITERS[suffix](result, out)
        report(f"wrote {out}")
    if as_json:
        echo_json(result.to_dict())
    elif out is None:
        click.echo(describe_comparison(result))


def read_prices(path: Path, arm: str, price: str | None = None) -> dict[Any, Any]:
    """Price per example by arm: the arm in the column `arm` (else the first), the price in `price` (else "cost", else the only other)."""
    from ._tables import naming_file, numbers, read_table

    frame = read_table(path, (arm,))
    if frame.index.dtype.kind not in "iu":  # names in the first column, which has no name of its own
        frame = frame.reset_index()
    columns = list(frame.columns)
    key = arm if arm in columns else columns[0] if columns else None
    others = [name for name in columns if name != key]
    value = price if price is not None else "cost" if "cost" in others else others[0] if len(others) == 1 else None
    listed = ", ".join(map(repr, columns)) or "none"
    if price is not None and price not in others:
        raise ResponseError(f"{path}: there is no column of prices {price!r} (--price) beside the arms; the columns are {listed}")
    if key is None or value is None:
        raise ResponseError(
            f"{path}: a table of prices needs a column of arms ({arm!r}) and a column 'cost' (price per example, or name it with --price); "
            f"its columns are {listed}. Prices per million tokens become prices per example with lrgittins.arm_costs in Python"
        )
    twice = frame[key][frame[key].duplicated()]
    if len(twice):
        again = "1 arm has" if len(twice) == 1 else f"{len(twice)} arms have"
        raise ResponseError(f"{path}: {again} more than one row, first {twice.iloc[0]!r}; keep one price for each")
    try:
        prices = numbers(frame[value], f"column {value!r}").tolist()
    except ResponseError as error:
        raise naming_file(path, error) from None
    bad = [f"{name!r} ({cost:g})" for name, cost in zip(frame[key].tolist(), prices, strict=True) if not cost >= 0.0 or math.isinf(cost)]
    if bad:
        raise ResponseError(
            f"{path}: column {value!r}: {_listed(bad)} without a usable price; a price is a number of at least 0, and a missing one "
            "is not 0: fill it in, or leave the arm out of both files"
        )
    return dict(zip(frame[key].tolist(), prices, strict=True))


def _listed(items: list[str]) -> str:
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")


def _some(prices: dict[Any, Any]) -> str:
    return f"prices for {_listed([repr(name) for name in prices])}" if prices else "no rows"


def describe_matrix(responses: ResponseMatrix) -> str:
    """Size, holes and cost of a matrix in one line."""
    cells = int(responses.n_cells.sum())
    holes = f", {responses.n_missing:,} missing" if responses.n_missing else ""
    size = f"{responses.n_arms:,} arms x {responses.n_examples:,} examples"
    return f"{size}, {cells:,} scores{holes}; all of them cost {responses.total_cost:.6g}"


def describe_comparison(result: PolicyComparison, fractions: Any = None) -> str:
    """Regret at budget fractions, then the stop signals, as two text tables."""
    at, stops = result.at(fractions), result.stop_summary()
    header = ["policy", *(f"{100 * point:.4g} %" for point in dict.fromkeys(at["cost_fraction"]))]
    lines = []
    for name, label in result.policies.items():
        rows = at[at["policy"] == name]
        lines.append([label, *(_with_error(mean, error) for mean, error in zip(rows["regret"], rows["std_error"], strict=True))])
    facts = next(iter(result.matrices.values()))
    best = shorten(facts.arms[int(facts.row_means.argmax())], 60)
    blocks = [
        f"Simple regret ± standard error over {result.n_runs} runs, by share of the full cost that is spent.\n"
        f"The best arm is {best}, mean score {facts.row_means.max():.3f}.",
        table(header, lines, left=["policy"], flexible="policy"),
    ]
    lines = []
    columns = [stops[name].tolist() for name in ("stopped", "cost_fraction", "completed_regret", "net_utility")]
    for label, stopped, fraction, regret, utility in zip(result.policies.values(), *columns, strict=True):
        if stopped:
            lines.append([label, f"{stopped:.0%} of runs", f"{100 * fraction:.2f} %", number(regret, 4), number(utility)])
    if lines:
        blocks.append(
            table(["stop signal", "in", "mean cost", "regret", "net utility"], lines, left=["stop signal"], flexible="stop signal")
        )
    return "\n\n".join(blocks)


def _with_error(mean: float, error: float) -> str:
    return f"{mean:.4f}" if error != error else f"{mean:.4f}±{error:.4f}"


def _save(content: bytes, path: Path) -> None:
    from ._files import write_atomically

    write_atomically(path, content)


def _write_csv(frame: pd.DataFrame, path: Path) -> None:
    text = frame.to_csv(index=False, lineterminator="\n")
    if path.name.lower().endswith(".gz"):
        from ._cli_common import write_gzip

        write_gzip(path, text)
    else:
        _save(text.encode(), path)


def _write_parquet(frame: pd.DataFrame, path: Path) -> None:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    _save(buffer.getvalue(), path)


def _write_json(data: Any, path: Path) -> None:
    import json

    _save((json.dumps(data, allow_nan=False, indent=1, ensure_ascii=False) + "\n").encode(), path)


def draw(result: PolicyComparison, path: Path) -> None:
    """The regret curves as a picture, cost on a log scale; raises `MissingExtraError` where matplotlib is not installed."""
    figures: Any = import_optional("matplotlib.figure", extra="plot", purpose="the picture")
    # A Figure of its own needs no display, unlike pyplot.
    figure = figures.Figure(figsize=(7.0, 4.5), layout="constrained")
    result.plot(ax=figure.add_subplot(), log=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100, format=path.suffix[1:].lower())
    _save(buffer.getvalue(), path)


WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".csv": lambda result, path: _write_csv(result.to_frame(), path),
    ".csv.gz": lambda result, path: _write_csv(result.to_frame(), path),
    ".parquet": lambda result, path: _write_parquet(result.to_frame(), path),
    ".json": lambda result, path: _write_json(result.to_dict(), path),
    ".html": lambda result, path: result.to_html(path),
    **dict.fromkeys(PICTURES, draw),
}


# -------------------------------------------------------------------------------------------------------- roots


@click.command(
    epilog=examples(
        "lrgittins roots --n-examples 1000",
        "lrgittins roots --n-examples 1000 --batch-size 16 --cost 1 --cost 2.5 --out roots.csv",
        "lrgittins roots --n-examples 200 --target latent --json",
    )
)
@click.option("--n-examples", type=click.IntRange(min=1), required=True, help="Examples of an arm.")
@click.option("--batch-size", type=click.IntRange(min=1), default=8, show_default=True, help="Examples per batch.")
@click.option("--cost", type=float, multiple=True, default=(1.0,), show_default=True, help="Price per example (repeatable).")
@click.option("--batch-schedule", type=click.Choice(["constant", "ramp"]), default="constant", show_default=True)
@click.option("--prior-variance", type=float, default=0.04, show_default=True, help="Variance of an arm's mean before any data.")
@click.option("--noise-variance", type=float, default=0.25, show_default=True, help="Variance of a score around the arm's mean.")
@click.option("--cost-scale", type=float, default=1e-4, show_default=True, help="Score given up per unit of cost (lambda).")
@click.option("--target", type=click.Choice(["empirical", "latent"]), default="empirical", show_default=True)
@click.option("--method", type=click.Choice(["auto", "panel", "banded", "fft", "paper"]), default="auto", show_default=True)
@click.option("--tol", type=float, default=1e-6, show_default=True, help="Largest absolute error of a root.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the roots here instead: .csv, .csv.gz, .json, .parquet.")
@common_options
def roots(
    n_examples: int,
    cost: tuple[float, ...],
    out: Path | None,
    as_json: bool,
    seed: int,
    report: Reporter,
    **options: Any,
) -> None:
    """Print the roots of an arm by stage: its index is the posterior mean minus the root."""
    from .root_schedule import root_schedule

    suffix = None if out is None else check_out(out, ROOT_WRITERS, "a table of roots")
    schedule = root_schedule(list(cost), n_examples=n_examples, **options)
    if out is not None and suffix is not None:
        ROOT_WRITERS[suffix](schedule, out)
        report(f"wrote {out}")
    if as_json:
        echo_json(roots_to_dict(schedule))
    elif out is None:
        click.echo(describe_roots(schedule))


ROOT_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".csv": lambda schedule, path: _write_csv(schedule.to_frame(), path),
    ".csv.gz": lambda schedule, path: _write_csv(schedule.to_frame(), path),
    ".parquet": lambda schedule, path: _write_parquet(schedule.to_frame(), path),
    ".json": lambda schedule, path: _write_json(roots_to_dict(schedule), path),
}


def roots_to_dict(schedule: RootSchedule) -> dict[str, Any]:
    """Strict JSON types; the root of a free arm, minus infinity, is None."""
    from .comparison import json_rows

    return {"method": schedule.method, "tol": schedule.tol, "target": schedule.target, "roots": json_rows(schedule.to_frame())}


def describe_roots(schedule: RootSchedule) -> str:
    """The schedule as a text table, one row per stage."""
    frame = schedule.to_frame()
    header = ["cost", "stage", "seen", "batch", "batch cost", "transition std", "root"]
    columns = [frame[name].tolist() for name in ("schedule", "stage", "seen", "batch_size", "cost", "transition_std", "root")]
    lines = [
        [f"{schedule.cost[row]:.6g}", str(stage), str(seen), str(size), f"{cost:.6g}", f"{std:.8f}", f"{root:.10f}"]
        for row, stage, seen, size, cost, std, root in zip(*columns, strict=True)
    ]
    note = f"method {schedule.method}, tolerance {schedule.tol:g}; the first column is the price per example times lambda"
    return f"{table(header, lines, flexible='cost')}\n\n{note}"


# --------------------------------------------------------------------------------------------------------- demo


def demo_selection(seed: int, report: Reporter, as_json: bool) -> dict[str, Any]:
    """The selection half of ``demo``, in the current folder."""
    return selection_demo(Path(), seed=seed, report=report, as_json=as_json)


def selection_demo(
    out_dir: str | Path, *, seed: int = 0, report: Callable[[str], None] | None = None, as_json: bool = False, runs: int = 20
) -> dict[str, Any]:
    """Regret of four policies on WildBench, printed as a short table and drawn into ``lrgittins_demo_selection.png``.

    Returns what ``demo --json`` shows; prints nothing with `as_json`.
    """
    say = report or (lambda message: None)
    say("selection: reading the bundled scores (the first run compiles its kernels and keeps them)")
    from .compare import compare
    from .datasets import load_wildbench_frame, load_wildbench_prices
    from .prices import arm_costs
    from .responses import ResponseMatrix

    frame = load_wildbench_frame()
    prices = arm_costs(load_wildbench_prices(), **DEMO_TOKENS, arms=sorted(frame["model"].unique()))
    parts = {}
    for name, cost in (("unit cost", None), ("priced", prices)):
        responses = ResponseMatrix.from_frame(frame, arm="model", example="item", cost=cost)
        say(f"selection: {name}: {describe_matrix(responses)}; replaying {len(DEMO_POLICIES)} policies {runs} times")
        parts[name] = compare(responses, DEMO_POLICIES, n_runs=runs, random_state=seed, progress=False)
    picture: str | None = None
    try:
        path = Path(out_dir) / DEMO_PICTURE
        draw(parts["unit cost"], path)
        picture = str(path)
        remark = f"picture: {picture}"
    except MissingExtraError as error:
        remark = f"no picture: {error}"
    if not as_json:
        click.echo("Which of 12 language models is best on 1,024 WildBench tasks, without paying for all answers?")
        click.echo("Data: WildBench by the Allen Institute for AI, https://github.com/allenai/WildBench, Apache-2.0;")
        click.echo(f"prices: LiteLLM, MIT, at an assumed {DEMO_TOKENS['input_tokens']} tokens in and {DEMO_TOKENS['output_tokens']} out.")
        for name, result in parts.items():
            click.echo(f"\n{name.capitalize()}. {describe_comparison(result, DEMO_FRACTIONS)}")
        click.echo("\nThe Gittins policies weigh a better score against its price: with prices they may leave a dear arm")
        click.echo("unevaluated, which costs regret and saves money (net utility counts both). The others ignore")
        click.echo("prices and have no stop signal.")
        click.echo(f"\n{remark}")
    return {"picture": picture, **{name: result.to_dict() for name, result in parts.items()}} if as_json else {}
