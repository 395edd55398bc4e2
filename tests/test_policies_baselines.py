"""UCB-E and SySRs against their formulas, and the schedule of successive rejects."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lrgittins as lg
from lrgittins.policies.sysrs import successive_rejects_schedule
from tests.reference.policies import slow_sysrs, slow_ucb_e
from tests.test_policies_gittins import bernoulli


@pytest.mark.oracle
@pytest.mark.parametrize(("batch", "a"), [(1, 1.0), (3, 1.0), (4, 0.1), (2, 0.0)])
def test_ucb_e_equals_the_slow_reference(batch: int, a: float) -> None:
    scores = bernoulli(6, 17, seed=batch)
    policy = lg.UCBE(6, 17, batch_size=batch, a=a, random_state=9)
    got = []
    while (pull := policy.ask()) is not None:
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        got.append((pull.arm, pull.examples))
        best = policy.recommend()
        assert best.mean == np.nanmax(policy.posterior()["mean"])
    assert got == slow_ucb_e(scores, policy.ledger.order.tolist(), policy.tie_order.tolist(), batch, a)
    assert not policy.should_stop and policy.stop_reason == "exhausted"
    assert len({tuple(row) for row in policy.ledger.order.tolist()}) > 1, "each arm has its own random order"


def test_ucb_e_asks_every_arm_before_one_twice_even_while_pending() -> None:
    policy = lg.UCBE(4, 10, batch_size=2)
    pulls = [policy.ask() for _ in range(4)]
    assert sorted(p.arm for p in pulls) == [0, 1, 2, 3]
    assert policy.ask() is not None, "with every arm pending, asking goes on"
    start = policy.recommend()
    assert start.n_observed == 0 and math.isnan(start.mean) and start.arm == policy.tie_order[0]
    policy.tell(pulls[0], [1, 1])
    assert policy.recommend().arm == pulls[0].arm and policy.recommend().mean == 1.0
    assert policy.posterior()["index"][pulls[0].arm] == pytest.approx(1.0 + math.sqrt(0.5))


@pytest.mark.golden
def test_successive_rejects_schedules() -> None:
    assert successive_rejects_schedule(4, 12, 20) == [3, 4, 6]
    assert successive_rejects_schedule(3, 5, 6) == [1, 2]
    assert successive_rejects_schedule(4, 12, 24) == successive_rejects_schedule(4, 12, 20), "24 is capped to 20"
    # 56 x 805: T stops at 3360, 7.5 % of the cells.
    assert successive_rejects_schedule(56, 805, 45080) == successive_rejects_schedule(56, 805, 3360)
    assert successive_rejects_schedule(56, 805, 3304) != successive_rejects_schedule(56, 805, 3360)
    assert successive_rejects_schedule(1, 5, 5) == [] and successive_rejects_schedule(3, 5, 2) == [0, 0]


def cells_of(phases: list[int], n_arms: int) -> int:
    return sum((n_arms - k) * (now - before) for k, (now, before) in enumerate(zip(phases, [0, *phases[:-1]], strict=True)))


@pytest.mark.property
def test_schedule_identities() -> None:
    assert cells_of([3, 4, 6], 4) == 19 and cells_of([1, 2], 3) == 5
    for n_arms, n in ((2, 3), (3, 5), (4, 12), (10, 20), (56, 805)):
        for budget in {n_arms, n_arms + 1, (n_arms * n) // 3, (2 * n_arms * n) // 3, n_arms * n}:
            capped = successive_rejects_schedule(n_arms, n, budget)
            assert capped == sorted(capped) and max(capped) <= math.ceil((n - 1) / 2) or budget <= n_arms
            free = successive_rejects_schedule(n_arms, n, budget, cap=False)
            assert free == sorted(free) and min(free) >= 1 and max(free) <= n and len(free) == n_arms - 1
            # Without rounding the plan uses T - K (ceilings add less than K) or, redistributed and rounded down, T.
            assert budget - n_arms <= cells_of(free, n_arms) <= budget
    assert successive_rejects_schedule(4, 12, 48, cap=False) == [12, 12, 12]


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cap", [True, False])
def test_sysrs_equals_the_slow_reference(seed: int, cap: bool) -> None:
    scores = bernoulli(7, 20, seed=seed)
    policy = lg.SySRs(7, 20, budget=90, cap=cap, batch_size=3, random_state=seed)
    survivor, dropped, cells = slow_sysrs(scores, policy.ledger.order.tolist(), policy.tie_order.tolist(), policy.phases)
    used = 0
    while (pull := policy.ask()) is not None:
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        used += len(pull.examples)
    assert used == cells <= 90
    assert policy.recommend().arm == survivor
    assert [int(k) for k in np.argsort(policy._dropped_after)[:-1]] == dropped
    assert policy.stop_reason == "exhausted" and not policy.should_stop
    assert (policy.posterior()["note"] != "").sum() == 6


def test_sysrs_waits_for_the_phase_and_uses_one_shared_order() -> None:
    policy = lg.SySRs(3, 5, budget=6)
    pulls = [policy.ask() for _ in range(3)]
    assert policy.ask() is None and policy.status == "waiting"
    assert {p.arm for p in pulls} == {0, 1, 2} and len({p.examples for p in pulls}) == 1
    for p in pulls[:2]:
        policy.tell(p, [1.0])
    assert policy.status == "waiting"
    policy.tell(pulls[2], [0.0])
    assert policy.status == "ready" and policy.ask().arm != pulls[2].arm


def test_sysrs_small_and_ragged() -> None:
    alone = lg.SySRs(1, 5, budget=3)
    assert alone.ask() is None and alone.status == "exhausted" and alone.recommend().arm == 0
    poor = lg.SySRs(3, 5, budget=2)
    assert poor.ask() is None and poor.recommend().n_observed == 0 and poor.recommend().arm == poor.tie_order[0]
    ragged = lg.SySRs(2, [2, 40], budget=40)
    while (pull := ragged.ask()) is not None:
        ragged.tell(pull, np.full(len(pull.examples), 0.5))
    assert ragged.ledger.n_seen[0] == 2 and ragged.stop_reason == "exhausted"
    with pytest.raises(lg.ParameterError, match="budget"):
        lg.SySRs(2, 5, budget=0)
    with pytest.raises(lg.ParameterError, match="cap"):
        lg.SySRs(2, 5, budget=5, cap="yes")


def test_baselines_ignore_prices_but_charge_them() -> None:
    scores = bernoulli(3, 12)
    runs = []
    for cost in ([1.0, 1.0, 1.0], [9.0, 0.5, 0.0]):
        for policy in (lg.UCBE(3, 12, cost=cost, batch_size=4), lg.SySRs(3, 12, cost=cost, budget=12, batch_size=4)):
            arms, money = [], 0.0
            while (pull := policy.ask()) is not None:
                policy.tell(pull, scores[pull.arm, list(pull.examples)])
                arms.append(pull.arm)
                money += len(pull.examples) * cost[pull.arm]
            assert policy.spent == money
            runs.append(arms)
    assert runs[:2] == runs[2:]
