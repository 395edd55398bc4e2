"""Traces: what a run records, where it stopped, net utility in the policy's own cost unit."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lrgittins as lg
from lrgittins.trace import TraceRecorder, score_per_cost

COLUMNS = ["step", "arm", "n", "cost", "cumulative_cost", "cost_fraction", "recommended", "regret", "should_stop"]


def two_arms() -> lg.ResponseMatrix:
    return lg.ResponseMatrix.from_array([[1, 1, 1, 0], [0, 0, 1, 0]], arms=["good", "bad"], cost=[3.0, 1.0])


def recorded(steps: int, **options: object) -> tuple[lg.GittinsPolicy, lg.Trace, list[dict]]:
    """A run told by hand, with what the policy said after each step."""
    responses = two_arms()
    policy = lg.GittinsPolicy(**{**responses.policy_arguments(), "batch_size": 2, "batch_schedule": "constant", **options})
    recorder = TraceRecorder(policy, responses.arms, total_cost=responses.total_cost, row_means=responses.row_means)
    seen = []
    for _ in range(steps):
        pull = policy.ask()
        assert pull is not None
        policy.tell(pull, responses.scores[responses.arms.index(pull.arm), list(pull.examples)])
        recorder.add(pull.arm, len(pull.examples), pull.cost)
        best = policy.recommend("completed")
        seen.append({"arm": pull.arm, "spent": policy.spent, "recommended": policy.recommend().arm, "stop": policy.should_stop,
                     "completed": best.arm if best.rule == "completed" else None})  # fmt: skip
    return policy, recorder.finish("interrupted", n_repeated=2, random_state=5), seen


def test_frame_holds_what_the_policy_said_after_each_batch() -> None:
    _, trace, seen = recorded(4)
    frame = trace.to_frame()
    assert list(frame.columns) == COLUMNS
    assert frame["step"].tolist() == [1, 2, 3, 4]
    assert frame["arm"].tolist() == [s["arm"] for s in seen]
    assert frame["cumulative_cost"].tolist() == [s["spent"] for s in seen]
    assert frame["recommended"].tolist() == [s["recommended"] for s in seen]
    assert frame["should_stop"].tolist() == [s["stop"] for s in seen]
    assert frame["n"].tolist() == [2] * 4
    # 4 examples at 3 and 4 at 1; the arms' means are 3/4 and 1/4.
    np.testing.assert_array_equal(frame["cost_fraction"], frame["cumulative_cost"] / 16.0)
    assert frame["regret"].tolist() == [0.0 if s["recommended"] == "good" else 0.5 for s in seen]
    assert [trace.arms[k] if k >= 0 else None for k in trace.completed] == [s["completed"] for s in seen]
    assert trace.stop_reason == "interrupted" and trace.n_repeated == 2 and trace.random_state == 5
    assert trace.spent == 16.0 and "16 of 16 spent" in repr(trace)


@pytest.mark.parametrize(("options", "unit"), [({"cost_unit": "mean"}, 2.0), ({"cost_unit": "raw"}, 1.0)])
def test_net_utility_is_score_minus_lambda_cost_at_the_stop(options: dict, unit: float) -> None:
    policy, trace, _ = recorded(4, cost_scale=0.01, **options)
    stop = trace.stop
    assert policy.stopped_at is not None and stop.step == policy.stopped_at and stop.reason == "stop-signal"
    assert stop.cost == policy.stopped_spent and stop.cost_fraction == stop.cost / 16.0
    mean = {"good": 0.75, "bad": 0.25}[stop.completed]
    assert stop.completed_regret == 0.75 - mean
    assert trace.net_utility == pytest.approx(mean - 0.01 * stop.cost / unit, abs=1e-15)


def test_net_utility_is_in_score_units_whatever_the_range() -> None:
    policy = lg.GittinsPolicy(2, 3, cost=[3.0, 1.0], cost_scale=0.01, score_range=(0, 100))
    assert score_per_cost(policy) == pytest.approx(0.01 * 100 / 2.0)
    assert score_per_cost(lg.GittinsPolicy(2, 3, cost=0.0, cost_scale=0.01)) == 0.01  # all-zero prices are not divided
    assert math.isnan(score_per_cost(lg.UCBE(2, 3)))


def test_no_batch_at_all() -> None:
    _, trace, _ = recorded(0)
    assert trace.n_steps == 0 and trace.spent == 0.0 and math.isnan(trace.net_utility)
    assert list(trace.to_frame().columns) == COLUMNS and len(trace.to_frame()) == 0
    stop = trace.stop
    assert (stop.step, stop.cost, stop.reason, stop.completed) == (0, 0.0, "interrupted", None)
    assert stop.regret == trace.initial_regret and stop.recommended == trace.arms[trace.initial]


def test_without_a_stop_signal_the_stop_is_the_end_and_utility_needs_a_completed_arm() -> None:
    policy, trace, _ = recorded(1)
    assert policy.stopped_at is None
    assert trace.stop.step == 1 and trace.stop.reason == "interrupted" and trace.stop.completed is None
    assert math.isnan(trace.net_utility) and math.isnan(trace.stop.completed_regret)


def test_unknown_truth_gives_nan_regret_and_the_observed_row_mean() -> None:
    responses = two_arms()
    policy = lg.GittinsPolicy(list(responses.arms), 4, batch_size=4, batch_schedule="constant", tie_break="order")
    recorder = TraceRecorder(policy, responses.arms, total_cost=8.0)
    pull = policy.ask()
    assert pull is not None
    policy.tell(pull, responses.scores[0, list(pull.examples)])
    recorder.add(pull.arm, 4, pull.cost)
    trace = recorder.finish("budget")
    assert np.isnan(trace.regret).all() and math.isnan(trace.initial_regret)
    assert trace.completed_score.tolist() == [0.75]


def test_arrays_are_read_only_and_labels_keep_their_type() -> None:
    _, trace, _ = recorded(2)
    for name in ("arm", "n", "cost", "cumulative_cost", "recommended", "completed", "completed_score", "should_stop"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(trace, name)[0] = 0
    responses = lg.ResponseMatrix.from_array([[1.0, 0.0], [0.0, 0.0]], arms=[("a", 1), ("b", 2)])
    frame = lg.replay(responses, "ucb-e", budget=1.0).to_frame()
    assert set(frame["arm"]) == {("a", 1), ("b", 2)}
