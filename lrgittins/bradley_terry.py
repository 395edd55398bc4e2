"""Plain Bradley-Terry fits: one per task, and one for all tasks pooled."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._estimator import ScoreEstimator, diagnostic, refuse_disconnected, separated_frame
from ._kernels.newton import MAX_ITERATIONS, NO_DATA, solve_bradley_terry
from ._outcomes import Cells, OutcomeTable
from ._threads import one_blas_thread
from ._validation import check_choice, check_comparisons, check_float, check_int
from .errors import ConvergenceWarning, NotIdentifiableError
from .graph import pieces_by_task, strong_components_by_task

if TYPE_CHECKING:
    from .comparisons import Comparisons

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FLAG_RIDGE = 1e-6  # keeps the scores of a flagged separated task finite without moving the others
PENALISE_RIDGE = 0.3  # separation="penalise"


@dataclass(frozen=True, eq=False)
class BradleyTerryFit:
    """Scores and how they were reached, per task.

    Attributes
    ----------
    scores : ndarray, shape (n_tasks, n_models)
        Every connected piece of a task sums to 0; a model unseen on a task is NaN without a ridge, 0 with one.
    converged, separated : ndarray of bool, shape (n_tasks,)
        A separated task that was only flagged counts as not converged: its maximiser does not exist.
    n_iter, gradient_norm, objective, ridge : ndarray, shape (n_tasks,)
        Newton steps; gradient norm over the task's count; penalised log-likelihood; the ridge that was used.
    pieces, components : ndarray of int64, shape (n_tasks, n_models)
        Connected pieces and strong components of each task's own graph; -1 where the model is unseen.
    """

    scores: FloatArray
    converged: NDArray[np.bool_]
    separated: NDArray[np.bool_]
    n_iter: IntArray
    gradient_norm: FloatArray
    objective: FloatArray
    ridge: FloatArray
    pieces: IntArray
    components: IntArray


def fit_bradley_terry(
    cells: Cells, ridge: FloatArray, pieces: IntArray, *, tol: float, max_iter: int
) -> tuple[FloatArray, IntArray, IntArray, FloatArray, FloatArray]:
    """Run the kernel: scores (n_tasks, n_models; 0 where unseen), status, iterations, gradient norm, objective."""
    n_tasks = cells.n_tasks
    scores = np.zeros((n_tasks, cells.n_models))
    status = np.empty(n_tasks, dtype=np.int64)
    iterations = np.empty(n_tasks, dtype=np.int64)
    norm, objective = np.empty(n_tasks), np.empty(n_tasks)
    indptr = np.searchsorted(cells.task, np.arange(n_tasks + 1)).astype(np.int64)
    tol = float(tol)  # a user's int would make the kernel compile once more
    solve_bradley_terry(
        indptr, cells.low, cells.high, cells.count, cells.wins, pieces, ridge, tol, max_iter, scores, status, iterations, norm, objective
    )
    return scores, status, iterations, norm, objective


def pool_tasks(table: OutcomeTable) -> OutcomeTable:
    """The same comparisons as one single task (clusters kept)."""
    keys: list[NDArray[Any]] = [table.low, table.high, table.outcome] + ([] if table.cluster is None else [table.cluster])
    order = np.lexsort(keys[::-1])
    sorted_keys: list[NDArray[Any]] = [key[order] for key in keys]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([np.diff(key) != 0 for key in sorted_keys], axis=0)
    first = np.flatnonzero(new)
    count = np.zeros(len(first), dtype=np.int64)
    np.add.at(count, np.cumsum(new) - 1, table.count[order])
    low, high, outcome = (key[first] for key in sorted_keys[:3])
    cluster = None if table.cluster is None else sorted_keys[3][first]
    return OutcomeTable(1, table.n_models, np.zeros(len(first), dtype=np.int64), low, high, outcome, count, cluster)


class _BradleyTerry(ScoreEstimator):
    _pooled: bool

    def __init__(
        self,
        *,
        ridge: float = 0.0,
        separation: str = "flag",
        disconnected: str = "error",
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        self.ridge = ridge
        self.separation = separation
        self.disconnected = disconnected
        self.tol = tol
        self.max_iter = max_iter

    def _check_params(self) -> None:
        check_float(self.ridge, "ridge", low=0.0)
        check_choice(self.separation, "separation", ["flag", "penalise", "error"])
        check_choice(self.disconnected, "disconnected", ["error", "allow"])
        check_float(self.tol, "tol", low=0.0, low_open=True)
        check_int(self.max_iter, "max_iter", low=1, high=10**9)

    def _check_identifiable(self, comparisons: Comparisons) -> None:
        """Raise where the graph, or separation under separation="error", leaves scores undetermined."""
        if self.ridge > 0.0:
            return
        table = comparisons._table
        if self.disconnected == "error":
            refuse_disconnected(table, comparisons, pooled=self._pooled)
        if self.separation == "error":
            separated = separated_frame(table, comparisons, pooled=self._pooled)
            if len(separated):
                shown = "; ".join(f"{row.model} ({row.side}) on {row.task}" for row in separated.head(6).itertuples())
                raise NotIdentifiableError(
                    f"{len(separated)} (task, model) pairs are separated (they never lost to, or never beat, the others), so their "
                    f'scores are unbounded: {shown}. Use separation="flag" or "penalise", or a ridge > 0'
                )

    @one_blas_thread
    def _fit_table(self, table: OutcomeTable) -> BradleyTerryFit:
        """Fit counts (one row of results per task; one row in all for the pooled fit)."""
        own = pool_tasks(table) if self._pooled else table
        pieces = pieces_by_task(own)
        components = strong_components_by_task(own)
        # Separated: some piece holds more than one strong component.
        n_pieces = pieces.max(axis=1, initial=-1)
        separated = components.max(axis=1, initial=-1) > n_pieces
        ridge = np.full(own.n_tasks, float(self.ridge))
        if self.ridge == 0.0:
            ridge[separated] = PENALISE_RIDGE if self.separation == "penalise" else FLAG_RIDGE
        scores, status, n_iter, norm, objective = fit_bradley_terry(own.cells(), ridge, pieces, tol=self.tol, max_iter=self.max_iter)
        if self.ridge == 0.0:
            scores[pieces < 0] = np.nan
        converged = (status != MAX_ITERATIONS) & (status != NO_DATA)
        if self.separation == "flag" and self.ridge == 0.0:
            converged &= ~separated
        return BradleyTerryFit(scores, converged, separated, n_iter.astype(np.int64), norm, objective, ridge, pieces, components)

    def _store(self, fit: BradleyTerryFit, comparisons: Comparisons) -> None:
        self.separated_ = separated_frame(comparisons._table, comparisons, pooled=self._pooled)
        n_unsolved = int((~fit.converged & ~fit.separated & np.isfinite(fit.gradient_norm) & (fit.n_iter >= self.max_iter)).sum())
        if n_unsolved:
            worst = float(fit.gradient_norm.max())
            warnings.warn(
                f"{n_unsolved} of {len(fit.converged)} fits stopped after max_iter={self.max_iter} Newton steps at a gradient norm of "
                f"{worst:.3g} per comparison (tol={self.tol:g}); raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        n_pieces = int((fit.pieces.max(axis=1, initial=-1) > 0).sum())
        penalised = self.separation == "penalise" and self.ridge == 0.0 and bool(fit.separated.any())
        self.diagnostics_ = {
            "converged": diagnostic(
                "ok" if not n_unsolved else "failed", float(fit.gradient_norm.max(initial=0.0)), "largest gradient norm"
            ),
            "connected": diagnostic("ok" if not n_pieces else "failed", n_pieces, "graphs that fall apart into pieces"),
            "separated": diagnostic(
                "failed" if fit.separated.any() else "ok",
                int(fit.separated.sum()),
                "graphs with unbounded scores" + (f"; penalised with ridge {PENALISE_RIDGE}" if penalised else ""),
            ),
        }


class PerTaskBradleyTerry(_BradleyTerry):
    """Each task's own Bradley-Terry maximum-likelihood fit, by Newton on the task's counts.

    Parameters
    ----------
    ridge : float, default 0.0
        The objective is -loglik + (ridge / 2) * sum of squared scores, per task. A ridge > 0 never raises.
    separation : {"flag", "penalise", "error"}, default "flag"
        A task whose win graph is not strongly connected has unbounded scores. "flag" fits it with max(ridge, 1e-6), marks
        it as not converged and lists the models in `separated_`; "penalise" fits it with ridge 0.3; "error" raises.
    disconnected : {"error", "allow"}, default "error"
        A task whose comparisons fall apart into pieces: raise, or fit each piece on its own scale.
    tol : float, default 1e-8
        On the 2-norm of the gradient over the task's count.
    max_iter : int, default 200
        Newton steps.

    Attributes
    ----------
    scores_ : DataFrame, shape (n_tasks, n_models)
        Natural-log units; rows sum to 0. NaN for a model unseen on the task (0 with a ridge).
    converged_, n_iter_, gradient_norm_, objective_ : Series, one value per task
        `objective_` is the penalised log-likelihood.
    separated_ : DataFrame
        Columns task, model, side ("above", "below", "between").
    diagnostics_ : dict

    References
    ----------
    .. [1] Bradley and Terry (1952); existence of the maximum: Ford (1957).
    """

    _pooled = False

    def fit(self, comparisons: Comparisons) -> Self:
        """Fit every task; returns self.

        Raises
        ------
        ParameterError
            A parameter outside its meaning.
        NotIdentifiableError
            A task falls apart, or is separated under ``separation="error"``; the message names the pieces.
        """
        self._check_params()
        check_comparisons(comparisons)
        self._check_identifiable(comparisons)
        fit = self._fit_table(comparisons._table)
        self._store(fit, comparisons)
        tasks = comparisons.tasks
        self.scores_ = pd.DataFrame(fit.scores, index=tasks, columns=comparisons.models)
        self.converged_ = pd.Series(fit.converged, index=tasks)
        self.n_iter_ = pd.Series(fit.n_iter, index=tasks)
        self.gradient_norm_ = pd.Series(fit.gradient_norm, index=tasks)
        self.objective_ = pd.Series(fit.objective, index=tasks)
        return self


class PooledBradleyTerry(_BradleyTerry):
    """One Bradley-Terry fit for all tasks together: what a single overall leaderboard would say.

    Parameters as in `PerTaskBradleyTerry`; separation and connection are judged on the pooled graph.

    Attributes
    ----------
    scores_ : DataFrame, shape (n_tasks, n_models)
        The same row for every task.
    converged_ : bool
    n_iter_ : int
    gradient_norm_, objective_ : float
    separated_, diagnostics_ : as in `PerTaskBradleyTerry`
    """

    _pooled = True

    def fit(self, comparisons: Comparisons) -> Self:
        """Fit the pooled comparisons; returns self. Raises as `PerTaskBradleyTerry.fit`."""
        self._check_params()
        check_comparisons(comparisons)
        self._check_identifiable(comparisons)
        fit = self._fit_table(comparisons._table)
        self._store(fit, comparisons)
        rows: Any = np.repeat(fit.scores, len(comparisons.tasks), axis=0)
        self.scores_ = pd.DataFrame(rows, index=comparisons.tasks, columns=comparisons.models)
        self.converged_ = bool(fit.converged[0])
        self.n_iter_ = int(fit.n_iter[0])
        self.gradient_norm_ = float(fit.gradient_norm[0])
        self.objective_ = float(fit.objective[0])
        return self
