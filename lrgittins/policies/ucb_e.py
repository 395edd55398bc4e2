"""UCB-E: upper confidence bounds for best-arm identification, cost-blind."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lrgittins._random import RandomState
from lrgittins._validation import check_float

from .base import BasePolicy


class UCBE(BasePolicy):
    """UCB-E: asks the arm with the largest ``mean + sqrt(a / n)``, n its observed examples.

    Unobserved arms come first, completed arms never. Ignores prices when it chooses (they are charged and reported),
    has no prior, no stopping rule (`should_stop` stays False) and no uncertainty of its own: `std` is NaN.
    Pending examples count as returned at the arm's mean; for an arm without data, at the mean of all scores.

    Parameters
    ----------
    arms, n_examples, examples, missing, cost, batch_size, tie_break, score_range, on_error, max_retries, random_state
        As for `GittinsPolicy`.
    a : float
        Exploration constant, on the unit scale.
    example_order : {"per-arm", "common"} or ndarray
        "per-arm" draws each batch at random from the arm's unseen examples, as the method is published.

    References
    ----------
    .. [1] Zhou et al. (2025), UCB-E in the package banditeval.
    """

    rules: ClassVar[tuple[str, ...]] = ("mean",)

    def __init__(
        self,
        arms: Any,
        n_examples: Any,
        *,
        examples: Any = None,
        missing: Any = None,
        cost: Any = 1.0,
        batch_size: int = 8,
        a: float = 1.0,
        example_order: Any = "per-arm",
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
        self.a = check_float(a, "a", low=0.0)
        self._index = np.full(self.n_arms, np.inf)
        self._mean = np.full(self.n_arms, np.nan)
        self._set_tie_order(self.tie_order)

    def _set_tie_order(self, tie_order: NDArray[np.int64]) -> None:
        super()._set_tie_order(tie_order)
        self._place = np.argsort(tie_order).tolist()
        self._ask_by_place = np.full(self.n_arms, np.inf)
        self._mean_by_place = np.full(self.n_arms, -np.inf)

    def _refresh(self, arm: int) -> None:
        ledger, place = self.ledger, self._place[arm]
        n, seen, pending = int(ledger.n_cells[arm]), int(ledger.n_seen[arm]), int(ledger.n_pending[arm])
        if seen:
            mean = float(ledger.total[arm]) / seen
            self._mean[arm] = self._mean_by_place[place] = mean
            self._index[arm] = mean + math.sqrt(self.a / seen) if seen < n else -math.inf
        else:
            mean = 0.0
            self._index[arm] = math.inf if n else -math.inf
        if seen + pending >= n:
            ask = -math.inf
        elif seen:
            ask = mean + math.sqrt(self.a / (seen + pending))
        else:  # with pulls pending and no data the mean is not known yet: `_choose` fills it in
            ask = math.nan if pending else math.inf
        self._ask_by_place[place] = ask

    def _choose(self) -> tuple[int, int] | None:
        values = self._ask_by_place
        unknown = np.isnan(values)
        if unknown.any():
            seen, pending = int(self.ledger.n_seen.sum()), self.ledger.n_pending[self.tie_order]
            overall = float(np.add.accumulate(self.ledger.total)[-1]) / seen if seen else 0.5
            values = np.where(unknown, overall + np.sqrt(self.a / np.maximum(pending, 1)), values)
        place = int(values.argmax())
        return None if values[place] == -np.inf else (int(self.tie_order[place]), self.batch_size)

    def _recommend(self, rule: str | None) -> tuple[int, float, str]:
        place = int(self._mean_by_place.argmax())
        value = float(self._mean_by_place[place])
        return int(self.tie_order[place]), value if value > -math.inf else math.nan, "mean"

    def _columns(self) -> dict[str, Any]:
        return {
            "mean": self._mean.copy(),
            "std": np.full(self.n_arms, np.nan),
            "index": self._index.copy(),
            "complete": (self.ledger.n_seen == self.ledger.n_cells) & (self.ledger.n_cells > 0),
        }

    def _options(self) -> dict[str, Any]:
        return {"a": self.a}

    def _restore_own(self, saved: dict[str, Any]) -> None:
        for k in range(self.n_arms):
            self._refresh(k)
