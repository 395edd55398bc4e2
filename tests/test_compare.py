"""Comparisons: seeds and orders, aggregation by hand, names, files, pictures."""

from __future__ import annotations

import json
import math
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg
from lrgittins.policy_names import BUCKETS, POLICIES, build_policy, nearest_bucket

NAMES = ["gittins", "gittins-g", "gittins-s", "ucb-e", "sysrs"]


def binary(n_arms: int = 6, n_examples: int = 40, seed: int = 0, **options: object) -> lg.ResponseMatrix:
    rng = np.random.default_rng(seed)
    scores = (rng.random((n_arms, n_examples)) < rng.uniform(0.2, 0.8, (n_arms, 1))).astype(float)
    return lg.ResponseMatrix.from_array(scores, **options)


@pytest.fixture(scope="module")
def comparison() -> lg.PolicyComparison:
    matrices = {"one": binary(seed=1), "two": binary(5, 30, seed=2, cost=[1.0, 2.0, 0.5, 3.0, 1.0])}
    return lg.compare(matrices, NAMES, budget=0.5, n_runs=4, progress=False)


def test_each_run_is_the_replay_with_its_seed(comparison: lg.PolicyComparison) -> None:
    matrices = {"one": binary(seed=1), "two": binary(5, 30, seed=2, cost=[1.0, 2.0, 0.5, 3.0, 1.0])}
    frame, stops = comparison.to_frame(), comparison.stops()
    assert len(stops) == 2 * 5 * 4 and stops["policy"].tolist()[::4][:5] == NAMES
    for row in stops.itertuples():
        trace = lg.replay(matrices[row.matrix], row.policy, budget=0.5, random_state=row.seed)
        steps = frame[(frame["matrix"] == row.matrix) & (frame["policy"] == row.policy) & (frame["run"] == row.run)]
        wanted = trace.to_frame()
        for name in ("step", "cumulative_cost", "cost_fraction", "recommended", "regret", "should_stop"):
            np.testing.assert_array_equal(steps[name], wanted[name], err_msg=name)
        stop = trace.stop
        assert (row.step, row.regret, row.reason, row.stop_reason) == (stop.step, stop.regret, stop.reason, trace.stop_reason)
        np.testing.assert_equal((row.net_utility, row.completed_regret), (trace.net_utility, stop.completed_regret))


def test_policies_of_a_run_share_their_orders() -> None:
    responses = binary()
    built = {name: build_policy(name, responses, budget=0.5, random_state=11) for name in NAMES}
    for group in (("gittins", "sysrs"), ("gittins-g", "gittins-s", "ucb-e")):
        for name in group[1:]:
            np.testing.assert_array_equal(built[name].ledger.order, built[group[0]].ledger.order)
            np.testing.assert_array_equal(built[name].tie_order, built[group[0]].tie_order)
    other = build_policy("gittins", responses, budget=0.5, random_state=12)
    assert (other.ledger.order != built["gittins"].ledger.order).any()


def test_seeds_depend_on_run_and_matrix_only(comparison: lg.PolicyComparison) -> None:
    fewer = lg.compare({"two": binary(5, 30, seed=2, cost=[1.0, 2.0, 0.5, 3.0, 1.0])}, ["ucb-e"], budget=0.5, n_runs=2, progress=False)
    stops = comparison.stops()
    wanted = stops[(stops["matrix"] == "two") & (stops["policy"] == "ucb-e") & (stops["run"] < 2)].reset_index(drop=True)
    pd.testing.assert_frame_equal(fewer.stops(), wanted)
    assert stops["seed"].nunique() == 8
    seeds = stops.groupby(["matrix", "run"])["seed"].nunique()
    assert (seeds == 1).all()


def test_results_do_not_depend_on_n_jobs() -> None:
    matrices = {"a": binary(4, 20, seed=3), "b": binary(4, 20, seed=4)}
    policies = {"named": "ucb-e", "made": partial(lg.UCBE, batch_size=3)}
    one = lg.compare(matrices, policies, n_runs=2, budget=0.6, progress=False)
    two = lg.compare(matrices, policies, n_runs=2, budget=0.6, progress=False, n_jobs=2)
    pd.testing.assert_frame_equal(one.to_frame(), two.to_frame())
    pd.testing.assert_frame_equal(one.at(0.5), two.at(0.5))
    assert one.to_dict() == two.to_dict()


def regret_by_hold(frame: pd.DataFrame, fraction: float, before: float) -> float:
    """The last recommendation that fits, read off the frame."""
    held = frame[frame["cost_fraction"] <= fraction + 1e-12]
    return before if held.empty else float(held["regret"].iloc[-1])


