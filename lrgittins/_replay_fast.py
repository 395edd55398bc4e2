"""Replays of the built-in policies in one kernel call: when that is possible, what the kernels need, and what they did.

The kernels start from a policy without any history and know the common options only. Everything else goes through
ask / tell, with the same trace by definition: a policy that has data or pending pulls, a subclass, a score range, learnt
prices or noise, annealing, other arms, examples or missing cells than the matrix has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._kernels.replay import BUDGET, EMPIRICAL, EXHAUSTED, LATENT, REFUSED, UCB, mark_told, replay_by_index, replay_by_rejects
from .batch_schedule import batch_sizes
from .policies.base import BasePolicy
from .policies.gittins import GittinsPolicy
from .policies.ledger import TOLD, FloatArray, IntArray
from .policies.sysrs import SySRs
from .policies.ucb_e import UCBE
from .responses import ResponseMatrix
from .trace import Trace, policy_name, score_per_cost

REASONS = {BUDGET: "budget", EXHAUSTED: "exhausted", REFUSED: "budget"}


def fits_kernel(policy: Any, responses: ResponseMatrix) -> bool:
    """Whether the whole run can be one kernel call."""
    kind = type(policy)
    if kind not in (GittinsPolicy, UCBE, SySRs):
        return False
    if kind is GittinsPolicy and (policy.anneal or policy.prior == "empirical-bayes" or policy.cost is None):
        return False
    ledger = policy.ledger
    fresh = policy._n_issued == 0 and policy.n_told == 0 and not ledger.n_seen.any() and ledger.spent == 0.0
    if not fresh or policy.score_range != (0.0, 1.0) or tuple(policy.arms) != responses.arms or ledger.width != responses.n_examples:
        return False
    if policy.examples is not None and tuple(policy.examples) != responses.examples:
        return False
    if policy._missing is None:
        return responses.n_missing == 0
    return bool(np.array_equal(policy._missing, responses.missing))


def replay_in_kernel(
    policy: BasePolicy, responses: ResponseMatrix, limit: tuple[float, float], random_state: Any, *, keep_state: bool = True
) -> Trace:
    """The whole run in one call; with `keep_state` the policy ends in the state that ask / tell would leave it in.

    Parameters
    ----------
    limit : (float, float)
        Spend that ends the run, and spend that no batch may exceed (inf without `strict`).
    """
    ledger = policy.ledger
    initial = ledger_code(policy, policy.recommend().arm)
    prices = np.ones(policy.n_arms) if responses.cost is None else responses.cost
    cost = _readonly(prices[:, None] if prices.ndim == 1 else prices)
    data = (
        _readonly(responses.scores), cost, _readonly(np.atleast_2d(ledger.order)), _readonly(policy.tie_order), _readonly(ledger.n_cells),
    )  # fmt: skip
    limits = _readonly(np.array(limit, dtype=np.float64))
    first_stop, dropped_after, phase = 0, np.zeros(policy.n_arms, dtype=np.int64), 0
    if isinstance(policy, SySRs):
        dropped_after[:] = np.where(np.isinf(policy._dropped_after), 0, policy._dropped_after)
        phases = _readonly(np.array(policy.phases, dtype=np.int64))
        # A phase ends with at most one short batch per arm.
        most = int((ledger.n_cells // policy.batch_size).sum()) + policy.n_arms * (len(phases) + 1)
        out = _outputs(min(most, int(ledger.n_cells.sum())), policy.n_arms)
        n_steps, end, phase = replay_by_rejects(policy.batch_size, phases, policy._phase, dropped_after, *data, limits, *out)
    else:
        kind, a, by_mean, by_completed, chain, sizes, roots, prior = _index_arguments(policy)
        out = _outputs(_n_batches(chain, sizes), policy.n_arms)
        n_steps, end, first_stop, initial = replay_by_index(kind, a, by_mean, *data, chain, sizes, roots, prior, limits, by_completed, *out)
    steps, money, counts, total = out
    steps, money = steps[:n_steps].T.copy(), money[:n_steps].T.copy()
    row_means = responses.row_means
    arm, n, recommended, completed = steps
    charged, cumulative = money
    trace = Trace(
        arms=responses.arms,
        arm=arm,
        n=n,
        cost=charged,
        cumulative_cost=cumulative,
        recommended=recommended,
        completed=completed,
        completed_score=np.where(completed >= 0, row_means[completed], np.nan),
        should_stop=np.arange(1, n_steps + 1) >= first_stop if first_stop else np.zeros(n_steps, dtype=bool),
        initial=int(initial),
        total_cost=responses.total_cost,
        row_means=row_means,
        score_per_cost=score_per_cost(policy),
        stop_reason=REASONS[end],
        policy=policy_name(policy),
        random_state=random_state,
    )
    if keep_state:
        _absorb(policy, responses, trace, counts, total)
        if isinstance(policy, SySRs):
            policy._restore_own({"phase": phase, "dropped_after": [int(at) or None for at in dropped_after]})
        elif isinstance(policy, GittinsPolicy) and first_stop:
            policy._stopped_at, policy._stopped_spent = int(first_stop), float(cumulative[first_stop - 1])
        if end == REFUSED:  # the batch that would have crossed was asked, and is taken back
            pull = policy.ask()
            assert pull is not None
            policy.release(pull)
    return trace


def ledger_code(policy: BasePolicy, arm: Any) -> int:
    """Position of an arm in the policy."""
    return policy._code_of_arm[arm]


def _readonly(array: Any) -> Any:
    """A read-only C-contiguous base array: one kernel signature whatever the input was (memory map, view, ...)."""
    view = np.ascontiguousarray(np.asarray(array)).view()
    view.flags.writeable = False
    return view


def _index_arguments(policy: BasePolicy) -> tuple[Any, ...]:
    """(kind, a, by_mean, by_completed, chain, sizes, roots, prior) of `replay_by_index`; equal chains are stored once."""
    chain = np.empty(policy.n_arms, dtype=np.int64)
    start: dict[Any, int] = {}
    sizes: list[Any] = []
    roots: list[FloatArray] = []
    n_stored = 0
    gittins = isinstance(policy, GittinsPolicy)
    if isinstance(policy, GittinsPolicy):
        table = policy.root_table
        keys: Any = zip(policy.ledger.n_cells.tolist(), table.unit_cost.tolist(), policy.prior_variance.tolist(),
                        policy.noise_variance.tolist(), strict=True)  # fmt: skip
    else:
        keys = zip(policy.ledger.n_cells.tolist(), strict=True)
    for k, key in enumerate(keys):
        at = start.get(key)
        if at is None:
            at = start[key] = n_stored
            size = np.array(table.sizes_of(k), dtype=np.int64) if gittins else batch_sizes(key[0], policy.batch_size)
            free = gittins and table.unit_cost[k] * table.cost_scale == 0.0
            row = np.full(len(size), -np.inf) if free else table.roots_of(k)[: len(size)] if gittins else np.zeros(len(size))
            sizes.append(size)
            roots.append(row)
            n_stored += len(size)
        chain[k] = at
    prior = np.zeros((policy.n_arms, 3))
    kind, a, by_mean, by_completed = UCB, 0.0, True, False
    if isinstance(policy, GittinsPolicy):
        prior = np.column_stack([policy.prior_mean, policy.prior_variance, policy.noise_variance])
        kind = EMPIRICAL if policy.target == "empirical" else LATENT
        by_mean, by_completed = policy.recommendation == "mean", policy.recommendation == "completed"
    elif isinstance(policy, UCBE):
        a = policy.a
    flat = (_readonly(chain), _readonly(np.concatenate(sizes)), _readonly(np.concatenate(roots)), _readonly(prior))
    return kind, a, by_mean, by_completed, *flat


def _n_batches(chain: IntArray, sizes: IntArray) -> int:
    """Batches until every arm is complete."""
    starts, uses = np.unique(chain, return_counts=True)
    return int((np.diff(np.append(starts, len(sizes))) * uses).sum())


def _outputs(capacity: int, n_arms: int) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
    """`out_steps`, `out_money`, `out_counts`, `out_total`; memory of batches that are never reached is never touched."""
    return np.empty((capacity, 4), dtype=np.int64), np.empty((capacity, 2)), np.zeros((2, n_arms), dtype=np.int64), np.zeros(n_arms)


def _absorb(policy: BasePolicy, responses: ResponseMatrix, trace: Trace, counts: IntArray, total: FloatArray) -> None:
    """Put the outcome of a kernel run into a fresh policy: what the tells would have left behind."""
    ledger = policy.ledger
    seen, top = counts
    policy._true_cost[:] = np.bincount(trace.arm, weights=trace.cost, minlength=policy.n_arms)  # adds in the order of the steps
    policy._true_cells[:] = seen
    policy.n_told = policy._n_issued = trace.n_steps
    ledger.spent = trace.spent
    ledger.n_seen[:] = seen
    ledger.total[:] = total
    arms = np.flatnonzero(seen)
    states = np.zeros((len(arms), ledger.width), dtype=np.uint8)
    values = np.zeros((len(arms), ledger.width))
    if policy._missing is not None:
        for i, k in enumerate(arms.tolist()):
            states[i] = ledger.state_of(k)
    mark_told(_readonly(responses.scores), _readonly(np.atleast_2d(ledger.order)), arms, top, TOLD, states, values)
    for i, k in enumerate(arms.tolist()):
        ledger._state[k], ledger._score[k] = states[i], values[i]
        ledger._top[k] = ledger._first_free[k] = int(top[k])
        policy._refresh(k)
