"""Sparse accumulation of the restricted Fisher operator from (task, pair) cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@kernel
def accumulate_weights(
    task: IntArray,
    low: IntArray,
    high: IntArray,
    weight: FloatArray,
    start: int,
    stop: int,
    right: FloatArray,
    out: FloatArray,
    degree: FloatArray,
    along: FloatArray,
) -> None:
    """Add the cells [start, stop) to the parts of every task's Laplacian L = diag(degree) - out - out', and to L V.

    `out` (n_tasks_here, M, M) takes the weights at (low, high), `degree` (n_tasks, M) at both, `along` (n_tasks, M, r) the products with
    `right` = V; tasks of `out` count from that of the first cell. One half of L takes a quarter of the time: cells come in the order of
    its rows.
    """
    rank = right.shape[1]
    first_task = task[start]
    for cell in range(start, stop):
        w = weight[cell]
        t, i, j = task[cell], low[cell], high[cell]
        out[t - first_task, i, j] += w
        degree[t, i] += w
        degree[t, j] += w
        for a in range(rank):
            moved = w * (right[i, a] - right[j, a])
            along[t, i, a] += moved
            along[t, j, a] -= moved
