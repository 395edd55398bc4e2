"""choix: iterative Luce spectral ranking of a win matrix (the user makes the matrix), and its optimiser for the ridged fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import choix
import numpy as np
import pandas as pd

from . import rows
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


def cases(size: Size) -> Iterator[Case]:
    frame = simulated_votes(size.votes, size.models)
    yield rows.point(frame, point_fit, "factorize, bincount, ilsr_pairwise_dense")
    way = f"no intervals of its own: {size.resamples} refits of ilsr_pairwise_dense on resampled counts, warm-started"
    fit = partial(bootstrap, n_resamples=size.resamples)
    yield rows.errors(frame, fit, way)
    yield rows.board(frame, fit, way)
    yield from rows.tasks(size, point_fit, "groupby, the point fit of each task")
