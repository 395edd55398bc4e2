"""What a policy is made of: its checked set-up, the ledger of its cells, its lock, and the places that a policy fills in."""

from __future__ import annotations

import functools
import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from lrgittins._random import RandomState, as_generator
from lrgittins._validation import check_choice, check_int
from lrgittins.errors import ResponseError

from . import inputs
from .ledger import CellLedger, FloatArray, IntArray
from .protocol import Pull

F = TypeVar("F", bound=Callable[..., Any])


def locked(method: F) -> F:
    """Run a method under the policy's one lock (re-entrant)."""

    @functools.wraps(method)
    def guarded(self: PolicyCore, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(F, guarded)


class PolicyCore(ABC):
    """Arms, examples, prices, orders, the ledger and the lock, and the places a policy fills in: its choice and its recommendation.

    Subclasses fill `_choose`, `_refresh`, `_recommend` and `_columns`, and may hook `_before_ask` and `_after_data`.
    Arms and example positions are codes inside; labels and score units are translated at this boundary only.
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
        example_order: Any = "common",
        tie_break: str = "random",
        score_range: Any = (0.0, 1.0),
        on_error: str = "drop",
        max_retries: int = 2,
        random_state: RandomState = 0,
    ) -> None:
        self._lock = threading.RLock()
        self.arms = inputs.check_arms(arms)
        self.n_arms = len(self.arms)
        self.n_examples, self.examples = inputs.check_examples(n_examples, examples, self.arms)
        self.cost: FloatArray | None = None if cost is None else inputs.check_costs(cost, self.arms)
        self.batch_size = check_int(batch_size, "batch_size", low=1)
        self.score_range = inputs.check_score_range(score_range)
        self.on_error = check_choice(on_error, "on_error", ("drop", "raise"))
        self.max_retries = check_int(max_retries, "max_retries", low=0)
        self.tie_break = check_choice(tie_break, "tie_break", ("random", "order"))
        self.random_state = random_state
        self._missing = inputs.check_missing(missing, self.n_examples, self.arms)
        self._generator = as_generator(random_state)
        width = int(self.n_examples.max())
        self.example_order, order = inputs.check_order(example_order, self.n_arms, width, self._generator)
        # Drawn even where the order decides, so that switching tie_break changes nothing else that is drawn later.
        permutation = self._generator.permutation(self.n_arms)
        self.tie_order: IntArray = (permutation if self.tie_break == "random" else np.arange(self.n_arms)).astype(np.int64)
        self._code_of_arm = {arm: k for k, arm in enumerate(self.arms)}
        self._code_of_example = None if self.examples is None else {label: j for j, label in enumerate(self.examples)}
        self.ledger = CellLedger(order, self.n_arms, self._missing)
        self.n_told = 0  # batches told, failed ones included
        self._n_issued = 0
        self._true_cost = np.zeros(self.n_arms)  # charged by tells, for running means
        self._true_cells = np.zeros(self.n_arms, dtype=np.int64)
        self._closed: dict[int, str] = {}  # serial numbers of released and expired pulls
        self._ended: str | None = None

    # -- what a policy fills in ---------------------------------------------------------------------------------

    @abstractmethod
    def _choose(self) -> tuple[int, int] | None:
        """Arm and batch size of the next pull, None when nothing can be asked now; changes nothing."""

    @abstractmethod
    def _refresh(self, arm: int) -> None:
        """Bring what is cached for `arm` up to date with the ledger."""

    def _pick_cells(self, arm: int, size: int) -> IntArray:
        """Positions, ascending, of the batch that `_choose` settled; by default the next ones in the arm's order."""
        return self.ledger.next_free(arm, size)

    def _check_values(self, values: FloatArray, where: str) -> None:  # noqa: B027
        """Refuse scores (unit scale, NaN where a cell failed) that the method cannot use; nothing has changed yet."""

    def _refresh_pending(self, arm: int) -> None:
        """The same when only the pending cells of `arm` changed."""
        self._refresh(arm)

    @abstractmethod
    def _recommend(self, rule: str | None) -> tuple[int, float, str]:
        """Arm, the maximised value (unit scale) and the rule applied."""

    @abstractmethod
    def _columns(self) -> dict[str, Any]:
        """mean, std, index (unit scale) and complete, one entry per arm."""

    def _notes(self) -> list[str]:
        """A word per arm for `posterior` where something needs saying."""
        return [""] * self.n_arms

    def _before_ask(self) -> None:  # noqa: B027  (a hook, empty on purpose)
        """Called before a choice that will be handed out."""

    def _after_data(self, arm: int) -> None:  # noqa: B027
        """Called after `arm` received data and was refreshed."""

    def _set_tie_order(self, tie_order: IntArray) -> None:
        """Replace the tie order (restored states); policies that cache by rank extend this."""
        self.tie_order = tie_order

    def _options(self) -> dict[str, Any]:
        """Constructor arguments of the policy itself, JSON types only."""
        return {}

    def _own_state(self) -> dict[str, Any]:
        """What the policy adds to a saved state, JSON types only."""
        return {}

    def _restore_own(self, saved: dict[str, Any]) -> None:  # noqa: B027
        """Take `_own_state` back and refresh every arm."""

    def _prior_fingerprint(self) -> bytes:
        """What the policy assumed before any data, for the fingerprint of a saved state."""
        return b""

    # -- labels, units and prices ---------------------------------------------------------------------------------

    def _arm_code(self, arm: Any) -> int:
        k = self._code_of_arm.get(arm) if isinstance(arm, Hashable) else None
        if k is None:
            raise ResponseError(f"unknown arm {arm!r}; the policy knows {inputs.shown(self.arms)}")
        return k

    def _example_code(self, example: Any) -> int:
        width = self.ledger.width
        if self._code_of_example is not None:
            j = self._code_of_example.get(example) if isinstance(example, Hashable) else None
            if j is None:
                raise ResponseError(f"unknown example {example!r}; ids are {inputs.shown(itertools.islice(self._code_of_example, 6), 5)}")
            return j
        if isinstance(example, bool) or not isinstance(example, (int, np.integer)) or not 0 <= example < width:
            raise ResponseError(f"unknown example {example!r}; positions 0..{width - 1} are expected, as no ids were given")
        return int(example)

    def _scored(self, value: Any) -> Any:
        """A location from the unit scale to score units."""
        low, high = self.score_range
        return value if (low, high) == (0.0, 1.0) else low + (high - low) * value

    def _spread(self, value: Any) -> Any:
        """A standard deviation from the unit scale to score units."""
        return value * (self.score_range[1] - self.score_range[0])

    def _pull(self, token: str, arm: int, positions: IntArray, cost: float) -> Pull:
        codes = self.ledger.order_of(arm)[positions].tolist()
        ids = codes if self.examples is None else [self.examples[j] for j in codes]
        return Pull(token, self.arms[arm], tuple(ids), cost)

    def price_of(self, arm: int) -> float:
        """Planned raw price per example of an arm (its code); a running mean of the told costs where cost=None."""
        if self.cost is not None:
            return float(self.cost[arm])
        if self._true_cells[arm]:
            return float(self._true_cost[arm] / self._true_cells[arm])
        cells = int(self._true_cells.sum())
        return float(np.add.accumulate(self._true_cost)[-1] / cells) if cells else 0.0

    # -- copies ---------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """For copies and worker processes; a lock belongs to one process. Files are written by `save` alone."""
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)
        self._lock = threading.RLock()
