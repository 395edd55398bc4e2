"""The root recursion as one would write it with plain numpy: the comparison for speed and for ``method="paper"``.

P points on [-5 S_0, 1.01 C_0 + 5 S_0], piecewise-linear W with slope 0 to the left and 1 to the right, the expected
improvement kernel of length 2 P - 1, real FFTs of the next power of two that holds the whole convolution, the valid
slice, and the first grid point with q >= 0 as root.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr


def plain_fft_roots(cost: np.ndarray, std: np.ndarray, grid_points: int = 1025) -> np.ndarray:
    """Grid-point roots, shape (H,), of per-batch costs (H,) and transition deviations (H,)."""
    n_stages = len(cost)
    total_std = np.sqrt(np.sum(std**2))
    low, high = -5.0 * total_std, 1.01 * np.sum(cost) + 5.0 * total_std
    grid = np.linspace(low, high, grid_points)
    step = grid[1] - grid[0]
    lags = np.arange(-(grid_points - 1), grid_points) * step
    length = 1 << int(np.ceil(np.log2(3 * grid_points - 2)))
    values = np.maximum(grid, 0.0)
    roots = np.empty(n_stages)
    for n in range(n_stages - 1, -1, -1):
        slopes = np.concatenate([[0.0], np.diff(values) / step, [1.0]])
        masses = np.diff(slopes)
        u = lags / std[n]
        kernel = lags * ndtr(u) + std[n] * np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi)
        product = np.fft.rfft(kernel, length) * np.fft.rfft(masses, length)
        q = np.fft.irfft(product, length)[grid_points - 1 : 2 * grid_points - 1] - cost[n]
        roots[n] = grid[np.argmax(q >= 0.0)]
        values = np.maximum(q, 0.0)
    return roots
