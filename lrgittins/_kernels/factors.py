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
    first_task: int,
    out: FloatArray,
    degree: FloatArray,
) -> None:
    """Add the weights of cells [start, stop) to `out` (n_tasks_here, M, M) at (low, high), and to `degree` (n_tasks_here, M) at both.

    Tasks count from `first_task`. The Laplacian of a task is diag(degree) - out - out'; one half of it takes a quarter of the time,
    as cells come in the order of its rows.
    """
    for cell in range(start, stop):
        w = weight[cell]
        t, i, j = task[cell] - first_task, low[cell], high[cell]
        out[t, i, j] += w
        degree[t, i] += w
        degree[t, j] += w
