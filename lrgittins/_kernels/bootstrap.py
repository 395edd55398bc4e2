"""Reductions over gaps of drawn score noise; gaps are differences taken on the fly, never stored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@kernel
def reduce_max(
    draws: FloatArray, task: IntArray, first: IntArray, second: IntArray, inverse_se: FloatArray, stratum: IntArray, out: FloatArray
) -> None:
    """Raise `out` (n_strata, n_draws) to the largest |x_first - x_second| / se of each stratum's gaps.

    `draws` is (tasks, models, n_draws): the draw index runs innermost, so the loop over it vectorises.
    """
    n_draws = draws.shape[2]
    raised = np.empty(n_draws)  # a fresh buffer cannot overlap the inputs: half the time of writing in place
    for j in range(len(task)):
        plus = draws[task[j], first[j]]
        minus = draws[task[j], second[j]]
        best = out[stratum[j]]
        scale = inverse_se[j]
        for b in range(n_draws):
            value = abs(plus[b] - minus[b]) * scale
            raised[b] = value if value > best[b] else best[b]
        for b in range(n_draws):  # `best[:] = raised` would compile seconds of message formatting
            best[b] = raised[b]
