"""Pairwise-logistic log-likelihood, gradient and information on cells."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@kernel
def log_likelihood(task: IntArray, low: IntArray, high: IntArray, count: FloatArray, wins: FloatArray, scores: FloatArray) -> float:
    """Sum over cells of wins * gap - count * log(1 + e^gap)."""
    total = 0.0
    for cell in range(len(task)):
        if count[cell] == 0.0:
            continue
        gap = scores[task[cell], low[cell]] - scores[task[cell], high[cell]]
        total += wins[cell] * gap - count[cell] * (max(gap, 0.0) + math.log1p(math.exp(-abs(gap))))
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
    total = 0.0
    for cell in range(len(task)):
        n = count[cell]
        if n == 0.0:
            information[cell] = 0.0
            continue
        t, i, j = task[cell], low[cell], high[cell]
        gap = scores[t, i] - scores[t, j]
        small = math.exp(-abs(gap))
        share = 1.0 / (1.0 + small)
        probability = share if gap >= 0.0 else small * share
        total += wins[cell] * gap - n * (max(gap, 0.0) + math.log1p(small))
        residual = wins[cell] - n * probability
        gradient[t, i] += residual
        gradient[t, j] -= residual
        information[cell] = n * small * share * share
    return total
