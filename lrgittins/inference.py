"""Estimates of score gaps with standard errors, covariances and influence functions; the way to bands and boards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._noise import ScoreNoise, gap_variance
from ._outcomes import FloatArray, IntArray, OutcomeTable
from ._random import RandomState
from ._threads import one_blas_thread
from ._validation import code_of
from .errors import ParameterError
from .scales import WinProbability, expit

if TYPE_CHECKING:
    from .bands import GapBands
    from .board import Leaderboard

MAX_ROWS = 10**7
MAX_CONTRASTS = 10**4
MAX_VALUES = 10**8
_Z95 = 1.959963984540054  # 97.5 % point of the normal law

Contrast = tuple[str, str, str]


@dataclass(frozen=True)
class GapEstimate:
    """One score gap: score of `a` minus score of `b` on a task, with its marginal 95 % interval.

    Attributes
    ----------
    estimate : float
        Natural-log units; NaN where the two models share no scale.
    std_error : float
        inf where the data leave the gap unbounded.
    ci_low, ci_high : float
        estimate -/+ 1.96 std_error: marginal, valid for this one gap chosen in advance. Use `GapInference.bands` for several.
    p_value : float
        Two-sided, for gap 0; 1 where the standard error is inf, NaN where it is 0.
    """

    estimate: float
    std_error: float
    ci_low: float
    ci_high: float
    p_value: float


@dataclass(frozen=True, eq=False)
class GapInference:
    """Estimated score gaps of every task, their joint law, and how they were made.

    Attributes
    ----------
    tasks, models : pandas.Index of str
    calibration : str
        "cross-fit" or "parametric" for the low-rank fit, "wald" for the per-task and pooled fits.
    design : str
        Design law of the Fisher operator ("empirical" or "uniform"; "empirical" for Wald fits).
    n_folds : int
        Folds that were used; 1 for Wald fits.
    n_splits : int
        Splits into folds that were averaged.
    notes : tuple of str
        What had to be changed or flagged on the way.
    diagnostics : dict
        Each entry has "status" ("ok", "failed", "not_checked"), "value" and "detail".
    random_state : int or None
        The seed as given; None for fresh randomness or a Generator.

    References
    ----------
    .. [1] "Low Rank for Rank", arXiv 2605.29395, Algorithm 2.
    """

    tasks: pd.Index
    models: pd.Index
    calibration: str
    design: str
    n_folds: int
    notes: tuple[str, ...]
    diagnostics: dict[str, dict[str, Any]]
    random_state: int | None
    estimator: Any
    _scores: FloatArray
    _noise: ScoreNoise
    _table: OutcomeTable
    # Codes (n_tasks, n_models); a gap has an estimate inside a piece, and a finite standard error inside a component.
    _piece: IntArray
    _component: IntArray
    n_splits: int = 1

    @property
    def scores(self) -> pd.DataFrame:
        """Scores the gaps are differences of (debiased one-step scores for the low-rank fit), tasks x models."""
        return pd.DataFrame(self._scores, index=self.tasks, columns=self.models)

    @cached_property
    def votes(self) -> pd.DataFrame:
        """Votes of every model on every task, tasks x models."""
        table = self._table
        out = np.zeros((len(self.tasks), len(self.models)), dtype=np.int64)
        np.add.at(out, (table.task, table.low), table.count)
        np.add.at(out, (table.task, table.high), table.count)
        return pd.DataFrame(out, index=self.tasks, columns=self.models)

    def _estimates(self, task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        piece = self._piece[task, first]
        shared = (piece == self._piece[task, second]) & (piece >= 0)
        return np.where(shared, self._scores[task, first] - self._scores[task, second], np.nan)

    def _std_errors(self, task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        component = self._component[task, first]
        bounded = (component == self._component[task, second]) & (component >= 0)
        error = np.sqrt(gap_variance(self._noise.task_covariance, task, first, second))
        return np.where(bounded, np.where(error > self._rounding, error, 0.0), np.inf)

    @property
    def _rounding(self) -> float:
        """Standard errors up to here are rounding: votes without any spread (ties only), which say nothing of their own error.

        A vote of n moves a gap by at least 4 / n of its residual, so that an honest standard error is of the order 1 / sqrt(n).
        """
        return 1e-5 / math.sqrt(max(float(self._table.count.sum()), 1.0))

    @cached_property
    def _score_errors(self) -> FloatArray:
        """Standard errors of scores, each against the mean of the models that bounded gaps tie it to; infinite where there are none.

        Where all gaps of a piece are bounded, that is the standard error of the centred score. A low-rank score beside the rest
        (withheld: too few votes) is bounded though its gaps' errors are not known, and must not make everybody else's infinite;
        with an unbounded maximum-likelihood score in the piece no centred score means anything.
        """
        covariance = self._noise.task_covariance
        out = np.full(covariance.shape[:2], np.inf)
        for t, codes in enumerate(self._component):
            for code in np.unique(codes[codes >= 0]):
                inside = np.flatnonzero(codes == code)
                piece = self._piece[t] == self._piece[t, inside[0]]
                if len(inside) == 1 or (self.calibration == "wald" and len(inside) < piece.sum()):
                    continue
                block = covariance[t] if len(inside) == len(codes) else covariance[t][np.ix_(inside, inside)]
                mean = block.mean(axis=0)
                variance = np.diag(block) - 2.0 * mean + mean.mean()
                out[t, inside] = np.sqrt(np.maximum(variance, 0.0))
        out[out <= self._rounding] = 0.0
        return out

    def _code(self, task: Any, a: Any, b: Any) -> tuple[int, int, int]:
        codes = code_of(task, self.tasks, "task"), code_of(a, self.models, "model"), code_of(b, self.models, "model")
        if codes[1] == codes[2]:
            raise ParameterError(f"a gap needs two different models, got {a!r} twice (task {task!r})")
        return codes

    def _codes(self, contrasts: Sequence[Contrast], what: str) -> tuple[IntArray, IntArray, IntArray]:
        wanted = list(contrasts) if isinstance(contrasts, Iterable) else []
        if not wanted or not all(isinstance(item, (tuple, list)) and len(item) == 3 for item in wanted):
            raise ParameterError(f"{what} takes a non-empty list of (task, a, b), got {contrasts!r:.200}")
        if len(wanted) > MAX_CONTRASTS:
            raise ParameterError(
                f"{what} of {len(wanted)} contrasts is more than {MAX_CONTRASTS} (a {len(wanted)} x {len(wanted)} matrix); ask for fewer, "
                "or use gaps(task=..., model=...) for estimates with standard errors"
            )
        codes = np.array([self._code(*item) for item in wanted], dtype=np.int64)
        return codes[:, 0], codes[:, 1], codes[:, 2]

    def gap(self, task: str, a: str, b: str) -> GapEstimate:
        """The gap score(a) - score(b) on `task`.

        Raises
        ------
        ParameterError
            Unknown or equal names.
        """
        codes = [np.array([code]) for code in self._code(task, a, b)]
        estimate, error = float(self._estimates(*codes)[0]), float(self._std_errors(*codes)[0])
        if math.isinf(error):
            return GapEstimate(estimate, error, -math.inf, math.inf, math.nan if math.isnan(estimate) else 1.0)
        p_value = math.erfc(abs(estimate) / error / math.sqrt(2.0)) if error > 0.0 else math.nan
        return GapEstimate(estimate, error, estimate - _Z95 * error, estimate + _Z95 * error, p_value)

    def win_probability(self, task: str, a: str, b: str) -> WinProbability:
        """The fitted probability that `a` is preferred to `b` on `task` (a tie is half a win), with its marginal 95 % interval.

        Raises
        ------
        ParameterError
            Unknown or equal names.
        """
        gap = self.gap(task, a, b)
        return WinProbability(expit(gap.estimate), expit(gap.ci_low), expit(gap.ci_high))

    def gaps(self, task: str | None = None, model: str | None = None) -> pd.DataFrame:
        """All gaps, or those of one task, of one model (against every other), or of both.

        Returns
        -------
        DataFrame
            Columns task, model, versus, estimate, std_error. Without `model` every pair appears once.

        Raises
        ------
        ParameterError
            Unknown names, or more than 10^7 rows.
        """
        n_models = len(self.models)
        tasks = np.arange(len(self.tasks)) if task is None else np.array([code_of(task, self.tasks, "task")])
        if model is None:
            per_task = n_models * (n_models - 1) // 2
            check_rows(len(tasks), per_task, "gaps()", "gaps(task=...) or gaps(model=...)" if task is None else "gaps(task=..., model=...)")
            first, second = np.triu_indices(n_models, 1)
        else:
            own = code_of(model, self.models, "model")
            check_rows(len(tasks), n_models - 1, "gaps(model=...)", "gaps(task=..., model=...)")
            second = np.delete(np.arange(n_models), own)
            first = np.full(n_models - 1, own)
        t, a, b = np.repeat(tasks, len(first)), np.tile(first, len(tasks)), np.tile(second, len(tasks))
        return pd.DataFrame(
            {
                "task": self.tasks.take(t),
                "model": self.models.take(a),
                "versus": self.models.take(b),
                "estimate": self._estimates(t, a, b),
                "std_error": self._std_errors(t, a, b),
            }
        )

    @one_blas_thread
    def covariance(self, contrasts: Sequence[Contrast]) -> NDArray[np.float64]:
        """Covariance of the estimates of the gaps `contrasts`, a list of (task, a, b); shape (q, q).

        Rows and columns of gaps without a finite standard error are inf on the diagonal and NaN off it.

        Raises
        ------
        ParameterError
            Unknown names, or more than 10^4 contrasts.
        """
        codes = self._codes(contrasts, "covariance()")
        out = self._noise.contrast_covariance(*codes)
        unbounded = np.isinf(self._std_errors(*codes))
        out[unbounded, :] = np.nan
        out[:, unbounded] = np.nan
        out[unbounded, unbounded] = np.inf
        return out

    @one_blas_thread
    def influence(self, contrasts: Sequence[Contrast]) -> pd.DataFrame:
        """Influence functions of the gaps `contrasts`, one row per (fold, cell, outcome) group.

        Returns
        -------
        DataFrame
            Columns fold, task, model_a, model_b, outcome (seen from model_a), cluster (only where clusters are
            used: their codes), count, then influence_0, influence_1, ... in the order of `contrasts`: phi of one such comparison.
            The squared standard error is the sum of count * (phi - mean)^2 over n^2 (Wald fits: without the mean). With several
            splits a first column, split, tells them apart; the squared standard error is then the mean of theirs.

        Raises
        ------
        ParameterError
            Unknown names, more than 10^4 contrasts, or a result above 10^7 rows or 10^8 values.
        """
        codes = self._codes(contrasts, "influence()")
        table = self._table
        check_rows(self.n_folds * self.n_splits, table.n_groups, "influence()", "covariance([...])")
        if table.n_groups * len(codes[0]) > MAX_VALUES:
            raise ParameterError(
                f"influence() of {len(codes[0])} contrasts on {table.n_groups} groups is {table.n_groups * len(codes[0])} values, "
                f"more than {MAX_VALUES}; ask for at most {max(1, MAX_VALUES // table.n_groups)} contrasts at once"
            )
        frames = []
        unbounded = np.isinf(self._std_errors(*codes))
        for part in self._noise.influence(*codes):
            part.values[:, unbounded] = np.nan
            columns: dict[str, Any] = {"split": np.full(len(part.group), part.split)} if self.n_splits > 1 else {}
            columns |= {
                "fold": np.full(len(part.group), part.fold),
                "task": self.tasks.take(table.task[part.group]),
                "model_a": self.models.take(table.low[part.group]),
                "model_b": self.models.take(table.high[part.group]),
                "outcome": table.outcome[part.group],
            }
            if table.cluster is not None:
                columns["cluster"] = table.cluster[part.group]
            columns["count"] = part.count
            columns |= {f"influence_{j}": part.values[:, j] for j in range(len(codes[0]))}
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames, ignore_index=True)

    def bands(
        self, family: Any, *, alpha: float = 0.05, method: str = "step-down", n_draws: int = 2000, random_state: RandomState = 0
    ) -> GapBands:
        """Simultaneous bands and signs for a family of gaps; see `lrgittins.GapBands`.

        Parameters
        ----------
        family : str or tuple
            The claim: ("cell", task, model); "cell" (one claim per model and task); ("model", m) one model on all tasks
            together; "model" (one claim per model); ("task", t) all models of one task; "task" (one claim per task);
            "all" everything at once.
        alpha : float, default 0.05
            Error rate of every claim.
        method : {"step-down", "max-t", "order-statistic"}, default "step-down"
            What declares signs; the bands are always those of "max-t". "step-down" is Romano and Wolf's. "order-statistic"
            bounds how many gaps exceed thresholds c_1 >= c_2 >= ..., which is what a rank needs, and declares signs with its
            c_1. Choose before looking at the result. ("one-sided" needs a K: see `certify`.)
        n_draws : int, default 2000
            0 gives no bands.
        random_state : int, Generator, SeedSequence or None, default 0

        Raises
        ------
        ParameterError
            An argument outside its meaning, or more than 10^7 rows.
        """
        from .bands import make_bands

        return make_bands(self, family, alpha=alpha, method=method, n_draws=n_draws, random_state=random_state)

    def certify(
        self,
        top_k: int,
        *,
        family: Any = "task",
        alpha: float = 0.05,
        method: str = "step-down",
        n_draws: int = 2000,
        random_state: RandomState = 0,
    ) -> Leaderboard:
        """Rank intervals and top-k certificates from simultaneous bands; arguments as in `bands`.

        `method` may also be "one-sided", for cell families only: of "among the top K" and "not among the top K" at most one
        can be false, so each is tested one-sided at the full alpha. The certificates hold per (task, model); `rank_low` and
        `rank_high` are then those of the two-sided step-down, and not joint with the certificates.

        Raises
        ------
        ParameterError
            `top_k` outside 1..number of models, or an argument of `bands` outside its meaning.
        """
        from .board import make_board

        return make_board(self, top_k, family=family, alpha=alpha, method=method, n_draws=n_draws, random_state=random_state)


def check_rows(outer: int, inner: int, call: str, narrower: str) -> None:
    """Refuse results of more than 10^7 rows, with the arithmetic and the narrower call."""
    if outer * inner > MAX_ROWS:
        raise ParameterError(f"{call} would have {outer} x {inner} = {outer * inner} rows, more than {MAX_ROWS}; use {narrower}")
