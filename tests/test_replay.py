"""Replays: the kernel against ask / tell step by step, budgets, fallbacks, what is refused."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrgittins as lg
from lrgittins._replay_fast import fits_kernel
from lrgittins.policies.protocol import Recommendation
from lrgittins.replay import replay_by_asking, run_policy

FIELDS = ("arm", "n", "cost", "cumulative_cost", "recommended", "completed", "completed_score", "should_stop")


def assert_same(one: lg.Trace, other: lg.Trace) -> None:
    """Equal to the last bit."""
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert (one.initial, one.stop_reason, one.total_cost) == (other.initial, other.stop_reason, other.total_cost)
    np.testing.assert_equal(one.net_utility, other.net_utility)
    assert one.stop == other.stop or math.isnan(one.stop.completed_regret)


def limits(responses: lg.ResponseMatrix, budget: float, strict: bool) -> tuple[float, float]:
    amount = budget * responses.total_cost
    if amount == 0.0:
        return math.inf, math.inf
    return amount * (1 - 1e-12), amount * (1 + 1e-12) if strict else math.inf


def binary(n_arms: int, n_examples: int, seed: int = 0, **options: Any) -> lg.ResponseMatrix:
    rng = np.random.default_rng(seed)
    scores = (rng.random((n_arms, n_examples)) < rng.uniform(0.2, 0.8, (n_arms, 1))).astype(float)
    return lg.ResponseMatrix.from_array(scores, **options)


def draw_case(seed: int) -> tuple[lg.ResponseMatrix, Any, float, bool]:
    """A matrix, a policy factory, a budget and `strict`, from one seed."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 8)), int(rng.integers(1, 19))
    kind = rng.choice(["binary", "thirds", "real"])
    levels = {"binary": rng.integers(0, 2, (k, n)), "thirds": rng.integers(0, 4, (k, n)) / 3, "real": rng.random((k, n))}
    scores = levels[str(kind)].astype(float)
    if rng.random() < 0.3:  # twins: ties all along
        scores[rng.integers(k)] = scores[rng.integers(k)]
    if rng.random() < 0.5:
        hole = rng.random((k, n)) < 0.3
        hole[np.arange(k), rng.integers(n, size=k)] = False
        scores[hole] = np.nan
    cost: Any = {
        "unit": None, "arm": rng.uniform(0.1, 5.0, k), "cell": rng.uniform(0.0, 3.0, (k, n)), "some free": rng.integers(0, 2, k) * 1.5,
        "free": np.zeros(k),
    }[str(rng.choice(["unit", "arm", "cell", "some free", "free"]))]  # fmt: skip
    responses = lg.ResponseMatrix.from_array(scores, cost=cost, arms=[f"arm {i}" for i in range(k)])
    common = {
        "batch_size": int(rng.integers(1, 6)), "tie_break": str(rng.choice(["random", "order"])), "random_state": int(rng.integers(1000)),
        "example_order": str(rng.choice(["common", "per-arm"])),
    }  # fmt: skip
    policy = str(rng.choice(["gittins", "gittins", "paper", "ucb-e", "sysrs"]))
    if policy == "gittins":
        schedule: Any = ["ramp", "constant", [1] * (n // 2) + [n - n // 2]][rng.integers(3)]
        per_arm = rng.random() < 0.3
        make: Any = partial(
            lg.GittinsPolicy, **common, batch_schedule=schedule, target=str(rng.choice(["empirical", "latent"])),
            recommendation=str(rng.choice(["lcb", "mean", "completed"])), cost_unit=str(rng.choice(["mean", "raw"])),
            cost_scale=float(rng.choice([0.0, 1e-4, 1e-2])), prior_mean=rng.uniform(0.2, 0.8, k) if per_arm else 0.5,
            prior_variance=rng.uniform(0.0, 0.1, k) if per_arm else float(rng.choice([0.0, 0.04])),
            noise_variance=rng.uniform(0.05, 0.3, k) if per_arm else 0.25,
        )  # fmt: skip
    elif policy == "paper":
        del common["example_order"]
        make = partial(lg.GittinsPolicy.paper, **common)
    elif policy == "ucb-e":
        make = partial(lg.UCBE, **common, a=float(rng.choice([0.0, 0.3, 1.0])))
    else:
        make = partial(lg.SySRs, **common, budget=int(rng.integers(1, k * n + 2)), cap=bool(rng.random() < 0.5))
    return responses, make, float(rng.choice([0.05, 0.3, 0.7, 1.0])), bool(rng.random() < 0.4)


@pytest.mark.property
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_kernel_trace_and_end_state_equal_ask_tell(seed: int) -> None:
    responses, make, budget, strict = draw_case(seed)
    fast, slow = make(**responses.policy_arguments()), make(**responses.policy_arguments())
    assert fits_kernel(fast, responses)
    trace = lg.replay(responses, fast, budget=budget, strict=strict)
    again = replay_by_asking(slow, responses, limits(responses, budget, strict), 0)
    slow.end(again.stop_reason)
    assert_same(trace, again)
    # The policy is left in the very state that ask / tell leaves: it can be read, saved, and asked on.
    assert fast.to_state() == slow.to_state()
    assert fast.recommend() == slow.recommend() or math.isnan(fast.recommend().std) or fast.recommend().n_observed == 0
    kept = make(**responses.policy_arguments())
    assert_same(run_policy(responses, kept, budget=budget, strict=strict, keep_state=False), trace)
    assert kept.spent == 0.0


@pytest.mark.property
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_budget_is_checked_after_the_batch_and_never_crossed_when_strict(seed: int) -> None:
    responses, make, budget, strict = draw_case(seed)
    trace = lg.replay(responses, make(**responses.policy_arguments()), budget=budget, strict=strict)
    amount = budget * responses.total_cost
    if amount > 0.0:
        before = trace.spent - (trace.cost[-1] if trace.n_steps else 0.0)
        assert before < amount
        if strict:
            assert trace.spent <= amount * (1 + 1e-12)
        if trace.stop_reason == "budget" and not strict:
            assert trace.spent >= amount * (1 - 1e-12)
    # No cell twice: an arm is never told more cells than it has.
    assert (np.bincount(trace.arm, weights=trace.n, minlength=responses.n_arms) <= responses.n_cells).all()
    # True costs: all cells told of an arm with one price cost that price.
    if responses.cost is None or responses.cost.ndim == 1:
        np.testing.assert_array_equal(trace.cost, trace.n * responses.arm_cost[trace.arm])
    if trace.stop_reason == "exhausted" and make.func is not lg.SySRs:
        assert trace.n.sum() == responses.n_cells.sum()


@pytest.mark.golden
@pytest.mark.parametrize("setting", ["unit_B3_empirical", "armspecific_B4_latent"])
def test_golden_trajectory_in_the_kernel(shared: Path, setting: str) -> None:
    golden = json.loads((shared / "golden/gittins/trajectory_4x12.json").read_text())
    wanted = golden["trajectories"][setting]
    p = wanted["params"]
    policy = lg.GittinsPolicy(
        4, 12, cost=p["cost"], prior_mean=p["mu0"], prior_variance=p["v0"], noise_variance=p["tau2"], batch_size=p["B"],
        cost_scale=p["lam"], cost_unit="raw", target=p["target"], batch_schedule="constant", example_order=golden["order"],
        tie_break="order",
    )  # fmt: skip
    responses = lg.ResponseMatrix.from_array(golden["Z"], cost=p["cost"])
    assert fits_kernel(policy, responses)
    trace = lg.replay(responses, policy, budget=1.0)
    assert trace.arm.tolist() == [step["arm"] for step in wanted["steps"]]
    assert trace.n.tolist() == [len(step["examples"]) for step in wanted["steps"]]
    assert trace.cumulative_cost.tolist() == [step["spent"] for step in wanted["steps"]]
    assert trace.recommended.tolist() == [step["rec_lcb"] for step in wanted["steps"]]
    assert trace.stop.step == wanted["first_stop_after_step"] == policy.stopped_at
    assert trace.initial == wanted["init"]["rec_lcb"] and trace.stop_reason == "exhausted"


def test_budget_counts_whole_batches_despite_rounding() -> None:
    responses = lg.ResponseMatrix.from_array(np.zeros((10, 30)), cost=0.1)  # total 30.000000000000004 or so
    trace = lg.replay(responses, "ucb-e", budget=0.8)
    assert trace.n.sum() == 240


@pytest.mark.parametrize("strict", [False, True])
def test_budget_below_the_cheapest_batch(strict: bool) -> None:
    responses = binary(3, 20)
    trace = lg.replay(responses, "ucb-e", budget=1e-6, strict=strict)
    assert trace.n_steps == (0 if strict else 1) and trace.stop_reason == "budget"
    assert len(trace.to_frame()) == trace.n_steps


def test_everything_free_of_charge_runs_until_complete() -> None:
    trace = lg.replay(binary(3, 20, cost=0.0), "gittins", budget=0.01)
    assert trace.stop_reason == "exhausted" and trace.n.sum() == 60 and (trace.cost_fraction == 0.0).all()
    assert trace.stop.step == trace.n_steps and trace.stop.reason == "stop-signal"  # free arms stop only when complete


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1)])
@pytest.mark.parametrize("name", ["gittins", "gittins-g", "ucb-e", "sysrs"])
def test_smallest_matrices(shape: tuple[int, int], name: str) -> None:
    trace = lg.replay(lg.ResponseMatrix.from_array(np.full(shape, 0.5)), name, budget=1.0)
    assert trace.stop_reason == "exhausted" and (trace.regret == 0.0).all()


