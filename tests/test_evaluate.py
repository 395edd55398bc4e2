"""The live loop: limits, answers and failures of evaluators, workers, interrupts, resuming."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg
from lrgittins.policies.base import STOP_REASONS
from lrgittins.store import Store

K, N = 5, 24
SCORES = (np.random.default_rng(7).random((K, N)) < np.linspace(0.3, 0.8, K)[:, None]).astype(float)
COST = [1.0, 2.0, 0.5, 1.0, 0.25]
TOTAL = float(np.sum(COST) * N)


def make(kind: Callable[..., Any] = lg.GittinsPolicy, **options: Any) -> Any:
    defaults: dict[str, Any] = {"cost": COST}
    if kind is lg.GittinsPolicy:
        defaults["cost_scale"] = 1e-3
    return kind(K, N, **{**defaults, **options})


def look_up(arm: int, examples: tuple[int, ...]) -> Any:
    return SCORES[arm, list(examples)]


def run(policy: Any, evaluator: Callable[..., Any] = look_up, **options: Any) -> lg.Trace:
    if not {"budget", "max_cost", "max_evaluations"} & set(options):
        options["budget"] = 1.0
    return lg.evaluate(policy, evaluator, **{"progress": False, **options})


class Recorder:
    """An evaluator that notes its calls and fails where it is told to: `faults` maps the number of a call to what it does."""

    def __init__(self, faults: dict[int, Any] | None = None) -> None:
        self.calls: list[tuple[int, tuple[int, ...], str]] = []
        self.faults = faults or {}
        self.lock = threading.Lock()

    def __call__(self, arm: int, examples: tuple[int, ...], *, token: str) -> Any:
        with self.lock:
            self.calls.append((arm, examples, token))
            fault = self.faults.get(len(self.calls))
        if isinstance(fault, BaseException) or (isinstance(fault, type) and issubclass(fault, BaseException)):
            raise fault
        if fault is not None:
            return fault(look_up(arm, examples)) if callable(fault) else fault
        return look_up(arm, examples)

    @property
    def decisions(self) -> list[tuple[int, tuple[int, ...]]]:
        return [(arm, examples) for arm, examples, _ in self.calls]


def same_run(one: lg.Trace, other: lg.Trace) -> None:
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame(), check_exact=True)
    assert one.stop_reason == other.stop_reason


def same_state(one: Any, other: Any) -> None:
    pd.testing.assert_frame_equal(one.posterior(), other.posterior(), check_exact=True)
    assert (one.spent, one.n_pending, one.cells(), one.should_stop) == (other.spent, other.n_pending, other.cells(), other.should_stop)
    assert repr(one.recommend()) == repr(other.recommend())  # NaN, too, is the same


# -- the plain run and its limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_store", [False, True])
@pytest.mark.parametrize("kind", ["gittins", "ucb-e", "sysrs"])
def test_it_is_ask_and_tell_in_a_loop(tmp_path: Path, kind: str, with_store: bool) -> None:
    build = {"gittins": lg.GittinsPolicy, "ucb-e": lg.UCBE, "sysrs": lambda k, n, **o: lg.SySRs(k, n, budget=60, **o)}[kind]
    by_hand = make(build)
    told = []
    while not by_hand.should_stop and (pull := by_hand.ask()) is not None:
        by_hand.tell(pull, look_up(pull.arm, pull.examples))
        told.append((pull.arm, pull.examples, pull.token))
    policy, evaluator = make(build), Recorder()
    trace = run(policy, evaluator, store=tmp_path / "run.db" if with_store else None)
    assert evaluator.calls == told
    same_state(policy, by_hand)
    assert trace.stop_reason == policy.stop_reason == ("stop-signal" if kind == "gittins" else "exhausted")
    assert trace.n_repeated == 0
    frame = trace.to_frame()
    assert frame["cumulative_cost"].iloc[-1] == policy.spent
    assert frame["regret"].isna().all()
    np.testing.assert_allclose(frame["cost_fraction"], frame["cumulative_cost"] / TOTAL, rtol=1e-15)


def test_budget_max_cost_and_max_evaluations() -> None:
    for options in ({"budget": 0.2}, {"max_cost": 0.2 * TOTAL}):
        policy = make(lg.UCBE)
        trace = run(policy, **options)
        frame = trace.to_frame()
        assert trace.stop_reason == "budget"
        assert frame["cumulative_cost"].iloc[-2] < 0.2 * TOTAL <= policy.spent  # the last batch may cross, not the one before
    trace = run(make(lg.UCBE, batch_size=3), max_evaluations=31)
    assert trace.n.sum() == 33
    assert run(make(lg.UCBE, batch_size=3), max_evaluations=31, strict=True).n.sum() == 30
    assert run(make(lg.UCBE, batch_size=3), max_evaluations=30, strict=True, n_workers=4).n.sum() == 30


def test_strict_never_crosses_and_what_was_refused_can_be_asked_later(tmp_path: Path) -> None:
    policy = make(lg.UCBE)
    trace = run(policy, budget=0.2, strict=True, store=tmp_path / "run.db")
    assert trace.stop_reason == "budget" and 0 < policy.spent <= 0.2 * TOTAL and policy.n_pending == 0
    run(policy, budget=0.5, store=tmp_path / "run.db")
    twice, again = make(lg.UCBE), make(lg.UCBE)
    run(twice, budget=0.2, strict=True)
    run(twice, budget=0.5)
    same_state(policy, twice)
    run(again, budget=0.5, store=tmp_path / "run.db")
    same_state(policy, again)


def test_a_kill_while_a_batch_is_given_back_does_not_cross_a_strict_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(make(lg.UCBE, batch_size=3), max_evaluations=31, strict=True)

    class Killed(BaseException):
        pass

    def die(self: Store, pull: lg.Pull, attempt: int, status: str, *rest: Any) -> None:
        if status == "released":
            raise Killed
        written(self, pull, attempt, status, *rest)

    written = Store._insert_result
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Store, "_insert_result", die)
        run(make(lg.UCBE, batch_size=3), max_evaluations=31, strict=True, store=tmp_path / "run.db")
    again = run(make(lg.UCBE, batch_size=3), never, max_evaluations=31, strict=True, store=tmp_path / "run.db")
    same_run(again, whole)


def test_a_budget_below_the_cheapest_batch() -> None:
    trace = run(make(), max_cost=0.01)
    assert (trace.n_steps, trace.stop_reason) == (1, "budget")
    trace = run(make(), max_cost=0.01, strict=True)
    assert (trace.n_steps, trace.stop_reason, trace.spent) == (0, "budget", 0.0)
    assert trace.to_frame().empty


def test_sums_of_prices_do_not_cost_a_batch() -> None:
    policy = lg.UCBE(1, 10, cost=0.1, batch_size=1)  # 0.1 + 0.1 + 0.1 > 0.3
    assert run(policy, lambda arm, examples: [0.5] * len(examples), max_cost=0.3, strict=True).n_steps == 3


def test_free_arms_run_until_nothing_is_left() -> None:
    trace = run(make(cost=0.0), budget=0.01)
    assert trace.n.sum() == K * N and trace.stop_reason in ("stop-signal", "exhausted")
    assert run(make(lg.UCBE, cost=0.0), budget=0.01).stop_reason == "exhausted"


def test_until_and_annealing() -> None:
    stopped = run(make())
    assert stopped.stop_reason == "stop-signal" and stopped.to_frame()["should_stop"].tolist()[-2:] == [False, True]
    on = run(make(), until="budget")
    assert on.n.sum() == K * N and on.stop_reason == "exhausted"
    same = on.to_frame().head(stopped.n_steps)
    pd.testing.assert_frame_equal(same, stopped.to_frame())
    assert run(make(anneal=True)).n.sum() == K * N
    assert run(make(anneal=True), until="stop-signal").stop_reason == "stop-signal"
    policy = make()
    run(policy)
    assert run(policy).n_steps == 0  # the signal has been given: nothing is bought


def test_true_costs_are_charged() -> None:
    policy = make(cost=None)
    trace = run(policy, lambda arm, examples: (look_up(arm, examples), 3.0 * len(examples)), max_cost=100.0)
    assert policy.spent == 3.0 * trace.n.sum()
    assert trace.to_frame()["cost_fraction"].isna().all()  # of an unknown total
    with pytest.raises(lg.ParameterError, match="max_cost or max_evaluations"):
        run(make(cost=None), budget=0.1)
    with pytest.raises(lg.ResponseError, match="true cost"):
        run(make(cost=None), max_cost=10.0)


def test_two_scores_in_a_tuple_are_two_scores() -> None:
    policy = lg.UCBE(2, 2, batch_size=2)
    run(policy, lambda arm, examples: (1.0, 0.0))
    assert policy.spent == 4.0 and policy.posterior()["mean"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "answer", [list, tuple, np.asarray, pd.Series, lambda s: [bool(x) for x in s], lambda s: (s.astype(np.float32), None)]
)
def test_answers_that_are_fine(answer: Callable[[Any], Any]) -> None:
    policy, plain = make(lg.UCBE), make(lg.UCBE)
    run(policy, lambda arm, examples: answer(look_up(arm, examples)), budget=0.3)
    run(plain, budget=0.3)
    same_state(policy, plain)


def test_score_range_and_ids() -> None:
    ids = [f"item-{j}" for j in range(N)]
    policy = make(lg.UCBE, examples=ids, score_range=(0, 100))
    run(policy, lambda arm, examples: [100 * SCORES[arm, ids.index(e)] for e in examples])
    np.testing.assert_allclose(policy.posterior()["mean"], 100 * SCORES.mean(axis=1))


def test_the_token_goes_to_those_who_take_it() -> None:
    seen: list[Any] = []

    def keywords(arm: int, examples: tuple[int, ...], **options: Any) -> Any:
        seen.append(options["token"])
        return look_up(arm, examples)

    class Method:
        def score(self, arm: int, examples: tuple[int, ...], token: str = "none") -> Any:
            seen.append(token)
            return look_up(arm, examples)

    for evaluator in (keywords, Method().score):
        seen.clear()
        trace = run(make(), evaluator)
        assert len(set(seen)) == trace.n_steps and "none" not in seen


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0.1, "max_cost": 1.0}, "exactly one of budget, max_cost and max_evaluations, got budget=0.1, max_cost=1.0"),
        ({"budget": None}, "exactly one.* got none"),
        ({"budget": 10}, "budget=0.1"),
        ({"budget": 0.0}, "budget must be above 0"),
        ({"max_cost": -1.0}, "max_cost"),
        ({"max_evaluations": 2.5}, "max_evaluations"),
        ({"n_workers": 0}, "n_workers"),
        ({"timeout": 0.0}, "timeout"),
        ({"until": "dawn"}, "until"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(lg.ParameterError, match=message):
        run(make(), **options)


def test_bad_evaluators_and_policies() -> None:
    async def coroutine(arm: int, examples: tuple[int, ...]) -> Any:
        return look_up(arm, examples)

    for evaluator, message in ((None, "must be a function"), (coroutine, "asyncio.run")):
        with pytest.raises(lg.ParameterError, match=message):
            run(make(), evaluator)  # type: ignore[arg-type]
    with pytest.raises(lg.ParameterError, match="must be a policy"):
        run("gittins")
    assert run(make(), lambda arm, examples: asyncio.run(coroutine(arm, examples))).stop_reason == "stop-signal"


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    run(make(), progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "evaluate" in err and "best=" in err
    run(make(), progress=False)
    assert capsys.readouterr() == ("", "")


class RoundRobin:
    """A policy of a user's own: the protocol, and nothing of the library's base class."""

    def __init__(self) -> None:
        self.inner = make(lg.UCBE)

    def __getattr__(self, name: str) -> Any:
        if name not in ("should_stop", "stop_reason", "status", "spent", "reserved", "n_pending", "ask", "tell", "attach", "release",
                        "expire", "recommend", "posterior", "save"):  # fmt: skip
            raise AttributeError(name)
        return getattr(self.inner, name)


def test_a_policy_of_the_users_own(tmp_path: Path) -> None:
    own, ours = RoundRobin(), make(lg.UCBE)
    assert run(own, max_evaluations=50).n_steps == run(ours, max_evaluations=50).n_steps
    same_state(own.inner, ours)
    with pytest.raises(lg.ParameterError, match="store needs a policy of this library"):
        run(RoundRobin(), max_cost=1.0, store=tmp_path / "run.db")
    with pytest.raises(lg.ParameterError, match="budget"):
        run(RoundRobin(), budget=0.5)
    own.ask()
    with pytest.raises(lg.ParameterError, match="1 pending"):
        run(own, max_cost=1.0)


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 4])
def test_exceptions_are_retried_and_never_become_scores(tmp_path: Path, workers: int) -> None:
    calls: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()

    def flaky(arm: int, examples: tuple[int, ...]) -> Any:
        with lock:
            calls.update((arm, e) for e in examples)
            worst = max(calls[arm, e] for e in examples)
        if arm == 1 and 3 in examples:
            raise RuntimeError("example 3 of arm 1 never works")
        if worst == 1 and examples[0] % 4 == 0:
            raise ConnectionError("try again")
        return np.ones(len(examples))

    policy = make(lg.UCBE, max_retries=2, batch_size=1)
    trace = run(policy, flaky, max_evaluations=10_000, n_workers=workers, store=tmp_path / "run.db")
    table = policy.posterior().set_index("arm")
    assert (table["mean"] == 1.0).all(), "a failure was counted as a score"
    assert calls[1, 3] == 3 and max(calls.values()) == 3
    assert table["n_observed"].tolist() == [24, 23, 24, 24, 24]
    assert table["n_errors"].sum() == 3 + 6 * K == sum(calls.values()) - (K * N - 1)
    assert trace.stop_reason == "exhausted" and policy.cells()["missing"] == 1
    charged = sum(COST[arm] * n for (arm, _), n in calls.items())  # failed calls are charged too
    assert policy.spent == pytest.approx(charged, rel=1e-12)
    assert len(lg.read_store(tmp_path / "run.db")) == K * N - 1
    again = make(lg.UCBE, max_retries=2, batch_size=1)
    same_run(run(again, never, max_evaluations=10_000, store=tmp_path / "run.db"), trace)
    same_state(again, policy)


def never(arm: int, examples: tuple[int, ...]) -> Any:
    raise AssertionError(f"evaluated again: {arm}, {examples}")


@pytest.mark.parametrize("workers", [1, 3])
def test_an_evaluator_that_fails_everywhere_ends_the_run(tmp_path: Path, workers: int) -> None:
    down = [False]
    calls: list[str] = []
    lock = threading.Lock()

    def evaluator(arm: Any, examples: Any, *, token: str) -> Any:
        with lock:
            calls.append(token)
            if down[0] and len(calls) > 4:
                raise ConnectionError("the key has expired")
        return [0.5] * len(examples)

    def fresh() -> lg.GittinsPolicy:
        return lg.GittinsPolicy(4, 60, batch_size=3, batch_schedule="constant", random_state=1)

    options: dict[str, Any] = {
        "max_evaluations": 120,
        "until": "budget",
        "store": tmp_path / "run.db",
        "n_workers": workers,
        "progress": False,
    }
    down[0] = True
    with pytest.raises(lg.ResponseError, match=r"failed [67] times in a row.*ConnectionError: the key has expired.*store keep"):
        lg.evaluate(fresh(), evaluator, max_consecutive_failures=6, **options)
    kept = lg.read_store(tmp_path / "run.db")
    n_called = len(calls)
    assert 10 <= n_called <= 11 + workers - 1  # another arm was tried, and what was in flight came back first
    down[0] = False
    policy = fresh()
    trace = lg.evaluate(policy, evaluator, max_consecutive_failures=6, **options)
    assert trace.stop_reason == "budget" and trace.n_repeated == 0
    assert len(set(calls)) == len(calls)  # no batch twice
    assert len(lg.read_store(tmp_path / "run.db")) > len(kept) > 0
    with pytest.raises(lg.ParameterError, match="max_consecutive_failures"):
        lg.evaluate(fresh(), evaluator, max_evaluations=5, max_consecutive_failures=0)


def test_failures_between_successes_do_not_add_up() -> None:
    n_calls = [0]

    def evaluator(arm: Any, examples: Any) -> Any:
        n_calls[0] += 1
        if n_calls[0] % 3:
            raise TimeoutError("busy")
        return [0.5] * len(examples)

    policy = lg.GittinsPolicy(3, 12, batch_size=1, batch_schedule="constant", max_retries=9)
    trace = lg.evaluate(policy, evaluator, budget=1.0, until="budget", max_consecutive_failures=3, progress=False)
    assert n_calls[0] > 12 and trace.stop_reason in ("budget", "exhausted")


class Broken:
    """Arms that raise, but for the calls from number `mended` on; every other arm gives its number over ten."""

    def __init__(self, arms: set[int], mended: int = 10**9) -> None:
        self.arms, self.mended = arms, mended
        self.calls: list[int] = []
        self.lock = threading.Lock()

    def __call__(self, arm: int, examples: tuple[int, ...]) -> Any:
        with self.lock:
            self.calls.append(arm)
            if arm in self.arms and len(self.calls) < self.mended:
                raise ConnectionError(f"model {arm} is gone")
        return [(arm + (example % 3)) / 15 for example in examples]


def ten_arms(**options: Any) -> lg.GittinsPolicy:
    return lg.GittinsPolicy(10, 40, batch_size=4, batch_schedule="constant", cost_scale=1e-4, tie_break="order", **options)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("bad", [0, 4])
def test_one_broken_arm_does_not_end_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture, workers: int, bad: int) -> None:
    evaluator, policy, path = Broken({bad}), ten_arms(), tmp_path / "run.db"
    options: dict[str, Any] = {"until": "budget", "max_consecutive_failures": 6}
    with caplog.at_level(logging.WARNING, logger="lrgittins.evaluate"):
        trace = run(policy, evaluator, max_evaluations=10_000, n_workers=workers, store=path, **options)
    assert trace.stop_reason == "exhausted"
    found_out = [record.message for record in caplog.records if "taken for broken" in record.message]
    table = policy.posterior().set_index("arm")
    assert table["n_observed"].tolist() == [0 if arm == bad else 40 for arm in range(10)]
    assert policy.recommend().arm == 9 and policy.cells()["missing"] == 40
    n_failed = evaluator.calls.count(bad)
    if workers == 1:  # with more, other arms may come between, and then its retries end it
        assert len(found_out) == 1 and found_out[0].startswith(f"arm {bad} failed 6 times") and n_failed == 7
    assert trace.n_skipped == 40 * 3 - 4 * n_failed and policy.spent == 9 * 40 + 4 * n_failed
    again = ten_arms()
    repeated = run(again, never, max_evaluations=10_000, store=path, **options)
    same_run(repeated, trace)
    same_state(again, policy)
    assert repeated.n_skipped == trace.n_skipped and repeated.n_repeated == 0


def test_skipped_examples_use_no_limit(tmp_path: Path) -> None:
    for store in (None, tmp_path / "run.db"):
        evaluator, policy = Broken({0}), ten_arms()
        trace = run(policy, evaluator, max_evaluations=200, until="budget", max_consecutive_failures=6, store=store)
        assert trace.stop_reason == "budget" and len(evaluator.calls) == 50 and trace.n_skipped > 0
    more = Broken({0})
    run(ten_arms(), more, max_evaluations=240, until="budget", max_consecutive_failures=6, store=tmp_path / "run.db")
    assert len(more.calls) == 10 and 0 not in more.calls


def test_all_arms_broken_and_mended(tmp_path: Path) -> None:
    path, options = tmp_path / "run.db", {"until": "budget", "max_consecutive_failures": 6}
    for _ in range(2):  # and again, from where it ended
        evaluator = Broken(set(range(10)))
        with pytest.raises(lg.ResponseError, match=r"failed 7 times in a row.*is gone.*store keep"):
            run(ten_arms(max_retries=20), evaluator, store=path, **options)
        assert len(evaluator.calls) == 7 and len(set(evaluator.calls)) == 2
    policy = ten_arms(max_retries=20)
    trace = run(policy, Broken(set()), store=path, max_evaluations=10_000, **options)
    assert trace.stop_reason == "exhausted" and trace.n_skipped == 0 == policy.cells()["missing"]


def test_an_outage_that_is_over_costs_no_arm_its_place() -> None:
    policy = ten_arms(max_retries=20)
    trace = run(policy, Broken({0}, mended=8), until="budget", max_evaluations=10_000, max_consecutive_failures=6)
    assert trace.n_skipped == 0 == policy.cells()["missing"]


def test_a_broken_arm_that_is_alone_is_named(tmp_path: Path) -> None:
    def fresh(**options: Any) -> lg.GittinsPolicy:
        return lg.GittinsPolicy(["only"], 100, batch_size=2, batch_schedule="constant", **options)

    def gone(arm: Any, examples: Any) -> Any:
        calls.append(arm)
        raise ConnectionError("gone")

    for options in ({}, {"cost": None}):
        calls: list[str] = []
        path = tmp_path / f"run{len(options)}.db"
        for n in (6, 12):  # each run tries again
            with pytest.raises(lg.ResponseError, match=r"arm 'only' failed .* times in a row.*mend the arm.*`arms` of a new policy"):
                if "cost" in options:
                    lg.evaluate(
                        fresh(**options), gone, max_cost=1e6, until="budget", max_consecutive_failures=6, store=path, progress=False
                    )
                else:
                    run(fresh(), gone, until="budget", max_consecutive_failures=6, store=path)
            assert len(calls) == n


def test_a_run_with_a_broken_arm_resumes_from_every_moment(tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_evaluations": 120, "until": "budget", "max_consecutive_failures": 4}
    whole_policy = ten_arms(max_retries=1)
    whole = run(whole_policy, Broken({1}), store=tmp_path / "whole.db", **options)
    assert whole.n_skipped > 0
    for stop in range(1, 26, 3):
        path, evaluator = tmp_path / f"{stop}.db", Broken({1})

        def interrupted(arm: Any, examples: Any, evaluator: Broken = evaluator, stop: int = stop) -> Any:
            if len(evaluator.calls) == stop:
                raise KeyboardInterrupt
            return evaluator(arm, examples)

        assert run(ten_arms(max_retries=1), interrupted, store=path, **options).stop_reason == "interrupted"
        policy = ten_arms(max_retries=1)
        assert len(evaluator.calls) == stop
        same_run(run(policy, evaluator, store=path, **options), whole)
        same_state(policy, whole_policy)


def test_on_error_raise_keeps_the_pull_for_the_next_run(tmp_path: Path) -> None:
    evaluator, policy = Recorder({4: ConnectionError("down")}), make(on_error="raise")
    with pytest.raises(lg.ResponseError, match="arm .*down.*on_error='raise'") as caught:
        run(policy, evaluator, store=tmp_path / "run.db")
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert policy.n_pending == 1 and policy.posterior()["n_errors"].sum() == 0
    again = make(on_error="raise")
    trace = run(again, evaluator, store=tmp_path / "run.db")
    assert evaluator.calls[3] == evaluator.calls[4], "the same batch under the same token"
    assert trace.n_repeated == 0, "a retry is not a repeat after a crash"
    unbroken = make(on_error="raise")
    same_run(trace, run(unbroken))
    same_state(again, unbroken)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda s: s[:-1], r"shape \(8,\), one per example"),
        (lambda s: np.append(s, 1.0), "one per example"),
        (lambda s: np.where(np.arange(len(s)) == 2, np.nan, s), "NaN, first at position 2"),
        (lambda s: 100 * s, "percent"),
        (lambda s: -np.ones(len(s)), "sentinel"),
        (lambda s: ["good"] * len(s), "must be numbers"),
        (lambda s: None, "returned None"),
        (lambda s: [[1.0], [1.0, 2.0]], "one number per example"),
        (lambda s: 0.5, "shape"),
        (lambda s: (s, -1.0), "cost of"),
        (lambda s: (s, float("nan")), "cost of"),
        (lambda s: (s, "free"), "cost of"),
    ],
)
def test_answers_that_cannot_be_scores(tmp_path: Path, fault: Any, message: str) -> None:
    evaluator, policy = Recorder({3: fault}), make(lg.UCBE)
    with pytest.raises(lg.ResponseError, match=message) as caught:
        run(policy, evaluator, store=tmp_path / "run.db")
    arm, examples, token = evaluator.calls[2]
    assert f"arm {arm!r}, examples {examples[0]}" in str(caught.value) and token in str(caught.value)
    assert policy.posterior()["n_errors"].tolist()[arm] == 8 and policy.n_pending == 0
    again = make(lg.UCBE)
    assert run(again, evaluator, store=tmp_path / "run.db").stop_reason == "exhausted"
    np.testing.assert_array_equal(again.posterior()["mean"], SCORES.mean(axis=1))
    assert Counter((a, e) for a, ex, _ in evaluator.calls for e in ex)[arm, examples[0]] == 2


def test_results_of_the_others_are_kept_when_one_answer_is_bad(tmp_path: Path) -> None:
    entered = threading.Barrier(3, timeout=20)

    def evaluator(arm: int, examples: tuple[int, ...], *, token: str) -> Any:
        serial = int(token.split("-")[1])
        if serial < 3:
            entered.wait()
        if serial == 1:
            return None
        time.sleep(0.05)
        return look_up(arm, examples)

    policy = make(lg.UCBE)
    with pytest.raises(lg.ResponseError, match="None"):
        run(policy, evaluator, n_workers=3, store=tmp_path / "run.db")
    assert policy.n_pending == 0 and policy.n_told == 3
    assert len(lg.read_store(tmp_path / "run.db")) == 16


def test_timeouts_are_recorded_and_late_results_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls: Counter[tuple[int, ...]] = Counter()
    released = threading.Event()
    returned = threading.Event()

    def slow_once(arm: int, examples: tuple[int, ...], *, token: str) -> Any:
        calls[(arm, *examples)] += 1
        if token.split("-")[1] == "2":
            released.wait(20)
            returned.set()
            return np.zeros(len(examples))  # late and wrong: it must not count
        if token.split("-")[1] == "6":  # the late result is in the queue before this one
            released.set()
            returned.wait(20)
            time.sleep(0.05)
        return np.ones(len(examples))

    policy = make(lg.UCBE)
    with caplog.at_level(logging.WARNING, logger="lrgittins.evaluate"):
        run(policy, slow_once, timeout=0.5, store=tmp_path / "run.db")
    table = policy.posterior()
    assert (table["mean"] == 1.0).all() and (table["n_observed"] == N).all()
    assert table["n_errors"].sum() == 8
    assert "came after its timeout and is refused" in caplog.text
    connection = sqlite3.connect(tmp_path / "run.db")
    assert connection.execute("SELECT COUNT(*) FROM results WHERE status = 'timeout'").fetchone() == (1,)
    connection.close()
    again = make(lg.UCBE)
    run(again, never, store=tmp_path / "run.db")
    same_state(again, policy)


def test_system_exit_is_no_failed_evaluation() -> None:
    for workers in (1, 2):
        policy = make()
        with pytest.raises(SystemExit):
            run(policy, Recorder({2: SystemExit(3)}), n_workers=workers)
        assert policy.posterior()["n_errors"].sum() == 0 and policy.n_pending >= 1


# -- workers ----------------------------------------------------------------------------------------------------------


def test_workers_run_at_the_same_time(tmp_path: Path) -> None:
    together = threading.Barrier(4, timeout=20)
    names = set()

    def evaluator(arm: int, examples: tuple[int, ...], *, token: str) -> Any:
        names.add(threading.current_thread().name)
        if int(token.split("-")[1]) < 4:
            together.wait()  # breaks unless four calls are inside at once
        return look_up(arm, examples)

    policy = make(lg.UCBE)
    run(policy, evaluator, n_workers=4, store=tmp_path / "run.db")
    assert len(names) == 4 and threading.current_thread().name not in names
    np.testing.assert_array_equal(policy.posterior()["mean"], SCORES.mean(axis=1))
    assert not [t for t in threading.enumerate() if t.name.startswith("lrgittins-evaluate")], "idle workers have ended"


@pytest.mark.parametrize("seed", range(3))
def test_four_workers_in_disorder(tmp_path: Path, seed: int) -> None:
    """Random durations, failures and limits: every cell at most once, money adds up, the log repeats the run."""
    lock, generator = threading.Lock(), np.random.default_rng(seed)
    running: set[tuple[int, int]] = set()
    done: set[tuple[int, int]] = set()

    def evaluator(arm: int, examples: tuple[int, ...]) -> Any:
        cells = {(arm, e) for e in examples}
        with lock:
            assert not cells & (running | done), "asked twice"
            running.update(cells)
            pause, fails = generator.exponential(0.001), generator.random() < 0.1
        time.sleep(pause)
        with lock:
            running.difference_update(cells)
            if fails:
                raise OSError("flaky")
            done.update(cells)
        return look_up(arm, examples), 0.5 * len(examples)

    policy = make(max_retries=20, batch_size=3)
    trace = run(policy, evaluator, budget=0.6, until="budget", n_workers=4, store=tmp_path / "run.db")
    assert trace.stop_reason == "budget" and policy.n_pending == 0
    assert policy.cells()["told"] == len(done) == len(lg.read_store(tmp_path / "run.db"))
    assert trace.cost.sum() == pytest.approx(policy.spent, rel=1e-12)
    again = make(max_retries=20, batch_size=3)
    same_run(run(again, never, budget=0.6, until="budget", store=tmp_path / "run.db"), trace)
    same_state(again, policy)


def test_reserved_costs_hold_workers_back() -> None:
    """With 8 of 10 spent or reserved, a third call of expected cost 8 is not started before the others are told."""
    most, inside, lock, together = 0, 0, threading.Lock(), threading.Event()

    def evaluator(arm: int, examples: tuple[int, ...]) -> Any:
        nonlocal most, inside
        with lock:
            inside += 1
            most = max(most, inside)
            if most == 2:
                together.set()
        assert together.wait(30.0)  # both calls are under way, however slow the machine is,
        time.sleep(0.05)  # and a third would have the time to start
        with lock:
            inside -= 1
        return look_up(arm, examples)

    policy = make(lg.UCBE, cost=1.0)
    trace = run(policy, evaluator, max_cost=10.0, n_workers=4)
    assert trace.n_steps == 2 and most == 2 and policy.spent == 16.0


# -- resuming ---------------------------------------------------------------------------------------------------------


def test_every_moment_of_a_run_resumes_to_the_same_end(tmp_path: Path) -> None:
    """The store after each of its commits, as a kill would leave it: the finished runs are all alike."""
    policy, evaluator = make(max_retries=1), Recorder({5: ConnectionError("once"), 9: OSError("twice")})
    full = run(policy, evaluator, max_evaluations=20, store=tmp_path / "full.db")
    whole = sqlite3.connect(tmp_path / "full.db")
    n = whole.execute("SELECT (SELECT COUNT(*) FROM intents) + (SELECT COUNT(*) FROM results)").fetchone()[0]
    assert n == 2 * len(evaluator.calls) == 2 * full.n_steps
    for cut in range(n + 1):
        part = sqlite3.connect(tmp_path / f"{cut}.db")
        whole.backup(part)
        part.execute("DELETE FROM results WHERE seq > ?", (cut,))
        part.execute("DELETE FROM intents WHERE seq > ?", (cut,))
        part.commit()
        part.close()
        skipped = cut // 2  # calls whose result is recorded
        rest = Recorder({at - skipped: fault for at, fault in evaluator.faults.items()})
        again = make(max_retries=1)
        trace = run(again, rest, max_evaluations=20, store=tmp_path / f"{cut}.db")
        assert rest.calls == evaluator.calls[skipped:], "same batches under the same tokens, none of those recorded"
        assert trace.n_repeated == cut % 2
        same_run(trace, full)
        same_state(again, policy)
    whole.close()


@pytest.mark.parametrize("given", ["fresh", "the same"])
def test_interrupt_in_the_evaluator(tmp_path: Path, given: str) -> None:
    evaluator, policy = Recorder({6: KeyboardInterrupt}), make()
    trace = run(policy, evaluator, store=tmp_path / "run.db")
    assert (trace.stop_reason, policy.stop_reason, trace.n_steps, policy.n_pending) == ("interrupted", "interrupted", 5, 1)
    again = policy if given == "the same" else make()
    trace = run(again, evaluator, store=tmp_path / "run.db")
    assert evaluator.calls[5] == evaluator.calls[6] and trace.n_repeated == 1
    unbroken = make()
    same_run(trace, run(unbroken))
    same_state(again, unbroken)


def test_interrupt_without_a_store_goes_on_with_the_policy() -> None:
    evaluator, policy, unbroken = Recorder({6: KeyboardInterrupt}), make(), make()
    run(policy, evaluator)
    trace = run(policy, evaluator)
    assert trace.n_repeated == 1 and evaluator.calls[5] == evaluator.calls[6]
    whole = run(unbroken)
    pd.testing.assert_frame_equal(
        trace.to_frame().drop(columns="step"), whole.to_frame().iloc[5:].reset_index(drop=True).drop(columns="step")
    )
    same_state(policy, unbroken)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("workers", [1, 3])
def test_ctrl_c(tmp_path: Path, workers: int) -> None:
    handler = signal.getsignal(signal.SIGINT)
    started = threading.Event()

    def evaluator(arm: int, examples: tuple[int, ...], *, token: str) -> Any:
        if int(token.split("-")[1]) >= 4:
            started.set()
            time.sleep(10 if workers > 1 else 0.5)  # threads are left behind, the calling thread is interrupted
        return look_up(arm, examples)

    def press() -> None:
        started.wait(10)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    before = time.monotonic()
    policy = make()
    trace = run(policy, evaluator, n_workers=workers, store=tmp_path / "run.db")
    presser.join()
    assert time.monotonic() - before < 5.0
    assert trace.stop_reason == "interrupted" and trace.n_steps == 4 and 1 <= policy.n_pending <= workers
    assert signal.getsignal(signal.SIGINT) is handler
    again = make()
    assert run(again, store=tmp_path / "run.db").n_repeated == policy.n_pending
    unbroken = make()
    run(unbroken)
    if workers == 1:
        same_state(again, unbroken)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_waits_for_the_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal between telling the policy and committing the result must not separate the two."""
    policy = make()
    tell = policy.tell

    def tell_and_interrupt(*args: Any, **options: Any) -> None:
        tell(*args, **options)
        if policy.n_told == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(policy, "tell", tell_and_interrupt)
    assert run(policy, store=tmp_path / "run.db").stop_reason == "interrupted"
    monkeypatch.undo()
    assert policy.n_told == 3 and len(lg.read_store(tmp_path / "run.db")) == 3
    trace = run(policy, store=tmp_path / "run.db")
    same_run(trace, run(make()))
    # One that comes with the last result ends nothing that has not ended, and is not swallowed either.
    policy = make()
    with pytest.raises(KeyboardInterrupt):
        monkeypatch.setattr(policy, "end", lambda reason: signal.raise_signal(signal.SIGINT))
        run(policy)


