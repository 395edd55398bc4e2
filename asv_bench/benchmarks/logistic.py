"""Kernels on cells: likelihood, gradient, and the per-row and per-task score equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrgittins._kernels.logistic import log_likelihood, logistic_terms
from lrgittins.bradley_terry import fit_bradley_terry
from lrgittins.graph import pieces_by_task
from lrgittins.polish import factorise
from lrgittins.refine import refine_rows

from .common import RANK, Sized, cells, true_scores, votes


class Gradient(Sized):
    """The pairwise-logistic log-likelihood alone, and with gradient and information."""

    def setup(self, shape: str) -> None:
        data = cells(shape)
        self.data = (data.task, data.low, data.high, data.count, data.wins)
        self.scores = np.ascontiguousarray(true_scores(shape))
        self.gradient, self.information = np.empty_like(self.scores), np.empty(len(data.task))
        self.time_log_likelihood(shape)
        self.time_gradient(shape)

    def time_log_likelihood(self, shape: str) -> None:
        log_likelihood(*self.data, self.scores)

    def time_gradient(self, shape: str) -> None:
        logistic_terms(*self.data, self.scores, self.gradient, self.information)

    def peakmem_gradient(self, shape: str) -> None:
        self.time_gradient(shape)

    def track_cells(self, shape: str) -> int:
        return len(self.data[0])


class FactorRows(Sized):
    """Steps 5 to 8 of Algorithm 1: damped Newton for every model row, then every task row."""

    def setup(self, shape: str) -> None:
        self.cells = cells(shape)
        self.initial = 0.5 * true_scores(shape)
        self.basis = factorise(self.initial, RANK).left
        self.solve()

    def solve(self) -> Any:
        return refine_rows(self.cells, self.cells, self.basis, self.initial, ridge=1e-6, tol=1e-8, max_iter=200)

    def time_rows(self, shape: str) -> None:
        self.solve()

    def peakmem_rows(self, shape: str) -> None:
        self.solve()

    def track_iterations(self, shape: str) -> int:
        return int(self.solve().n_iter)


class PerTask(Sized):
    """Bradley-Terry of every task."""

    def setup(self, shape: str) -> None:
        table = votes(shape)._table
        self.cells, self.pieces = table.cells(), pieces_by_task(table)
        self.ridge = np.full(table.n_tasks, 1e-6)
        self.solve()

    def solve(self) -> Any:
        return fit_bradley_terry(self.cells, self.ridge, self.pieces, tol=1e-8, max_iter=200)

    def time_per_task(self, shape: str) -> None:
        self.solve()

    def peakmem_per_task(self, shape: str) -> None:
        self.solve()

    def track_largest_gradient(self, shape: str) -> float:
        return float(self.solve()[3].max())
