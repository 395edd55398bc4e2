"""The selection paper's plotting rule: which part of a run is drawn, worked out by hand and on real runs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import lrgittins as lg
from lrgittins.comparison import MatrixFacts, PolicyComparison, RunRecord
from lrgittins.curve_rules import HELD, LINEAR, PLAIN, STEP, CurveRule, curve_rule
from lrgittins.policies.bayes_opt import BayesOptPolicy

MEANS = np.array([0.9, 0.5, 0.1])  # regrets 0, .4, .8 by recommended arm


def made(*runs: tuple[CurveRule, list[float], list[int]], budget: float = 0.1) -> PolicyComparison:
    """A comparison of one policy on a matrix of cost 100, from (rule, costs after each batch, recommended arms) of its runs."""
    records = tuple(
        RunRecord("m", "p", run, run, np.array(cost), np.array(arms, dtype=np.int32), 2, 0, {}, "budget", rule)
        for run, (rule, cost, arms) in enumerate(runs)
    )
    return PolicyComparison(records, {"m": MatrixFacts((0, 1, 2), MEANS, 100.0)}, {"p": "p"}, budget, False, len(runs), 0)


def drawn(comparison: PolicyComparison, grid: list[float]) -> tuple[list[float], list[int]]:
    curve = comparison.curve(grid=grid, how="paper")
    return curve["regret"].tolist(), curve["n_runs"].tolist()


@pytest.mark.oracle
def test_held_curves_begin_together_and_never_end() -> None:
    # Starts of 2 and 4: the curves begin at 3. The first run is read off between its rows of 2.5 and 5, the second has its first
    # row after the start (6) from there on; both keep their last value.
    comparison = made(
        (CurveRule(HELD, 1), [2.0, 2.5, 5.0], [2, 1, 0]),
        (CurveRule(HELD, 2), [1.0, 4.0, 6.0, 8.0], [2, 2, 1, 0]),
    )
    regret, n_runs = drawn(comparison, [0.029, 0.03, 0.04, 0.05, 0.06, 0.07, 0.1])
    first = [0.4 * (5 - 3) / 2.5, 0.4 * (5 - 4) / 2.5, 0.0, 0.0, 0.0, 0.0]
    second = [0.4, 0.4, 0.4, 0.4, 0.2, 0.0]
    assert math.isnan(regret[0]) and n_runs == [0, *[2] * 6]
    np.testing.assert_allclose(regret[1:], np.mean([first, second], axis=0), atol=1e-12)


@pytest.mark.oracle
def test_a_held_run_that_is_all_start_is_not_drawn() -> None:
    comparison = made((CurveRule(HELD, 2), [1.0, 2.0], [2, 1]), (CurveRule(HELD, 2), [3.0, 4.0, 5.0], [2, 2, 1]))
    regret, n_runs = drawn(comparison, [0.02, 0.03, 0.05, 0.1])
    assert n_runs == [0, 1, 1, 1] and regret[1:] == pytest.approx([0.4] * 3)


@pytest.mark.oracle
def test_steps_hold_from_the_end_of_the_first_phase() -> None:
    comparison = made((CurveRule(STEP, 1), [1.0, 2.0, 4.0, 6.0], [0, 2, 1, 0]))
    regret, _ = drawn(comparison, [0.01, 0.02, 0.039, 0.04, 0.059, 0.06, 0.1])
    assert math.isnan(regret[0]) and regret[1:] == pytest.approx([0.8, 0.8, 0.4, 0.4, 0.0, 0.0])


@pytest.mark.oracle
def test_linear_curves_stay_linear_and_lose_their_warm_up() -> None:
    grid = [0.01, 0.015, 0.03, 0.05, 0.06]
    plain = made((PLAIN, [1.0, 2.0, 4.0, 5.0], [2, 2, 1, 0]))
    wanted = plain.curve(grid=grid)["regret"].to_numpy()
    np.testing.assert_array_equal(plain.curve(grid=grid, how="paper")["regret"], wanted)
    assert math.isnan(wanted[-1])
    regret, _ = drawn(made((CurveRule(LINEAR, 2), [1.0, 2.0, 4.0, 5.0], [2, 2, 1, 0])), grid)
    assert np.isnan([regret[i] for i in (0, 1, 2, 4)]).all() and regret[3] == pytest.approx(0.0)


def binary(n_arms: int = 8, n_examples: int = 40, seed: int = 0) -> lg.ResponseMatrix:
    rng = np.random.default_rng(seed)
    return lg.ResponseMatrix.from_array((rng.random((n_arms, n_examples)) < rng.uniform(0.2, 0.8, (n_arms, 1))).astype(float))


def test_segments_of_real_runs() -> None:
    runs = lg.compare(binary(), ["gittins", "ucb-e-lrf", "prompteval", "sysrs"], budget=0.5, n_runs=2, progress=False)
    rules = {record.policy: record.rule for record in runs.runs}
    assert rules["gittins"] == rules["sysrs"] == PLAIN
    for record in runs.runs:
        cells = record.cumulative_cost  # unit costs
        if record.policy == "ucb-e-lrf":  # 5 % of 320 cells
            assert record.rule == CurveRule(LINEAR, int((cells < 16).sum())) and cells[record.rule.n_start] == 16
        if record.policy == "prompteval":  # three phases of 160 cells, 54 of them in the first
            assert record.rule == CurveRule(STEP, int((cells < 54).sum())) and cells[record.rule.n_start] == 54
            assert 1 <= np.count_nonzero(np.diff(record.recommended[record.rule.n_start :])) + 1 <= 3
    curve = runs.curve(grid=[0.04, 0.06, 0.16, 0.17, 0.4], how="paper").set_index(["policy", "cost_fraction"])["n_runs"]
    assert curve["ucb-e-lrf"].tolist()[:2] == [0, 2] and curve["prompteval"].tolist() == [0, 0, 0, 2, 2]


def test_the_start_of_whole_row_policies() -> None:
    """Rows, not batches: a row that comes in two pulls counts once."""
    policy = object.__new__(BayesOptPolicy.__subclasses__()[0])
    policy.n_start = 2
    arms = np.array([4, 4, 1, 1, 0, 0, 3, 3])
    assert curve_rule(policy, SimpleNamespace(arm=arms, n_steps=8)) == CurveRule(HELD, 4)  # type: ignore[arg-type]
    assert curve_rule(policy, SimpleNamespace(arm=arms[:4], n_steps=4)) == CurveRule(HELD, 4)  # type: ignore[arg-type]


def test_a_mean_over_matrices_is_of_normalised_budgets() -> None:
    """Two matrices of other sizes: the points are fractions of each one's own cost."""
    matrices = {"small": binary(5, 20, seed=1), "large": binary(8, 40, seed=2)}
    runs = lg.compare(matrices, ["ucb-e", "prompteval"], budget=0.5, n_runs=2, progress=False)
    curve = runs.curve(grid=[0.2, 0.3, 0.45], how="paper")
    for policy in ("ucb-e", "prompteval"):
        by = {name: curve[(curve["matrix"] == name) & (curve["policy"] == policy)]["regret"].to_numpy() for name in (*matrices, "all")}
        np.testing.assert_allclose(by["all"], (by["small"] + by["large"]) / 2.0, atol=1e-14)


def test_picture_by_the_papers_rule() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    runs = lg.compare(binary(), ["gittins", "prompteval"], budget=0.5, n_runs=2, progress=False)
    axes = runs.plot(ax=figures.Figure().add_subplot(), how="paper", grid=30)
    wanted = runs.curve(grid=30, how="paper")
    np.testing.assert_array_equal(axes.get_lines()[1].get_ydata(), wanted[wanted["policy"] == "prompteval"]["regret"])
    with pytest.raises(lg.ParameterError, match="paper"):
        runs.curve(how="spline")
