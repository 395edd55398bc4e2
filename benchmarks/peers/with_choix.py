"""choix: iterative Luce spectral ranking of a win matrix (the user makes the matrix), and its optimiser for the ridged fit."""

from __future__ import annotations

from collections.abc import Iterator

import choix
import numpy as np
import pandas as pd

from . import ours
from .inputs import Size, resample_wins, simulated_votes, win_matrix
from .timing import Case


def point_fit(frame: pd.DataFrame) -> pd.Series:
    wins, names = win_matrix(frame)
    return pd.Series(choix.ilsr_pairwise_dense(wins), index=names)


def bootstrap(frame: pd.DataFrame, n_resamples: int) -> pd.Series:
    """Standard errors from refits of resampled votes, as a user would write it: choix has no intervals."""
    wins, names = win_matrix(frame)
    rng = np.random.default_rng(0)
    start = choix.ilsr_pairwise_dense(wins)
    draws = [choix.ilsr_pairwise_dense(resample_wins(wins, rng), initial_params=start) for _ in range(n_resamples)]
    return pd.Series(np.std(draws, axis=0, ddof=1), index=names)


def per_task(frame: pd.DataFrame) -> dict[str, pd.Series]:
    return {task: point_fit(part) for task, part in frame.groupby("task")}


def cases(size: Size) -> Iterator[Case]:
    frame = simulated_votes(size.votes, size.models)
    shape = f"{size.votes:,} votes x {size.models} models"
    yield Case(
        "point", f"point fit, {shape}", "factorize, bincount, ilsr_pairwise_dense", ours.POINT,
        lambda: point_fit(frame), lambda: ours.point_fit(frame), ours.score_difference, "scores",
    )  # fmt: skip
    way = f"no intervals of its own: {size.resamples} refits of ilsr_pairwise_dense on resampled counts, warm-started"
    yield Case(
        "intervals", f"fit with standard errors, {shape}", way, ours.ERRORS,
        lambda: bootstrap(frame, size.resamples), lambda: ours.fit_with_errors(frame),
        lambda t, o: ours.error_difference(t, ours.errors_of_scores(o[1], o[0].index)), "SE, relative", 2.0,
    )  # fmt: skip
    yield Case(
        "intervals", f"fit with simultaneous board, {shape}", way, ours.BOARD,
        lambda: bootstrap(frame, size.resamples), lambda: ours.fit_board(frame),
        lambda t, o: ours.error_difference(t, ours.board_errors(o)), "SE, relative", 2.0,
    )  # fmt: skip
    for n_tasks, n_models, n_votes in size.tasks:
        tasks = simulated_votes(n_votes, n_models, n_tasks)
        yield Case(
            "tasks", f"per-task fits, {n_tasks} x {n_models} x {n_votes:,} votes", "groupby, the point fit of each task", ours.POINT,
            lambda tasks=tasks: per_task(tasks), lambda tasks=tasks: ours.per_task(tasks), ours.task_difference, "scores",
        )  # fmt: skip