@pytest.mark.oracle
def test_at_is_step_hold_with_errors_within_and_between(comparison: lg.PolicyComparison) -> None:
    fractions = [0.001, 0.05, 0.3, 0.5]
    table, frame = comparison.at(fractions), comparison.to_frame()
    assert list(table.columns) == ["matrix", "policy", "cost_fraction", "regret", "std_error", "std_error_between", "n_runs"]
    by_matrix: dict[tuple, tuple] = {}
    for matrix in ("one", "two"):
        facts = comparison.matrices[matrix]
        for policy in NAMES:
            initial = {r.run: r.initial for r in comparison.runs if (r.matrix, r.policy) == (matrix, policy)}
            for fraction in fractions:
                values = [
                    regret_by_hold(
                        frame[(frame["matrix"] == matrix) & (frame["policy"] == policy) & (frame["run"] == run)],
                        fraction,
                        facts.row_means.max() - facts.row_means[initial[run]],
                    )
                    for run in range(4)
                ]
                row = table[(table["matrix"] == matrix) & (table["policy"] == policy) & (table["cost_fraction"] == fraction)].iloc[0]
                mean, error = np.mean(values), np.std(values, ddof=1) / 2.0
                assert row["regret"] == pytest.approx(mean, abs=1e-14) and row["std_error"] == pytest.approx(error, abs=1e-14)
                assert math.isnan(row["std_error_between"]) and row["n_runs"] == 4
                by_matrix[matrix, policy, fraction] = mean, error
    for row in table[table["matrix"] == "all"].itertuples():
        (a, ea), (b, eb) = (by_matrix[matrix, row.policy, row.cost_fraction] for matrix in ("one", "two"))
        assert row.regret == pytest.approx((a + b) / 2, abs=1e-14)
        assert row.std_error == pytest.approx(math.hypot(ea, eb) / 2, abs=1e-14)
        assert row.std_error_between == pytest.approx(abs(a - b) / 2, abs=1e-14)  # sd of two numbers over sqrt 2
        assert row.n_runs == 8


def test_default_fractions_are_those_within_the_budget(comparison: lg.PolicyComparison) -> None:
    assert sorted(set(comparison.at()["cost_fraction"])) == [0.01, 0.02, 0.05, 0.1]
    short = lg.compare(binary(), "ucb-e", budget=0.02, n_runs=1, progress=False)
    assert short.at()["cost_fraction"].tolist() == [0.01, 0.02]
    assert short.at()["std_error"].isna().all()  # one run has no standard error
    with pytest.raises(lg.ParameterError, match=r"\(0, 0.02\]"):
        short.at([0.01, 0.05])


@pytest.mark.oracle
def test_linear_curves_interpolate_and_never_extrapolate() -> None:
    short = lg.compare(binary(), ["sysrs", "ucb-e"], budget=0.5, n_runs=3, progress=False)
    grid = np.linspace(0.0, 0.5, 41)
    curve, frame = short.curve(grid=41), short.to_frame()
    assert len(short.curve()) == 2 * 350
    for policy in ("sysrs", "ucb-e"):
        values = []
        for run in range(3):
            steps = frame[(frame["policy"] == policy) & (frame["run"] == run)]
            x, y = steps["cost_fraction"].to_numpy(), steps["regret"].to_numpy()
            line = np.interp(grid, x, y)
            line[(grid < x[0] - 1e-12) | (grid > x[-1] + 1e-12)] = np.nan
            values.append(line)
        rows = curve[curve["policy"] == policy]
        there = (~np.isnan(values)).sum(axis=0)
        assert rows["n_runs"].tolist() == there.tolist() and there[0] == 0
        full = there == 3
        np.testing.assert_allclose(rows["regret"][full], np.mean(values, axis=0)[full], atol=1e-14)
        np.testing.assert_allclose(rows["std_error"][full], np.std(values, axis=0, ddof=1)[full] / math.sqrt(3), atol=1e-14)
    step = short.curve(grid=[0.1, 0.3], how="step")
    np.testing.assert_array_equal(step["regret"], short.at([0.1, 0.3])["regret"])
    with pytest.raises(lg.ParameterError, match="ascending"):
        short.curve(grid=[0.3, 0.1])


def test_gittins_s_takes_the_nearest_bucket_and_is_labelled_hindsight(comparison: lg.PolicyComparison) -> None:
    for mean, bucket in ((0.05, BUCKETS[0]), (0.45, BUCKETS[1]), (0.6, BUCKETS[2]), (0.97, BUCKETS[3])):
        responses = lg.ResponseMatrix.from_array(np.full((2, 3), mean))
        assert nearest_bucket(responses) == bucket
        policy = build_policy("gittins-s", responses, budget=0.5)
        assert (policy.prior_mean == bucket[0]).all() and (policy.prior_variance == bucket[1]).all() and policy.cost_unit == "raw"
    assert comparison.policies["gittins-s"] == "gittins-s (hindsight)" and comparison.policies["gittins"] == "gittins"


def test_sysrs_is_planned_for_the_budget_in_cells() -> None:
    assert build_policy("sysrs", lg.ResponseMatrix.from_array(np.zeros((10, 30))), budget=0.1).budget == 30
    assert build_policy("sysrs", lg.ResponseMatrix.from_array(np.zeros((2, 3))), budget=0.1).budget == 1


