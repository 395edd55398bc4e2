"""scikit-learn: logistic regression on weighted rows, one per (winner, loser): a ridged Bradley-Terry fit; ours has the same ridge."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from . import rows
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


def cases(size: Size) -> Iterator[Case]:
    frame = simulated_votes(size.votes, size.models)
    way = f"factorize, bincount, LogisticRegression(C={1 / RIDGE:g}, newton-cholesky) on a weighted row per pair and verdict"
    yield rows.point(frame, point_fit, way, RIDGE)
    way = f"no intervals of its own: {size.resamples} refits on resampled counts"
    fit = partial(bootstrap, n_resamples=size.resamples)
    yield rows.errors(frame, fit, way)
    yield rows.board(frame, fit, way)
    yield from rows.tasks(size, point_fit, "groupby, the point fit of each task", RIDGE)
