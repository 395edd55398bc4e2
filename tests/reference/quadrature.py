"""Roots by another formula than the package's, slowly: the reference of the tests.

The package keeps W. Here the second derivative is kept: W_n has slope mu_n just right of its kink r_n and density
f_n = q_n'' beyond, so ``q_n(x) = -c_n + mu EI_s(x - r) + integral f(y) EI_s(x - y) dy`` with EI, its slope and its
curvature in closed form. The integral is Gauss-Legendre on narrow panels over everything that matters.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr


def expected_improvement(z: np.ndarray | float, s: float) -> np.ndarray:
    u = np.asarray(z, dtype=float) / s
    density = np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi)
    far = np.minimum(u, -1.0)
    tail = density * (1.0 + far * np.sqrt(np.pi / 2) * erfcx(-far / np.sqrt(2)))
    return s * np.where(u < -1.0, tail, u * ndtr(u) + density)


def inverse_expected_improvement(value: float, s: float) -> float:
    low = -s
    while expected_improvement(low, s) > value:
        low *= 2.0
    return float(brentq(lambda z: np.log(expected_improvement(z, s)) - np.log(value), low, value + s, xtol=1e-15, rtol=1e-15))


def reference_roots(cost: np.ndarray, std: np.ndarray, *, n_nodes: int = 16, width: float = 1.5, reach: float = 11.0) -> np.ndarray:
    """Roots (H,) of per-batch costs (H,) and transition deviations (H,); error about 1e-13 for ordinary costs."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    nodes, weights = 0.5 * (nodes + 1), 0.5 * weights
    n_stages = len(cost)
    kink, mass, y, f = 0.0, 1.0, np.zeros(0), np.zeros(0)  # W_H = max(x, 0); f already times its weights
    roots = np.empty(n_stages)
    for n in range(n_stages - 1, -1, -1):
        s = float(std[n])
        remaining = float(np.sqrt(np.sum(std[n:] ** 2)))

        def q(x: float, s: float = s, n: int = n) -> float:
            return float(mass * expected_improvement(x - kink, s) + f @ expected_improvement(x - y, s)) - float(cost[n])  # noqa: B023

        high = float(np.sum(cost[n:]))
        low = high - remaining
        while q(low) >= 0.0:
            low -= remaining
        root = high if q(high) <= 0.0 else float(brentq(q, low, high, xtol=1e-15, rtol=1e-15))
        roots[n] = root
        if n == 0:
            break
        panel = width * min(s, float(std[n - 1]))
        end = max(0.0, float(roots[n:].max())) + reach * remaining
        starts = root + panel * np.arange(int(np.ceil((end - root) / panel)))
        new_y = (starts[:, None] + panel * nodes).ravel()
        new_w = np.tile(panel * weights, len(starts))
        scale = 1.0 / (s * np.sqrt(2 * np.pi))
        new_f = mass * scale * np.exp(-0.5 * ((new_y - kink) / s) ** 2)
        if len(y):
            new_f = new_f + (scale * np.exp(-0.5 * ((new_y[:, None] - y) / s) ** 2)) @ f
        mass = float(mass * ndtr((root - kink) / s) + f @ ndtr((root - y) / s))
        kink, y, f = root, new_y, new_f * new_w
    return roots
