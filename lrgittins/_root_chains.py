"""Chains that differ in cost alone, solved by any method through one cache of the process."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._root_methods import Solution, banded_roots, fft_roots, in_threads, panel_roots, paper_roots
from .errors import ParameterError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_CACHE_BYTES = 32_000_000
# Below this c / S the roots sit where products of densities underflow.
_SMALLEST_RATIO = 1e-280


def transition_std(
    sizes: NDArray[Any], seen: NDArray[Any], *, n_examples: int, prior_variance: float, noise_variance: float, target: str
) -> FloatArray:
    """Standard deviation of the change of the posterior mean by a batch of `sizes` after `seen` examples, same shape.

    Of the mean over all `n_examples` (``target="empirical"``) or of the latent mean. Valid for prior variance 0.
    """
    shrink = 1.0 + prior_variance * seen / noise_variance
    variance = prior_variance / shrink
    scale = prior_variance if target == "latent" else prior_variance + noise_variance / n_examples
    return np.asarray(scale / shrink / np.sqrt(variance + noise_variance / sizes), dtype=np.float64)


class _RowCache:
    """Solved chains of this process by their parameters; the least recently used go when `max_bytes` is passed."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._rows: OrderedDict[tuple[bytes, float], tuple[FloatArray, float]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self.hits = self.misses = 0

    def get(self, key: tuple[bytes, float]) -> tuple[FloatArray, float] | None:
        with self._lock:
            found = self._rows.get(key)
            if found is None:
                self.misses += 1
            else:
                self.hits += 1
                self._rows.move_to_end(key)
            return found

    def put(self, key: tuple[bytes, float], roots: FloatArray, bound: float) -> None:
        with self._lock:
            if key not in self._rows:
                self._bytes += roots.nbytes + 200
            self._rows[key] = (roots, bound)
            while self._bytes > self.max_bytes and len(self._rows) > 1:
                _, (dropped, _) = self._rows.popitem(last=False)
                self._bytes -= dropped.nbytes + 200

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            self._bytes = self.hits = self.misses = 0


row_cache = _RowCache(_CACHE_BYTES)


def chain_digest(batches: IntArray, std: FloatArray, settings: tuple[Any, ...]) -> bytes:
    """Identity of a chain but for its cost: batches and deviations say all about prior, noise, N and target."""
    return hashlib.blake2b(repr(settings).encode() + batches.tobytes() + std.tobytes(), digest_size=16).digest()


def solve_chains(
    unit_cost: FloatArray, batches: IntArray, std: FloatArray, method: str, tol: float, grid_points: int | None, n_jobs: int
) -> tuple[FloatArray, FloatArray]:
    """Roots (n_costs, H) and bounds (n_costs,) of chains that differ in cost alone, through the cache."""
    batch = batches.astype(np.float64)
    roots, bounds = np.empty((len(unit_cost), len(std))), np.zeros(len(unit_cost))
    free = unit_cost == 0.0
    roots[free] = -np.inf
    priced = np.flatnonzero(~free)
    if not std.any():  # nothing can be learned: going on is worth exactly what it costs
        roots[priced] = unit_cost[priced, None] * np.cumsum(batch[::-1])[::-1]
        return roots, bounds
    digest = chain_digest(batches, std, (method, tol, grid_points))
    missing = []
    for k in priced:
        found = row_cache.get((digest, float(unit_cost[k])))
        if found is None:
            missing.append(k)
        else:
            roots[k], bounds[k] = found
    if missing:
        todo = np.array(missing)
        tiny = unit_cost[todo] * batch.min() < _SMALLEST_RATIO * np.sqrt(np.sum(std**2))
        if tiny.any():
            price = unit_cost[todo[np.argmax(tiny)]]
            raise ParameterError(f"cost_scale * cost = {price:g} is positive but too small for floating point; use 0 for a free arm")
        solver: Callable[..., Solution]
        if method == "panel":
            solver = partial(panel_roots, batch=batch, std=std, tol=tol)
        elif method == "banded":
            solver = partial(banded_roots, batch=batch, std=std, tol=tol, grid_points=grid_points)
        elif method == "fft":
            solver = partial(fft_roots, batch=batch, std=std, tol=tol, grid_points=grid_points)
        else:
            solver = partial(paper_roots, batch=batch, std=std, grid_points=grid_points)
        solved = in_threads(solver, unit_cost[todo], n_jobs)
        for i, k in enumerate(todo):
            roots[k], bounds[k] = solved.roots[i], solved.bound[i]
            kept = solved.roots[i].copy()
            kept.flags.writeable = False
            row_cache.put((digest, float(unit_cost[k])), kept, float(solved.bound[i]))
    return roots, bounds
