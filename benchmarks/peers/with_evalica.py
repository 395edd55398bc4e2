"""evalica: its Bradley-Terry fit (Rust) and its bootstrap."""

from __future__ import annotations

from collections.abc import Iterator

import evalica
import numpy as np
import pandas as pd

from . import ours
from .inputs import Size, simulated_votes
from .timing import Case

LABELS = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y}
RESAMPLES = 20  # its default is 1,000 with BCa, whose jackknife refits once per vote
TOLERANCE, LIMIT = 1e-8, 1000  # its own 1e-6 and 100 stop far from the maximum on sparse tasks


def winners(frame: pd.DataFrame) -> list[evalica.Winner]:
    """A list, not an array: its compiled side takes enum members."""
    return [LABELS[verdict] for verdict in frame["winner"]]


def point_fit(frame: pd.DataFrame, **options: float) -> pd.Series:
    result = evalica.bradley_terry(frame["model_a"], frame["model_b"], winners(frame), **options)
    return np.log(result.scores)


def bootstrap(frame: pd.DataFrame, n_resamples: int) -> pd.Series:
    result = evalica.bootstrap(
        evalica.bradley_terry, frame["model_a"], frame["model_b"], winners(frame),
        n_resamples=n_resamples, bootstrap_method="percentile", random_state=0,
    )  # fmt: skip
    logs = np.log(result.distribution)
    return logs.sub(logs.mean(axis=1), axis=0).std()


def per_task(frame: pd.DataFrame) -> dict[str, pd.Series]:
    return {task: point_fit(part, tolerance=TOLERANCE, limit=LIMIT) for task, part in frame.groupby("task")}


def cases(size: Size) -> Iterator[Case]:
    frame = simulated_votes(size.votes, size.models)
    yield Case(
        "point", f"point fit, {size.votes:,} votes x {size.models} models", "winners to its enum, bradley_terry", ours.POINT,
        lambda: point_fit(frame), lambda: ours.point_fit(frame), ours.score_difference, "scores",
    )  # fmt: skip
    part = simulated_votes(size.resampled_votes, size.models)
    shape = f"{size.resampled_votes:,} votes x {size.models} models"
    way = f"bootstrap(bradley_terry), percentile, {RESAMPLES} resamples (its default: 1,000)"
    yield Case(
        "intervals", f"fit with standard errors, {shape}", way, ours.ERRORS,
        lambda: bootstrap(part, RESAMPLES), lambda: ours.fit_with_errors(part),
        lambda t, o: ours.error_difference(t, ours.errors_of_scores(o[1], o[0].index)), "SE, relative", 2.0,
    )  # fmt: skip
    yield Case(
        "intervals", f"fit with simultaneous board, {shape}", way, ours.BOARD,
        lambda: bootstrap(part, RESAMPLES), lambda: ours.fit_board(part),
        lambda t, o: ours.error_difference(t, ours.board_errors(o)), "SE, relative", 2.0,
    )  # fmt: skip
    for n_tasks, n_models, n_votes in size.tasks:
        tasks = simulated_votes(n_votes, n_models, n_tasks)
        yield Case(
            "tasks", f"per-task fits, {n_tasks} x {n_models} x {n_votes:,} votes",
            f"groupby, bradley_terry of each task (tolerance {TOLERANCE:g}, limit {LIMIT})", ours.POINT,
            lambda tasks=tasks: per_task(tasks), lambda tasks=tasks: ours.per_task(tasks), ours.task_difference, "scores",
        )  # fmt: skip
