"""Roots between the boundaries of a schedule: after attached results, errors or missing cells a batch is shortened."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._kernels.induction import find_root
from ._kernels.normal import expected_improvement, inverse_expected_improvement
from ._root_chains import chain_digest, transition_std
from ._root_methods import PANEL_LEVELS, closeness_of, fill_roots, gauss_legendre, panel_roots

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MAX_BYTES = 64_000_000
_MAX_ROOTS = 100_000


@dataclass(frozen=True)
class StoredValues:
    """W_1 .. W_{H-1} of one chain: weighted node values of all stages in one array, with each stage's panels.

    Stage n holds ``values[offsets[n, 0]:offsets[n, 1]]``, shape (n_nodes, n_panels), on panels of width `widths[n]` from its
    root `starts[n]` to `rights[n]`; beyond that it is x - C_n.
    """

    level: int
    values: FloatArray
    offsets: IntArray
    starts: FloatArray
    widths: FloatArray
    rights: FloatArray
    cost_to_go: FloatArray

    @property
    def n_bytes(self) -> int:
        return self.values.nbytes + 3 * self.offsets.nbytes


def store_values(unit_cost: float, sizes: IntArray, stds: FloatArray, tol: float) -> StoredValues:
    """Solve one chain on the panels that meet `tol` and keep its W."""
    batch = sizes.astype(np.float64)
    solution = panel_roots(np.array([unit_cost]), batch, stds, tol)
    level = int(solution.level[0])
    kept = fill_roots(np.array([unit_cost]), batch, stds, level, tol, True, solution.roots.copy(), np.zeros(1))
    ends = np.cumsum(kept.lengths[::-1])[::-1]  # the last stage comes first
    cost = unit_cost * batch
    to_go = np.append(np.cumsum(cost[::-1])[::-1], 0.0)
    return StoredValues(level, kept.flat, np.stack([ends - kept.lengths, ends], axis=1), kept.starts, kept.widths, kept.rights, to_go)


class _Store:
    """Stored functions and the roots already asked for, of this process; the least recently used go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[bytes, float], StoredValues] = OrderedDict()
        self._bytes = 0
        self._roots: OrderedDict[tuple[bytes, float, int, int], float] = OrderedDict()

    def values(self, key: tuple[bytes, float], unit_cost: float, sizes: IntArray, stds: FloatArray, tol: float) -> StoredValues:
        with self._lock:
            stored = self._values.get(key)
            if stored is not None:
                self._values.move_to_end(key)
                return stored
        stored = store_values(unit_cost, sizes, stds, tol)
        with self._lock:
            if key not in self._values:
                self._values[key] = stored
                self._bytes += stored.n_bytes
            while self._bytes > _MAX_BYTES and len(self._values) > 1:
                _, dropped = self._values.popitem(last=False)
                self._bytes -= dropped.n_bytes
        return stored

    def get_root(self, key: tuple[bytes, float, int, int]) -> float | None:
        with self._lock:
            return self._roots.get(key)

    def put_root(self, key: tuple[bytes, float, int, int], root: float) -> None:
        with self._lock:
            self._roots[key] = root
            while len(self._roots) > _MAX_ROOTS:
                self._roots.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._roots.clear()
            self._bytes = 0


store = _Store()


def shortened_root(
    unit_cost: float,
    sizes: IntArray,
    stds: FloatArray,
    seen: int,
    next_stage: int,
    *,
    n_examples: int,
    prior_variance: float,
    noise_variance: float,
    target: str,
    tol: float,
) -> float:
    """The root after `seen` examples when the next batch ends at the boundary of `next_stage`; `unit_cost` is above 0.

    `sizes`, `stds`: (H,), the arm's schedule. ``q(x) = -c + E W_next(x + s Z)`` with the shortened batch's own c and s.
    """
    batch = int(sizes[:next_stage].sum()) - seen
    key = (chain_digest(sizes, stds, (tol,)), unit_cost, seen, next_stage)
    known = store.get_root(key)
    if known is not None:
        return known
    std = float(
        transition_std(
            np.array(batch),
            np.array(seen),
            n_examples=n_examples,
            prior_variance=prior_variance,
            noise_variance=noise_variance,
            target=target,
        )
    )
    cost = unit_cost * batch
    ahead_cost = float(unit_cost * sizes[next_stage:].sum())
    remaining = math.sqrt(std * std + float(np.sum(stds[next_stage:] ** 2)))
    lower = ahead_cost + inverse_expected_improvement(cost, remaining)
    gap = expected_improvement(ahead_cost - lower, remaining)
    if std <= 0.0 or gap <= closeness_of(tol, len(stds)):
        root = ahead_cost + cost
    elif next_stage == len(stds):
        root = lower
    else:
        stored = store.values(key[:2], unit_cost, sizes, stds, tol)
        settings = PANEL_LEVELS[stored.level]
        nodes, _ = gauss_legendre(settings.n_nodes)
        begin, end = stored.offsets[next_stage]
        values = stored.values[begin:end].reshape(settings.n_nodes, -1)
        tilt = max(0.0, std * (ahead_cost - lower) / remaining**2)
        root = find_root(
            math.nan,
            cost,
            std,
            float(stored.starts[next_stage]),
            float(stored.widths[next_stage]),
            values.shape[1],
            values,
            nodes,
            float(stored.rights[next_stage]),
            float(stored.cost_to_go[next_stage]),
            settings.band,
            settings.band + tilt,
            lower,
            ahead_cost + cost,
            remaining,
        )
    store.put_root(key, float(root))
    return float(root)