def test_stop_summary_averages_over_the_runs_that_stopped(comparison: lg.PolicyComparison) -> None:
    summary, stops = comparison.stop_summary(), comparison.stops()
    assert len(summary) == 10
    for row in summary.itertuples():
        runs = stops[(stops["matrix"] == row.matrix) & (stops["policy"] == row.policy)]
        stopped = runs[runs["reason"] == "stop-signal"]
        assert row.stopped == len(stopped) / 4
        np.testing.assert_allclose(row.net_utility, stopped["net_utility"].mean(), atol=1e-14)
        np.testing.assert_allclose(row.cost_fraction, stopped["cost_fraction"].mean(), atol=1e-14)
    assert (summary.loc[summary["policy"].isin(["ucb-e", "sysrs"]), "stopped"] == 0.0).all()
    assert (summary.loc[summary["policy"] == "gittins", "stopped"] > 0.0).all()


def test_to_dict_is_strict_json(comparison: lg.PolicyComparison) -> None:
    data = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert data["n_runs"] == 4 and data["random_state"] == 0 and data["policies"]["gittins-s"].endswith("(hindsight)")
    assert len(data["at"]) == 3 * 5 * 4 and len(data["stops"]) == 40
    assert any(row["net_utility"] is None for row in data["stops"])
    assert data["stops"][0]["seed"] == comparison.runs[0].seed


def test_random_states(comparison: lg.PolicyComparison) -> None:
    responses = binary(4, 20)
    seeds = [
        lg.compare(responses, "ucb-e", n_runs=1, progress=False, random_state=state).runs[0].seed
        for state in (0, 0, 1, np.random.default_rng(5), np.random.default_rng(5), np.random.SeedSequence(5), None, None)
    ]
    assert seeds[0] == seeds[1] and seeds[3] == seeds[4]
    assert len(set(seeds)) == 6


def test_all_share_one_result_when_strict() -> None:
    strict = lg.compare(binary(), NAMES, budget=0.1, strict=True, n_runs=2, progress=False)
    assert (strict.to_frame()["cost_fraction"] <= 0.1 + 1e-12).all()


def test_what_is_refused() -> None:
    responses = binary(3, 10)
    run = partial(lg.compare, n_runs=1, progress=False)
    for name in ("ucbe", "prompt-eval"):
        with pytest.raises(lg.ParameterError, match=re.escape(", ".join(POLICIES))):
            run(responses, ["gittins", name])
    with pytest.raises(lg.ParameterError, match="one run would use up"):
        run(responses, [lg.UCBE(3, 10)])
    with pytest.raises(lg.ParameterError, match="mapping"):
        run(responses, [lambda **kw: lg.UCBE(**kw)])
    with pytest.raises(lg.ParameterError, match="two policies are called 'ucb-e'"):
        run(responses, ["ucb-e", "ucb-e"])
    with pytest.raises(lg.ParameterError, match="empty"):
        run(responses, [])
    with pytest.raises(lg.ParameterError, match="not a policy"):
        run(responses, {"odd": lambda **_: 3})
    with pytest.raises(lg.ParameterError, match="budget=0.1"):
        run(responses, "gittins", budget=10)
    with pytest.raises(lg.ParameterError, match="n_runs"):
        lg.compare(responses, "gittins", n_runs=0)
    with pytest.raises(lg.ParameterError, match="n_jobs"):
        run(responses, "gittins", n_jobs=0)
    with pytest.raises(lg.ParameterError, match="random_state"):
        run(responses, "gittins", random_state=-1)
    for bad in ({}, {"a": np.ones((2, 2))}, np.ones((2, 2)), {"all": responses, "b": responses}, {1: responses, "1": responses}):
        with pytest.raises(lg.ParameterError, match=r"matri|ResponseMatrix"):
            run(bad, "gittins")


def test_picture(comparison: lg.PolicyComparison) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    axes = comparison.plot(ax=figure.add_subplot())
    assert [text.get_text() for text in axes.get_legend().get_texts()][: len(comparison.policies)] == list(comparison.policies.values())
    assert axes.get_title() == "mean of 2 matrices, 4 runs"
    line = axes.get_lines()[0]
    wanted = comparison.curve(how="step")
    wanted = wanted[(wanted["matrix"] == "all") & (wanted["policy"] == "gittins")]
    np.testing.assert_array_equal(line.get_ydata(), wanted["regret"])
    np.testing.assert_allclose(line.get_xdata(), 100 * wanted["cost_fraction"])
    assert comparison.plot(ax=figures.Figure().add_subplot(), matrix="two").get_title() == "two, 4 runs"
    logged = comparison.plot(ax=figures.Figure().add_subplot(), matrix="one", log=True, grid=20)
    x, y = logged.get_lines()[0].get_xdata(), logged.get_lines()[0].get_ydata()
    assert logged.get_xscale() == "log" and len(x) == 20
    assert (x[0], x[-1]) == (pytest.approx(0.5), pytest.approx(50.0))
    assert y[-1] == comparison.at(0.5)["regret"].iloc[0]
    with pytest.raises(lg.ParameterError, match="no matrix 'three'"):
        comparison.plot(matrix="three")
