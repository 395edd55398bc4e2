"""What a run did, batch by batch: the record that `replay` and `evaluate` return."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from .policies.protocol import Policy

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class StopPoint:
    """Where a run stopped, or would have: at the stop signal, and at its end where none was given.

    Attributes
    ----------
    step : int
        Batches told by then, 0 when none was.
    cost, cost_fraction : float
        Spent by then, raw units and as a fraction of exhaustive cost.
    recommended : label
        By the policy's own rule; `regret` is its simple regret (NaN where the truth is not known).
    completed : label or None
        The best completed arm, None while no arm was complete; `completed_regret` is its simple regret, NaN without one.
    reason : {"stop-signal", "budget", "exhausted", "interrupted"}
    """

    step: int
    cost: float
    cost_fraction: float
    recommended: Any
    regret: float
    completed: Any
    completed_regret: float
    reason: str


@dataclass(frozen=True, eq=False)
class Trace:
    """One run of a policy. Arrays have one entry per batch told, in the order of the tells, and are read-only.

    Attributes
    ----------
    arms : tuple of labels
    arm, n : ndarray of int64
        Arm (its position in `arms`) and number of examples of each batch.
    cost, cumulative_cost : ndarray of float64
        True cost of the batch and everything spent up to it, raw units.
    recommended, completed : ndarray of int64
        Arm recommended after the batch by the policy's own rule, and the best completed arm (-1 while there is none, or
        where the policy has no such rule).
    completed_score : ndarray of float64
        Row mean of the completed arm, NaN without one.
    should_stop : ndarray of bool
        Whether the stop signal had been given by then.
    initial : int
        The arm recommended before the first batch.
    total_cost : float
        Exhaustive cost: what evaluating every cell once costs.
    row_means : ndarray of float64 or None
        True full-row means, shape (K,), where they are known (replays): what regret is measured against.
    score_per_cost : float
        Score given up per raw unit of cost (lambda in the policy's cost unit, over that unit); NaN for a policy without one.
    stop_reason : {"stop-signal", "budget", "exhausted", "interrupted"}
        Why the run ended. A replay goes on past the stop signal; `stop` is about the signal.
    n_repeated : int
        Batches evaluated again after a crash (`evaluate`).
    n_skipped : int
        Examples of broken arms that were put down as failed without being evaluated, free of charge (`evaluate`).
    policy : str
    random_state
        The seed of the run as it was given.
    """

    arms: tuple[Any, ...]
    arm: IntArray
    n: IntArray
    cost: FloatArray
    cumulative_cost: FloatArray
    recommended: IntArray
    completed: IntArray
    completed_score: FloatArray
    should_stop: BoolArray
    initial: int
    total_cost: float
    row_means: FloatArray | None
    score_per_cost: float
    stop_reason: str
    n_repeated: int = 0
    policy: str = ""
    random_state: Any = None
    n_skipped: int = 0

    def __post_init__(self) -> None:
        for array in (self.arm, self.n, self.cost, self.cumulative_cost, self.recommended, self.completed, self.completed_score,
                      self.should_stop):  # fmt: skip
            array.flags.writeable = False

    @property
    def n_steps(self) -> int:
        """Number of batches told."""
        return len(self.arm)

    @cached_property
    def cost_fraction(self) -> FloatArray:
        """`cumulative_cost` over `total_cost`; all 0 where every cell is free of charge, NaN where prices are not known in advance."""
        return np.zeros(self.n_steps) if self.total_cost == 0.0 else self.cumulative_cost / self.total_cost

    @cached_property
    def regret(self) -> FloatArray:
        """Simple regret after each batch: best full-row mean minus that of the recommended arm; NaN where unknown."""
        return self._regret_of(self.recommended)

    @cached_property
    def completed_regret(self) -> FloatArray:
        """Simple regret of the best completed arm, NaN while there is none."""
        return self._regret_of(self.completed)

    @property
    def initial_regret(self) -> float:
        """Simple regret of the recommendation before the first batch."""
        return float(self._regret_of(np.array([self.initial]))[0])

    def _regret_of(self, arms: IntArray) -> FloatArray:
        if self.row_means is None:
            return np.full(len(arms), np.nan)
        return np.where(arms >= 0, self.row_means.max() - self.row_means[arms], np.nan)

    @property
    def spent(self) -> float:
        """Everything spent, raw units."""
        return float(self.cumulative_cost[-1]) if self.n_steps else 0.0

    @cached_property
    def stop(self) -> StopPoint:
        """The run at its stop signal, or at its end where no signal was given (`reason` says which)."""
        signalled = bool(self.should_stop.any())
        at = int(self.should_stop.argmax()) if signalled else self.n_steps - 1
        reason = "stop-signal" if signalled else self.stop_reason
        if at < 0:
            return StopPoint(0, 0.0, 0.0, self.arms[self.initial], self.initial_regret, None, math.nan, reason)
        done = int(self.completed[at])
        return StopPoint(
            at + 1, float(self.cumulative_cost[at]), float(self.cost_fraction[at]), self.arms[int(self.recommended[at])],
            float(self.regret[at]), self.arms[done] if done >= 0 else None, float(self.completed_regret[at]), reason,
        )  # fmt: skip

    @property
    def net_utility(self) -> float:
        """Score of the best completed arm minus lambda times the cost, in the policy's own cost unit, at `stop`.

        NaN while no arm is complete, and for policies without a cost scale.
        """
        step = self.stop.step
        return float(self.completed_score[step - 1] - self.score_per_cost * self.cumulative_cost[step - 1]) if step else math.nan

    def to_frame(self) -> pd.DataFrame:
        """One row per batch: step (from 1), arm, n, cost, cumulative_cost, cost_fraction, recommended, regret, should_stop."""
        import pandas as pd

        labels = pd.Series(list(self.arms), dtype=object if any(not isinstance(a, (int, str)) for a in self.arms) else None)
        return pd.DataFrame(
            {
                "step": np.arange(1, self.n_steps + 1),
                "arm": labels.take(self.arm).reset_index(drop=True),
                "n": self.n,
                "cost": self.cost,
                "cumulative_cost": self.cumulative_cost,
                "cost_fraction": self.cost_fraction,
                "recommended": labels.take(self.recommended).reset_index(drop=True),
                "regret": self.regret,
                "should_stop": self.should_stop,
            }
        )

    def plot_allocation(self, ax: Axes | None = None, *, by: str = "n", max_arms: int = 40) -> Any:
        """Evaluations (or, with ``by="cost"``, cost) that every arm got, as bars (needs the extra ``plot``); returns the Axes.

        See `plots.allocation.plot_allocation`.
        """
        from .plots.allocation import plot_allocation

        return plot_allocation(self, ax, by=by, max_arms=max_arms)

    def __repr__(self) -> str:
        return (
            f"Trace({self.policy or 'policy'}: {self.n_steps} batches, {self.spent:.6g} of {self.total_cost:.6g} spent, {self.stop_reason})"
        )


class TraceRecorder:
    """Builds a `Trace` while a driver tells batches to a policy: one `add` after each tell, `finish` at the end.

    Parameters
    ----------
    policy : Policy
        Its `recommend`, `should_stop` and `spent` are read after every batch.
    arms : sequence of labels
    total_cost : float
        Exhaustive cost, raw units.
    row_means : ndarray, shape (K,), optional
        True full-row means; without them regret is NaN.
    """

    def __init__(self, policy: Policy, arms: Any, *, total_cost: float, row_means: FloatArray | None = None) -> None:
        self._policy = policy
        self._arms = tuple(arms)
        self._code = {arm: k for k, arm in enumerate(self._arms)}
        self._total_cost = float(total_cost)
        self._row_means = row_means
        self._has_completed = "completed" in getattr(policy, "rules", ())
        self._initial = self._code[policy.recommend().arm]
        self._rows: list[tuple[int, int, float, float, int, int, float, bool]] = []

    @property
    def n_steps(self) -> int:
        return len(self._rows)

    def add(self, arm: Hashable, n: int, cost: float) -> None:
        """Record the batch that has just been told."""
        policy = self._policy
        done, score = -1, math.nan
        if self._has_completed:
            best = policy.recommend("completed")
            if best.rule == "completed":
                done = self._code[best.arm]
                score = best.mean if self._row_means is None else float(self._row_means[done])
        recommended = self._code[policy.recommend().arm]
        self._rows.append((self._code[arm], int(n), float(cost), float(policy.spent), recommended, done, score, bool(policy.should_stop)))

    def finish(self, stop_reason: str, *, n_repeated: int = 0, n_skipped: int = 0, random_state: Any = None) -> Trace:
        """The trace of everything added."""
        columns = list(zip(*self._rows, strict=True)) if self._rows else [()] * 8
        arm, n, cost, spent, recommended, done, score, stop = columns
        return Trace(
            arms=self._arms,
            arm=np.array(arm, dtype=np.int64),
            n=np.array(n, dtype=np.int64),
            cost=np.array(cost, dtype=np.float64),
            cumulative_cost=np.array(spent, dtype=np.float64),
            recommended=np.array(recommended, dtype=np.int64),
            completed=np.array(done, dtype=np.int64),
            completed_score=np.array(score, dtype=np.float64),
            should_stop=np.array(stop, dtype=np.bool_),
            initial=self._initial,
            total_cost=self._total_cost,
            row_means=self._row_means,
            score_per_cost=score_per_cost(self._policy),
            stop_reason=stop_reason,
            n_repeated=n_repeated,
            policy=policy_name(self._policy),
            random_state=random_state,
            n_skipped=n_skipped,
        )


def score_per_cost(policy: Any) -> float:
    """Score a policy gives up per raw unit of cost, in the units of its scores; NaN where it has no cost scale."""
    scale = getattr(policy, "cost_scale", None)
    if scale is None:
        return math.nan
    low, high = getattr(policy, "score_range", (0.0, 1.0))
    unit = 1.0
    if getattr(policy, "cost_unit", "raw") == "mean":
        planned = np.asarray(policy._planned_cost, dtype=np.float64)
        unit = float(planned.mean()) or 1.0  # all-zero prices are not divided by their mean
    return float(scale) * (high - low) / unit


def policy_name(policy: Any) -> str:
    """How a policy is called in results: its `name` where it has one, else its class."""
    return str(getattr(policy, "name", None) or type(policy).__name__)
