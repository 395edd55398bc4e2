"""The commands ``check`` and ``rank``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._cli_common import INPUT, Command, Reporter, check_out, common_options, count, echo_json, examples, number, shorten, table, write_gzip
from ._cli_formats import VOTE_FORMATS, read_foreign_votes
from .errors import ParameterError

if TYPE_CHECKING:
    from .board import Leaderboard
    from .comparisons import Comparisons

ESTIMATORS = ("low-rank", "per-task", "pooled")
WIDTH = 100  # of what is printed for people
METHODS = ("max-t", "step-down", "order-statistic", "one-sided")
WRITERS = {  # the last argument: the units scores are shown in
    ".csv": lambda board, path, units: board.to_csv(path, **units),
    ".csv.gz": lambda board, path, units: write_gzip(path, board.csv_text(**units)),
    ".html": lambda board, path, units: board.to_html(path, **units),
    ".json": lambda board, path, units: board.to_json(path),
    ".parquet": lambda board, path, units: board.to_parquet(path),
}
COLUMN_OPTIONS = ("task", "model_a", "model_b", "winner", "count", "id", "cluster")


def intake_options(function: Command) -> Command:
    """FILE and everything `Comparisons.read` can be told; the command receives them as `file` and `intake`."""

    def choice(name: str, values: Sequence[str], default: str, text: str) -> Any:
        return click.option(name, type=click.Choice(list(values)), default=default, show_default=True, help=text)

    def column(name: str, default: str | None, text: str) -> Any:
        return click.option(name, default=default, show_default=default is not None, metavar="COL", help=text)

    for option in reversed(
        (
            click.argument("file", type=INPUT),
            choice("--format", VOTE_FORMATS, "table", "What kind of file it is: a table of votes, or a file of another tool."),
            column("--task", "task", "Column of the task (lmarena: category, language, or names of categories)."),
            click.option("--single-task", is_flag=True, help="The file has no task column: all votes are one task."),
            column("--model-a", "model_a", "Column of the first model."),
            column("--model-b", "model_b", "Column of the second model."),
            column("--winner", "winner", "Column of the verdict."),
            column("--count", None, "Column with how often the row's vote was cast."),
            column("--id", None, "Column naming the vote, to find copies and contradictions."),
            column("--cluster", None, "Column of judge, prompt or battle, for cluster-robust errors."),
            choice("--ties", ("half", "drop", "error"), "half", "A tie is half a win each, left out, or refused."),
            choice("--both-bad", ("tie", "drop", "error"), "tie", "What 'both bad' verdicts are."),
            choice("--on-invalid", ("error", "drop"), "error", "Refuse unusable rows, or drop and count them."),
            click.option("--alias", multiple=True, metavar="OLD=NEW", help="Rename a model on the way in (repeatable)."),
        )
    ):
        function = option(function)
    return function


def read_votes(file: Path, options: Mapping[str, Any], report: Reporter) -> Comparisons:
    """The votes of `file`, read as the intake options say."""
    from .comparisons import Comparisons

    columns = {name: options[name] for name in COLUMN_OPTIONS}
    if options["single_task"]:
        columns["task"] = None
    aliases = dict(_split_alias(item) for item in options["alias"])
    report(f"reading {shorten(file, 80)}")
    if options["format"] != "table":
        votes = read_foreign_votes(file, options["format"], options, aliases or None)
    else:
        policies = {name: options[name] for name in ("ties", "both_bad", "on_invalid")}
        votes = Comparisons.read(file, **columns, **policies, aliases=aliases or None)
    report(f"{count(votes.n, 'vote')}, {_sizes(votes)}" + (f", {count(votes.n_dropped, 'row')} dropped" if votes.n_dropped else ""))
    return votes


def _sizes(votes: Comparisons) -> str:
    return f"{count(len(votes.tasks), 'task')}, {count(len(votes.models), 'model')}"


def _split_alias(item: str) -> tuple[str, str]:
    old, equals, new = item.partition("=")
    if not (old and equals and new):
        raise ParameterError(f"--alias takes OLD=NEW, got {item!r}")
    return old, new


# --------------------------------------------------------------------------------------------------------- check


@click.command(
    epilog=examples(
        "lrgittins check votes.csv",
        "lrgittins check votes.parquet --task category --model-a left --model-b right",
        "lrgittins check votes.jsonl.gz --single-task --on-invalid drop --json",
    )
)
@intake_options
@common_options
def check(file: Path, as_json: bool, seed: int, report: Reporter, **intake: Any) -> None:
    """Read FILE (.csv, .csv.gz, .jsonl, .jsonl.gz, .parquet) and say what was found, without fitting."""
    from .graph import pieces

    votes = read_votes(file, intake, report)
    summary = votes.summary()
    labels = pieces(votes._table.cells())
    islands = [[str(name) for name in votes.models[labels == piece]] for piece in range(int(labels.max(initial=-1)) + 1)]
    about: dict[str, Any] = {str(key): value for key, value in summary.attrs.items()}
    if as_json:
        plain = summary.reset_index().astype(object)
        tasks = plain.where(plain.notna(), None).to_dict("records")
        echo_json({"file": str(file), "n_models": len(votes.models), "pooled_pieces": islands, **about, "tasks": tasks})
        return
    click.echo(f"{count(votes.n, 'vote')} from {count(votes.n_rows, 'row')}: {_sizes(votes)}")
    click.echo(_dropped_line(votes, about))
    for column, policy in (("ties", votes.ties), ("both_bad", votes.both_bad)):
        click.echo(f"{column.replace('_', ' ')}: {number(int(summary[column].sum()))} (policy {policy})")
    if about["n_clusters"] is not None:
        click.echo(f"clusters: {number(about['n_clusters'])}")
    if about["first_share"] is not None:
        click.echo(f"first position wins {100 * about['first_share']:.1f} % of the decisive votes")
    if len(islands) == 1:
        click.echo("all tasks together: one connected comparison graph")
    else:
        click.echo(f"all tasks together: {len(islands)} pieces that never meet (rank needs --disconnected allow):")
        for island in islands[:8]:
            click.echo(f"  {count(len(island), 'model')}: {shorten(', '.join(island), 80)}")
        if len(islands) > 8:
            click.echo(f"  ... {len(islands) - 8} more")
    click.echo()
    header = ["task", "votes", "models", "pairs", "pieces", "separated", "ties", "both bad", "dropped", "first wins"]
    counts = ["n", "n_models", "n_pairs", "n_pieces", "n_separated", "ties", "both_bad", "dropped"]
    rows = [[str(task), *(number(int(row[name])) for name in counts), _percent(row["first_share"])] for task, row in summary.iterrows()]
    click.echo(table(header, rows, left=["task"], flexible="task"))
    click.echo("\npieces: groups of models that never meet within the task")
    click.echo("separated: models whose score has no finite estimate from that task alone")


def _percent(share: float) -> str:
    return "-" if share != share else f"{100 * share:.1f} %"


def _dropped_line(votes: Comparisons, about: Mapping[str, Any]) -> str:
    if not votes.n_dropped:
        return "no rows dropped"
    return f"{count(votes.n_dropped, 'row')} dropped: " + ", ".join(f"{reason} {number(rows)}" for reason, rows in about["dropped"].items())


# ---------------------------------------------------------------------------------------------------------- rank


@click.command(
    epilog=examples(
        "lrgittins rank votes.csv --top-k 5",
        "lrgittins rank votes.csv --out board.csv --quiet",
        "lrgittins rank votes.csv --scale elo --out board.html",
        "lrgittins rank arena.parquet --format lmarena --task math,coding",
        "lrgittins rank votes.parquet --task category --winner verdict --cluster judge --json",
        "lrgittins rank votes.csv --family 'model:GPT 4' --alpha 0.1",
        "lrgittins rank votes.csv --single-task --estimator per-task --show all",
    )
)
@intake_options
@click.option("--top-k", type=int, default=None, metavar="K", help="Certify the top K.  [default: 10, or half the models]")
@click.option("--rank", "rank_", default="auto", show_default=True, metavar="R", help="Rank of the low-rank model, or auto.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate of each claim.")
@click.option(
    "--family",
    default="task",
    show_default=True,
    metavar="CLAIM",
    help="What holds jointly: cell, model, task or all; or one claim: task:T, model:M, cell:T:M.",
)
@click.option("--method", type=click.Choice(METHODS), default="step-down", show_default=True, help="How gaps are declared.")
@click.option("--estimator", type=click.Choice(ESTIMATORS), default="low-rank", show_default=True, help="Model of the scores.")
@click.option(
    "--calibration",
    type=click.Choice(["auto", "cross-fit", "parametric"]),
    default="auto",
    show_default=True,
    help="How errors are made honest.",
)
@click.option(
    "--disconnected",
    type=click.Choice(["error", "allow"]),
    default="error",
    show_default=True,
    help="When the comparisons fall into pieces that never meet.",
)
@click.option("--n-draws", type=int, default=2000, show_default=True, help="Bootstrap draws (0: no intervals).")
@click.option("--folds", type=int, default=None, help="Cross-fit, on this many folds.")
@click.option("--show", default="10", show_default=True, metavar="N", help="Models printed per task, or all.")
@click.option("--scale", type=click.Choice(["natural", "elo"]), default="natural", show_default=True, help="Units of the scores shown.")
@click.option("--anchor", metavar="MODEL[=SCORE]", help="Shift the scores shown so that MODEL has the scale's centre, or SCORE.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the board here instead: .csv, .csv.gz, .html, .json, .parquet.")
@common_options
def rank(
    file: Path,
    top_k: int | None,
    rank_: str,
    alpha: float,
    family: str,
    method: str,
    estimator: str,
    calibration: str,
    disconnected: str,
    n_draws: int,
    folds: int | None,
    show: str,
    scale: str,
    anchor: str | None,
    out: Path | None,
    as_json: bool,
    seed: int,
    report: Reporter,
    **intake: Any,
) -> None:
    """Rank the models of FILE on every task, with simultaneous rank intervals and top-K certificates."""
    from ._validation import check_alpha

    check_alpha(alpha)
    shown = _parse_count(show, "all", "--show")
    suffix = None if out is None else check_out(out, WRITERS, "a board")
    if suffix in (".json", ".parquet") and (scale != "natural" or anchor is not None):
        raise ParameterError(
            f"--out {out}: {suffix} files are read back, and keep scores in log-odds; --scale and --anchor go with .csv and .html"
        )
    model = make_estimator(estimator, rank_, disconnected, seed)
    votes = read_votes(file, intake, report)
    n_models = len(votes.models)
    if top_k is not None and not 1 <= top_k <= n_models:
        raise ParameterError(f"--top-k must be between 1 and {n_models}, the number of models in {file}, got {top_k}")
    top_k = max(1, min(10, n_models // 2)) if top_k is None else top_k
    units: dict[str, Any] = {"scale": scale, "anchor": parse_anchor_option(anchor, votes.models)}
    claim = parse_claim(family, votes)
    if units["anchor"] is not None:
        from ._validation import code_of

        code_of(units["anchor"][0] if isinstance(units["anchor"], tuple) else units["anchor"], votes.models, "model")

    from .bands import check_claim
    from .infer import infer_gaps

    check_claim(votes.tasks, votes.models, claim, alpha, method, n_draws)

    report(f"fitting the {estimator} model")
    inference = infer_gaps(votes, model, n_folds=folds, calibration=calibration, random_state=seed)
    report(f"certifying the top {top_k}" + (f" from {n_draws:,} draws" if n_draws else ""))
    board = inference.certify(top_k, family=claim, alpha=alpha, method=method, n_draws=n_draws, random_state=seed)
    if out is not None and suffix is not None:
        WRITERS[suffix](board, out, units)
        report(f"wrote {out} ({len(board):,} rows)")
    if as_json:
        echo_json(board.to_dict(**units))
    elif out is None:
        click.echo(describe_board(board, shown, **units))


def parse_anchor_option(text: str | None, models: Iterable[str]) -> Any:
    """``MODEL`` or ``MODEL=SCORE`` as `Leaderboard.to_frame` takes it; what is the whole name of a model is that name."""
    if text is None or text in set(models):
        return text
    name, equals, score = text.rpartition("=")
    try:
        return (name, float(score)) if equals and name else text
    except ValueError:
        return text


def make_estimator(name: str, rank: str, disconnected: str, seed: int) -> Any:
    """The estimator of that name, with arguments as the command line gives them."""
    if name == "low-rank":
        from .low_rank import LowRankBradleyTerry

        return LowRankBradleyTerry(rank=_parse_count(rank, "auto", "--rank") or "auto", disconnected=disconnected, random_state=seed)
    if rank != "auto":
        raise ParameterError(f"--rank {rank} is for --estimator low-rank; the {name} model has no rank to choose")
    from .bradley_terry import PerTaskBradleyTerry, PooledBradleyTerry

    return (PerTaskBradleyTerry if name == "per-task" else PooledBradleyTerry)(disconnected=disconnected)


def _parse_count(text: str, word: str, option: str) -> int | None:
    """A positive integer, or None for `word`."""
    if text == word:
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ParameterError(f"{option} takes {word} or an integer of at least 1, got {text!r}")
    return value


def parse_claim(text: str, votes: Comparisons) -> Any:
    """A family as typed, ``model:NAME`` or ``cell:TASK:MODEL`` included; names may hold colons."""
    from .bands import parse_family

    kind, colon, rest = text.partition(":")
    claim: Any = text
    if colon and kind in ("task", "model"):
        claim = (kind, rest)
    elif colon and kind == "cell":
        tasks, models = set(votes.tasks), set(votes.models)
        splits = [(rest[:i], rest[i + 1 :]) for i, character in enumerate(rest) if character == ":"]
        known = [split for split in splits if split[0] in tasks and split[1] in models]
        if len(known) != 1 and splits:
            known = known or splits[:1]
        if len(known) != 1:
            raise ParameterError(f"--family {text}: write cell:TASK:MODEL" + (" (it can be read in several ways)" if known else ""))
        claim = ("cell", *known[0])
    parse_family(claim, votes.tasks, votes.models)
    return claim


# ------------------------------------------------------------------------------------------------------- display


def describe_board(board: Leaderboard, shown: int | None, *, scale: str = "natural", anchor: Any = None) -> str:
    """The board as text at most 100 columns wide: `shown` models of each task (all of them if None)."""
    from .scales import check_scale

    frame = board.to_frame(scale=scale, anchor=anchor)
    family = board.family if isinstance(board.family, str) else ":".join(board.family)
    level = f"{100 * (1 - board.alpha):g} %"
    blocks = [
        f"Top {board.top_k} of {board.n_models} models, {level} simultaneous (family {family}, {board.method}, {board.calibration})"
        if board.n_draws
        else f"Top {board.top_k} of {board.n_models} models, without intervals (no draws)"
    ]
    for task, rows in frame.groupby("task", sort=False):
        blocks.append(
            f"{shorten(task, 60)}: {count_certificates(rows, board.top_k)}\n{board_table(rows, shown, digits=check_scale(scale).digits)}"
        )
    blocks.append(describe_checks(board))
    return "\n\n".join(blocks)


def count_certificates(rows: Any, top_k: int) -> str:
    """How many models of these rows are certified in, certified out, and open."""
    counts = rows["certificate"].value_counts()
    inside, outside, unresolved = (int(counts.get(name, 0)) for name in ("top-k", "not-top-k", "unresolved"))
    return f"{inside} certified in the top {top_k}, {outside} certified not in it, {unresolved} unresolved"


def board_table(rows: Any, shown: int | None, *, rest: str = "--show all, --json or --out board.csv", digits: int = 3) -> str:
    """Rows of one task as a table, with a line that says what is left out and where it is (`rest`)."""
    header = ["rank", "interval", "model", "score", "std.err", "votes", "certificate"]
    head = rows if shown is None else rows.head(shown)
    lines = [
        [
            str(row.rank),
            "-" if row.certificate == "unresolved" and str(row.rank_low) == "<NA>" else f"[{row.rank_low}, {row.rank_high}]",
            str(row.model),
            number(row.score, digits),
            number(row.std_error, digits),
            number(int(row.n)),
            row.certificate,
        ]
        for row in head.itertuples(index=False)
    ]
    text = table(header, lines, left=["model", "certificate"], flexible="model")
    hidden = len(rows) - len(head)
    return text if not hidden else f"{text}\n... {hidden} more" + (f" ({rest})" if rest else "")


def describe_checks(board: Leaderboard) -> str:
    """What the diagnostics found, failures in full; then the notes."""
    by_status: dict[str, list[str]] = {"ok": [], "failed": [], "not_checked": []}
    for name, entry in board.diagnostics.items():
        by_status[entry["status"]].append(name)
    lines = [f"checks: {len(by_status['ok'])} ok, {len(by_status['failed'])} failed, {len(by_status['not_checked'])} not checked"]
    for name in by_status["failed"]:
        entry = board.diagnostics[name]
        value = entry["value"]
        lines.append(f"  {name} failed: {number(value) if isinstance(value, float) else value} ({entry['detail']})")
    lines += [f"note: {note}" for note in board.notes]
    return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False) for line in lines)
