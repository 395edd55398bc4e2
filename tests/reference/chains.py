"""Roots of one arm's chain by brute force: the recursion on a fine grid, every expectation by quadrature."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq


def slow_sizes(schedule: str | Sequence[int], batch_size: int, n_examples: int) -> list[int]:
    """Batch sizes until all examples are seen."""
    ramp = [1, 1, 1, 1, 2, 2, 4]
    wanted = [int(b) for b in schedule] if not isinstance(schedule, str) else ramp if schedule == "ramp" else []
    sizes: list[int] = []
    while sum(sizes) < n_examples:
        size = wanted[len(sizes)] if len(sizes) < len(wanted) else batch_size
        sizes.append(min(size, batch_size if isinstance(schedule, str) else size, n_examples - sum(sizes)))
    return sizes


def slow_roots(
    cost: float,
    *,
    n_examples: int,
    sizes: Sequence[int],
    prior_variance: float,
    noise_variance: float,
    target: str = "empirical",
    points: int = 1201,
) -> NDArray[np.float64]:
    """r_0..r_{H-1} of the centred recursion; `cost` per example with lambda in it."""
    v0, t, n = prior_variance, noise_variance, n_examples
    seen = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    stds = []
    for b, m in zip(sizes, seen, strict=True):
        v = v0 / (1 + v0 * m / t)
        shrink = (v0 + t / n) / (1 + v0 * m / t) if target == "empirical" else v
        stds.append(shrink / math.sqrt(v + t / b))
    # W_n is 0 left of its root and the smooth q_n right of it, so each expectation integrates a spline of q_n from the
    # root on. H = len(sizes): W_H(x) = max(x, 0), that is q_H(x) = x with root 0.
    reach = 9.0 * math.sqrt(sum(s * s for s in stds))
    grid = np.linspace(-reach - 0.1, reach + cost * n + 0.1, points)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    roots = np.empty(len(sizes))
    q_next, root_next = CubicSpline(grid, grid), 0.0
    for stage in range(len(sizes) - 1, -1, -1):
        s = stds[stage]
        low, high = np.maximum(grid - 9.0 * s, root_next), grid + 9.0 * s
        half = np.maximum(high - low, 0.0) / 2.0
        y = (low + half)[:, None] + half[:, None] * nodes[None, :]
        density = np.exp(-0.5 * ((y - grid[:, None]) / s) ** 2) / (s * math.sqrt(2.0 * math.pi))
        # Beyond the grid's right end q_n is x minus the cost to come, to far below the accuracy wanted here.
        to_come = cost * sum(sizes[stage + 1 :])
        value = np.where(y > grid[-1], y - to_come, q_next(np.minimum(y, grid[-1])))
        q = half * ((value * density) @ weights) - cost * sizes[stage]
        q_next = CubicSpline(grid, q)
        last_negative = int(np.flatnonzero(q < 0)[-1])
        root_next = roots[stage] = brentq(q_next, grid[last_negative], grid[last_negative + 1], xtol=1e-13)
    return roots
