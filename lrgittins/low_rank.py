"""Low-rank Bradley-Terry: tasks share strength through a few common factors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._estimator import ScoreEstimator, diagnostic, refuse_disconnected, separated_frame
from ._kernels.logistic import logistic_terms
from ._outcomes import Cells, OutcomeTable
from ._random import RandomState, as_generator
from ._threads import one_blas_thread
from ._validation import check_choice, check_comparisons, check_float, check_int
from .bradley_terry import FLAG_RIDGE, fit_bradley_terry
from .convex import MEAN_RESIDUAL_VARIANCE, NuclearNormFit, fit_nuclear_norm, reference_penalty
from .errors import ConvergenceWarning, ParameterError
from .folds import draw_folds
from .graph import pieces as pooled_pieces
from .graph import pieces_by_task, strong_components
from .polish import Factorisation, factorise, polish_scores
from .rank_selection import RankSelection, select_rank
from .refine import constrain_rows, refine_rows
from .tangent import Arrowhead, TangentSpace

if TYPE_CHECKING:
    from .comparisons import Comparisons

FloatArray = NDArray[np.float64]

N_HALVINGS = 12  # of the initializer's penalty, where its rank is below the requested one


@dataclass(frozen=True, eq=False)
class LowRankFit:
    """A centred low-rank score matrix and how it was reached.

    Attributes
    ----------
    scores : ndarray, shape (n_tasks, n_models)
        left diag(singular_values) right'; 0 for tasks and models without comparisons.
    left, singular_values, right : ndarray, shapes (n_tasks, r), (r,), (n_models, r)
        Thin SVD; both factors orthonormal, columns of `right` sum to 0.
    converged : bool
    n_iter : int
        Steps of the last stage (polish, or the most any factor row took).
    gradient_norm : float
        Tangent norm of the gradient of the penalised log-likelihood, over the total count (of the log-likelihood
        without a polish, where it need not be small).
    objective : float
        Penalised log-likelihood with a polish, log-likelihood without.
    penalty : float
        nu of the polish (0 without).
    selection : RankSelection or None
        How the rank was chosen, with ``rank="auto"``.
    notes : tuple of str
    """

    scores: FloatArray
    left: FloatArray
    singular_values: FloatArray
    right: FloatArray
    converged: bool
    n_iter: int
    gradient_norm: float
    objective: float
    penalty: float = 0.0
    selection: RankSelection | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def rank(self) -> int:
        return self.left.shape[1]


class LowRankBradleyTerry(ScoreEstimator):
    """Bradley-Terry scores of every task, tied together by a rank-r matrix.

    The default fits all stages of Algorithm 1 on all data and then maximises the likelihood over rank-r matrices with a
    nuclear-norm penalty. ``splits=3, polish=False`` is the paper's Algorithm 1 to the letter.

    Parameters
    ----------
    rank : int or "auto", default "auto"
        Number of common factors; capped at min(n_tasks, n_models - 1). "auto" takes the rank of the nuclear-norm fit,
        cross-checked by cross-validated log-loss.
    splits : {1, 3}, default 1
        3 uses separate thirds of the data for initializer, model rows and task rows.
    polish : bool, default True
        Maximise loglik(Theta) - nu |Theta|_* over rank-r matrices afterwards, nu = sqrt(r d_t d_m) / |Theta|_F.
    init_scale : float, default 1.0
        c of the initializer's penalty c * lam0.
    bound : float, optional
        B, the largest absolute score the initializer may give (natural-log units).
    incoherence_bound : float, optional
        C of step 4: rows of the task basis are kept at most C / sqrt(n_tasks) long. Off by default.
    ridge : float, default 1e-6
        Of the row-wise Newton solves; without it a root need not exist under separation.
    disconnected : {"error", "allow"}, default "error"
        What to do when the comparisons of all tasks together fall apart into pieces.
    tol : float, default 1e-8
        On the 2-norm of the gradient (tangent norm for the polish) over the total count.
    max_iter : int, default 200
        Per Newton solve and per polish round.
    random_state : int, Generator or None, default 0
        Splits of ``splits=3`` and folds of ``rank="auto"``; everything else is deterministic.

    Attributes
    ----------
    scores_ : DataFrame, shape (n_tasks, n_models)
        Natural-log units; rows sum to 0. NaN for a model without any comparison.
    rank_ : int
    task_factors_, model_factors_ : ndarray, shapes (n_tasks, r), (n_models, r)
        ``task_factors_ @ model_factors_.T`` gives the scores; columns of `model_factors_` sum to 0.
    converged_ : bool
    n_iter_ : int
    gradient_norm_, objective_ : float
    rank_selection_ : RankSelection or None
    separated_ : DataFrame
        Separation inside single tasks (normal here, and harmless): task, model, side.
    diagnostics_ : dict
        Per entry: status ("ok", "failed", "not_checked"), value, detail.

    References
    ----------
    .. [1] arXiv 2605.29395, Algorithm 1.
    """

    def __init__(
        self,
        *,
        rank: int | str = "auto",
        splits: int = 1,
        polish: bool = True,
        init_scale: float = 1.0,
        bound: float | None = None,
        incoherence_bound: float | None = None,
        ridge: float = 1e-6,
        disconnected: str = "error",
        tol: float = 1e-8,
        max_iter: int = 200,
        random_state: RandomState = 0,
    ) -> None:
        self.rank = rank
        self.splits = splits
        self.polish = polish
        self.init_scale = init_scale
        self.bound = bound
        self.incoherence_bound = incoherence_bound
        self.ridge = ridge
        self.disconnected = disconnected
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _check_params(self) -> None:
        if isinstance(self.rank, str):
            check_choice(self.rank, "rank", ["auto"])
        else:
            check_int(self.rank, "rank", low=1)
        if not isinstance(self.splits, (int, np.integer)) or isinstance(self.splits, bool) or self.splits not in (1, 3):
            raise ParameterError(f"splits must be 1 (all data in every stage) or 3 (the paper's three parts), got {self.splits!r}")
        if not isinstance(self.polish, (bool, np.bool_)):
            raise ParameterError(f"polish must be True or False, got {self.polish!r}")
        check_float(self.init_scale, "init_scale", low=0.0, low_open=True)
        for name in ("bound", "incoherence_bound"):
            if getattr(self, name) is not None:
                check_float(getattr(self, name), name, low=0.0, low_open=True)
        check_float(self.ridge, "ridge", low=0.0)
        check_choice(self.disconnected, "disconnected", ["error", "allow"])
        check_float(self.tol, "tol", low=0.0, low_open=True)
        check_int(self.max_iter, "max_iter", low=1, high=10**9)

    def _check_identifiable(self, comparisons: Comparisons) -> None:
        if self.disconnected == "error":
            refuse_disconnected(comparisons._table, comparisons, pooled=True)

    def fit(self, comparisons: Comparisons) -> Self:
        """Fit all tasks together; returns self.

        Raises
        ------
        ParameterError
            A parameter outside its meaning.
        NotIdentifiableError
            The comparisons of all tasks together fall apart into pieces; the message names them.
        """
        self._check_params()
        check_comparisons(comparisons)
        self._check_identifiable(comparisons)
        table = comparisons._table
        fit = self._fit_table(table)
        if not fit.converged:
            warnings.warn(
                f"the low-rank fit stopped after {fit.n_iter} steps at a gradient norm of {fit.gradient_norm:.3g} per comparison "
                f"(tol={self.tol:g}, max_iter={self.max_iter}); raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        scores = fit.scores.copy()
        scores[:, pooled_pieces(table) < 0] = np.nan
        self.scores_ = pd.DataFrame(scores, index=comparisons.tasks, columns=comparisons.models)
        self.rank_ = fit.rank
        root = np.sqrt(fit.singular_values)
        self.task_factors_ = fit.left * root
        self.model_factors_ = fit.right * root
        self.converged_ = fit.converged
        self.n_iter_ = fit.n_iter
        self.gradient_norm_ = fit.gradient_norm
        self.objective_ = fit.objective
        self.rank_selection_ = fit.selection
        self.notes_ = list(fit.notes)
        self.separated_ = separated_frame(table, comparisons)
        self.diagnostics_ = diagnose_fit(table, fit)
        return self

    @one_blas_thread
    def _fit_table(self, table: OutcomeTable) -> LowRankFit:
        """Fit counts. Tasks and models without comparisons take no part and get 0."""
        seen_tasks = np.bincount(table.task, minlength=table.n_tasks) > 0
        seen_models = pooled_pieces(table) >= 0
        if seen_tasks.all() and seen_models.all():
            return self._fit_seen(table)
        inner = self._fit_seen(relabel(table, np.cumsum(seen_tasks) - 1, np.cumsum(seen_models) - 1))
        left, right = np.zeros((table.n_tasks, inner.rank)), np.zeros((table.n_models, inner.rank))
        left[seen_tasks], right[seen_models] = inner.left, inner.right
        scores = np.zeros((table.n_tasks, table.n_models))
        scores[np.ix_(seen_tasks, seen_models)] = inner.scores
        return replace(inner, scores=scores, left=left, right=right)

    def _fit_seen(self, table: OutcomeTable) -> LowRankFit:
        if table.n_tasks == 1:
            return self._fit_single_task(table)
        cap = min(table.n_tasks, table.n_models - 1)
        rng = as_generator(self.random_state)
        notes: list[str] = []
        selection = None
        if self.rank == "auto":
            selection = select_rank(table, rng, init_scale=self.init_scale, bound=self.bound, tol=self.tol)
            rank = selection.rank
        else:
            rank = min(int(self.rank), cap)
            if rank < int(self.rank):
                notes.append(f"rank {self.rank} was lowered to {rank}, the most that {table.n_tasks} tasks x {table.n_models} models allow")
        if self.splits == 3:
            first, second, third = (table.cells(counts) for counts in draw_folds(table, 3, rng).counts)
        else:
            first = second = third = table.cells()

        known = selection.initial if selection is not None and self.splits == 1 else None
        initial, halvings = self._initialise(first, rank, known)
        if halvings:
            notes.append(f"the initializer's penalty was halved {halvings} times to reach rank {rank}")
        basis = factorise(initial.scores, rank).left
        if self.incoherence_bound is not None:
            basis = constrain_rows(basis, self.incoherence_bound / np.sqrt(table.n_tasks))
        refined = refine_rows(second, third, basis, initial.scores, ridge=float(self.ridge), tol=float(self.tol), max_iter=self.max_iter)
        factors = factorise(refined.scores, rank)
        if not self.polish:
            norm, value = tangent_gradient(table.cells(), factors)
            return _as_fit(factors, initial.converged and refined.converged, refined.n_iter, norm, value, 0.0, selection, notes)
        polished = polish_scores(table.cells(), factors, tol=float(self.tol), max_iter=self.max_iter)
        if polished.factors.rank < rank:
            notes.append(f"the polish's penalty left {polished.factors.rank} of {rank} factors: the data do not pay for more")
        return _as_fit(
            polished.factors,
            polished.converged,
            polished.n_iter,
            polished.gradient_norm,
            polished.objective,
            polished.penalty,
            selection,
            notes,
        )

    def _initialise(self, cells: Cells, rank: int, known: NuclearNormFit | None) -> tuple[NuclearNormFit, int]:
        """Step 2; the penalty is halved until the fit has at least `rank` directions. `known` is the fit at the first penalty."""
        penalty = self.init_scale * reference_penalty(cells.total, cells.n_tasks, cells.n_models)
        fit = known if known is not None else fit_nuclear_norm(cells, penalty, bound=self.bound, tol=self.tol)
        halvings = 0
        while fit.rank < rank and halvings < N_HALVINGS:
            halvings += 1
            fit = fit_nuclear_norm(cells, penalty * 0.5**halvings, start=fit.scores, bound=self.bound, tol=self.tol)
        return fit, halvings

    def _fit_single_task(self, table: OutcomeTable) -> LowRankFit:
        """One task has nothing to share: plain Bradley-Terry, with a tiny ridge where it is separated."""
        pieces = pieces_by_task(table)
        ridge = np.array([max(self.ridge, FLAG_RIDGE) if self._separated(table) else 0.0])
        scores, status, n_iter, norm, value = fit_bradley_terry(table.cells(), ridge, pieces, tol=self.tol, max_iter=self.max_iter)
        notes = ["one task: a plain Bradley-Terry fit"]
        return _as_fit(factorise(scores, 1), bool(status[0] == 0), int(n_iter[0]), float(norm[0]), float(value[0]), 0.0, None, notes)

    @staticmethod
    def _separated(table: OutcomeTable) -> bool:
        return int(strong_components(table).max(initial=-1)) > int(pooled_pieces(table).max(initial=-1))


def relabel(table: OutcomeTable, task_code: NDArray[np.int64], model_code: NDArray[np.int64]) -> OutcomeTable:
    """The same comparisons with codes mapped through non-decreasing maps, onto universes that end with the last code used."""
    return OutcomeTable(
        int(task_code[-1]) + 1,
        int(model_code[-1]) + 1,
        task_code[table.task],
        model_code[table.low],
        model_code[table.high],
        table.outcome,
        table.count,
        table.cluster,
    )


def tangent_gradient(cells: Cells, factors: Factorisation) -> tuple[float, float]:
    """Tangent norm of the log-likelihood's gradient over the total count, and the log-likelihood."""
    gradient = np.empty((cells.n_tasks, cells.n_models))
    information = np.empty(len(cells.task))
    value = logistic_terms(cells.task, cells.low, cells.high, cells.count, cells.wins, factors.scores, gradient, information)
    coords = TangentSpace(factors.left, factors.right).coords(gradient)
    return float(np.linalg.norm(coords)) / cells.total, float(value)


