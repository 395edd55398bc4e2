"""Order statistics of drawn studentised gaps around one model, and their signed maxima."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@kernel
def fill_order_statistics(draws: FloatArray, model: int, others: IntArray, inverse_se: FloatArray, out: FloatArray) -> None:
    """`out` (n_others, n_draws): the larger of the k-th largest entries of the studentised gaps (other minus model) and of their negatives.

    `draws` is (n_models, n_draws).
    """
    n_others, n_draws = out.shape
    values = np.empty(n_others)
    own = draws[model]
    for b in range(n_draws):
        for j in range(n_others):
            values[j] = (draws[others[j], b] - own[b]) * inverse_se[j]
        values.sort()
        for k in range(n_others):
            out[k, b] = max(values[n_others - 1 - k], -values[k])


@kernel
def signed_maximum(draws: FloatArray, model: int, others: IntArray, scale: FloatArray, out: FloatArray) -> None:
    """`out` (n_draws,): the largest of scale * (other - model) over `others`; a negative scale turns the gap round."""
    out[:] = -np.inf
    own = draws[model]
    for j in range(len(others)):
        other = draws[others[j]]
        s = scale[j]
        for b in range(len(out)):
            value = (other[b] - own[b]) * s
            out[b] = value if value > out[b] else out[b]