@pytest.mark.parametrize(
    "options",
    [
        {"anneal": True}, {"prior": "empirical-bayes"}, {"cost": None}, {"score_range": (-2.0, 3.0)}, {"arms": list(range(5, -1, -1))},
        {"examples": list(range(29, -1, -1))},
    ],
)  # fmt: skip
def test_what_the_kernel_does_not_know_goes_through_ask_and_tell(options: dict) -> None:
    responses = binary(6, 30, seed=2, cost=np.linspace(1, 2, 6))
    arguments = {**responses.policy_arguments(), **options, "random_state": 1}
    one, other = lg.GittinsPolicy(**arguments), lg.GittinsPolicy(**arguments)
    assert not fits_kernel(one, responses)
    assert_same(lg.replay(responses, one, budget=0.4), replay_by_asking(other, responses, limits(responses, 0.4, False), 0))


def test_a_score_range_changes_no_decision() -> None:
    responses = binary(6, 40, seed=3)
    plain = lg.GittinsPolicy(**responses.policy_arguments(), random_state=4)
    scaled = lg.GittinsPolicy(**responses.policy_arguments(), random_state=4, score_range=(0, 128))  # exact in float64
    a, b = lg.replay(responses, plain, budget=0.5), lg.replay(responses, scaled, budget=0.5)
    assert a.arm.tolist() == b.arm.tolist() and a.recommended.tolist() == b.recommended.tolist()
    assert b.net_utility != a.net_utility or math.isnan(a.net_utility)


