"""Parametric calibration: one full-data fit, standard errors scaled by what refits of simulated votes show.

Outside the paper's theory (no cross-fitting): the scale is what makes the bands honest, and they are never offered without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from ._noise import FoldInfluence, ScoreNoise
from ._outcomes import Cells, FloatArray, IntArray, OutcomeTable
from ._parallel import run_blocks
from ._threads import one_blas_thread
from .low_rank import LowRankFit
from .one_step import FoldFacts, OneStep, full_data_step
from .polish import Factorisation, PolishStart, polish_steps

REFIT_TOL = 2e-5  # of the gradient norm, a fiftieth of its sampling error at a few votes a parameter
_TASKS_AT_ONCE = 32  # whose gaps are looked at together
REFIT_STEPS = 4  # Newton steps; against full convergence the scale moves by half a percent at 10 votes a model and task, by less elsewhere


@dataclass(frozen=True, eq=False)
class ScaledNoise:
    """Score noise whose standard deviations are multiplied by a factor per task."""

    base: ScoreNoise
    scale: FloatArray  # (n_tasks,)

    @property
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


def simulate_table(cells: Cells, scores: FloatArray, rng: np.random.Generator) -> OutcomeTable:
    """Votes without ties from the fitted scores, as many per cell as were observed."""
    probability = expit(scores[cells.task, cells.low] - scores[cells.task, cells.high])
    count = cells.count.astype(np.int64)
    wins = rng.binomial(count, probability)
    cell = np.repeat(np.arange(len(count)), 2)
    outcome = np.tile([0.0, 1.0], len(count))
    each = np.column_stack([count - wins, wins]).ravel()
    keep = each > 0
    cell = cell[keep]
    arrays = cells.task[cell], cells.low[cell], cells.high[cell], outcome[keep], each[keep]
    return OutcomeTable(cells.n_tasks, cells.n_models, *arrays)


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
    shared = fit, start, step.determined[:, seen], step.facts[0], estimator, design
    blocks = [(simulate_table(cells, fit.scores, rng), *shared) for _ in range(n_refits)]
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
    simulated: OutcomeTable,
    fit: LowRankFit,
    start: PolishStart | None,
    determined: IntArray,
    facts: FoldFacts,
    estimator: Any,
    design: str,
) -> tuple[FloatArray, FloatArray]:
    """Sum over a task's gaps of the squared studentised errors of one refit, and their number, (n_tasks,) each."""
    n_tasks, n_models = simulated.n_tasks, simulated.n_models
    total, number = np.zeros(n_tasks), np.zeros(n_tasks)
    refit = full_data_step(simulated, _refit(simulated, fit, start, estimator), design, np.arange(n_models), n_models, facts)
    low, high = np.triu_indices(n_models, 1)
    for first in range(0, n_tasks, _TASKS_AT_ONCE):
        some = slice(first, min(first + _TASKS_AT_ONCE, n_tasks))
        covariance, codes, own = refit.noise.task_covariance[some], refit.determined[some], determined[some]
        diagonal = np.einsum("tmm->tm", covariance)
        size = diagonal[:, low] + diagonal[:, high]
        variance = size - 2.0 * covariance[:, low, high]
        error = refit.scores[some] - fit.scores[some]
        gap_error = error[:, low] - error[:, high]
        usable = (codes[:, low] == codes[:, high]) & (own[:, low] == own[:, high]) & (variance > 1e-13 * size)
        squares = np.divide(gap_error**2, variance, out=np.zeros_like(variance), where=usable)
        total[some], number[some] = squares.sum(axis=1), usable.sum(axis=1)
    return total, number


def _refit(simulated: OutcomeTable, fit: LowRankFit, start: PolishStart | None, estimator: Any) -> LowRankFit:
    """The fit of simulated votes: a few Newton steps from the one they were simulated from (a k-step bootstrap), or all anew."""
    if start is not None:
        factors = polish_steps(simulated.cells(), start, n_steps=REFIT_STEPS, tol=max(REFIT_TOL, estimator.tol))
        return replace(fit, scores=factors.scores, left=factors.left, singular_values=factors.singular_values, right=factors.right)
    same_rank = type(estimator)(**{**estimator.get_params(), "rank": fit.rank, "disconnected": "allow"})
    refit: LowRankFit = same_rank._fit_table(simulated)
    return refit
