"""The sufficient statistics everything downstream of intake works on: counts per (task, pair, outcome)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cells:
    """Distinct (task, unordered pair) cells, sorted by (task, low, high).

    Attributes
    ----------
    n_tasks, n_models : int
        Sizes of the label universe, unseen labels included.
    task, low, high : ndarray of int64, shape (n_cells,)
        Codes; always ``low < high``.
    count : ndarray of float64, shape (n_cells,)
        Comparisons of the cell (0 allowed: a cell may be empty in a fold).
    wins : ndarray of float64, shape (n_cells,)
        Sum of the outcomes seen from `low`: its wins, with ties already split.
    """

    n_tasks: int
    n_models: int
    task: IntArray
    low: IntArray
    high: IntArray
    count: FloatArray
    wins: FloatArray

    @property
    def total(self) -> float:
        """Number of comparisons."""
        return float(self.count.sum())


@dataclass(frozen=True, eq=False)
class OutcomeTable:
    """Counts per distinct (task, pair, outcome[, cluster]), sorted in that order, every key once.

    Attributes
    ----------
    n_tasks, n_models : int
        Sizes of the label universe, unseen labels included.
    task, low, high : ndarray of int64, shape (n_groups,)
        Codes; always ``low < high``.
    outcome : ndarray of float64, shape (n_groups,)
        Preference for `low` in [0, 1]: 1 it won, 0 it lost, 0.5 a tie.
    count : ndarray of int64, shape (n_groups,)
        How many comparisons the group stands for; at least 1 (in simulated tables, see `recounted`, at least 0).
    cluster : ndarray of int64, shape (n_groups,), or None
        Cluster codes in sorted label order, where comparisons are not independent.
    """

    n_tasks: int
    n_models: int
    task: IntArray
    low: IntArray
    high: IntArray
    outcome: FloatArray
    count: IntArray
    cluster: IntArray | None = None

    @property
    def n_groups(self) -> int:
        return len(self.task)

    @cached_property
    def cell_of_group(self) -> IntArray:
        """Index of each group's cell in `cells()`, shape (n_groups,)."""
        if self.n_groups == 0:
            return np.zeros(0, dtype=np.int64)
        new = np.ones(self.n_groups, dtype=bool)
        new[1:] = (np.diff(self.task) != 0) | (np.diff(self.low) != 0) | (np.diff(self.high) != 0)
        return np.cumsum(new) - 1

    def with_counts(self, count: NDArray[np.int64]) -> OutcomeTable:
        """The same universe with other counts (n_groups,); groups without any are left out."""
        keep = count > 0
        cluster = None if self.cluster is None else self.cluster[keep]
        return OutcomeTable(
            self.n_tasks, self.n_models, self.task[keep], self.low[keep], self.high[keep], self.outcome[keep], count[keep], cluster
        )

    def recounted(self, count: NDArray[np.int64]) -> OutcomeTable:
        """The same groups with other counts (n_groups,), 0 allowed: nothing is sorted or left out, so a simulated table costs little."""
        other = replace(self, count=count)
        for name in ("cell_of_group", "_first_of_cell"):  # they depend on the groups only
            other.__dict__[name] = getattr(self, name)
        return other

    @cached_property
    def _first_of_cell(self) -> IntArray:
        return np.flatnonzero(np.diff(self.cell_of_group, prepend=-1)).astype(np.int64)

    def cells(self, count: NDArray[np.int64] | None = None) -> Cells:
        """Cells of the whole table, or with `count` (n_groups,) in place of the groups' own counts (a fold).

        The cells are those of the whole table in either case, so their order never changes.
        """
        weight = (self.count if count is None else count).astype(np.float64)
        first = self._first_of_cell
        n_cells = len(first)
        return Cells(
            self.n_tasks,
            self.n_models,
            self.task[first],
            self.low[first],
            self.high[first],
            np.bincount(self.cell_of_group, weight, n_cells).astype(np.float64, copy=False),
            np.bincount(self.cell_of_group, weight * self.outcome, n_cells).astype(np.float64, copy=False),
        )