def test_a_policy_with_data_goes_on_from_there() -> None:
    responses = binary(4, 20, seed=5)
    policy = lg.UCBE(**responses.policy_arguments())
    policy.attach(2, 7, float(responses.scores[2, 7]), cost=5.0)
    trace = lg.replay(responses, policy, budget=0.3)
    assert trace.cumulative_cost[0] == 5.0 + trace.cost[0] and trace.spent >= 24.0 - 1e-9
    halves = lg.UCBE(**responses.policy_arguments(), random_state=9)
    lg.replay(responses, halves, budget=0.4)
    lg.replay(responses, halves, budget=0.8)
    whole = lg.UCBE(**responses.policy_arguments(), random_state=9)
    lg.replay(responses, whole, budget=0.8)
    assert halves.to_state() == whole.to_state()


class RoundRobin:
    """The least a policy can be: no optional attribute, arms in turn, one example at a time."""

    name = "round robin"

    def __init__(self, arms: list, n_examples: int, **_: Any) -> None:
        self._left = [(arm, j) for j in range(n_examples) for arm in arms]
        self._pending: dict[str, lg.Pull] = {}
        self._sums: dict[Any, float] = dict.fromkeys(arms, 0.0)
        self.spent = 0.0
        self.should_stop, self.stop_reason, self.reserved = False, None, 0.0

    @property
    def n_pending(self) -> int:
        return len(self._pending)

    @property
    def status(self) -> str:
        return "ready" if self._left else "exhausted"

    def ask(self) -> lg.Pull | None:
        if not self._left:
            return None
        arm, j = self._left.pop(0)
        pull = lg.Pull(f"{arm}-{j}", arm, (j,), 1.0)
        self._pending[pull.token] = pull
        return pull

    def tell(self, pull: Any, scores: Any, *, cost: float | None = None, status: str = "ok") -> None:
        del self._pending[pull.token]
        self._sums[pull.arm] += float(scores[0])
        self.spent += 1.0 if cost is None else cost

    def attach(self, arm: Any, example: Any, score: float, cost: float = 0.0) -> bool:
        raise NotImplementedError

    def release(self, pull: Any) -> None:
        del self._pending[pull.token]

    def expire(self, older_than: float) -> list:
        return []

    def recommend(self, rule: str | None = None) -> Recommendation:
        best = max(self._sums, key=lambda arm: self._sums[arm])
        return Recommendation(best, self._sums[best], math.nan, self._sums[best], 0, "sum")

    def posterior(self) -> Any:
        raise NotImplementedError

    def save(self, path: Any) -> None:
        raise NotImplementedError