def test_a_finished_store_buys_nothing_and_a_larger_budget_goes_on(tmp_path: Path) -> None:
    policy = make()
    small = run(policy, budget=0.1, store=tmp_path / "run.db")
    assert small.stop_reason == "budget"
    same_run(run(make(), never, budget=0.1, store=tmp_path / "run.db"), small)
    same_run(run(policy, never, budget=0.1, store=tmp_path / "run.db"), small)
    whole = run(policy, store=tmp_path / "run.db")
    same_run(whole, run(make()))
    assert policy.stop_reason == "stop-signal"


def test_attached_results_and_loaded_policies(tmp_path: Path) -> None:
    def started() -> Any:
        policy = make()
        for j in range(4):
            policy.attach(3, j, SCORES[3, j], cost=1.0)
        policy.ask()
        policy.ask()
        return policy

    policy = started()
    pending = [(p.arm, p.examples, p.token) for p in policy.pending]
    policy.save(tmp_path / "policy.json")
    loaded = lg.GittinsPolicy.load(tmp_path / "policy.json")
    evaluator = Recorder({4: KeyboardInterrupt})
    trace = run(loaded, evaluator, store=tmp_path / "run.db")
    assert evaluator.calls[:2] == pending, "what was pending comes first, under its token"
    assert trace.n_repeated == 2
    again = lg.GittinsPolicy.load(tmp_path / "policy.json")
    trace = run(again, evaluator, store=tmp_path / "run.db")
    assert trace.n_repeated == 3
    by_hand = started()
    run(by_hand)
    same_state(again, by_hand)
    assert Counter((a, e) for a, ex, _ in evaluator.calls for e in ex)[3, 0] == 0


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("cost", {"cost": 2.0}),
        ("order", {"random_state": 1}),
        ("prior", {"prior_mean": 0.4}),
        ("options", {"batch_size": 4}),
        ("options", {"max_retries": 5}),
        ("arms", {"arms": list("abcde")}),
        ("examples", {"examples": [f"x{j}" for j in range(N)]}),
    ],
)
def test_the_store_of_another_run_is_refused_by_field(tmp_path: Path, field: str, options: dict[str, Any]) -> None:
    run(make(), max_evaluations=5, store=tmp_path / "run.db")
    settings: dict[str, Any] = {"cost": COST, "cost_scale": 1e-3, **options}
    policy = lg.GittinsPolicy(settings.pop("arms", K), N, **settings)
    with pytest.raises(lg.StateError, match=f"field '{field}'"):
        run(policy, never, store=tmp_path / "run.db")
    with pytest.raises(lg.StateError, match="field"):
        run(make(lg.UCBE), never, store=tmp_path / "run.db")
    assert policy.n_told == 0


