"""Parametric calibration: one full-data fit, standard errors scaled by what refits of simulated votes show.

Outside the paper's theory (no cross-fitting): the scale is what makes the bands honest, and they are never offered without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit

from ._noise import FoldInfluence, ScoreNoise
from ._outcomes import Cells, FloatArray, IntArray, OutcomeTable
from ._parallel import run_blocks
from ._threads import one_blas_thread
from .low_rank import LowRankFit
from .one_step import FoldFacts, FoldTerm, OneStep
from .polish import Factorisation, PolishStart, polish_steps

REFIT_TOL = 2e-5  # of the gradient norm, a fiftieth of its sampling error at a few votes a parameter
REFIT_STEPS = 4  # Newton steps; against full convergence the scale moves by half a percent at 10 votes a model and task, by less elsewhere


FEWEST_REFITS, MOST_REFITS = 10, 30
_MODEL_REFITS = 1500  # models times refits that determine a task's factor to about 2 percent


def default_refits(n_models: int) -> int:
    """How many refits the factors of tasks with `n_models` models are taken from."""
    return min(MOST_REFITS, max(FEWEST_REFITS, -(-_MODEL_REFITS // n_models)))


@dataclass(frozen=True, eq=False)
class ScaledNoise:
    """Score noise whose standard deviations are multiplied by a factor per task."""

    base: ScoreNoise
    scale: FloatArray  # (n_tasks,)

    @cached_property
    def task_covariance(self) -> FloatArray:
        return self.base.task_covariance * (self.scale**2)[:, None, None]

    def joint_draws(self, rng: np.random.Generator, n_draws: int) -> Iterator[FloatArray]:
        for chunk in self.base.joint_draws(rng, n_draws):
            yield chunk * self.scale[:, None, None]

    def contrast_covariance(self, task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        return self.base.contrast_covariance(task, first, second) * np.outer(self.scale[task], self.scale[task])

    def influence(self, task: IntArray, first: IntArray, second: IntArray) -> list[FoldInfluence]:
        parts = self.base.influence(task, first, second)
        return [replace(part, values=part.values * self.scale[task]) for part in parts]


@dataclass(frozen=True, eq=False)
class VoteSimulator:
    """Votes without ties from fitted scores, as many per cell as were observed."""

    cells: Cells
    probability: FloatArray  # that a cell's `low` wins, (n_cells,)
    table: OutcomeTable  # both outcomes of every cell, without counts

    @classmethod
    def from_scores(cls, cells: Cells, scores: FloatArray) -> VoteSimulator:
        index = np.repeat(np.arange(len(cells.task)), 2)
        groups = cells.task[index], cells.low[index], cells.high[index], np.tile([0.0, 1.0], len(cells.task))
        table = OutcomeTable(cells.n_tasks, cells.n_models, *groups, np.zeros(len(index), dtype=np.int64))
        return cls(cells, expit(scores[cells.task, cells.low] - scores[cells.task, cells.high]), table)

    def draw(self, rng: np.random.Generator) -> tuple[OutcomeTable, Cells]:
        """One data set, by group and by cell."""
        count = self.cells.count.astype(np.int64)
        wins = rng.binomial(count, self.probability)
        table = self.table.recounted(np.column_stack([count - wins, wins]).ravel())
        return table, replace(self.cells, wins=wins.astype(np.float64))


def standard_error_scale(
    table: OutcomeTable,
    fit: LowRankFit,
    step: OneStep,
    estimator: Any,
    design: str,
    seen: IntArray,
    n_refits: int,
    rng: np.random.Generator,
    n_jobs: int = 1,
) -> FloatArray:
    """kappa_t of every task.

    kappa_t^2 is half the task's and half the overall mean squared studentised error of the gaps.
    Votes are simulated from the fitted scores `n_refits` times and fitted anew (warm-started where the estimator polishes);
    an error is a gap of the refit's one-step scores less the fitted gap, over the refit's own standard error.
    """
    cells = table.cells()
    start = None
    if estimator.polish and table.n_tasks > 1:
        start = PolishStart.at(cells, Factorisation(fit.left, fit.singular_values, fit.right))
    shared = VoteSimulator.from_scores(cells, fit.scores), fit, start, step.determined[:, seen], step.facts[0], estimator, design
    seeds = rng.integers(2**63, size=(n_refits, 2))
    blocks = [(tuple(seed.tolist()), *shared) for seed in seeds]
    total, number = np.zeros(table.n_tasks), np.zeros(table.n_tasks)
    for squares, n_gaps in run_blocks(_refit_errors, blocks, n_jobs, [f"refit {i} of {n_refits}" for i in range(n_refits)]):
        total += squares
        number += n_gaps
    if number.sum() == 0:
        return np.ones(table.n_tasks)
    overall = total.sum() / number.sum()
    own = np.divide(total, number, out=np.full(table.n_tasks, overall), where=number > 0)
    return np.sqrt(0.5 * own + 0.5 * overall)


@one_blas_thread
def _refit_errors(
    seed: tuple[int, ...],
    simulator: VoteSimulator,
    fit: LowRankFit,
    start: PolishStart | None,
    determined: IntArray,
    facts: FoldFacts,
    estimator: Any,
    design: str,
) -> tuple[FloatArray, FloatArray]:
    """Sum over a task's gaps of the squared studentised errors of one refit, and their number, (n_tasks,) each."""
    table, cells = simulator.draw(np.random.default_rng(seed))
    refit = _refit(table, cells, fit, start, estimator)
    term = FoldTerm.build(table, cells, cells, table.count, refit, design, facts)
    mean = term.correction / cells.total
    error = term.scores + mean - fit.scores
    total, number = np.zeros(cells.n_tasks), np.zeros(cells.n_tasks)
    for some, blocks in term.task_covariances(mean, term.space.right, term.space.right_perp):
        codes, own = term.determined[some], determined[some]
        diagonal = np.einsum("tmm->tm", blocks)
        size = diagonal[:, :, None] + diagonal[:, None, :]
        variance = size - 2.0 * blocks
        usable = variance > 1e-13 * np.abs(size)  # not a model against itself, be its variance a rounding error below 0
        usable &= (codes[:, :, None] == codes[:, None, :]) & (own[:, :, None] == own[:, None, :])
        gap_error = error[some][:, :, None] - error[some][:, None, :]
        squares = np.divide(gap_error**2, variance, out=np.zeros_like(variance), where=usable)
        total[some] = 0.5 * cells.total**2 * squares.sum(axis=(1, 2))  # every gap stands there twice
        number[some] = 0.5 * usable.sum(axis=(1, 2))
    return total, number


def _refit(table: OutcomeTable, cells: Cells, fit: LowRankFit, start: PolishStart | None, estimator: Any) -> LowRankFit:
    """The fit of simulated votes: a few Newton steps from the one they were simulated from (a k-step bootstrap), or all anew."""
    if start is not None:
        factors = polish_steps(cells, start, n_steps=REFIT_STEPS, tol=max(REFIT_TOL, estimator.tol))
        return replace(fit, scores=factors.scores, left=factors.left, singular_values=factors.singular_values, right=factors.right)
    same_rank = type(estimator)(**{**estimator.get_params(), "rank": fit.rank, "disconnected": "allow"})
    refit: LowRankFit = same_rank._fit_table(table.with_counts(table.count))
    return refit