def test_any_policy_object_can_be_replayed() -> None:
    responses = binary(3, 5, seed=1, arms=["a", "b", "c"])
    trace = lg.replay(responses, RoundRobin(["a", "b", "c"], 5), budget=0.5)
    assert trace.policy == "round robin" and trace.arm.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    first_two = responses.scores[:, :2].sum(axis=1)
    assert responses.arms[trace.recommended[5]] == "abc"[int(first_two.argmax())]
    assert math.isnan(trace.net_utility) and trace.stop.reason == "budget"


def test_names_factories_and_classes_are_built_with_the_seed() -> None:
    responses = binary(5, 30, seed=6)
    by_name = lg.replay(responses, "gittins", random_state=3)
    by_class = lg.replay(responses, lg.GittinsPolicy, random_state=3)
    by_factory = lg.replay(responses, partial(lg.GittinsPolicy, batch_size=8), random_state=3)
    assert_same(by_name, by_class)
    assert_same(by_name, by_factory)
    assert by_name.random_state == 3
    assert lg.replay(responses, "gittins", random_state=4).arm.tolist() != by_name.arm.tolist()


def test_inputs_are_left_alone_and_memory_maps_are_fine(tmp_path: Path) -> None:
    responses = binary(5, 30, seed=7)
    before = responses.scores.copy()
    trace = lg.replay(responses, "gittins")
    np.testing.assert_array_equal(responses.scores, before)
    np.save(tmp_path / "scores.npy", before)
    mapped = lg.ResponseMatrix(np.load(tmp_path / "scores.npy", mmap_mode="r"), responses.arms, responses.examples)
    assert_same(lg.replay(mapped, "gittins"), trace)


def test_what_is_refused() -> None:
    responses = lg.ResponseMatrix.from_array([[1.0, np.nan, 0.0], [0.0, 1.0, 1.0]], arms=["a", "b"])
    for budget in (0.0, -0.1, 1.5, math.nan, "0.1", True):
        with pytest.raises(lg.ParameterError, match="budget"):
            lg.replay(responses, "gittins", budget=budget)  # type: ignore[arg-type]
    with pytest.raises(lg.ParameterError, match="budget=0.1"):
        lg.replay(responses, "gittins", budget=10)
    with pytest.raises(lg.ParameterError, match="ResponseMatrix"):
        lg.replay(np.ones((2, 3)), "gittins")  # type: ignore[arg-type]
    with pytest.raises(lg.ParameterError, match="unknown policy 'gitins'.*did you mean 'gittins'"):
        lg.replay(responses, "gitins")
    with pytest.raises(lg.ParameterError, match="different arms.*'c'.*'b'"):
        lg.replay(responses, lg.UCBE(["a", "c"], 3))
    with pytest.raises(lg.ParameterError, match="examples that the matrix does not have.*9"):
        lg.replay(responses, lg.UCBE(["a", "b"], 3, examples=[0, 1, 9]))
    with pytest.raises(lg.ResponseError, match="cells without a score.*missing=responses.missing"):
        lg.replay(responses, lg.UCBE(["a", "b"], 3), budget=1.0)
    policy = lg.UCBE(**responses.policy_arguments())
    policy.ask()
    with pytest.raises(lg.StateError, match="1 pending"):
        lg.replay(responses, policy)
