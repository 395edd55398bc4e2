"""UCB-E-LRF: upper confidence bounds from an ensemble of rank-1 factorisations, cost-blind."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from lrgittins._kernels.als import fit_ensemble, impute_rows
from lrgittins._kernels.cells import UNSEEN, index_cells
from lrgittins._random import RandomState
from lrgittins._validation import check_choice, check_float, check_int
from lrgittins.errors import ParameterError

from .cell_plan import CellPlan
from .ledger import FloatArray, IntArray
from .matrix_policy import MatrixPolicy, ordered

# Masks are drawn for this many cells at a time: the uniforms behind them stay in the cache (and never fill memory).
_CHUNK = 1 << 10
# Streams of the policy's random numbers.
_WARMUP, _FIT = 0, 1


class LowRankUCBE(MatrixPolicy):
    """UCB-E with low-rank factorisation: unseen cells are imputed, and uncertain where the members of an ensemble differ.

    After a warm-up of uniformly random cells every step fits `ensemble` rank-1 factorisations to all observed cells, each
    without a random 5 % of them. A cell is worth its score where it was observed, and the mean plus `bonus` standard
    deviations (divisor ``ensemble - 1``) over the members elsewhere, not clipped. The arm with the largest row mean is asked for
    its `batch_size` unseen examples with the largest standard deviation; an arm without any data comes first.

    Ignores prices when it chooses (they are charged and reported) and has no stop signal. Pending cells count as
    returned at their imputed mean. In `posterior`, `mean` is the imputed row mean (during the warm-up the observed mean),
    `index` the row mean with the bonus (NaN during the warm-up, inf for an arm without data, -inf for a complete one) and
    `std` is NaN: the ensemble's spread is no posterior.

    Parameters
    ----------
    arms, n_examples, examples, missing, cost, tie_break, score_range, on_error, max_retries, random_state
        As for `GittinsPolicy`.
    batch_size : int
    warmup : float
        Fraction of all cells, in [0, 1], that is evaluated at random first. Attached results count.
    ensemble : int
        Number of factorisations, at least 2.
    drop : float
        Chance of each observed cell to be hidden from a member, in [0, 1).
    ridge : float
        Weight of the squared factors in the least-squares objective, above 0.
    iterations : int
        Alternations, of the example factor and then the arm factor.
    bonus : float
        Standard deviations added to unseen cells.
    recommend : {"imputed", "empirical"}
        Rule of `recommend()`: largest imputed row mean, or largest observed mean (the paper's use). During the warm-up, when
        there is no fit, it is the observed mean in either case.
    example_order : "common" or ndarray, shape (N,)
        Decides ties between examples.

    Notes
    -----
    A fit depends on the seed and on the observed cells alone: reading a recommendation or saving in between changes nothing.
    One step takes O(iterations x ensemble x observed cells + arms x examples x ensemble) time. Equal scores in another scale
    give other choices: `score_range` is mapped to [0, 1] first.

    References
    ----------
    .. [1] Zhou et al. (2025), UCB-E-LRF in the package banditeval.
    """

    rules: ClassVar[tuple[str, ...]] = ("imputed", "empirical")

    def __init__(
        self,
        arms: Any,
        n_examples: Any,
        *,
        examples: Any = None,
        missing: Any = None,
        cost: Any = 1.0,
        batch_size: int = 32,
        warmup: float = 0.05,
        ensemble: int = 64,
        drop: float = 0.05,
        ridge: float = 0.1,
        iterations: int = 10,
        bonus: float = 5.0,
        recommend: str = "imputed",
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
        self.warmup = check_float(warmup, "warmup", low=0.0, high=1.0)
        self.ensemble = check_int(ensemble, "ensemble", low=2)
        self.drop = check_float(drop, "drop", low=0.0)
        if self.drop >= 1.0:
            raise ParameterError(f"drop must be below 1 (a fraction; 0.05 hides 5 % of the cells from each member), got {drop!r}")
        self.ridge = check_float(ridge, "ridge", low=0.0, low_open=True)
        self.iterations = check_int(iterations, "iterations", low=1)
        self.bonus = check_float(bonus, "bonus", low=0.0)
        self.default_rule = check_choice(recommend, "recommend", self.rules)
        # Up to rounding: 5 % of 122,000 cells are 6,100, not one more.
        self.n_warmup = math.ceil(self.warmup * int(self.ledger.n_cells.sum()) * (1.0 - 1e-12))
        self._entropy = int(self._generator.integers(2**63))
        self._reset()

    def _reset(self) -> None:
        """The warm-up plan of the seed, and no fit yet."""
        stream = self._stream(_WARMUP)
        if self._missing is None:
            cells = stream.choice(self.n_arms * self.ledger.width, size=self.n_warmup, replace=False)
        else:
            cells = stream.choice(np.flatnonzero(~self._missing[:, self.ledger.order]), size=self.n_warmup, replace=False)
        arms, positions = np.divmod(cells, self.ledger.width)
        self._plan = CellPlan(arms.astype(np.int64), positions.astype(np.int64), self.n_arms)
        self._fitted_to = -1  # number of observed cells behind the fit
        self._row_factor = self._by_member = np.empty((0, 0))
        self._stale: set[int] = set()
        self._imputed, self._upper = np.full(self.n_arms, np.nan), np.full(self.n_arms, np.nan)

    def _stream(self, *key: int) -> np.random.Generator:
        """Random numbers of one purpose: a function of the seed and the key, never of what was drawn before."""
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=key))

    # -- the model --------------------------------------------------------------------------------------------------

    @property
    def warming_up(self) -> bool:
        """Whether the next batches are warm-up: fewer cells observed than planned, and some still to come."""
        return int(self.ledger.n_seen.sum()) < self.n_warmup and not self._plan.settled

    def _draw_ensemble(self, n_seen: int) -> tuple[FloatArray, np.ndarray]:
        """Starting arm factors (K, M) and the mask of kept cells (n, M) of the fit to `n_seen` cells.

        The example factors are fitted first and overwritten at once, so they need no start.
        """
        stream = self._stream(_FIT, n_seen)
        start = stream.standard_normal((self.n_arms, self.ensemble))
        keep = np.empty((n_seen, self.ensemble), dtype=bool)
        for at in range(0, n_seen, _CHUNK):
            block = keep[at : at + _CHUNK]
            np.greater_equal(stream.random(block.shape, dtype=np.float32), np.float32(self.drop), out=block)
        return start, keep.view(np.uint8)

    def _update(self) -> None:
        """Bring the fit and the row means up to date with what was observed."""
        n_seen = int(self.ledger.n_seen.sum())
        if n_seen != self._fitted_to:
            n_arms, width = self._kind.shape
            row_start, column_start = np.empty(n_arms + 1, dtype=np.int64), np.empty(width + 1, dtype=np.int64)
            lists, values = np.empty((3, n_seen), dtype=np.int64), np.empty(n_seen)
            index_cells(self._kind, self._scores, row_start, column_start, lists, values)
            self._row_factor, keep = self._draw_ensemble(n_seen)
            columns = np.empty((width, self.ensemble))
            fit_ensemble(row_start, column_start, lists, values, keep, self.ridge, self.iterations, self._row_factor, columns)
            self._by_member = np.ascontiguousarray(columns.T)
            self._fitted_to = n_seen
            self._impute(np.arange(n_arms))
        elif self._stale:
            self._impute(np.array(sorted(self._stale), dtype=np.int64))
        self._stale.clear()

    def _impute(self, rows: IntArray) -> FloatArray:
        """Row means of some arms; returns the standard deviations of the last one's cells."""
        std = np.empty(self.ledger.width)
        factors = (self._row_factor, self._by_member)
        impute_rows(rows, self._kind, self._scores, *factors, self.bonus, self._imputed, self._upper, std)
        return std

    # -- the policy -------------------------------------------------------------------------------------------------

    def _refresh(self, arm: int) -> None:
        self._read(arm)
        self._plan.refresh(arm, self.ledger.state_of(arm))
        self._stale.add(arm)

    def _n_free(self) -> IntArray:
        return self.ledger.n_cells - self.ledger.n_seen - self.ledger.n_pending

    def _choose(self) -> tuple[int, int] | None:
        if self.warming_up:
            arm = self._plan.next_arm()
            left = self.n_warmup - int(self.ledger.n_seen.sum() + self.ledger.n_pending.sum())
            return None if arm is None or left <= 0 else (arm, min(self.batch_size, left))
        free = self._n_free() > 0
        if not free.any():
            return None
        self._update()
        value = np.where((self.ledger.n_seen == 0) & (self.ledger.n_pending == 0), np.inf, self._upper)
        arm = self._first_largest(np.where(free, value, -np.inf))
        assert arm is not None, "an arm with a free cell has a finite row mean"
        return arm, self.batch_size

    def _pick_cells(self, arm: int, size: int) -> IntArray:
        if self.warming_up:
            return self._plan.cells(arm, self.ledger.state_of(arm), size)
        std = self._impute(np.array([arm], dtype=np.int64))
        free = np.flatnonzero(self._kind[arm] == UNSEEN)
        return np.sort(free[np.argsort(-ordered(std[free]), kind="stable")[:size]])

    def _recommend(self, rule: str | None) -> tuple[int, float, str]:
        applied = self.default_rule if rule is None else rule
        if self.warming_up:
            applied = "empirical"
        if applied == "imputed":
            self._update()
        values = self._imputed if applied == "imputed" else self._means()
        arm = self._first_largest(values)
        return (int(self.tie_order[0]), math.nan, applied) if arm is None else (arm, float(values[arm]), applied)

    def _columns(self) -> dict[str, Any]:
        if self.warming_up:
            mean, index = self._means(), np.full(self.n_arms, np.nan)
        else:
            self._update()
            mean, index = self._imputed.copy(), np.where(self.ledger.n_seen == 0, np.inf, self._upper)
        index[self.ledger.n_seen == self.ledger.n_cells] = -np.inf
        return {"mean": mean, "std": np.full(self.n_arms, np.nan), "index": index, "complete": self._complete()}

    def _options(self) -> dict[str, Any]:
        return {
            "warmup": self.warmup, "ensemble": self.ensemble, "drop": self.drop, "ridge": self.ridge, "iterations": self.iterations,
            "bonus": self.bonus, "recommend": self.default_rule,
        }  # fmt: skip

    def _own_state(self) -> dict[str, Any]:
        return {"entropy": self._entropy}

    def _restore_own(self, saved: dict[str, Any]) -> None:
        self._entropy = check_int(saved["entropy"], "entropy", low=0)
        self._reset()
        for k in range(self.n_arms):
            if self.ledger.touched(k):
                self._refresh(k)
