"""Sparse accumulation of the restricted Fisher operator from (task, pair) cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@kernel
def accumulate_laplacians(
    task: IntArray, low: IntArray, high: IntArray, weight: FloatArray, start: int, stop: int, first_task: int, out: FloatArray
) -> None:
    """Add the weighted Laplacians of cells [start, stop) to `out` (n_tasks_here, M, M), tasks counted from `first_task`."""
    for cell in range(start, stop):
        w = weight[cell]
        if w == 0.0:
            continue
        t, i, j = task[cell] - first_task, low[cell], high[cell]
        out[t, i, i] += w
        out[t, j, j] += w
        out[t, i, j] -= w
        out[t, j, i] -= w
