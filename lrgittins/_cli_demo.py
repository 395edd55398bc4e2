"""The command ``demo``: each half on bundled real data, printed and drawn."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._cli_common import WIDTH, Reporter, common_options, echo_json, examples, number, shorten, table
from ._optional import import_optional
from .errors import MissingExtraError

if TYPE_CHECKING:
    from .board import Leaderboard

# Half -> (module, function): called with (seed, report, as_json), prints its part, returns what --json shows.
HALVES = {"ranking": ("_cli_demo", "demo_ranking"), "selection": ("_cli_selection", "demo_selection")}
RANKING_PICTURE = "lrgittins_demo_ranking.png"


@click.command(epilog=examples("lrgittins demo", "lrgittins demo --json --quiet > demo.json"))
@common_options
def demo(as_json: bool, seed: int, report: Reporter) -> None:
    """Run the package on bundled real data; prints a summary and writes pictures into the current folder."""
    started = time.perf_counter()
    results = {}
    for position, (name, (module, attribute)) in enumerate(HALVES.items()):
        if position and not as_json:
            click.echo("\n" + "-" * WIDTH + "\n")
        half: Callable[..., Any] = getattr(importlib.import_module(f".{module}", __package__), attribute)
        results[name] = half(seed, report, as_json)
    if as_json:
        echo_json(results)
    report(f"demo finished in {time.perf_counter() - started:.1f} s")


def demo_ranking(seed: int, report: Reporter, as_json: bool) -> dict[str, Any]:
    """Votes to certificates on the LLMFAO crowd votes."""
    from ._cli_ranking import board_table, count_certificates, describe_checks

    report("ranking: reading the bundled votes (the first run compiles its kernels and keeps them)")
    from .board import leaderboard
    from .datasets import load_llmfao

    votes = load_llmfao()
    report(f"ranking: {votes.n:,} votes, {len(votes.tasks)} tasks, {len(votes.models)} models; fitting and certifying")
    board = leaderboard(votes, random_state=seed)
    frame = board.to_frame()
    task = _most_certified(frame)
    picture: str | None = None
    try:
        picture = save_picture(board, task, Path(RANKING_PICTURE))
        remark = f"picture: {picture}"
    except MissingExtraError as error:
        remark = f"no picture: {error}"
    if as_json:
        return {"picture": picture, **board.to_dict()}
    click.echo(f"{votes.n:,} crowd votes on {len(votes.models)} language models over {len(votes.tasks)} prompts, the tasks.")
    click.echo("Data: LLMFAO by Dmitry Ustalov, https://github.com/dustalov/llmfao, CC BY 4.0.\n")
    click.echo(f"Every task at once, top {board.top_k}, each with {100 * (1 - board.alpha):g} % simultaneous rank intervals:\n")
    click.echo(_task_table(frame))
    rows = frame[frame["task"] == task]
    click.echo(f"\nThe task with the most certificates, {shorten(task, 40)}:\n{count_certificates(rows, board.top_k)}\n")
    click.echo(board_table(rows, 10, rest="all in the picture" if picture else ""))
    click.echo(f"\n{describe_checks(board)}")
    click.echo(f"\n{remark}")
    return {}


def _most_certified(frame: Any) -> str:
    """The task with the most certified models; of equals, the first by name."""
    return str((frame["certificate"] != "unresolved").groupby(frame["task"]).sum().idxmax())


def _task_table(frame: Any) -> str:
    lines = []
    for task, rows in frame.groupby("task", sort=True):
        first = rows.iloc[0]
        counts = rows["certificate"].value_counts()
        certified = [number(int(counts.get(name, 0))) for name in ("top-k", "not-top-k", "unresolved")]
        lines.append([str(task), str(first["model"]), f"[{first['rank_low']}, {first['rank_high']}]", *certified])
    header = ["task", "first by score", "its ranks", "in", "out", "unresolved"]
    return table(header, lines, left=["task", "first by score"], flexible="first by score")


def save_picture(board: Leaderboard, task: str, path: Path) -> str:
    """Draw one task; raises `MissingExtraError` where matplotlib is not installed."""
    figures: Any = import_optional("matplotlib.figure", extra="plot", purpose="the picture")
    # A Figure of its own needs no display, unlike pyplot.
    figure = figures.Figure(figsize=(7.0, 1.2 + 0.15 * board.n_models), layout="constrained")
    board.plot(task=task, ax=figure.add_subplot())
    figure.savefig(path, dpi=100)
    return str(path)
