"""The cost-aware Gittins policy: evaluate the arm whose index (posterior mean minus root) is largest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lrgittins._random import RandomState
from lrgittins._validation import check_choice, check_float, check_int
from lrgittins.batch_schedule import batch_sizes
from lrgittins.errors import ParameterError

from . import inputs
from .base import BasePolicy
from .roots import RootTable

FloatArray = NDArray[np.float64]

# Named objects, so that an argument left at its default is told apart (by identity) from the same number passed by
# the caller: the defaults are on the unit scale, while a caller's prior is in score units and clashes with `prior=`.
_MEAN, _VARIANCE, _NOISE = float("0.5"), float("0.04"), float("0.25")
_PSEUDO_CELLS = 30.0  # weight of the nominal noise variance in the empirical-Bayes estimate
_MAX_HALVINGS = 20
RULES = ("lcb", "mean", "completed")


class GittinsPolicy(BasePolicy):
    """Bayesian-bandit Gittins indices for choosing which arm to evaluate next, and when to stop.

    Each arm's unknown full-row mean has a Gaussian prior and is learnt batch by batch at a price. The index of an
    unfinished arm is its posterior full-row mean M minus the root of its remaining chain; that of a completed arm is
    its row mean. The largest index is asked next; the first completed arm to hold the largest index gives the stop
    signal. Sampling may go on past it, and `recommend` works at any time.

    Parameters
    ----------
    arms : int or sequence of labels
    n_examples : int or one per arm
        Arm k has the first ``n_examples[k]`` examples.
    examples : sequence of ids, optional
    missing : ndarray of bool, shape (K, N), optional
        Cells that do not exist: never asked; the arm's row is what remains.
    cost : float, one per arm, mapping or Series by arm name, or None
        Raw price per example. None: prices are learnt from the costs told (a running mean, taken over into the plan
        each time the number of cells told doubles; until a cost is known an example counts as price 1, and an arm
        not yet tried is planned at the mean of the others).
    prior : (mean, variance), "general" or "empirical-bayes", optional
        "general" is N(0.5, 0.04) on the unit scale. "empirical-bayes" keeps that mean and variance and learns the
        noise variance, ``(30 t + pooled within-arm sum of squares) / (30 + cells - arms seen)``, t the nominal one;
        re-estimated each time the number of observed cells doubles (2, 4, 8, ...). Excludes prior_mean and prior_variance.
    prior_mean, prior_variance, noise_variance : float or one per arm
        In score units (and score units squared) where given; the defaults 0.5, 0.04 and 0.25 are on the unit scale.
    batch_size : int
    cost_scale : float
        lambda: unit-scale score given up per unit of cost.
    cost_unit : {"mean", "raw"}
        "mean" divides prices by their unweighted mean over arms before lambda applies; `spent` stays raw.
    target : {"empirical", "latent"}
        The mean over the arm's N examples, or the latent mean behind them.
    batch_schedule : {"ramp", "constant"} or ndarray
        "ramp" is 1, 1, 1, 1, 2, 2, 4, then `batch_size`; an array sums to N.
    example_order : {"common", "per-arm"} or ndarray of shape (N,) or (K, N)
        "common": one random order for all arms, a paired comparison. Arms are then dependent and the theorem behind
        the index no longer holds literally; it regrets less on real matrices. "per-arm" is the paper's.
    tie_break : {"random", "order"}
        Ties go to the lowest place in a seeded permutation of the arms, or in their own order.
    recommendation : {"lcb", "mean", "completed"}
        Default rule of `recommend`: largest M - sqrt(V) over all arms, largest M, or the best completed arm (while
        none is complete "lcb" applies, and the result's `rule` says so).
    roots : str
        `method` of `root_schedule`.
    score_range : (float, float)
        Lowest and highest possible score; scores are handled on the unit scale inside.
    on_error : {"drop", "raise"}
        Failed evaluations: charged, not counted and retried, or refused with an error.
    max_retries : int
    anneal : bool
        After the stop signal, halve lambda (down to 2^-20 of it) while no other unfinished arm's index exceeds the
        recommended arm's mean, so that further budget keeps being used for exploration.
    random_state : int, Generator, SeedSequence or None

    References
    ----------
    .. [1] "Efficient Cost-Aware LLM Evaluation via Bayesian Bandit Gittins Indices", arXiv 2609.25645.
    """

    rules: ClassVar[tuple[str, ...]] = RULES

    def __init__(
        self,
        arms: Any,
        n_examples: Any,
        *,
        examples: Any = None,
        missing: Any = None,
        cost: Any = 1.0,
        prior: Any = None,
        prior_mean: Any = _MEAN,
        prior_variance: Any = _VARIANCE,
        noise_variance: Any = _NOISE,
        batch_size: int = 8,
        cost_scale: float = 1e-4,
        cost_unit: str = "mean",
        target: str = "empirical",
        batch_schedule: Any = "ramp",
        example_order: Any = "common",
        tie_break: str = "random",
        recommendation: str = "lcb",
        roots: str = "auto",
        score_range: Any = (0, 1),
        on_error: str = "drop",
        max_retries: int = 2,
        anneal: bool = False,
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(
            arms, n_examples, examples=examples, missing=missing, cost=cost, batch_size=batch_size, example_order=example_order,
            tie_break=tie_break, score_range=score_range, on_error=on_error, max_retries=max_retries, random_state=random_state,
        )  # fmt: skip
        self.cost_scale = check_float(cost_scale, "cost_scale", low=0.0)
        self.cost_unit = check_choice(cost_unit, "cost_unit", ("mean", "raw"))
        self.target = check_choice(target, "target", ("empirical", "latent"))
        self.recommendation = check_choice(recommendation, "recommendation", RULES)
        self.roots = check_choice(roots, "roots", ("auto", "panel", "banded", "fft", "paper"))
        if not isinstance(anneal, (bool, np.bool_)):
            raise ParameterError(f"anneal must be True or False, got {anneal!r}")
        self.anneal = bool(anneal)
        sizes = batch_sizes(self.ledger.width, self.batch_size, batch_schedule)
        self.batch_schedule = batch_schedule if isinstance(batch_schedule, str) else sizes
        self._set_prior(prior, prior_mean, prior_variance, noise_variance)
        self._planned_cost = np.ones(self.n_arms) if self.cost is None else self.cost
        self._halvings = 0
        self._stopped_at: int | None = None
        self._stopped_spent = math.nan
        self._next_noise = 2  # cells at which the noise is next estimated
        self._next_prices = 1  # cells told at which learnt prices are next taken over
        self._allocate()
        self._rebuild()

    @classmethod
    def paper(cls, arms: Any, n_examples: Any, *, variant: str = "G", prior: Any = None, **options: Any) -> GittinsPolicy:
        """Every switch at the paper's reading: raw cost unit, constant batches, an order per arm, empirical target, grid roots.

        Parameters
        ----------
        variant : {"G", "S"}
            "G" is the general prior N(0.5, 0.04); "S" needs the shared ``prior=(mean, variance)``.
        **options
            What does not contradict the reading: cost, examples, missing, batch_size, cost_scale, noise_variance, ...
        """
        check_choice(variant, "variant", ("G", "S"))
        if variant == "S" and (prior is None or isinstance(prior, str)):
            raise ParameterError("variant='S' takes the shared prior of a data set: give prior=(mean, variance)")
        if variant == "G" and prior is not None:
            raise ParameterError("variant='G' is the general prior N(0.5, 0.04); use variant='S' for a prior of your own")
        switches: dict[str, Any] = {
            "cost_unit": "raw", "target": "empirical", "batch_schedule": "constant", "example_order": "per-arm", "roots": "paper",
            "anneal": False,
        }  # fmt: skip
        clash = sorted((set(switches) | {"prior_mean", "prior_variance"}) & set(options))
        if clash:
            raise ParameterError(f"paper() fixes {', '.join(clash)}; use GittinsPolicy(...) to choose them")
        return cls(arms, n_examples, prior="general" if prior is None else prior, **switches, **options)

    # -- set-up -----------------------------------------------------------------------------------------------------

    def _set_prior(self, prior: Any, prior_mean: Any, prior_variance: Any, noise_variance: Any) -> None:
        low, high = self.score_range
        width = high - low
        given = {
            "prior_mean": prior_mean is not _MEAN,
            "prior_variance": prior_variance is not _VARIANCE,
            "noise_variance": noise_variance is not _NOISE,
        }
        self.prior = prior if isinstance(prior, str) else None
        if prior is not None:
            clash = [name for name in ("prior_mean", "prior_variance") if given[name]]
            if clash:
                raise ParameterError(f"prior={prior!r} and {' and '.join(clash)} say the same thing twice; give one of them")
            if isinstance(prior, str):
                check_choice(prior, "prior", ("general", "empirical-bayes"))
            else:
                try:
                    prior_mean, prior_variance = prior
                except (TypeError, ValueError):
                    raise ParameterError(f"prior must be (mean, variance), 'general' or 'empirical-bayes', got {prior!r}") from None
                given["prior_mean"] = given["prior_variance"] = True
        mean = inputs.check_by_arm(prior_mean, "prior_mean", self.arms)
        variance = inputs.check_by_arm(prior_variance, "prior_variance", self.arms, low=0.0)
        noise = inputs.check_by_arm(noise_variance, "noise_variance", self.arms, low=0.0, low_open=True)
        values = {"prior_mean": mean, "prior_variance": variance, "noise_variance": noise}
        self._given = {name: array.tolist() for name, array in values.items() if given[name]}
        self.prior_mean: FloatArray = (mean - low) / width if given["prior_mean"] else mean
        self.prior_variance: FloatArray = variance / width**2 if given["prior_variance"] else variance
        self.noise_variance: FloatArray = noise / width**2 if given["noise_variance"] else noise
        if self.prior == "empirical-bayes" and len(np.unique(self.noise_variance)) > 1:
            raise ParameterError("prior='empirical-bayes' learns one noise variance for all arms; noise_variance must then be a scalar")
        self._nominal_noise = self.noise_variance.copy()

    def _allocate(self) -> None:
        shape = self.n_arms
        self._mean, self._variance, self._index = np.empty(shape), np.empty(shape), np.empty(shape)
        self._is_complete = np.zeros(shape, dtype=bool)
        self._n_complete = 0
        self._set_tie_order(self.tie_order)

    def _set_tie_order(self, tie_order: NDArray[np.int64]) -> None:
        """By place in the tie order, so that argmax, which takes the first of equals, breaks ties as promised."""
        super()._set_tie_order(tie_order)
        self._place = np.argsort(tie_order).tolist()
        self._ask_by_place, self._lcb_by_place, self._mean_by_place, self._done_by_place = (np.full(self.n_arms, -np.inf) for _ in range(4))

    @property
    def unit_cost(self) -> FloatArray:
        """Planned price per example in the policy's cost unit, shape (K,)."""
        mean = float(self._planned_cost.mean())
        return self._planned_cost / mean if self.cost_unit == "mean" and mean > 0.0 else self._planned_cost

    def _rebuild(self) -> None:
        """New root schedules (and with them every index) after prices, noise or lambda changed."""
        self.root_table = RootTable(
            self.ledger.n_cells, self.unit_cost, self.prior_variance, self.noise_variance, batch_size=self.batch_size,
            batch_schedule=self.batch_schedule, cost_scale=math.ldexp(self.cost_scale, -self._halvings), target=self.target,
            method=self.roots,
        )  # fmt: skip
        for k in range(self.n_arms):
            self._refresh(k)

    # -- one arm ----------------------------------------------------------------------------------------------------

    def _refresh(self, arm: int) -> None:
        ledger = self.ledger
        n, seen = int(ledger.n_cells[arm]), int(ledger.n_seen[arm])
        v0, t = float(self.prior_variance[arm]), float(self.noise_variance[arm])
        total = float(ledger.total[arm])
        mean = (float(self.prior_mean[arm]) * t + v0 * total) / (t + v0 * seen)
        variance = v0 / (1.0 + v0 * seen / t)
        if self.target == "empirical" and n > 0:
            left = n - seen
            mean = (total + left * mean) / n
            variance = (left * left * variance + left * t) / (n * n)
        complete = 0 < n == seen
        place = self._place[arm]
        self.root_table.resize(arm, n)
        # An arm whose every cell was given up has nothing to ask and nothing to recommend.
        index = mean if complete else mean - self.root_table.root(arm, seen) if n else -math.inf
        self._n_complete += int(complete) - int(self._is_complete[arm])
        self._is_complete[arm] = complete
        self._mean[arm], self._variance[arm], self._index[arm] = mean, variance, index
        self._lcb_by_place[place] = mean - math.sqrt(variance) if n else -math.inf
        self._mean_by_place[place] = mean if n else -math.inf
        self._done_by_place[place] = mean if complete else -math.inf
        self._refresh_pending(arm)

    def _refresh_pending(self, arm: int) -> None:
        """The index that asks: pending batches count as returned at their posterior mean (same M, later stage)."""
        ledger = self.ledger
        pending = int(ledger.n_pending[arm])
        after = int(ledger.n_seen[arm]) + pending
        if after >= ledger.n_cells[arm]:
            ask = -math.inf
        elif pending == 0:
            ask = float(self._index[arm])
        else:
            ask = float(self._mean[arm]) - self.root_table.root(arm, after)
        self._ask_by_place[self._place[arm]] = ask

    # -- decisions --------------------------------------------------------------------------------------------------

    def _choose(self) -> tuple[int, int] | None:
        place = int(self._ask_by_place.argmax())
        if self._ask_by_place[place] == -np.inf:
            return None
        arm = int(self.tie_order[place])
        return arm, self.root_table.size_after(arm, int(self.ledger.n_seen[arm] + self.ledger.n_pending[arm]))

    def _before_ask(self) -> None:
        if not self.anneal or self._stopped_at is None:
            return
        while self._halvings < _MAX_HALVINGS and self._ask_by_place.max() > -np.inf:
            best = self._recommend(None)[0]
            rivals = np.where(self._is_complete, -np.inf, self._index)
            rivals[best] = -np.inf
            if rivals.max() > self._mean[best] or rivals.max() == -np.inf:
                return
            self._halvings += 1
            self._rebuild()

    def _recommend(self, rule: str | None) -> tuple[int, float, str]:
        applied = rule or self.recommendation
        if applied == "completed" and self._n_complete == 0:
            applied = "lcb"
        values = {"lcb": self._lcb_by_place, "mean": self._mean_by_place, "completed": self._done_by_place}[applied]
        place = int(values.argmax())
        return int(self.tie_order[place]), float(values[place]), applied

    def _after_data(self, arm: int) -> None:
        if self.prior == "empirical-bayes" and int(self.ledger.n_seen.sum()) >= self._next_noise:
            self._learn_noise()
        if self.cost is None and int(self._true_cells.sum()) >= self._next_prices:
            self._next_prices = 2 * int(self._true_cells.sum())
            self._planned_cost = np.array([self.price_of(k) for k in range(self.n_arms)])
            self._rebuild()
        if self._stopped_at is None and self.stop_signal:
            self._stopped_at, self._stopped_spent = self.n_told, self.ledger.spent

    def _learn_noise(self) -> None:
        seen = self.ledger.n_seen
        cells = int(seen.sum())
        arms = np.flatnonzero(seen)
        squares = 0.0  # within arms, added in arm order
        for k in arms.tolist():
            row = self.ledger.scores_of(k)
            squares += max(float(np.add.accumulate(row * row)[-1]) - float(self.ledger.total[k]) ** 2 / int(seen[k]), 0.0)
        noise = (_PSEUDO_CELLS * float(self._nominal_noise[0]) + squares) / (_PSEUDO_CELLS + cells - len(arms))
        self.noise_variance = np.full(self.n_arms, noise)
        self._next_noise = 2 * cells
        self._rebuild()

    @property
    def stop_signal(self) -> bool:
        """Whether a completed arm holds the largest index now (ties count)."""
        with self._lock:
            if self._n_complete == 0:
                return False
            unfinished = self._index[~self._is_complete]
            return bool(unfinished.size == 0 or self._done_by_place.max() >= unfinished.max())

    @property
    def should_stop(self) -> bool:
        """Whether the stop signal has ever been given (`stopped_at` says when)."""
        return self._stopped_at is not None

    @property
    def stopped_at(self) -> int | None:
        """Number of batches told when the stop signal was first given, None before."""
        return self._stopped_at

    @property
    def stopped_spent(self) -> float:
        """`spent` when the stop signal was first given, NaN before."""
        return self._stopped_spent

    def _columns(self) -> dict[str, Any]:
        return {
            "mean": self._mean.copy(),
            "std": np.sqrt(self._variance),
            "index": self._index.copy(),
            "complete": self._is_complete.copy(),
        }

    def _notes(self) -> list[str]:
        whole_row = math.ldexp(self.cost_scale, -self._halvings) * self.unit_cost * self.ledger.n_cells
        notes = []
        for k in range(self.n_arms):
            if self.ledger.n_cells[k] == 0:
                notes.append("every cell failed; cannot be recommended")
            elif self.ledger.n_seen[k] == 0 and whole_row[k] > 1.0:
                notes.append(f"never worth sampling: its whole row costs lambda N p = {whole_row[k]:.3g}, more than any possible gain (1)")
            else:
                notes.append("")
        return notes

    # -- save / load ------------------------------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        schedule = self.batch_schedule
        return {
            **self._given, "prior": self.prior, "cost_scale": self.cost_scale, "cost_unit": self.cost_unit, "target": self.target,
            "batch_schedule": schedule if isinstance(schedule, str) else schedule.tolist(), "recommendation": self.recommendation,
            "roots": self.roots, "anneal": self.anneal,
        }  # fmt: skip

    def _prior_fingerprint(self) -> bytes:
        return b"".join([self.prior_mean.tobytes(), self.prior_variance.tobytes(), self._nominal_noise.tobytes(), str(self.prior).encode()])

    def _own_state(self) -> dict[str, Any]:
        return {
            "halvings": self._halvings, "stopped_at": self._stopped_at,
            "stopped_spent": None if self._stopped_at is None else self._stopped_spent,
            "next_noise": self._next_noise, "next_prices": self._next_prices, "noise_variance": self.noise_variance.tolist(),
            "planned_cost": self._planned_cost.tolist(),
        }  # fmt: skip

    def _restore_own(self, saved: Mapping[str, Any]) -> None:
        self._halvings = check_int(saved["halvings"], "halvings", low=0, high=_MAX_HALVINGS)
        self._stopped_at = None if saved["stopped_at"] is None else check_int(saved["stopped_at"], "stopped_at", low=0)
        self._stopped_spent = math.nan if self._stopped_at is None else check_float(saved["stopped_spent"], "stopped_spent", low=0.0)
        self._next_noise = check_int(saved["next_noise"], "next_noise", low=1)
        self._next_prices = check_int(saved["next_prices"], "next_prices", low=1)
        self.noise_variance = inputs.check_by_arm(saved["noise_variance"], "noise_variance", self.arms, low=0.0, low_open=True)
        self._planned_cost = inputs.check_by_arm(saved["planned_cost"], "planned_cost", self.arms, low=0.0)
        self._rebuild()
