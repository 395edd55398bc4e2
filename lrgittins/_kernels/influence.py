"""Residuals of (task, pair, outcome) groups and their sparse sums: all that influence functions need from the data."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@kernel
def accumulate_influence(
    row: IntArray,
    low: IntArray,
    high: IntArray,
    outcome: FloatArray,
    weight: FloatArray,
    scores: FloatArray,
    residual: FloatArray,
    gradient: FloatArray,
) -> None:
    """Fill `residual` (n_groups,) with s = outcome - expit(gap) and add weight * s * (e_low - e_high) to `gradient` (rows, models)."""
    for group in range(len(row)):
        t, i, j = row[group], low[group], high[group]
        gap = scores[t, i] - scores[t, j]
        small = math.exp(-abs(gap))
        probability = 1.0 / (1.0 + small) if gap >= 0.0 else small / (1.0 + small)
        s = outcome[group] - probability
        residual[group] = s
        total = weight[group] * s
        gradient[t, i] += total
        gradient[t, j] -= total
