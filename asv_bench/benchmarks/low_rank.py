"""The low-rank fit: convex initializer, polish, arrowhead Fisher operator, whole estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

import lrgittins as lg
from lrgittins.convex import fit_nuclear_norm, reference_penalty
from lrgittins.polish import factorise, polish_scores
from lrgittins.tangent import Arrowhead, TangentSpace

from .common import RANK, Sized, cells, top_k_loss, true_scores, votes


class Initializer(Sized):
    """Nuclear-norm fit at the reference penalty."""

    def setup(self, shape: str) -> None:
        self.cells = cells(shape)
        self.penalty = reference_penalty(self.cells.total, self.cells.n_tasks, self.cells.n_models)
        self.solve()

    def solve(self) -> Any:
        return fit_nuclear_norm(self.cells, self.penalty)

    def time_initializer(self, shape: str) -> None:
        self.solve()

    def peakmem_initializer(self, shape: str) -> None:
        self.solve()

    def track_iterations(self, shape: str) -> int:
        return int(self.solve().n_iter)

    def track_rank(self, shape: str) -> int:
        return int(self.solve().rank)


class PolishScores(Sized):
    """Riemannian Fisher scoring from the truncated initializer."""

    def setup(self, shape: str) -> None:
        self.cells = cells(shape)
        penalty = reference_penalty(self.cells.total, self.cells.n_tasks, self.cells.n_models)
        self.start = factorise(fit_nuclear_norm(self.cells, penalty).scores, RANK)
        self.solve()

    def solve(self) -> Any:
        return polish_scores(self.cells, self.start, tol=1e-8, max_iter=200)

    def time_polish(self, shape: str) -> None:
        self.solve()

    def peakmem_polish(self, shape: str) -> None:
        self.solve()

    def track_steps(self, shape: str) -> int:
        return int(self.solve().n_iter)


class FisherOperator(Sized):
    """Arrowhead build, factor and solve in tangent coordinates."""

    def setup(self, shape: str) -> None:
        data = cells(shape)
        factors = factorise(true_scores(shape), RANK)
        self.space = TangentSpace(factors.left, factors.right)
        self.law = (data.task, data.low, data.high, data.count / data.total)
        self.operator = Arrowhead.from_cells(self.space, *self.law)
        self.factor = self.operator.factor()
        self.rhs = np.ones(self.space.dimension)
        self.factor.solve(self.rhs)

    def time_build(self, shape: str) -> None:
        Arrowhead.from_cells(self.space, *self.law)

    def time_factor(self, shape: str) -> None:
        self.operator.factor()

    def time_solve(self, shape: str) -> None:
        self.factor.solve(self.rhs)

    def peakmem_factor(self, shape: str) -> None:
        Arrowhead.from_cells(self.space, *self.law).factor()

    def track_dimension(self, shape: str) -> int:
        return self.space.dimension

    def track_residual(self, shape: str) -> float:
        return float(np.abs(self.operator.matvec(self.factor.solve(self.rhs)) - self.rhs).max())


class Estimator(Sized):
    """`LowRankBradleyTerry.fit`, rank given."""

    def setup(self, shape: str) -> None:
        self.votes = votes(shape)
        self.fit()

    def fit(self) -> Any:
        return lg.LowRankBradleyTerry(rank=RANK).fit(self.votes)

    def time_fit(self, shape: str) -> None:
        self.fit()

    def peakmem_fit(self, shape: str) -> None:
        self.fit()

    def track_top_5_loss(self, shape: str) -> float:
        return top_k_loss(self.fit().scores_.to_numpy(), true_scores(shape))


class AutomaticRank(Sized):
    """`LowRankBradleyTerry(rank="auto").fit`."""

    timeout = 600

    def setup(self, shape: str) -> None:
        self.votes = votes(shape)
        self.fit()

    def fit(self) -> Any:
        return lg.LowRankBradleyTerry().fit(self.votes)

    def time_fit(self, shape: str) -> None:
        self.fit()

    def peakmem_fit(self, shape: str) -> None:
        self.fit()

    def track_rank(self, shape: str) -> int:
        return int(self.fit().rank_)
