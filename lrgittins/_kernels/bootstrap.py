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

    `draws` is (tasks, models, n_draws): the draw index runs innermost, so the loop over it vectorises. Gaps of one stratum that
    stand together are taken in fours: the running maximum is then loaded and stored a quarter as often.
    """
    n_gaps, n_draws = len(task), draws.shape[2]
    raised = np.empty(n_draws)  # a fresh buffer cannot overlap the inputs: half the time of writing in place
    j = 0
    while j < n_gaps:
        here = stratum[j]
        best = out[here]
        if j + 3 < n_gaps and stratum[j + 1] == here and stratum[j + 2] == here and stratum[j + 3] == here:
            plus_0, minus_0, scale_0 = draws[task[j], first[j]], draws[task[j], second[j]], inverse_se[j]
            plus_1, minus_1, scale_1 = draws[task[j + 1], first[j + 1]], draws[task[j + 1], second[j + 1]], inverse_se[j + 1]
            plus_2, minus_2, scale_2 = draws[task[j + 2], first[j + 2]], draws[task[j + 2], second[j + 2]], inverse_se[j + 2]
            plus_3, minus_3, scale_3 = draws[task[j + 3], first[j + 3]], draws[task[j + 3], second[j + 3]], inverse_se[j + 3]
            for b in range(n_draws):
                value_0 = abs(plus_0[b] - minus_0[b]) * scale_0
                value_1 = abs(plus_1[b] - minus_1[b]) * scale_1
                value_2 = abs(plus_2[b] - minus_2[b]) * scale_2
                value_3 = abs(plus_3[b] - minus_3[b]) * scale_3
                left = value_0 if value_0 > value_1 else value_1
                right = value_2 if value_2 > value_3 else value_3
                largest = left if left > right else right
                raised[b] = largest if largest > best[b] else best[b]
            j += 4
        else:
            plus, minus, scale = draws[task[j], first[j]], draws[task[j], second[j]], inverse_se[j]
            for b in range(n_draws):
                value = abs(plus[b] - minus[b]) * scale
                raised[b] = value if value > best[b] else best[b]
            j += 1
        for b in range(n_draws):  # `best[:] = raised` would compile seconds of message formatting
            best[b] = raised[b]
