"""`rank="auto"`: the rank of the nuclear-norm fit, cross-checked by cross-validated log-loss."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ._outcomes import Cells, OutcomeTable
from .convex import NuclearNormFit, fit_nuclear_norm, reference_penalty
from .folds import draw_folds
from .polish import factorise
from .refine import refine_rows

FloatArray = NDArray[np.float64]

CV_FOLDS = 3
EXTRA_RANKS = 3  # candidates go this far above the nuclear-norm rank
CV_TOL = 1e-3  # held-out losses move by far less than their noise below this gradient norm
CV_STEPS = 5
INIT_TOL = 1e-4


@dataclass(frozen=True, eq=False)
class RankSelection:
    """How a rank was chosen.

    Attributes
    ----------
    rank : int
        The choice.
    nuclear_rank : int
        Rank of the nuclear-norm fit at the reference penalty (c = 1).
    singular_values : ndarray
        Singular values of that fit.
    candidates : ndarray of int64; losses : ndarray of float64
        Ranks tried and their held-out log-loss per comparison.
    loss_errors : ndarray of float64
        Standard error of each candidate's loss minus the least loss, paired over comparisons.
    initial : NuclearNormFit
        The nuclear-norm fit itself, which the estimator goes on from.
    """

    rank: int
    nuclear_rank: int
    singular_values: FloatArray
    candidates: NDArray[np.int64]
    losses: FloatArray
    loss_errors: FloatArray
    initial: NuclearNormFit = field(repr=False)

    @property
    def validated_rank(self) -> int:
        """Where cross-validation points: of the candidates within one standard error of the least held-out loss, the
        nearest to the nuclear-norm rank; ties go up, since too small a rank hurts more than too large."""
        tied = self.candidates[self.losses <= self.losses.min() + self.loss_errors]
        distance = np.abs(tied - self.nuclear_rank)
        return int(tied[distance == distance.min()].max())


def select_rank(table: OutcomeTable, rng: np.random.Generator, *, init_scale: float, bound: float | None, tol: float) -> RankSelection:
    """Choose a rank between 1 and min(n_tasks, n_models - 1).

    The nuclear-norm rank is taken where cross-validation agrees within one; where they differ by more, cross-validation
    is (it judges what the fit is for).
    """
    cells = table.cells()
    cap = min(table.n_tasks, table.n_models - 1)
    penalty = init_scale * reference_penalty(cells.total, table.n_tasks, table.n_models)
    nuclear = fit_nuclear_norm(cells, penalty, bound=bound, tol=tol)
    nuclear_rank = int(np.clip(nuclear.rank, 1, cap))
    candidates = np.arange(1, min(cap, nuclear_rank + EXTRA_RANKS) + 1)
    units = int(table.count.sum()) if table.cluster is None else len(np.unique(table.cluster))
    if cap == 1 or units < CV_FOLDS:
        return RankSelection(nuclear_rank, nuclear_rank, nuclear.singular_values, candidates[:1], np.zeros(1), np.zeros(1), nuclear)
    folds = draw_folds(table, CV_FOLDS, rng)
    gaps, counts, wins = [], [], []
    for held_out in folds.counts:
        train, test = table.cells(table.count - held_out), table.cells(held_out)
        start = fit_nuclear_norm(train, 0.5 * penalty, start=nuclear.scores, bound=bound, tol=INIT_TOL)
        fits = [_sweep(train, start.scores, int(rank)) for rank in candidates]
        gaps.append(np.stack([scores[test.task, test.low] - scores[test.task, test.high] for scores in fits]))
        counts.append(test.count)
        wins.append(test.wins)
    losses, errors = _paired_losses(np.concatenate(gaps, axis=1), np.concatenate(counts), np.concatenate(wins))
    selection = RankSelection(nuclear_rank, nuclear_rank, nuclear.singular_values, candidates, losses, errors, nuclear)
    if abs(selection.validated_rank - nuclear_rank) > 1:
        return replace(selection, rank=selection.validated_rank)
    return selection


def _sweep(cells: Cells, initial: FloatArray, rank: int) -> FloatArray:
    """A rank-`rank` fit good enough to compare ranks: model rows, then task rows, each with the ridge that the polish's
    penalty amounts to (nu = sqrt(r d_t d_m) / |Theta|_F over factors of equal strength). Its held-out losses differ from the
    polish's by less than their noise, at a fraction of the time."""
    factors = factorise(initial, rank)
    size = float(np.sqrt(cells.n_tasks * cells.n_models))
    norm = float(np.linalg.norm(factors.singular_values))
    ridge = (rank * size / norm**2, size) if norm > 0.0 else (size, size)
    return refine_rows(cells, cells, factors.left, initial, ridge=ridge, tol=CV_TOL, max_iter=CV_STEPS).scores


def _paired_losses(gaps: FloatArray, count: FloatArray, wins: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean log-loss of every row of `gaps` (n_candidates, n_cells), and the standard error of its excess over the least."""
    total = count.sum()
    if_lost = np.logaddexp(0.0, gaps)
    if_won = if_lost - gaps
    losses = (if_won @ wins + if_lost @ (count - wins)) / total
    best = int(np.argmin(losses))
    excess_won, excess_lost = if_won - if_won[best], if_lost - if_lost[best]
    square = ((excess_won**2) @ wins + (excess_lost**2) @ (count - wins)) / total
    return losses, np.sqrt(np.maximum(square - (losses - losses[best]) ** 2, 0.0) / total)
