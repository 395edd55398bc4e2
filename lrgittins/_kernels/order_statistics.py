"""Order statistics of drawn studentised gaps around one model, and their signed maxima."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


_BLOCK = 256  # draws sorted together: 50 rows of them fit the second-level cache


@kernel
def _sort_rows(rows: FloatArray) -> None:
    """Sort every column of `rows` ascending by Batcher's merge exchange: each exchange is one vectorised pass over two rows."""
    n, width = rows.shape
    p = 1
    while p < n:
        k = p
        while k >= 1:
            for j in range(k % p, n - k, 2 * k):
                for i in range(min(k, n - j - k)):
                    if (i + j) // (2 * p) == (i + j + k) // (2 * p):
                        lower, upper = rows[i + j], rows[i + j + k]
                        for b in range(width):
                            x, y = lower[b], upper[b]
                            lower[b] = x if x < y else y
                            upper[b] = y if x < y else x
            k //= 2
        p *= 2


@kernel
def fill_order_statistics(draws: FloatArray, model: int, others: IntArray, inverse_se: FloatArray, out: FloatArray) -> None:
    """`out` (n_orders, n_draws): the largest of 0 and the k-th largest entries, k = 1 to n_orders, of the studentised gaps (other
    minus model) and of their negatives.

    `draws` is (n_models, n_draws); n_orders is at most the number of others.
    """
    n_orders, n_draws = out.shape
    n_others = len(others)
    buffer = np.empty((n_others, _BLOCK))
    for start in range(0, n_draws, _BLOCK):
        size = min(_BLOCK, n_draws - start)
        own = draws[model, start : start + size]
        for j in range(n_others):
            other = draws[others[j], start : start + size]
            scale = inverse_se[j]
            row = buffer[j]
            for b in range(size):
                row[b] = (other[b] - own[b]) * scale
            for b in range(size, _BLOCK):
                row[b] = 0.0
        _sort_rows(buffer)
        for k in range(n_orders):
            high, low = buffer[n_others - 1 - k], buffer[k]
            for b in range(size):
                value = high[b] if high[b] > -low[b] else -low[b]
                out[k, start + b] = value if value > 0.0 else 0.0


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