def test_a_policy_with_another_history_is_refused_and_unchanged(tmp_path: Path) -> None:
    run(make(), max_evaluations=5, store=tmp_path / "run.db")
    policy = make()
    policy.attach(0, 0, 1.0)
    before = policy.to_state()
    with pytest.raises(lg.StateError, match="field 'cells'.*history"):
        run(policy, never, store=tmp_path / "run.db")
    assert policy.to_state() == before


def test_a_log_that_this_policy_would_not_have_written(tmp_path: Path) -> None:
    run(make(), max_evaluations=30, store=tmp_path / "run.db")
    connection = sqlite3.connect(tmp_path / "run.db")
    connection.execute("UPDATE intents SET arm = '0' WHERE seq > 3")
    connection.commit()
    connection.close()
    policy = make()
    before = policy.to_state()
    with pytest.raises(lg.StateError, match="entry .*asks for"):
        run(policy, never, store=tmp_path / "run.db")
    assert policy.to_state() == before


@pytest.mark.parametrize("column", ["scores = '[2.0]'", "scores = '[0.0, 0.0]'", "cost = -1.0"])
def test_a_log_with_results_that_cannot_be(tmp_path: Path, column: str) -> None:
    run(make(), max_evaluations=5, store=tmp_path / "run.db")
    connection = sqlite3.connect(tmp_path / "run.db")
    connection.execute(f"UPDATE results SET {column} WHERE seq = 4")
    connection.commit()
    connection.close()
    with pytest.raises(lg.StateError, match="entry 4 .*does not fit"):
        run(make(), never, store=tmp_path / "run.db")


