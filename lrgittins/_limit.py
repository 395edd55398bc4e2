"""What ends a live run: a share of exhaustive cost, an amount of cost, or a number of examples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ._validation import check_float, check_int
from .errors import ParameterError
from .policies.base import BasePolicy
from .policies.protocol import Policy

_ROUNDING = 1e-12  # as in replays: 0.1 of 122,000 examples is 12,200, not one batch more


@dataclass(frozen=True)
class Limit:
    """What ends a run: an amount of cost (raw units) or of examples."""

    kind: str  # "cost" or "examples"
    amount: float

    def reached(self, used: float) -> bool:
        return used >= self.amount * (1.0 - _ROUNDING)

    def crossed(self, used: float) -> bool:
        return used > self.amount * (1.0 + _ROUNDING)


def check_limit(policy: Policy, budget: float | None, max_cost: float | None, max_evaluations: int | None) -> Limit:
    given = {"budget": budget, "max_cost": max_cost, "max_evaluations": max_evaluations}
    named = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ParameterError(f"give exactly one of budget, max_cost and max_evaluations, got {', '.join(named) or 'none'}")
    if max_evaluations is not None:
        return Limit("examples", check_int(max_evaluations, "max_evaluations", low=1))
    if max_cost is not None:
        return Limit("cost", check_float(max_cost, "max_cost", low=0.0, low_open=True))
    from .replay import check_budget

    share, total = check_budget(budget), exhaustive_cost(policy)
    if math.isnan(total):
        raise ParameterError("budget is a fraction of exhaustive cost, which this policy does not know; give max_cost or max_evaluations")
    # Where everything is free of charge there is no budget to run out of.
    return Limit("cost", share * total if total > 0.0 else math.inf)


def exhaustive_cost(policy: Any) -> float:
    """Price of every cell that existed at the start, raw units; NaN where prices are not known in advance."""
    if not isinstance(policy, BasePolicy) or policy.cost is None:
        return math.nan
    cells = policy.n_examples if policy._missing is None else (~policy._missing).sum(axis=1)
    return float(cells @ policy.cost)
