"""scikit-learn: logistic regression on weighted rows, one per (winner, loser): a ridged Bradley-Terry fit; ours has the same ridge."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from . import ours
from .inputs import Size, resample_wins, simulated_votes, win_matrix
from .timing import Case

RIDGE = 0.01  # C = 1 / ridge; both sides minimise -loglik + ridge / 2 * |scores|^2


def fit_wins(wins: np.ndarray) -> np.ndarray:
    """The solver made for many rows and few columns; every distinct (winner, loser) is one row, with both classes present."""
    n_models = len(wins)
    low, high = np.triu_indices(n_models, 1)
    design = np.zeros((len(low), n_models))
    design[np.arange(len(low)), low], design[np.arange(len(low)), high] = 1.0, -1.0
    verdict = np.repeat([1, 0], len(low))
    weight = np.concatenate([wins[low, high], wins[high, low]])
    seen = weight > 0
    model = LogisticRegression(C=1.0 / RIDGE, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    return model.fit(np.vstack([design, design])[seen], verdict[seen], sample_weight=weight[seen]).coef_[0]


def point_fit(frame: pd.DataFrame) -> pd.Series:
    wins, names = win_matrix(frame)
    return pd.Series(fit_wins(wins), index=names)


def bootstrap(frame: pd.DataFrame, n_resamples: int) -> pd.Series:
    wins, names = win_matrix(frame)
    rng = np.random.default_rng(0)
    draws = [fit_wins(resample_wins(wins, rng)) for _ in range(n_resamples)]
    return pd.Series(np.std(draws, axis=0, ddof=1), index=names)


def per_task(frame: pd.DataFrame) -> dict[str, pd.Series]:
    return {task: point_fit(part) for task, part in frame.groupby("task")}


def cases(size: Size) -> Iterator[Case]:
    frame = simulated_votes(size.votes, size.models)
    shape = f"{size.votes:,} votes x {size.models} models"
    fit = f"LogisticRegression(C={1 / RIDGE:g}, newton-cholesky) on a weighted row per pair and verdict"
    yield Case(
        "point", f"ridged point fit, {shape}", f"factorize, bincount, {fit}", f"{ours.POINT} with ridge={RIDGE:g}",
        lambda: point_fit(frame), lambda: ours.point_fit(frame, RIDGE), ours.score_difference, "scores",
    )  # fmt: skip
    way = f"no intervals of its own: {size.resamples} refits on resampled counts"
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
            "tasks", f"ridged per-task fits, {n_tasks} x {n_models} x {n_votes:,} votes", "groupby, the point fit of each task",
            f"{ours.POINT} with ridge={RIDGE:g}",
            lambda tasks=tasks: per_task(tasks), lambda tasks=tasks: ours.per_task(tasks, RIDGE), ours.task_difference, "scores",
        )  # fmt: skip
