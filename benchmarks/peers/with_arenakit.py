"""arenakit: validated battle records, minorisation-maximisation fits, bootstrap with a simultaneous test of neighbours."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from arenakit import Arena, fit_bt
from arenakit.boot import bootstrap, separation
from arenakit.schema import battles_from_records

from . import ours
from .inputs import Size, simulated_votes
from .timing import Case

RESAMPLES = 50  # its default is 2,000


def arena(frame: pd.DataFrame) -> Arena:
    return Arena(battles_from_records(frame[["model_a", "model_b", "winner"]].to_dict("records")))


def point_fit(frame: pd.DataFrame) -> pd.Series:
    board = arena(frame)
    return pd.Series(fit_bt(board.counts(), prior=0.0).scores, index=board.models)


def with_intervals(frame: pd.DataFrame, n_resamples: int) -> pd.Series:
    board = arena(frame)
    result = bootstrap(board, fit=lambda counts: fit_bt(counts, prior=0.0), n_resamples=n_resamples)
    separation(result, board.models)
    return pd.Series(result.scores.std(axis=0, ddof=1), index=board.models)


def per_task(frame: pd.DataFrame) -> dict[str, pd.Series]:
    return {task: point_fit(part) for task, part in frame.groupby("task")}


def cases(size: Size) -> Iterator[Case]:
    frame = simulated_votes(size.votes, size.models)
    yield Case(
        "point", f"point fit, {size.votes:,} votes x {size.models} models", "battles_from_records, Arena, fit_bt(prior=0)", ours.POINT,
        lambda: point_fit(frame), lambda: ours.point_fit(frame), ours.score_difference, "scores",
    )  # fmt: skip
    part = simulated_votes(size.resampled_votes, size.models)
    way = f"bootstrap and separation (neighbours, simultaneous), {RESAMPLES} resamples (its default: 2,000)"
    shape = f"{size.resampled_votes:,} votes x {size.models} models"
    yield Case(
        "intervals", f"fit with standard errors, {shape}", way, ours.ERRORS,
        lambda: with_intervals(part, RESAMPLES), lambda: ours.fit_with_errors(part),
        lambda t, o: ours.error_difference(t, ours.errors_of_scores(o[1], o[0].index)), "SE, relative", 2.0,
    )  # fmt: skip
    yield Case(
        "intervals", f"fit with simultaneous board, {shape}", way, ours.BOARD,
        lambda: with_intervals(part, RESAMPLES), lambda: ours.fit_board(part),
        lambda t, o: ours.error_difference(t, ours.board_errors(o)), "SE, relative", 2.0,
    )  # fmt: skip
    for n_tasks, n_models, n_votes in size.tasks:
        tasks = simulated_votes(n_votes, n_models, n_tasks)
        yield Case(
            "tasks", f"per-task fits, {n_tasks} x {n_models} x {n_votes:,} votes", "groupby, the point fit of each task", ours.POINT,
            lambda tasks=tasks: per_task(tasks), lambda tasks=tasks: ours.per_task(tasks), ours.task_difference, "scores",
        )  # fmt: skip