def test_labels_that_a_store_cannot_keep(tmp_path: Path) -> None:
    policy = lg.UCBE([("a", 1), ("b", 2)], 4)
    with pytest.raises(lg.StateError, match="use str or int"):
        run(policy, store=tmp_path / "run.db")
    assert not (tmp_path / "run.db").exists()
    assert run(policy, lambda arm, examples: np.ones(len(examples))).stop_reason == "exhausted"


def test_two_runs_on_one_store(tmp_path: Path) -> None:
    inner: list[BaseException] = []

    def evaluator(arm: int, examples: tuple[int, ...]) -> Any:
        if not inner:
            with pytest.raises(lg.StoreError, match="in use") as caught:
                run(make(), never, store=tmp_path / "run.db")
            inner.append(caught.value)
        return look_up(arm, examples)

    assert run(make(), evaluator, store=tmp_path / "run.db").stop_reason == "stop-signal"
    assert len(inner) == 1


@pytest.mark.parametrize("options", [{"prior": "empirical-bayes"}, {"anneal": True}, {"target": "latent"}, {"example_order": "per-arm"}])
def test_policies_with_learning_state_resume_exactly(tmp_path: Path, options: dict[str, Any]) -> None:
    policy, evaluator = make(**options), Recorder({11: KeyboardInterrupt, 30: KeyboardInterrupt})
    for _ in range(3):
        trace = run(make(**options), evaluator, until="budget", store=tmp_path / "run.db")
    whole = run(policy, until="budget")
    same_run(trace, whole)
    assert trace.n_repeated == 2 and trace.stop_reason in STOP_REASONS
