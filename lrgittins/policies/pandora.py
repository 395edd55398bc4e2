"""PBGI: the Pandora's-box Gittins index of whole rows under a Gaussian process."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrgittins._kernels.normal import inverse_expected_improvement
from lrgittins._random import RandomState
from lrgittins._validation import check_choice, check_float, check_int

from .bayes_opt import BayesOptPolicy

FloatArray = NDArray[np.float64]

COST_UNITS = ("mean", "raw")


def pandora_index(mean: FloatArray, std: FloatArray, cost: FloatArray) -> FloatArray:
    """The g with ``E[max(0, f - g)] = cost`` for f ~ N(mean, std^2), per arm: +inf at cost 0, mean - cost at std 0."""
    return np.array(
        [
            center - inverse_expected_improvement(price, spread)
            for center, spread, price in zip(mean.tolist(), std.tolist(), cost.tolist(), strict=True)
        ]
    )


class PandoraGittins(BayesOptPolicy):
    """PBGI: evaluates whole rows, the one with the largest index first, and stops when the best row seen beats every index.

    Arms are boxes whose value (the row mean) is learnt by paying for the whole row. The index of an arm is the g at
    which the expected improvement over g is worth exactly the row's cost: ``EI(g) = cost_scale * cost``. Values are
    predicted by a Gaussian process over the arms' categorical features (BoTorch's `MixedSingleTaskGP`), refitted after
    every row. Ignores the scores inside a row until the row is complete; the model knows nothing of examples.

    Needs the extra ``bo``: ``pip install "lrgittins[bo]"``.

    Parameters
    ----------
    arms, n_examples, examples, missing, cost, example_order, tie_break, score_range, on_error, max_retries, random_state
        As for `GittinsPolicy`. Arms whose indices agree to 1e-9 are taken in the tie order.
    features : DataFrame, mapping or sequence, optional
        Categorical features of every arm, such as model family and prompt style: a pandas DataFrame or a mapping is
        joined by arm, a sequence has one row per arm. Only equality counts, for numbers too. Where two arms agree in all
        features, the name of the arm is added as one more. Without features an arm is known by its name alone: all
        unseen arms then have one mean and one standard deviation, and differ in their cost only.
    max_cost : float, optional
        Budget in raw units: a row whose expected cost exceeds what is left (pending pulls reserved) is not asked, so
        that the budget is never overshot by a started row. None: no limit. The names in `replay` and `compare` set it to
        their budget; factories and live runs give it here.
    warmup : float
        Share of the arms whose rows are evaluated first, in random order: 5 % rounded up, at least 2 (one row says
        nothing about how much arms differ). Complete rows from `attach` count. The random order goes on while all known rows
        have one and the same mean, and, with several pulls pending, until the first rows are back.
    batch_size : int, optional
        Largest pull; by default a row is one pull. A row that has been begun is finished before another one is.
    cost_scale : float
        lambda, score (unit scale) per unit of cost.
    cost_unit : {"mean", "raw"}
        Whether prices are divided by their mean over arms before lambda applies.

    Attributes
    ----------
    should_stop : bool
        Whether the stop signal has been given: after the random start, the largest index of all unfinished arms
        (affordable or not) is below the best observed row mean; or every row is complete. It is looked for when it is read and when
        `ask` is called, and stays.

    Notes
    -----
    Pending rows count as returned at their posterior mean: they lower the uncertainty of arms like them. In
    `posterior`, `index` is g, and the row mean for a complete row. A price of 0 gives an infinite index; among free arms
    the one with the largest expected improvement over the best observed row comes first.

    The model is refitted from scratch from the complete rows, in arm order, with a seed drawn once from `random_state`:
    the order of tells, a save and a load leave no trace in it. O(n^3) in complete rows and O(K^2) memory in arms.

    References
    ----------
    .. [1] Xie et al. (2024), Cost-aware Bayesian optimization via the Pandora's box Gittins index, arXiv 2406.20062.
    .. [2] Weitzman (1979), Optimal search for the best alternative.
    """

    def __init__(
        self,
        arms: Any,
        n_examples: Any,
        *,
        features: Any = None,
        max_cost: float | None = None,
        warmup: float = 0.05,
        cost_scale: float = 1e-4,
        cost_unit: str = "mean",
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
        super().__init__(
            arms, n_examples, features=features, max_cost=max_cost, warmup=warmup, examples=examples, missing=missing, cost=cost,
            batch_size=batch_size, example_order=example_order, tie_break=tie_break, score_range=score_range, on_error=on_error,
            max_retries=max_retries, random_state=random_state,
        )  # fmt: skip
        self.cost_scale = check_float(cost_scale, "cost_scale", low=0.0)
        self.cost_unit = check_choice(cost_unit, "cost_unit", COST_UNITS)
        self._stopped_at: int | None = None
        self._stopped_spent = math.nan

    @property
    def _planned_cost(self) -> FloatArray:
        return self._prices()

    def _rate(self, mean: FloatArray, std: FloatArray, best: float, cost: FloatArray) -> FloatArray:
        unit = float(self._prices().mean()) if self.cost_unit == "mean" else 1.0
        return pandora_index(mean, std, self.cost_scale * cost / (unit or 1.0))  # all-zero prices are not divided by their mean

    def _index_of_known(self, values: FloatArray) -> FloatArray:
        return values

    # -- the stop signal ------------------------------------------------------------------------------------------

    @property
    def stop_signal(self) -> bool:
        """Whether the best observed row beats the index of every unfinished arm now; observed scores only."""
        with self._lock:
            complete, unfinished = self._complete, self.ledger.n_seen < self.ledger.n_cells
            if not complete.any() or not unfinished.any():
                return bool(complete.any())
            if int(complete.sum()) < self.n_start or not self._has_spread:
                return False
            return bool(self._columns()["index"][unfinished].max() < self.best_observed)

    def _look_for_signal(self) -> None:
        if self._stopped_at is None and self.stop_signal:
            self._stopped_at, self._stopped_spent = self.n_told, self.ledger.spent

    def _before_ask(self) -> None:
        self._look_for_signal()

    @property
    def should_stop(self) -> bool:
        """Whether the stop signal has ever been given (`stopped_at` says when)."""
        with self._lock:
            self._look_for_signal()
            return self._stopped_at is not None

    @property
    def stopped_at(self) -> int | None:
        """Number of batches told when the stop signal was first seen, None before."""
        return self._stopped_at if self.should_stop else None

    @property
    def stopped_spent(self) -> float:
        """`spent` when the stop signal was first seen, NaN before."""
        return self._stopped_spent if self.should_stop else math.nan

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "cost_scale": self.cost_scale, "cost_unit": self.cost_unit}

    def _own_state(self) -> dict[str, Any]:
        stopped = self._stopped_at is not None
        return {**super()._own_state(), "stopped_at": self._stopped_at, "stopped_spent": self._stopped_spent if stopped else None}

    def _restore_own(self, saved: dict[str, Any]) -> None:
        super()._restore_own(saved)
        self._stopped_at = None if saved["stopped_at"] is None else check_int(saved["stopped_at"], "stopped_at", low=0)
        self._stopped_spent = math.nan if self._stopped_at is None else check_float(saved["stopped_spent"], "stopped_spent", low=0.0)