def _as_fit(
    factors: Factorisation,
    converged: bool,
    n_iter: int,
    norm: float,
    objective: float,
    penalty: float,
    selection: RankSelection | None,
    notes: list[str],
) -> LowRankFit:
    return LowRankFit(
        factors.scores,
        factors.left,
        factors.singular_values,
        factors.right,
        converged,
        n_iter,
        norm,
        float(objective),
        penalty,
        selection,
        tuple(notes),
    )


# Where the theory's conditions count as failed. They are order-of-magnitude alarms, not tests.
MAX_CONDITION = 1e6
MIN_SIGNAL_TO_NOISE = 1.0
MAX_INCOHERENCE_SHARE = 0.5
MIN_CONTRAST = 1e-3


@one_blas_thread
def diagnose_fit(table: OutcomeTable, fit: LowRankFit) -> dict[str, dict[str, Any]]:
    """The theory's conditions as numbers with a status each (specification sections 2 and 6)."""
    n_tasks, n_models, rank = table.n_tasks, table.n_models, fit.rank
    cells = table.cells()
    space = TangentSpace(fit.left, fit.right)
    information = np.empty(len(cells.task))
    logistic_terms(cells.task, cells.low, cells.high, cells.count, cells.wins, fit.scores, np.empty((n_tasks, n_models)), information)
    seen = pooled_pieces(table)
    condition = Arrowhead.from_cells(space, cells.task, cells.low, cells.high, information).factor().condition
    incoherence = max(n_tasks / rank * float((fit.left**2).sum(axis=1).max()), n_models / rank * float((fit.right**2).sum(axis=1).max()))
    worst = max(n_tasks, n_models) / rank
    # An entry seen in isolation has variance 1 / (pI 2n / (d_t d_m)); a noise matrix of that variance has this norm.
    noise = np.sqrt(n_tasks * n_models / (2.0 * cells.total * MEAN_RESIDUAL_VARIANCE)) * (np.sqrt(n_tasks) + np.sqrt(n_models))
    signal = float(fit.singular_values[-1]) / float(noise)
    # |P_T (e_t (e_m - e_l)')|^2 / 2 = u^2 + (1 - u^2) v^2 / 2 with u^2 = |U_t|^2, v^2 = |V_m - V_l|^2, least over all gaps.
    least_task = float((fit.left**2).sum(axis=1).min())
    gram = fit.right @ fit.right.T
    squared = np.add.outer(np.diag(gram), np.diag(gram)) - 2.0 * gram
    least_pair = float(squared[~np.eye(n_models, dtype=bool)].min(initial=np.inf)) if n_models > 1 else np.inf
    contrast = least_task + (1.0 - least_task) * max(least_pair, 0.0) / 2.0
    n_pieces = int(seen.max(initial=-1)) + 1
    singles = n_tasks == 1
    return {
        "converged": diagnostic("ok" if fit.converged else "failed", fit.gradient_norm, "tangent gradient norm per comparison"),
        "connected": diagnostic("ok" if n_pieces <= 1 else "failed", n_pieces, "pieces of the pooled comparison graph"),
        "fisher_condition": diagnostic(
            "ok" if condition <= MAX_CONDITION else "failed", condition, f"condition of the Fisher solve, at most {MAX_CONDITION:g}"
        ),
        "incoherence": diagnostic(
            "not_checked" if singles else "ok" if incoherence <= max(MAX_INCOHERENCE_SHARE * worst, 4.0) else "failed",
            incoherence,
            f"largest squared factor row over its average (1 is even, {worst:.3g} the worst)",
        ),
        "signal_to_noise": diagnostic(
            "not_checked" if singles else "ok" if signal >= MIN_SIGNAL_TO_NOISE else "failed",
            signal,
            f"smallest singular value over the noise's norm, at least {MIN_SIGNAL_TO_NOISE:g}",
        ),
        "projected_contrast": diagnostic(
            "ok" if contrast >= MIN_CONTRAST else "failed",
            contrast,
            f"least share of a gap that the tangent space sees (lower bound over all gaps), at least {MIN_CONTRAST:g}",
        ),
    }
