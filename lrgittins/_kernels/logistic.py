"""Pairwise-logistic log-likelihood, gradient and information on cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel
from .elementary import BLOCK, softplus

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@kernel
def log_likelihood(task: IntArray, low: IntArray, high: IntArray, count: FloatArray, wins: FloatArray, scores: FloatArray) -> float:
    """Sum over cells of wins * gap - count * log(1 + e^gap)."""
    gap, small, soft, power = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    bits = power.view(np.int64)
    total = 0.0
    for start in range(0, len(task), BLOCK):
        size = min(BLOCK, len(task) - start)
        _gather_gaps(task, low, high, count, scores, start, size, gap)
        softplus(gap, size, small, soft, power, bits)
        for k in range(size):
            total += wins[start + k] * gap[k] - count[start + k] * (max(gap[k], 0.0) + soft[k])
    return total


@kernel
def logistic_terms(
    task: IntArray,
    low: IntArray,
    high: IntArray,
    count: FloatArray,
    wins: FloatArray,
    scores: FloatArray,
    gradient: FloatArray,
    information: FloatArray,
) -> float:
    """Fill the gradient (T, M) of the log-likelihood and count * I(gap) per cell; returns the log-likelihood."""
    gradient[:] = 0.0
    gap, small, soft, power = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    bits = power.view(np.int64)
    residual = np.empty(BLOCK)
    total = 0.0
    for start in range(0, len(task), BLOCK):
        size = min(BLOCK, len(task) - start)
        _gather_gaps(task, low, high, count, scores, start, size, gap)
        softplus(gap, size, small, soft, power, bits)
        for k in range(size):
            n = count[start + k]
            share = 1.0 / (1.0 + small[k])
            probability = share if gap[k] >= 0.0 else small[k] * share
            residual[k] = wins[start + k] - n * probability
            information[start + k] = n * small[k] * share * share
        for k in range(size):
            cell = start + k
            total += wins[cell] * gap[k] - count[cell] * (max(gap[k], 0.0) + soft[k])
            gradient[task[cell], low[cell]] += residual[k]
            gradient[task[cell], high[cell]] -= residual[k]
    return total


@kernel
def _gather_gaps(
    task: IntArray, low: IntArray, high: IntArray, count: FloatArray, scores: FloatArray, start: int, size: int, gap: FloatArray
) -> None:
    """Gaps of the cells [start, start + size); 0 in cells without data, whose scores may be anything."""
    for k in range(size):
        t = task[start + k]
        gap[k] = scores[t, low[start + k]] - scores[t, high[start + k]] if count[start + k] > 0.0 else 0.0
