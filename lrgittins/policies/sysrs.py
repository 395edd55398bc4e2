"""SySRs: successive rejects on one shared random example order, for a budget known in advance."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lrgittins._random import RandomState
from lrgittins._validation import check_int
from lrgittins.errors import ParameterError

from .base import BasePolicy


def successive_rejects_schedule(n_arms: int, n_examples: int, budget: int, *, cap: bool = True) -> list[int]:
    """Cumulative pulls per surviving arm at the end of phases 1..K-1.

    ``n_k = ceil((T - K) / (logbar (K + 1 - k)))`` with ``logbar = 1/2 + sum_{i=2}^K 1/i``, T the budget in cells. With
    `cap` T is first cut to ``floor(((N - 1) logbar + K) / K) K``; without it, phases beyond N are set to N and the
    others scaled by the common factor that keeps T, until nothing moves (rounded down, so that T is not exceeded).
    A budget below one cell per arm buys no comparison: all zeros.
    """
    if n_arms == 1:
        return []
    if budget < n_arms:
        return [0] * (n_arms - 1)
    logbar = 0.5 + math.fsum(1.0 / i for i in range(2, n_arms + 1))
    if cap:
        budget = min(budget, math.floor(((n_examples - 1) * logbar + n_arms) / n_arms) * n_arms)
    # At T = K the formula gives 0 and the whole budget would stay unspent; one cell an arm is exactly T.
    pulls = [max(math.ceil((budget - n_arms) / (logbar * (n_arms + 1 - k))), 1) for k in range(1, n_arms)]
    if pulls[-1] <= n_examples:
        return pulls
    # Cells of the plan: every phase's n_k once, the last one's twice (two survivors).
    weight = np.ones(n_arms - 1)
    weight[-1] = 2.0
    scaled = np.array(pulls, dtype=np.float64)
    fixed = np.zeros(n_arms - 1, dtype=bool)
    while (over := ~fixed & (scaled > n_examples)).any():
        fixed |= over
        scaled[fixed] = n_examples
        rest = float((weight * scaled)[~fixed].sum())
        if rest > 0.0:
            scaled[~fixed] *= (budget - float((weight * scaled)[fixed].sum())) / rest
    # The slack of 1e-9 cells keeps a product that is an integer in exact arithmetic from being rounded down past it.
    whole = np.maximum.accumulate(np.clip(np.floor(scaled + 1e-9), 1, n_examples).astype(np.int64))
    return [int(n) for n in whole]


class SySRs(BasePolicy):
    """Successive rejects on a shared example order: after each phase the worst mean among the survivors is dropped.

    Ignores prices when it chooses, needs its budget in advance, and has no stop signal: it is exhausted when one arm
    survives. Within a phase the survivor with the fewest examples is asked next; a phase ends when every survivor has
    its examples (an arm that lacks cells when it has all it can). In `posterior`, `index` is the observed mean of a
    survivor and -inf for a dropped arm, and `std` is NaN.

    Parameters
    ----------
    arms, n_examples, examples, missing, cost, batch_size, tie_break, score_range, on_error, max_retries, random_state
        As for `GittinsPolicy`. Means that tie are dropped in the tie order, last place first.
    budget : int
        T, the number of cells that may be evaluated. With less than one per arm nothing is asked, and the
        recommendation is the first arm in the tie order.
    cap : bool
        True is the published protocol, which stops at about half of the cells; False spends all of `budget`.
    example_order : {"common", "per-arm"} or ndarray

    References
    ----------
    .. [1] Lyu et al. (2026), arXiv 2606.07726.
    """

    rules: ClassVar[tuple[str, ...]] = ("survivor",)

    def __init__(
        self,
        arms: Any,
        n_examples: Any,
        *,
        budget: int,
        cap: bool = True,
        examples: Any = None,
        missing: Any = None,
        cost: Any = 1.0,
        batch_size: int = 8,
        example_order: Any = "common",
        tie_break: str = "random",
        score_range: Any = (0, 1),
        on_error: str = "drop",
        max_retries: int = 2,
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(
            arms, n_examples, examples=examples, missing=missing, cost=cost, batch_size=batch_size, example_order=example_order,
            tie_break=tie_break, score_range=score_range, on_error=on_error, max_retries=max_retries, random_state=random_state,
        )  # fmt: skip
        self.budget = check_int(budget, "budget", low=1)
        if not isinstance(cap, (bool, np.bool_)):
            raise ParameterError(f"cap must be True or False, got {cap!r}")
        self.cap = bool(cap)
        self.phases = successive_rejects_schedule(self.n_arms, int(self.n_examples.max()), self.budget, cap=self.cap)
        self._phase = 0
        self._alive = np.ones(self.n_arms, dtype=bool)
        self._dropped_after = np.full(self.n_arms, np.inf)
        self._advance()

    def _refresh(self, arm: int) -> None:
        """Nothing is cached: choices need the survivors' counts, which the ledger has."""

    def _target(self) -> NDArray[np.int64]:
        """Examples every arm should have at the end of the phase (an arm that lacks cells: all it has)."""
        return np.minimum(self.phases[self._phase], self.ledger.n_cells)

    def _choose(self) -> tuple[int, int] | None:
        if self._phase >= len(self.phases):
            return None
        have = self.ledger.n_seen + self.ledger.n_pending
        target = self._target()
        waiting = (self._alive & (have < target))[self.tie_order]
        if not waiting.any():
            return None
        place = int(np.where(waiting, have[self.tie_order], np.iinfo(np.int64).max).argmin())
        arm = int(self.tie_order[place])
        return arm, min(self.batch_size, int(target[arm] - have[arm]))

    def _means(self) -> NDArray[np.float64]:
        seen = self.ledger.n_seen
        return np.divide(self.ledger.total, seen, out=np.full(self.n_arms, np.nan), where=seen > 0)

    def _after_data(self, arm: int) -> None:
        self._advance()

    def _advance(self) -> None:
        """Drop arms as long as a phase is complete (attached results can complete several at once)."""
        while self._phase < len(self.phases) and not (self._alive & (self.ledger.n_seen < self._target())).any():
            means = np.where(np.isnan(means := self._means()), -np.inf, means)[self.tie_order]
            means[~self._alive[self.tie_order]] = np.inf
            worst = self.n_arms - 1 - int(means[::-1].argmin())  # the last place among the tied
            arm = int(self.tie_order[worst])
            self._alive[arm] = False
            self._phase += 1
            self._dropped_after[arm] = self._phase

    def _recommend(self, rule: str | None) -> tuple[int, float, str]:
        means = self._means()
        ranked = np.where(self._alive & ~np.isnan(means), np.nan_to_num(means, nan=0.0), -np.inf)[self.tie_order]
        if ranked.max() == -np.inf:  # no survivor has data yet
            ranked = np.where(self._alive[self.tie_order], 0.0, -np.inf)
        arm = int(self.tie_order[int(ranked.argmax())])
        return arm, float(means[arm]), "survivor"

    def _columns(self) -> dict[str, Any]:
        return {
            "mean": self._means(),
            "std": np.full(self.n_arms, np.nan),
            "index": np.where(self._alive, self._means(), -np.inf),
            "complete": (self.ledger.n_seen == self.ledger.n_cells) & (self.ledger.n_cells > 0),
        }

    def _notes(self) -> list[str]:
        return ["" if np.isinf(phase) else f"dropped after phase {int(phase)}" for phase in self._dropped_after]

    def _options(self) -> dict[str, Any]:
        return {"budget": self.budget, "cap": self.cap}

    def _own_state(self) -> dict[str, Any]:
        return {"phase": self._phase, "dropped_after": [None if np.isinf(phase) else int(phase) for phase in self._dropped_after]}

    def _restore_own(self, saved: dict[str, Any]) -> None:
        self._phase = check_int(saved["phase"], "phase", low=0, high=len(self.phases))
        dropped = [np.inf if phase is None else float(phase) for phase in saved["dropped_after"]]
        if len(dropped) != self.n_arms:
            raise ValueError(f"dropped_after has {len(dropped)} entries for {self.n_arms} arms")
        self._dropped_after = np.array(dropped)
        self._alive = np.isinf(self._dropped_after)
