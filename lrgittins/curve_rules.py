"""How the runs of a policy enter the selection paper's figures: which batches count, and what lies between and beyond them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .policies.bayes_opt import BayesOptPolicy
from .policies.low_rank_ucb_e import LowRankUCBE
from .policies.prompteval import PromptEvalBAI
from .trace import Trace

FloatArray = NDArray[np.float64]

LINEAR, HELD, STEP = "linear", "held", "step"


@dataclass(frozen=True)
class CurveRule:
    """One run under the paper's plotting rule.

    Attributes
    ----------
    kind : {"linear", "held", "step"}
        Interpolated between batches and never beyond them; interpolated and held to the right of the last batch; or held
        from batch to batch.
    n_start : int
        Batches of the initial segment, which is not drawn.
    """

    kind: str = LINEAR
    n_start: int = 0


PLAIN = CurveRule()


def curve_rule(policy: Any, trace: Trace) -> CurveRule:
    """The paper's rule for a run that `policy` made.

    Bayesian optimisation: without its random start, held. UCB-E-LRF: from the end of its warm-up, linear. PromptEval: from
    the end of its first phase, step by step (its recommendation changes at the ends of phases only). Others: all, linear.
    """
    if isinstance(policy, BayesOptPolicy):
        first = np.sort(np.unique(trace.arm, return_index=True)[1])  # the batches at which rows were begun
        start = int(first[policy.n_start]) if len(first) > policy.n_start else trace.n_steps
        return CurveRule(HELD, start)
    if isinstance(policy, LowRankUCBE):
        return CurveRule(LINEAR, _before(trace, policy.n_warmup))
    if isinstance(policy, PromptEvalBAI):
        return CurveRule(STEP, _before(trace, policy.phases[0] if policy.phases else 0))
    return PLAIN


def _before(trace: Trace, n_cells: int) -> int:
    """Batches before the one that completes `n_cells` cells (which has the recommendation of the segment's end)."""
    return int(np.searchsorted(np.cumsum(trace.n), n_cells, side="left")) if n_cells else 0


def mean_start(ends: list[float]) -> float:
    """Where the held curves of a policy begin: the mean cost of the initial segments, 0 without any."""
    return float(np.mean(ends)) if ends else 0.0


def drawn_values(rule: CurveRule, fraction: FloatArray, regret: FloatArray, points: FloatArray, begin: float) -> FloatArray:
    """Regret of one run at the points by a "held" or "step" rule; NaN where its curve is not.

    Parameters
    ----------
    fraction, regret : ndarray, shape (n_steps,)
        After every batch.
    points : ndarray
    begin : float
        Common beginning of held curves. A run whose first row after the start comes later has that row's regret from `begin`
        on, and one that has come further by then is read off at `begin`.
    """
    x, y = fraction[rule.n_start :], regret[rule.n_start :]
    if len(x) == 0:
        return np.full(len(points), np.nan)
    if rule.kind == STEP:
        at = np.searchsorted(x, points, side="right") - 1
        return np.where(at >= 0, y[at], np.nan)
    return np.where(points >= begin, np.interp(points, x, y), np.nan)
