"""Replay a policy on a response matrix: what it would have evaluated, spent and recommended."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._random import RandomState
from ._validation import check_float
from .errors import ParameterError, ResponseError, StateError
from .policies.inputs import shown
from .policies.protocol import Policy, Pull, is_policy, reason_for_silence
from .responses import ResponseMatrix
from .trace import Trace, TraceRecorder

# Budgets are compared up to rounding of the sums: 0.1 of 122,000 examples is 12,200, not one batch more.
_ROUNDING = 1e-12


def replay(
    responses: ResponseMatrix, policy: Any, *, budget: float = 0.10, strict: bool = False, random_state: RandomState = 0
) -> Trace:  # fmt: skip
    """Run `policy` on recorded scores until `budget` is spent; a stop signal is recorded and passed.

    Parameters
    ----------
    responses : ResponseMatrix
        True costs are charged: those of the cells asked where the matrix has a cost per cell.
    policy : Policy, str or callable
        A policy (it ends in the state of the last batch told, and a policy that already has data goes on from there), a
        name that `compare` knows, or a factory called with ``**responses.policy_arguments()`` and `random_state`.
    budget : float
        Fraction of exhaustive cost, in (0, 1]. Checked after each batch, so the last one may cross it.
    strict : bool
        Refuse a batch that would cross the budget; the run ends there.
    random_state : int, Generator, SeedSequence or None
        Seed of a policy that is built here from its name or factory. A policy passed as an object has its own.

    Returns
    -------
    Trace

    Raises
    ------
    ParameterError
        A budget outside (0, 1], an unknown name, a policy that would ask for arms or cells the matrix does not have.
    StateError
        The policy has pending pulls.

    Notes
    -----
    A fresh `GittinsPolicy`, `UCBE` or `SySRs` is replayed in one kernel call. With `anneal`, the empirical-Bayes prior,
    learnt prices, a score range of its own, data attached beforehand, or arms or examples in another order than the
    matrix has them, it goes through ask / tell instead; the trace is the same by definition, only slower.
    """
    share = check_budget(budget)
    if not isinstance(responses, ResponseMatrix):
        raise ParameterError(f"responses must be a ResponseMatrix (from_frame, from_array or read), got {type(responses).__name__}")
    if isinstance(policy, (str, type)) or not is_policy(policy):  # a policy class is a factory too
        from .policy_names import build_policy

        policy = build_policy(policy, responses, budget=share, random_state=random_state)
    return run_policy(responses, policy, budget=share, strict=strict, random_state=random_state)


def check_budget(budget: Any) -> float:
    """A fraction of exhaustive cost in (0, 1]; percent is the usual mistake."""
    share = check_float(budget, "budget", low=0.0, low_open=True)
    if share > 1.0:
        hint = f"; for {share:g} % write budget={share / 100:g}" if share <= 100.0 else ""
        raise ParameterError(f"budget is a fraction of exhaustive cost in (0, 1], got {budget!r}{hint}")
    return share


def run_policy(
    responses: ResponseMatrix, policy: Any, *, budget: float, strict: bool, random_state: Any = 0, keep_state: bool = True
) -> Trace:
    """`replay` of a policy object after the checks; without `keep_state` a policy replayed in the kernel stays as it was."""
    from ._replay_fast import fits_kernel, replay_in_kernel

    pending = int(policy.n_pending)
    if pending:
        raise StateError(f"the policy has {pending} pending pulls; tell or release them before a replay")
    if hasattr(policy, "check_responses"):
        policy.check_responses(responses)
    amount = budget * responses.total_cost
    # Where everything is free of charge there is no budget to run out of.
    reached = amount * (1.0 - _ROUNDING) if amount > 0.0 else math.inf
    refused = amount * (1.0 + _ROUNDING) if strict and amount > 0.0 else math.inf
    if fits_kernel(policy, responses):
        trace = replay_in_kernel(policy, responses, (reached, refused), random_state, keep_state=keep_state)
    else:
        trace = replay_by_asking(policy, responses, (reached, refused), random_state)
    if keep_state and hasattr(policy, "end"):
        policy.end(trace.stop_reason)
    return trace


def replay_by_asking(policy: Policy, responses: ResponseMatrix, limit: tuple[float, float], random_state: Any) -> Trace:
    """The run step by step, for any policy; `limit` as in `replay_in_kernel`."""
    source = _Source(policy, responses)
    recorder = TraceRecorder(policy, responses.arms, total_cost=responses.total_cost, row_means=responses.row_means)
    while True:
        if policy.spent >= limit[0]:
            reason = reason_for_silence(policy) if policy.status == "exhausted" else "budget"
            break
        pull = policy.ask()
        if pull is None:
            reason = reason_for_silence(policy)
            break
        scores, cost = source.look_up(pull)
        if policy.spent + cost > limit[1]:
            policy.release(pull)
            reason = "budget"
            break
        policy.tell(pull, scores, cost=cost)
        recorder.add(pull.arm, len(pull.examples), cost)
    return recorder.finish(reason, random_state=random_state)


class _Source:
    """Scores and true costs of pulls from a matrix, in the policy's own labels and score units."""

    def __init__(self, policy: Any, responses: ResponseMatrix) -> None:
        self._responses = responses
        self._row = {arm: k for k, arm in enumerate(responses.arms)}
        self._column: dict[Any, int] = {example: j for j, example in enumerate(responses.examples)}
        self._range: tuple[float, float] = getattr(policy, "score_range", (0.0, 1.0))
        self._cells = responses.cost if responses.cost is not None and responses.cost.ndim == 2 else None
        self._price = responses.arm_cost
        labels = getattr(policy, "examples", None)
        # A policy built without ids asks by position.
        self._by_position = labels is None
        arms = getattr(policy, "arms", None)
        if arms is not None and set(arms) != set(self._row):
            extra, absent = [a for a in arms if a not in self._row], [a for a in self._row if a not in set(arms)]
            raise ParameterError(
                f"the policy and the matrix have different arms: only in the policy {shown(extra) or 'none'}; only in the matrix "
                f"{shown(absent) or 'none'}; build the policy with **responses.policy_arguments()"
            )
        if labels is not None and any(label not in self._column for label in labels):
            extra = [label for label in labels if label not in self._column]
            raise ParameterError(f"the policy has examples that the matrix does not have: {shown(extra)}")

    def look_up(self, pull: Pull) -> tuple[Any, float]:
        row = self._row.get(pull.arm)
        if row is None:
            raise ParameterError(f"the policy asked for arm {pull.arm!r}, which the matrix does not have")
        columns = [self._column_of(example) for example in pull.examples]
        scores = self._responses.scores[row, columns]
        if np.isnan(scores).any():
            empty = [example for example, score in zip(pull.examples, scores, strict=True) if score != score]
            raise ResponseError(
                f"the policy asked for cells without a score: arm {pull.arm!r}, examples {shown(empty)}; "
                "build the policy with missing=responses.missing (or **responses.policy_arguments())"
            )
        if self._cells is None:
            cost = len(columns) * float(self._price[row])
        else:  # left to right, as the kernels add
            cost = float(np.add.accumulate(self._cells[row, columns])[-1])
        low, high = self._range
        if (low, high) != (0.0, 1.0):
            scores = np.clip(low + (high - low) * scores, low, high)
        return scores, cost

    def _column_of(self, example: Any) -> int:
        if self._by_position and isinstance(example, (int, np.integer)) and 0 <= example < len(self._column):
            return int(example)
        column = self._column.get(example)
        if column is None:
            raise ParameterError(f"the policy asked for example {example!r}, which the matrix does not have")
        return column
