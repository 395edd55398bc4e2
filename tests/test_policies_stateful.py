"""Random sequences of every call a driver can make, checked against a plain model of the cells and the money."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lrgittins as lg

N_ARMS, N_EXAMPLES, MAX_RETRIES = 3, 7, 1
MISSING = np.zeros((N_ARMS, N_EXAMPLES), dtype=bool)
MISSING[1, [2, 5]] = True


class Driver(RuleBasedStateMachine):
    """`cells` maps (arm, example) to free | pending | told | attached | missing; absent cells are missing from the start."""

    @initialize(
        kind=st.sampled_from(["gittins", "annealed", "ucb-e", "ucb-e-lrf", "sysrs", "prompteval"]),
        seed=st.integers(0, 3),
        batch=st.integers(1, 4),
    )
    def start(self, kind: str, seed: int, batch: int) -> None:
        options: dict[str, Any] = {"missing": MISSING, "batch_size": batch, "max_retries": MAX_RETRIES, "random_state": seed}
        options["cost"] = [1.0, 0.25, 0.0]
        if kind == "ucb-e":
            self.policy: Any = lg.UCBE(N_ARMS, N_EXAMPLES, **options)
        elif kind == "sysrs":
            self.policy = lg.SySRs(N_ARMS, N_EXAMPLES, budget=15, cap=False, **options)
        elif kind == "ucb-e-lrf":
            self.policy = lg.LowRankUCBE(N_ARMS, N_EXAMPLES, warmup=0.3, ensemble=4, iterations=3, **options)
        elif kind == "prompteval":
            self.policy = lg.PromptEvalBAI(N_ARMS, N_EXAMPLES, budget=15, **options)
        else:
            self.policy = lg.GittinsPolicy(N_ARMS, N_EXAMPLES, cost_scale=0.02, anneal=kind == "annealed", **options)
        self.cells = {(k, j): "missing" if MISSING[k, j] else "free" for k in range(N_ARMS) for j in range(N_EXAMPLES)}
        self.scores: dict[tuple[int, int], float] = {}
        self.failures: dict[tuple[int, int], int] = {}
        self.pulls: list[lg.Pull] = []
        self.done: list[lg.Pull] = []
        self.charged: list[float] = []

    @rule()
    def ask(self) -> None:
        pull = self.policy.ask()
        if pull is None:
            assert self.policy.status == ("waiting" if self.pulls else "exhausted")
            return
        assert len(pull.examples) >= 1
        for example in pull.examples:
            assert self.cells[pull.arm, example] == "free", "asked twice, or asked although known"
            self.cells[pull.arm, example] = "pending"
        assert pull.token not in {p.token for p in self.pulls + self.done}
        self.pulls.append(pull)

    @precondition(lambda self: self.pulls)
    @rule(data=st.data(), cost=st.none() | st.sampled_from([0.0, 0.5, 3.0]))
    def tell(self, data: st.DataObject, cost: float | None) -> None:
        pull = self.pulls.pop(data.draw(st.integers(0, len(self.pulls) - 1)))
        values = [0.0, 1.0] if isinstance(self.policy, lg.PromptEvalBAI) else [0.0, 0.3, 1.0]
        scores = data.draw(st.lists(st.sampled_from(values), min_size=len(pull.examples), max_size=len(pull.examples)))
        self.policy.tell(pull, scores, cost=cost)
        self.charged.append(pull.cost if cost is None else cost)
        self.done.append(pull)
        for example, score in zip(pull.examples, scores, strict=True):
            self.cells[pull.arm, example] = "told"
            self.scores[pull.arm, example] = score

    @precondition(lambda self: self.pulls)
    @rule(data=st.data(), whole=st.booleans())
    def fail(self, data: st.DataObject, whole: bool) -> None:
        pull = self.pulls.pop(data.draw(st.integers(0, len(self.pulls) - 1)))
        n = len(pull.examples)
        failed = [True] * n if whole else data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
        self.policy.tell(pull, None if whole else np.where(failed, np.nan, 1.0), status="timeout")
        if not any(failed):  # scores without a NaN are placeholders where the status says that the batch failed
            failed = [True] * n
        self.charged.append(pull.cost)
        self.done.append(pull)
        for example, bad in zip(pull.examples, failed, strict=True):
            cell = pull.arm, example
            if bad:
                self.failures[cell] = self.failures.get(cell, 0) + 1
                self.cells[cell] = "missing" if self.failures[cell] > MAX_RETRIES else "free"
            else:
                self.cells[cell], self.scores[cell] = "told", 1.0

    @precondition(lambda self: self.pulls)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self._give_back(self.pulls.pop(data.draw(st.integers(0, len(self.pulls) - 1))))

    def _give_back(self, pull: lg.Pull, *, call: bool = True) -> None:
        if call:
            self.policy.release(pull)
        self.done.append(pull)
        for example in pull.examples:
            self.cells[pull.arm, example] = "free"

    @rule()
    def expire(self) -> None:
        assert self.policy.expire(older_than=3600) == []
        gone = self.policy.expire(older_than=0)
        assert gone == self.pulls
        for pull in gone:
            self._give_back(pull, call=False)
        self.pulls = []

    @rule(arm=st.integers(0, N_ARMS - 1), example=st.integers(0, N_EXAMPLES - 1), score=st.sampled_from([0.0, 1.0]))
    def attach(self, arm: int, example: int, score: float) -> None:
        now = self.cells[arm, example]
        if now == "free":
            assert self.policy.attach(arm, example, score, cost=0.125)
            self.charged.append(0.125)
            self.cells[arm, example], self.scores[arm, example] = "attached", score
        elif now in ("told", "attached") and self.scores[arm, example] == score:
            assert not self.policy.attach(arm, example, score, cost=0.125)
        else:
            with pytest.raises(lg.StateError):
                self.policy.attach(arm, example, score, cost=0.125)

    @precondition(lambda self: self.done)
    @rule(data=st.data())
    def tell_too_late(self, data: st.DataObject) -> None:
        pull = self.done[data.draw(st.integers(0, len(self.done) - 1))]
        with pytest.raises(lg.StateError):
            self.policy.tell(pull, np.ones(len(pull.examples)))

    @precondition(lambda self: self.pulls)
    @rule(data=st.data())
    def tell_percent(self, data: st.DataObject) -> None:
        pull = self.pulls[data.draw(st.integers(0, len(self.pulls) - 1))]
        with pytest.raises(lg.ResponseError):
            self.policy.tell(pull, np.full(len(pull.examples), 55.0))

    @rule()
    def save_and_load(self) -> None:
        text = json.dumps(self.policy.to_state(), allow_nan=False)
        resumed = type(self.policy).from_state(json.loads(text))
        assert resumed.posterior().equals(self.policy.posterior())
        assert json.dumps(resumed.to_state(), sort_keys=True) == json.dumps(self.policy.to_state(), sort_keys=True)
        self.policy = resumed

    @invariant()
    def cells_and_money_add_up(self) -> None:
        if not hasattr(self, "cells"):
            return
        counts = self.policy.cells()
        states = list(self.cells.values())
        assert counts == {name: states.count(name) for name in ("free", "pending", "told", "attached", "missing")}
        assert sum(counts.values()) == N_ARMS * N_EXAMPLES
        assert self.policy.spent == pytest.approx(sum(self.charged), abs=1e-12)
        assert self.policy.reserved == pytest.approx(sum(p.cost for p in self.pulls), abs=1e-12)
        assert self.policy.pending == tuple(self.pulls) and self.policy.n_pending == len(self.pulls)
        for k in range(N_ARMS):
            observed = [self.scores[k, j] for j in range(N_EXAMPLES) if self.cells[k, j] in ("told", "attached")]
            assert self.policy.ledger.n_seen[k] == len(observed)
            assert self.policy.ledger.total[k] == pytest.approx(sum(observed), abs=1e-12)

    @invariant()
    def everything_cached_equals_everything_recomputed(self) -> None:
        if not isinstance(getattr(self, "policy", None), lg.GittinsPolicy):
            return
        policy = self.policy
        before = [policy._ask_by_place.copy(), policy._index.copy(), policy._lcb_by_place.copy(), policy._n_complete]
        policy._rebuild()
        after = [policy._ask_by_place, policy._index, policy._lcb_by_place, policy._n_complete]
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(old, new)


TestDriver = Driver.TestCase
TestDriver.settings = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
TestDriver = pytest.mark.property(TestDriver)
