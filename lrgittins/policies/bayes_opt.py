"""What the Bayesian-optimisation policies share: whole rows, a random start, a Gaussian process over arms, a hard budget."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lrgittins._kernels.normal import log_expected_improvement
from lrgittins._random import RandomState
from lrgittins._validation import check_choice, check_float, check_int

from . import row_model
from .base import BasePolicy, locked
from .features import check_features
from .protocol import Recommendation

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_ROUNDING = 1e-12  # of a budget, as in replays
# Arms that the model cannot tell apart differ by rounding; below this the seeded tie order decides, not the arms' positions.
_TIE = 1e-9


def log_improvement(mean: FloatArray, std: FloatArray, best: float) -> FloatArray:
    """Log of the expected improvement over `best` of normal values; finite far in the tail, -inf where there is no hope (std 0)."""
    out = np.full(len(mean), -np.inf)
    for k, (center, spread) in enumerate(zip(mean.tolist(), std.tolist(), strict=True)):
        gap = center - best
        if spread > 0.0 and math.isfinite(u := gap / spread):
            out[k] = math.log(spread) + log_expected_improvement(u)
        elif gap > 0.0:
            out[k] = math.log(gap)
    return out


class BayesOptPolicy(BasePolicy):
    """Rows, start, model, budget. A policy adds `_rate`; the class is not for users, its parameters are described in `PandoraGittins`."""

    rules: ClassVar[tuple[str, ...]] = ("completed",)

    def __init__(
        self,
        arms: Any,
        n_examples: Any,
        *,
        features: Any = None,
        max_cost: float | None = None,
        warmup: float = 0.05,
        examples: Any = None,
        missing: Any = None,
        cost: Any = 1.0,
        batch_size: int | None = None,
        example_order: Any = "common",
        tie_break: str = "random",
        score_range: Any = (0, 1),
        on_error: str = "drop",
        max_retries: int = 2,
        random_state: RandomState = 0,
    ) -> None:
        row_model.require_model(type(self).__name__)
        super().__init__(
            arms, n_examples, examples=examples, missing=missing, cost=cost, batch_size=1 if batch_size is None else batch_size,
            example_order=example_order, tie_break=tie_break, score_range=score_range, on_error=on_error, max_retries=max_retries,
            random_state=random_state,
        )  # fmt: skip
        if batch_size is None:
            self.batch_size = self.ledger.width
        self.features = check_features(features, self.arms)
        self._has_features = features is not None
        self.max_cost = None if max_cost is None else check_float(max_cost, "max_cost", low=0.0)
        self.warmup = check_float(warmup, "warmup", low=0.0, high=1.0)
        # Two rows at least: one says nothing about how much arms differ. The slack undoes products such as 0.05 * 140.
        self.n_start = min(max(2, math.ceil(self.warmup * self.n_arms - 1e-9)), self.n_arms)
        self._start_order = self._generator.permutation(self.n_arms).astype(np.int64)
        self._seed = int(self._generator.integers(2**62))
        self._row_mean = np.full(self.n_arms, np.nan)  # of complete rows
        self._model: tuple[FloatArray, FloatArray] | None = None

    @abstractmethod
    def _rate(self, mean: FloatArray, std: FloatArray, best: float, cost: FloatArray) -> FloatArray:
        """Value of finishing a row at `cost` (raw units), for arms with these posterior means and standard deviations."""

    # -- the rows -------------------------------------------------------------------------------------------------

    @property
    def _complete(self) -> BoolArray:
        return (self.ledger.n_seen == self.ledger.n_cells) & (self.ledger.n_cells > 0)

    @property
    def _begun(self) -> BoolArray:
        """Rows that the policy has asked for, complete or not; without those that lost every cell to failures."""
        return ((self._true_cells > 0) | (self.ledger.n_pending > 0)) & (self.ledger.n_cells > 0)

    def _prices(self) -> FloatArray:
        return self.cost if self.cost is not None else np.array([self.price_of(k) for k in range(self.n_arms)])

    def _affordable(self, cost: FloatArray) -> BoolArray:
        if self.max_cost is None:
            return np.ones(self.n_arms, dtype=bool)
        return self.spent + self.ledger.reserved + cost <= self.max_cost * (1.0 + _ROUNDING)

    @property
    def out_of_budget(self) -> bool:
        """Whether rows are left and `max_cost` pays for none of them."""
        with self._lock:
            free = self.ledger.n_cells - self.ledger.n_seen - self.ledger.n_pending
            return bool((free > 0).any()) and not (self._affordable(free * self._prices()) & (free > 0)).any()

    @property
    def stop_reason(self) -> str | None:
        """Why the run ended: one of `STOP_REASONS`, or None while it goes on; "budget" where `max_cost` ended it."""
        reason = super().stop_reason
        return "budget" if reason == "exhausted" and self._ended is None and self.out_of_budget else reason

    def _refresh(self, arm: int) -> None:
        ledger = self.ledger
        complete = ledger.n_seen[arm] == ledger.n_cells[arm] > 0
        mean = float(ledger.total[arm]) / int(ledger.n_cells[arm]) if complete else math.nan
        if mean != self._row_mean[arm] and not (math.isnan(mean) and math.isnan(self._row_mean[arm])):
            self._row_mean[arm], self._model = mean, None

    def _refresh_pending(self, arm: int) -> None:
        """Nothing: the model knows complete rows, and `_choose` reads the ledger."""

    # -- the model ------------------------------------------------------------------------------------------------

    @property
    def _has_spread(self) -> bool:
        known = self._row_mean[~np.isnan(self._row_mean)]
        return len(known) >= 2 and float(known.max() - known.min()) > row_model.MIN_SPREAD

    def _posterior(self) -> tuple[FloatArray, FloatArray]:
        """Mean (K,) and covariance (K, K) of all rows; depends on the complete rows and the seed only, so it is never saved."""
        if self._model is None:
            rows = np.flatnonzero(~np.isnan(self._row_mean))
            self._model = row_model.fit_rows(self.features, rows, self._row_mean[rows], seed=self._seed)
        return self._model

    def _std_given_pending(self) -> FloatArray:
        """Standard deviations as if the pending rows had returned their posterior mean (which moves no mean)."""
        _, covariance = self._posterior()
        variance = np.diagonal(covariance).copy()
        pending = np.flatnonzero(self.ledger.n_pending > 0)
        if len(pending):
            cross = covariance[:, pending]
            inner = covariance[np.ix_(pending, pending)] + row_model.NOISE_VARIANCE * np.eye(len(pending))
            variance -= np.einsum("kp,pk->k", cross, np.linalg.solve(inner, cross.T))
        return np.sqrt(np.maximum(variance, 0.0))

    @property
    def best_observed(self) -> float:
        """Largest mean of a complete row, unit scale; NaN before there is one."""
        return math.nan if np.isnan(self._row_mean).all() else float(np.nanmax(self._row_mean))

    # -- the choice -----------------------------------------------------------------------------------------------

    def _choose(self) -> tuple[int, int] | None:
        ledger = self.ledger
        free = ledger.n_cells - ledger.n_seen - ledger.n_pending
        cost = free * self._prices()
        candidates = (free > 0) & self._affordable(cost)
        if not candidates.any():
            return None
        begun = self._begun
        if (candidates & begun).any():  # the rest of a row, or failed cells of it: the row is worth nothing without them
            arm = self._first(candidates & begun, self.tie_order)
        elif int((self._complete | begun).sum()) < self.n_start or not self._has_spread:
            arm = self._first(candidates, self._start_order)
        else:
            mean, _ = self._posterior()
            std = self._std_given_pending()
            values = self._rate(mean, std, self.best_observed, cost)
            top = float(values[candidates].max())
            if top == np.inf:  # free of charge: the one that promises most
                candidates &= values == np.inf
                values = log_improvement(mean, std, self.best_observed)
                top = float(values[candidates].max())
            slack = _TIE * max(1.0, abs(top)) if math.isfinite(top) else 0.0
            arm = self._first(candidates & (values >= top - slack), self.tie_order)
        return arm, min(self.batch_size, int(free[arm]))

    @staticmethod
    def _first(candidates: BoolArray, order: NDArray[np.int64]) -> int:
        return int(order[int(candidates[order].argmax())])

    # -- what users read ------------------------------------------------------------------------------------------

    @locked
    def recommend(self, rule: str | None = None) -> Recommendation:
        """The best observed complete row; before there is one, the best partly observed one (rule "mean"). Needs no model."""
        if rule is not None:
            check_choice(rule, "rule", self.rules)
        arm, value, applied = self._recommend(rule)
        score = self._scored(value)
        std = 0.0 if applied == "completed" else math.nan
        return Recommendation(self.arms[arm], score, std, score, int(self.ledger.n_seen[arm]), applied)

    def _recommend(self, rule: str | None) -> tuple[int, float, str]:
        known, applied = self._row_mean, "completed"
        if np.isnan(known).all():
            seen = self.ledger.n_seen
            known, applied = np.divide(self.ledger.total, seen, out=np.full(self.n_arms, np.nan), where=seen > 0), "mean"
        ranked = np.where(np.isnan(known), -np.inf, known)[self.tie_order]
        arm = int(self.tie_order[int(ranked.argmax())])
        return arm, float(known[arm]), applied

    def _remaining_cost(self) -> FloatArray:
        """Expected cost of what is not observed yet, pending cells included; raw units, shape (K,)."""
        return (self.ledger.n_cells - self.ledger.n_seen) * self._prices()

    def _columns(self) -> dict[str, Any]:
        mean, std, index = (np.full(self.n_arms, np.nan) for _ in range(3))
        if self._has_spread:
            mean, covariance = (part.copy() for part in self._posterior())
            std = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
            index = self._rate(mean, std, self.best_observed, self._remaining_cost())
        complete = self._complete
        mean[complete], std[complete] = self._row_mean[complete], 0.0
        index[complete] = self._index_of_known(self._row_mean[complete])
        return {"mean": mean, "std": std, "index": index, "complete": complete}

    @abstractmethod
    def _index_of_known(self, values: FloatArray) -> FloatArray:
        """Index of complete rows with these means, for `posterior`."""

    # -- save / load ----------------------------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        return {
            "features": self.features.tolist() if self._has_features else None, "max_cost": self.max_cost, "warmup": self.warmup,
        }  # fmt: skip

    def _own_state(self) -> dict[str, Any]:
        return {"start_order": self._start_order.tolist(), "seed": self._seed}

    def _restore_own(self, saved: dict[str, Any]) -> None:
        order = np.array(saved["start_order"], dtype=np.int64)
        if not np.array_equal(np.sort(order), np.arange(self.n_arms)):
            raise ValueError(f"start_order is not a permutation of the {self.n_arms} arms")
        self._start_order = order
        self._seed = check_int(saved["seed"], "seed", low=0, high=2**62)
        for k in range(self.n_arms):
            self._refresh(k)
