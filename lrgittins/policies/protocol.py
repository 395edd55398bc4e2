"""What drivers and users see of any policy: a pull, a recommendation, and the methods they can rely on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Pull:
    """One batch to evaluate.

    Attributes
    ----------
    token : str
        Names this batch in `tell` and `release`, and serves as an idempotency key: equal seed, history and cells give
        an equal token; a retried cell comes under a new one.
    arm : label
    examples : tuple
        Ids where the policy was given `examples`, positions 0..N-1 otherwise.
    cost : float
        Expected cost of the batch, raw units; reserved until told.
    """

    token: str
    arm: Any
    examples: tuple[Any, ...]
    cost: float


@dataclass(frozen=True)
class Recommendation:
    """The arm to use if sampling ended now. Posterior numbers, never a fixed-sample confidence statement.

    Attributes
    ----------
    arm : label
    mean, std : float
        Posterior mean and standard deviation of the arm's full-row mean, score units (baselines: the observed mean,
        NaN before any data, and NaN).
    score : float
        What the rule maximised.
    n_observed : int
        Observed examples of the arm; 0 means the prior is all that speaks for it.
    rule : str
        The rule that was applied.
    """

    arm: Any
    mean: float
    std: float
    score: float
    n_observed: int
    rule: str


@runtime_checkable
class Policy(Protocol):
    """The protocol of everything that decides which arm to evaluate next."""

    @property
    def should_stop(self) -> bool: ...
    @property
    def stop_reason(self) -> str | None: ...
    @property
    def status(self) -> str: ...
    @property
    def spent(self) -> float: ...
    @property
    def reserved(self) -> float: ...
    @property
    def n_pending(self) -> int: ...
    def ask(self) -> Pull | None:
        """The next batch to evaluate, or None: then `status` is "waiting" (for pending batches) or "exhausted"."""

    def tell(self, pull: Pull | str, scores: Any, *, cost: float | None = None, status: str = "ok") -> None:
        """The scores of a batch (or its failure) and what it truly cost."""

    def attach(self, arm: Any, example: Any, score: float, cost: float = 0.0) -> bool:
        """A result that exists already: counted once, never asked. False where it was known."""

    def release(self, pull: Pull | str) -> None:
        """Make a pending batch askable again."""

    def expire(self, older_than: float) -> list[Pull]:
        """Release the batches pending for more than `older_than` seconds; returns them."""

    def recommend(self, rule: str | None = None) -> Recommendation:
        """The arm to use if evaluation ended now."""

    def posterior(self) -> pd.DataFrame:
        """What is known of every arm, one row each."""

    def save(self, path: str | Path) -> None:
        """Write the whole state as JSON, atomically."""


def is_policy(thing: Any) -> TypeGuard[Policy]:
    """Whether it has what the protocol asks, by ``__getattr__`` included: since Python 3.12 `isinstance` does not see what is passed on."""
    return all(hasattr(thing, name) for name in vars(Policy) if not name.startswith("_"))


def reason_for_silence(policy: Any) -> str:
    """Stop reason of a run whose policy asks nothing more: "exhausted", or "budget" where its own budget leaves rows unasked."""
    return "budget" if getattr(policy, "out_of_budget", False) else "exhausted"
