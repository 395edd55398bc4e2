"""What all policies share: pending pulls, attach, failures, prices, bad input (cases A18, A20, A21, A22)."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg

MAKERS: dict[str, Callable[..., Any]] = {
    "gittins": lg.GittinsPolicy,
    "paper": lg.GittinsPolicy.paper,
    "ucb-e": lg.UCBE,
    "ucb-e-lrf": lambda arms, n, **options: lg.LowRankUCBE(arms, n, warmup=0.5, **options),
    "sysrs": lambda arms, n, **options: lg.SySRs(arms, n, budget=10**6, **options),
}
every_policy = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def snapshot(policy: Any) -> str:
    return json.dumps(policy.to_state(), sort_keys=True)


@pytest.mark.parametrize("make", [lg.GittinsPolicy, lg.UCBE, lambda *size, **options: lg.LowRankUCBE(*size, warmup=0.0, **options)])
def test_a18_pending(make: Callable[..., Any]) -> None:
    policy = make(2, 2, batch_size=1)
    pulls = [policy.ask() for _ in range(4)]
    assert len({(p.arm, p.examples) for p in pulls}) == 4 and policy.n_pending == 4
    assert len({p.token for p in pulls}) == 4
    assert policy.ask() is None and policy.status == "waiting" and policy.stop_reason is None
    for p in pulls:
        policy.tell(p, [1.0])
    assert policy.ask() is None and policy.status == "exhausted" and policy.n_pending == 0
    assert policy.stop_reason in ("stop-signal", "budget", "exhausted", "interrupted")


@every_policy
def test_a18_attach(make: Callable[..., Any]) -> None:
    policy = make(["x", "y"], 4, examples=["p", "q", "r", "s"], batch_size=1)
    pending = policy.ask()
    before = snapshot(policy)
    with pytest.raises(lg.StateError, match="pending"):
        policy.attach(pending.arm, pending.examples[0], 1.0)
    assert snapshot(policy) == before
    other = "y" if pending.arm == "x" else "x"
    assert policy.attach(other, "r", 1.0, cost=0.25) is True
    assert policy.attach(other, "r", 1.0, cost=0.25) is False and policy.spent == 0.25, "counted once, charged once"
    with pytest.raises(lg.StateError, match="another score"):
        policy.attach(other, "r", 0.0)
    policy.tell(pending, [1.0])
    with pytest.raises(lg.StateError, match="another score"):
        policy.attach(pending.arm, pending.examples[0], 0.0)
    asked = []
    while (pull := policy.ask()) is not None:
        asked += [(pull.arm, e) for e in pull.examples]
        policy.tell(pull, np.ones(len(pull.examples)))
    assert (other, "r") not in asked and len(set(asked)) == len(asked)
    assert policy.cells()["attached"] == 1


@every_policy
def test_release_and_expire(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    policy = make(2, 6, cost=2.0, batch_size=3)
    first = policy.ask()
    now[0] = 1100.0
    second = policy.ask()
    assert policy.reserved == first.cost + second.cost
    assert policy.expire(older_than=101) == []
    assert policy.expire(older_than=100) == [first] and policy.pending == (second,) and policy.reserved == second.cost
    with pytest.raises(lg.StateError, match="expired"):
        policy.tell(first, np.ones(len(first.examples)))
    again = policy.ask()
    assert (again.arm, again.examples) == (first.arm, first.examples) and again.token != first.token
    policy.release(second.token)  # a token is as good as the pull
    with pytest.raises(lg.StateError, match="released"):
        policy.release(second)
    policy.tell(again, np.ones(len(again.examples)))
    before = snapshot(policy)
    for late in (again, first, second):
        with pytest.raises(lg.StateError):
            policy.tell(late, np.ones(len(late.examples)))
    with pytest.raises(lg.StateError, match="told already"):
        policy.tell(again, np.ones(len(again.examples)))
    assert snapshot(policy) == before
    with pytest.raises(lg.ParameterError, match="older_than"):
        policy.expire(older_than=-1)


@pytest.mark.parametrize("make", [lg.GittinsPolicy, lg.UCBE])
def test_a20_errors_are_not_zeros(make: Callable[..., Any]) -> None:
    policy = make(1, 8, batch_size=8, cost=0.5, **({"batch_schedule": "constant"} if make is lg.GittinsPolicy else {}))
    pull = policy.ask()
    policy.tell(pull, [1, 1, 0, 0, 0, 0, np.nan, np.nan], status="error")
    row = policy.posterior().iloc[0]
    assert row["n_observed"] == 6 and row["n_errors"] == 2 and policy.ledger.total[0] / 6 == pytest.approx(2 / 6)
    if make is lg.UCBE:
        assert row["mean"] == pytest.approx(2 / 6)
    assert policy.spent == 4.0, "failed cells are charged"
    again = policy.ask()
    assert set(again.examples) == set(pull.examples[6:]) and again.token != pull.token
    policy.tell(again, [1, 1])
    assert policy.ledger.n_seen[0] == 8 and bool(policy.posterior()["complete"][0]), "a retried item counts once"


@pytest.mark.parametrize("placeholder", [None, [], [0, 0], [-1.0, -1.0], [np.nan, np.nan]])
def test_placeholders_of_a_failed_batch_are_no_scores(placeholder: Any) -> None:
    policy = lg.UCBE(1, 2, batch_size=2)
    policy.tell(policy.ask(), placeholder, status="timeout")
    assert policy.ledger.n_seen[0] == 0 and policy.ledger.n_errors[0] == 2 and policy.spent == 2.0
    pull = policy.ask()
    with pytest.raises(lg.ResponseError, match="outside"):
        policy.tell(pull, [np.nan, 7.0], status="error")
    policy.tell(pull, [np.nan, 1.0], status="error")
    assert policy.ledger.n_seen[0] == 1 and policy.ledger.total[0] == 1.0


@every_policy
def test_failures_are_retried_up_to_a_limit_and_then_missing(make: Callable[..., Any]) -> None:
    policy = make(1 if make is not MAKERS["sysrs"] else 2, 4, batch_size=4, max_retries=2)
    asked: dict[Any, int] = {}
    while (pull := policy.ask()) is not None:
        bad = np.array([e == 1 and pull.arm == 0 for e in pull.examples])
        for e in pull.examples:
            asked[pull.arm, e] = asked.get((pull.arm, e), 0) + 1
        policy.tell(pull, np.where(bad, np.nan, 1.0), status="timeout" if bad.any() else "ok")
    cells = policy.cells()
    if (0, 1) in asked and asked[0, 1] > 2:
        assert asked[0, 1] == 3 and cells["missing"] == 1 and policy.ledger.n_cells[0] == 3
        assert policy.posterior()["n_errors"][0] == 3
        with pytest.raises(lg.StateError, match="missing cell"):
            policy.attach(0, 1, 1.0)
    assert sum(cells.values()) == 4 * policy.n_arms
    if make is not MAKERS["sysrs"]:
        assert bool(policy.posterior()["complete"][0]) and cells["missing"] == 1
        assert policy.recommend().mean == pytest.approx(1.0), "the row mean is over the cells that exist"


def test_an_arm_whose_every_cell_fails_is_never_recommended() -> None:
    for make in (lg.GittinsPolicy, lg.UCBE):
        policy = make(2, 2, max_retries=0, tie_break="order")
        while (pull := policy.ask()) is not None:
            policy.tell(pull, None if pull.arm == 0 else np.zeros(len(pull.examples)), status="error" if pull.arm == 0 else "ok")
        assert policy.status == "exhausted" and policy.recommend().arm == 1 and policy.ledger.n_cells[0] == 0
        assert not policy.posterior()["complete"][0]


def test_on_error_raise() -> None:
    policy = lg.GittinsPolicy(2, 4, on_error="raise")
    pull = policy.ask()
    before = snapshot(policy)
    with pytest.raises(lg.ResponseError, match="status='error'"):
        policy.tell(pull, None, status="error")
    assert snapshot(policy) == before and policy.n_pending == 1


@every_policy
def test_a21_recommendation_before_any_data(make: Callable[..., Any]) -> None:
    policy = make(["a", "b", "c"], 5)
    first = policy.recommend()
    assert first.n_observed == 0 and first.arm == policy.arms[policy.tie_order[0]]
    assert policy.stop_reason is None and policy.status == "ready"
    policy.end("budget")
    assert policy.stop_reason == "budget"
    with pytest.raises(lg.ParameterError, match="reason"):
        policy.end("bored")
    table = policy.posterior()
    assert list(table.columns[:7]) == ["arm", "n_observed", "n_errors", "mean", "std", "index", "complete"]
    assert isinstance(policy, lg.Policy)


@every_policy
@pytest.mark.parametrize("bad", [None, float("nan"), -1, "0.01", float("inf"), True])
def test_a22_bad_prices_name_the_arm(make: Callable[..., Any], bad: Any) -> None:
    for cost in ([1.0, bad, 1.0], {"a": 1.0, "b": bad, "c": 2.0}, pd.Series([1.0, bad, 2.0], index=["a", "b", "c"], dtype=object)):
        with pytest.raises(lg.ResponseError, match="'b'"):
            make(["a", "b", "c"], 5, cost=cost)


def test_prices_are_joined_by_name() -> None:
    by_name = {"c": 3.0, "a": 1.0, "b": 2.0, "unused": 9.0}
    policy = lg.GittinsPolicy(["a", "b", "c"], 5, cost=by_name)
    np.testing.assert_array_equal(policy.cost, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(lg.UCBE(["a", "b", "c"], 5, cost=pd.Series(by_name)).cost, [1.0, 2.0, 3.0])
    with pytest.raises(lg.ResponseError, match="no entry for 1 of 3 arms: 'b'"):
        lg.GittinsPolicy(["a", "b", "c"], 5, cost={"a": 1.0, "c": 1.0})
    with pytest.raises(lg.ResponseError, match="more than once: 'a'"):
        lg.GittinsPolicy(["a", "b"], 5, cost=pd.Series([1.0, 2.0, 3.0], index=["a", "a", "b"]))


@every_policy
def test_a22_zero_price_is_asked_at_most_once_per_example(make: Callable[..., Any]) -> None:
    policy = make(2, 10, cost=[0.0, 1.0])
    asked = 0
    for _ in range(100):
        if (pull := policy.ask()) is None:
            break
        asked += len(pull.examples) if pull.arm == 0 else 0
        policy.tell(pull, np.zeros(len(pull.examples)))
    assert policy.status == "exhausted" and asked <= 10
    assert not policy.posterior()[["mean"]].isna().any(axis=None) and not np.isnan(policy.spent)


@every_policy
def test_refused_tells_change_nothing(make: Callable[..., Any]) -> None:
    policy = make(["a", "b"], 12, batch_size=4)
    pull = policy.ask()
    n = len(pull.examples)
    before = snapshot(policy)
    bad_calls: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (lg.ResponseError, "percent", lambda: policy.tell(pull, np.full(n, 85.0))),
        (lg.ResponseError, "sentinel", lambda: policy.tell(pull, np.full(n, -1.0))),
        (lg.ResponseError, "NaN", lambda: policy.tell(pull, np.full(n, np.nan))),
        (lg.ResponseError, "finite", lambda: policy.tell(pull, np.full(n, np.inf))),
        (lg.ResponseError, "shape", lambda: policy.tell(pull, np.ones(n + 1))),
        (lg.ResponseError, "shape", lambda: policy.tell(pull, 1.0)),
        (lg.ResponseError, "numbers", lambda: policy.tell(pull, ["good"] * n)),
        (lg.ResponseError, "numbers", lambda: policy.tell(pull, None)),
        (lg.ResponseError, "cost", lambda: policy.tell(pull, np.ones(n), cost=-1.0)),
        (lg.ResponseError, "cost", lambda: policy.tell(pull, np.ones(n), cost=float("nan"))),
        (lg.ResponseError, "cost", lambda: policy.tell(pull, np.ones(n), cost="free")),
        (lg.ParameterError, "status", lambda: policy.tell(pull, np.ones(n), status="done")),
        (lg.ResponseError, "shape", lambda: policy.tell(pull, np.full(n + 1, np.nan), status="error")),
        (lg.ResponseError, "numbers", lambda: policy.tell(pull, ["boom"] * n, status="error")),
        (lg.ParameterError, "Pull", lambda: policy.tell(7, np.ones(n))),
        (lg.StateError, "not asked", lambda: policy.tell("nonsense", np.ones(n))),
        (lg.StateError, "contradicts", lambda: policy.tell(lg.Pull(pull.token, "zzz", pull.examples, pull.cost), np.ones(n))),
        (lg.StateError, "contradicts", lambda: policy.tell(lg.Pull(pull.token, pull.arm, (99,) * n, pull.cost), np.ones(n))),
        (lg.StateError, "not asked", lambda: policy.release(lg.Pull("x-0-1", "a", (1,), 1.0))),
        (lg.ResponseError, "unknown arm", lambda: policy.attach("c", 0, 1.0)),
        (lg.ResponseError, "unknown arm", lambda: policy.attach([], 0, 1.0)),
        (lg.ResponseError, "unknown example", lambda: policy.attach("a", 12, 1.0)),
        (lg.ResponseError, "unknown example", lambda: policy.attach("a", "0", 1.0)),
        (lg.ResponseError, "percent", lambda: policy.attach("a", 0, 70.0)),
        (lg.ResponseError, "NaN", lambda: policy.attach("a", 0, float("nan"))),
        (lg.ResponseError, "cost", lambda: policy.attach("a", 0, 1.0, cost=-2.0)),
        (lg.ParameterError, "rule", lambda: policy.recommend("nope")),
    ]
    for error, words, call in bad_calls:
        with pytest.raises(error, match=words):
            call()
        assert snapshot(policy) == before, words
    policy.tell(copy.copy(pull), np.ones(n))  # an equal pull is the pull


@every_policy
@pytest.mark.parametrize(
    ("arms", "n", "words"),
    [
        (0, 5, "arms"), ([], 5, "arms"), ("abc", 5, "arms"), (["a", "a"], 5, "unique"), (["a", None], 5, "missing"), (True, 5, "arms"),
        ([["x"]], 5, "hashable"), (2, 0, "n_examples"), (2, 2.5, "n_examples"), (2, [3], "n_examples"), (2, {0: 3}, "n_examples"),
    ],
)  # fmt: skip
def test_bad_shapes(make: Callable[..., Any], arms: Any, n: Any, words: str) -> None:
    with pytest.raises(lg.ParameterError, match=words):
        make(arms, n)


@every_policy
def test_missing_and_ragged_cells_are_never_asked(make: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    missing = rng.random((4, 9)) < 0.3
    missing[:, 0] = False
    n_examples = [9, 9, 5, 7]
    policy = make(4, n_examples, missing=missing, batch_size=2)
    absent = missing | (np.arange(9)[None, :] >= np.array(n_examples)[:, None])
    order = policy.ledger.order_of(1).tolist()
    told: list[int] = []
    while (pull := policy.ask()) is not None:
        assert not absent[pull.arm, list(pull.examples)].any()
        told += pull.examples if pull.arm == 1 else ()
        policy.tell(pull, np.ones(len(pull.examples)))
    if isinstance(policy, lg.LowRankUCBE):  # picks its examples itself
        assert sorted(told) == np.flatnonzero(~absent[1]).tolist()
    else:
        assert told == [j for j in order if not absent[1, j]][: len(told)], "the rest of the order is kept"
    assert policy.cells()["missing"] == absent.sum()
    if make is not MAKERS["sysrs"]:
        assert policy.posterior()["n_observed"].tolist() == (~absent).sum(axis=1).tolist()


@every_policy
def test_one_arm_one_example(make: Callable[..., Any]) -> None:
    policy = make(1, 1)
    if (pull := policy.ask()) is not None:
        policy.tell(pull, [0.25])
        assert policy.recommend().mean == 0.25
    assert policy.ask() is None and policy.status == "exhausted" and policy.recommend().arm == 0


@every_policy
def test_same_seed_same_run_other_seed_other_run(make: Callable[..., Any]) -> None:
    def sequence(seed: Any) -> list[lg.Pull]:
        policy = make(5, 12, batch_size=2, random_state=seed)
        pulls = []
        for _ in range(8):
            pulls.append(policy.ask())
            policy.tell(pulls[-1], np.zeros(len(pulls[-1].examples)))
        return pulls

    assert sequence(3) == sequence(3) == sequence(np.random.default_rng(3))
    assert len({tuple((p.arm, p.examples) for p in sequence(s)) for s in range(5)}) == 5
    assert sequence(None) != sequence(None)


@every_policy
def test_threads_share_one_policy_without_losing_a_cell(make: Callable[..., Any]) -> None:
    policy = make(6, 40, batch_size=2)
    seen: list[tuple[int, int]] = []
    lock = threading.Lock()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while policy.status != "exhausted":
                if (pull := policy.ask()) is None:
                    continue
                with lock:
                    seen.extend((pull.arm, e) for e in pull.examples)
                policy.tell(pull, np.full(len(pull.examples), 0.5))
        except BaseException as error:  # noqa: BLE001  (reported by the main thread)
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(seen) == len(set(seen)) == policy.cells()["told"]
    assert policy.spent == len(seen)


def test_read_only_inputs_are_accepted_and_never_written() -> None:
    cost, order = np.array([1.0, 2.0]), np.array([3, 1, 0, 2])
    missing = np.zeros((2, 4), dtype=bool)
    missing[1, 3] = True
    for array in (cost, order, missing):
        array.flags.writeable = False
    policy = lg.GittinsPolicy(2, 4, cost=cost, example_order=order, missing=missing)
    while (pull := policy.ask()) is not None:
        scores = np.ones(len(pull.examples))
        scores.flags.writeable = False
        policy.tell(pull, scores)
    np.testing.assert_array_equal(order, [3, 1, 0, 2])


@every_policy
def test_a_copy_goes_its_own_way(make: Callable[..., Any]) -> None:
    policy = make(3, 10, batch_size=2)
    policy.tell(policy.ask(), np.ones(len(policy.pending[0].examples)))
    before = snapshot(policy)
    twin = copy.deepcopy(policy)
    assert snapshot(twin) == before and twin.ask() == copy.deepcopy(policy).ask()
    twin.tell(twin.pending[0], np.zeros(len(twin.pending[0].examples)))
    assert snapshot(policy) == before
