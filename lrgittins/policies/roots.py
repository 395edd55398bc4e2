"""Roots of every arm's chain, by number of examples seen: on the schedule from `root_schedule`, between boundaries on demand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrgittins.batch_schedule import batch_sizes, cut_batches
from lrgittins.root_schedule import off_schedule_root, root_schedule

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stages:
    """Boundaries of the batch schedule of arms with N cells.

    Attributes
    ----------
    sizes : tuple of int, length H
    stage_of : list of int, length N + 1
        Stage that starts after so many examples, -1 between boundaries, H at N.
    boundary_after : list of int, length N + 1
        The next boundary beyond so many examples (N at N).
    """

    sizes: tuple[int, ...]
    stage_of: list[int]
    boundary_after: list[int]


def _stages(sizes: Any) -> Stages:
    ends = np.cumsum(np.asarray(sizes, dtype=np.int64))
    n = int(ends[-1])
    stage_of = np.full(n + 1, -1, dtype=np.int64)
    stage_of[0] = 0
    stage_of[ends] = np.arange(1, len(ends) + 1)
    after = ends[np.minimum(np.searchsorted(ends, np.arange(n + 1), side="right"), len(ends) - 1)]
    return Stages(tuple(int(b) for b in sizes), stage_of.tolist(), after.tolist())


class RootTable:
    """Roots r(arm, seen); arms with equal (cells, price, prior variance, noise) share one schedule.

    Parameters
    ----------
    unit_cost : ndarray, shape (K,)
        Price per example in the policy's cost unit, before `cost_scale`.
    batch_schedule : str or ndarray
        As in `root_schedule`; an array is cut for arms with fewer cells.
    """

    def __init__(
        self,
        n_cells: IntArray,
        unit_cost: FloatArray,
        prior_variance: FloatArray,
        noise_variance: FloatArray,
        *,
        batch_size: int,
        batch_schedule: Any,
        cost_scale: float,
        target: str,
        method: str,
    ) -> None:
        self.unit_cost = unit_cost
        self.prior_variance = prior_variance
        self.noise_variance = noise_variance
        self.cost_scale = cost_scale
        self._batch_size = batch_size
        self._batch_schedule = batch_schedule
        self._target = target
        self._method = method
        self._cells = n_cells.tolist()
        self._stages: dict[int, Stages] = {}
        self._row: list[FloatArray] = [np.empty(0)] * len(n_cells)
        self._off: dict[tuple[int, int, float, float, float], float] = {}
        for n in sorted({n for n in self._cells if n > 0}):
            self._build(n, np.flatnonzero(n_cells == n))

    def _settings(self, n: int) -> dict[str, Any]:
        schedule = self._batch_schedule if isinstance(self._batch_schedule, str) else cut_batches(self._batch_schedule, n)
        return {
            "n_examples": n, "batch_size": self._batch_size, "batch_schedule": schedule, "cost_scale": self.cost_scale,
            "target": self._target, "method": self._method,
        }  # fmt: skip

    def _build(self, n: int, arms: IntArray) -> None:
        settings = self._settings(n)
        if n not in self._stages:
            self._stages[n] = _stages(batch_sizes(n, self._batch_size, settings["batch_schedule"]))
        schedule = root_schedule(
            self.unit_cost[arms], prior_variance=self.prior_variance[arms], noise_variance=self.noise_variance[arms], **settings
        )
        for k, group in zip(arms.tolist(), schedule.index_of_arm.tolist(), strict=True):
            self._row[k] = schedule.roots[group]

    def resize(self, arm: int, n_cells: int) -> None:
        """An arm lost a cell: its horizon shrinks, so its roots change."""
        if n_cells != self._cells[arm]:
            self._cells[arm] = n_cells
            if n_cells > 0:
                self._build(n_cells, np.array([arm]))

    def size_after(self, arm: int, seen: int) -> int:
        """Size of the batch that leads from `seen` to the next boundary."""
        return self._stages[self._cells[arm]].boundary_after[seen] - seen

    def sizes_of(self, arm: int) -> tuple[int, ...]:
        """The arm's batch schedule."""
        return self._stages[self._cells[arm]].sizes

    def roots_of(self, arm: int) -> FloatArray:
        """The arm's roots on the schedule, shape (H,)."""
        return self._row[arm]

    def root(self, arm: int, seen: int) -> float:
        """Root of the arm with `seen` (< its cells) examples observed; -inf where an example costs nothing."""
        if self.unit_cost[arm] * self.cost_scale == 0.0:
            return -math.inf
        n = self._cells[arm]
        stage = self._stages[n].stage_of[seen]
        if stage >= 0:
            return float(self._row[arm][stage])
        cost, v0, t = float(self.unit_cost[arm]), float(self.prior_variance[arm]), float(self.noise_variance[arm])
        key = (n, seen, cost, v0, t)
        root = self._off.get(key)
        if root is None:
            root = self._off[key] = off_schedule_root(cost, seen, prior_variance=v0, noise_variance=t, **self._settings(n))
        return root
