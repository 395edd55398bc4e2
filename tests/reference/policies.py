"""The policies straight from their formulas: lists, loops, no caching, one pull at a time. Orders and ties are given."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Step = tuple[int, tuple[int, ...]]


def slow_ucb_e(scores: NDArray[np.float64], orders: Sequence[Sequence[int]], ties: Sequence[int], batch: int, a: float) -> list[Step]:
    """Every pull of UCB-E until all cells are seen: (arm, examples)."""
    n_arms, n_examples = scores.shape
    seen: list[list[float]] = [[] for _ in range(n_arms)]
    steps = []
    while any(len(s) < n_examples for s in seen):
        best, best_value = None, -math.inf
        for k in ties:
            if len(seen[k]) == n_examples:
                continue
            value = math.inf if not seen[k] else sum(seen[k]) / len(seen[k]) + math.sqrt(a / len(seen[k]))
            if best is None or value > best_value:
                best, best_value = k, value
        assert best is not None
        cells = tuple(int(j) for j in orders[best][len(seen[best]) : len(seen[best]) + batch])
        seen[best] += [float(scores[best, j]) for j in cells]
        steps.append((best, cells))
    return steps


def slow_sysrs(scores: NDArray[np.float64], order: Sequence[int], ties: Sequence[int], phases: Sequence[int]) -> tuple[int, list[int], int]:
    """Survivor, dropped arms in order and cells used of successive rejects with the given cumulative pulls."""
    alive = list(ties)
    dropped = []
    cells = 0
    before = 0
    for pulls in phases:
        cells += len(alive) * (pulls - before)
        before = pulls
        means = {k: sum(float(scores[k, j]) for j in order[:pulls]) / pulls for k in alive}
        worst = min(means.values())
        loser = [k for k in alive if means[k] == worst][-1]
        alive.remove(loser)
        dropped.append(loser)
    return alive[0], dropped, cells


def slow_gittins(
    scores: NDArray[np.float64],
    orders: Sequence[Sequence[int]],
    ties: Sequence[int],
    sizes: Sequence[int],
    roots: Sequence[Sequence[float]],
    prior: tuple[float, float],
    noise: float,
) -> tuple[list[Step], list[int], int]:
    """Empirical target: every pull, the LCB recommendation after each, and the step (from 1) of the first stop signal."""
    n_arms, n = scores.shape
    mu0, v0 = prior
    seen: list[list[float]] = [[] for _ in range(n_arms)]
    stage = [0] * n_arms
    steps: list[Step] = []
    recommended, stopped = [], 0

    def full_row(k: int) -> tuple[float, float]:
        m, r = len(seen[k]), sum(seen[k])
        mu = (mu0 * noise + v0 * r) / (noise + v0 * m)
        v = v0 / (1 + v0 * m / noise)
        return (r + (n - m) * mu) / n, ((n - m) ** 2 * v + (n - m) * noise) / n**2

    def index(k: int) -> float:
        mean = full_row(k)[0]
        return mean if stage[k] == len(sizes) else mean - roots[k][stage[k]]

    while any(s < len(sizes) for s in stage):
        unfinished = [k for k in ties if stage[k] < len(sizes)]
        arm = max(unfinished, key=index)  # max takes the first of equals, here the first in tie order
        cells = tuple(int(j) for j in orders[arm][len(seen[arm]) : len(seen[arm]) + sizes[stage[arm]]])
        seen[arm] += [float(scores[arm, j]) for j in cells]
        stage[arm] += 1
        steps.append((arm, cells))
        recommended.append(max(ties, key=lambda k: full_row(k)[0] - math.sqrt(full_row(k)[1])))
        largest = max(index(k) for k in range(n_arms))
        if not stopped and any(stage[k] == len(sizes) and index(k) == largest for k in range(n_arms)):
            stopped = len(steps)
    return steps, recommended, stopped
