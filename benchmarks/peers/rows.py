"""Rows that every peer with a fit has: one fit, the fit with intervals, a fit per task. Peers bring the functions and say what these do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from . import ours
from .inputs import Size, simulated_votes
from .timing import Case

Fit = Callable[[pd.DataFrame], pd.Series]
SMALLEST = 20  # votes per model; sparser than that, few seeds have a maximum of the likelihood


def point(frame: pd.DataFrame, fit: Fit, way: str, ridge: float = 0.0) -> Case:
    """Scores of one task; over budget, of a tenth of the votes."""
    name, our_way = named("point fit", ridge)
    return Case(
        "point", f"{name}, {shape(frame)}", way, our_way,
        lambda: fit(frame), lambda: ours.point_fit(frame, ridge), ours.score_difference, "scores",
        smaller=smaller(frame, lambda part: point(part, fit, way, ridge)),
    )  # fmt: skip


def errors(frame: pd.DataFrame, fit: Fit, way: str) -> Case:
    """Scores with standard errors: `fit` returns the errors."""
    return Case(
        "intervals", f"fit with standard errors, {shape(frame)}", way, ours.ERRORS,
        lambda: fit(frame), lambda: ours.fit_with_errors(frame),
        lambda t, o: ours.error_difference(t, ours.errors_of_scores(o[1], o[0].index)), "SE, relative", 2.0,
        smaller=smaller(frame, lambda part: errors(part, fit, way)),
    )  # fmt: skip


def board(frame: pd.DataFrame, fit: Fit, way: str) -> Case:
    """The peer's nearest to our board of simultaneous intervals: `fit` returns the standard errors."""
    return Case(
        "intervals", f"fit with simultaneous board, {shape(frame)}", way, ours.BOARD,
        lambda: fit(frame), lambda: ours.fit_board(frame), lambda t, o: ours.error_difference(t, ours.board_errors(o)), "SE, relative", 2.0,
        smaller=smaller(frame, lambda part: board(part, fit, way)),
    )  # fmt: skip


def tasks(size: Size, fit: Fit, way: str, ridge: float = 0.0) -> Iterator[Case]:
    """A fit per task, at each of the size's (tasks, models, votes)."""
    for n_tasks, n_models, n_votes in size.tasks:
        yield task(simulated_votes(n_votes, n_models, n_tasks), fit, way, ridge)


def task(frame: pd.DataFrame, fit: Fit, way: str, ridge: float = 0.0) -> Case:
    """A fit per task of `frame`; over budget, of a fifth of its tasks."""
    names = frame["task"].unique()
    name, our_way = named("per-task fits", ridge)

    def fewer() -> Case:
        return task(frame[frame["task"].isin(names[: max(1, len(names) // 5)])].reset_index(drop=True), fit, way, ridge)

    return Case(
        "tasks", f"{name}, {len(names)} x {n_models_of(frame)} x {len(frame):,} votes", way, our_way,
        lambda: {name: fit(part) for name, part in frame.groupby("task")},
        lambda: ours.per_task(frame, ridge), ours.task_difference, "scores",
        smaller=fewer if len(names) > 1 else None,
    )  # fmt: skip


def named(work: str, ridge: float) -> tuple[str, str]:
    """The work, and our way of doing it, with the ridge where there is one."""
    return (f"ridged {work}", f"{ours.POINT} with ridge={ridge:g}") if ridge else (work, ours.POINT)


def smaller(frame: pd.DataFrame, make: Callable[[pd.DataFrame], Case]) -> Callable[[], Case] | None:
    """How to make the same row of a tenth of the votes; None where so few may have no maximum."""
    n_models, n_votes = n_models_of(frame), len(frame) // 10
    return (lambda: make(simulated_votes(n_votes, n_models))) if n_votes >= SMALLEST * n_models else None


def shape(frame: pd.DataFrame) -> str:
    return f"{len(frame):,} votes x {n_models_of(frame)} models"


def n_models_of(frame: pd.DataFrame) -> int:
    return frame["model_a"].nunique()
