"""Residuals of (task, pair, outcome) groups and their sparse sums: all that influence functions need from the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel
from .elementary import BLOCK, softplus

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
    gap, small, soft, power = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    bits = power.view(np.int64)
    for start in range(0, len(row), BLOCK):
        size = min(BLOCK, len(row) - start)
        for k in range(size):
            t = row[start + k]
            gap[k] = scores[t, low[start + k]] - scores[t, high[start + k]]
        softplus(gap, size, small, soft, power, bits)
        for k in range(size):
            share = 1.0 / (1.0 + small[k])
            residual[start + k] = outcome[start + k] - (share if gap[k] >= 0.0 else small[k] * share)
        for k in range(size):
            group = start + k
            total = weight[group] * residual[group]
            gradient[row[group], low[group]] += total
            gradient[row[group], high[group]] -= total
