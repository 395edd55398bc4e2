"""Gaps, standard errors, covariances and influence functions against dense references and closed forms."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrgittins as lg
from lrgittins._outcomes import OutcomeTable
from lrgittins._random import as_generator
from lrgittins.folds import FoldSplit, draw_folds
from lrgittins.one_step import cross_fit, information, law_cells
from lrgittins.polish import factorise
from lrgittins.simulate import low_rank_scores, simulate_comparisons
from lrgittins.tangent import Arrowhead, TangentSpace

from .boards import CYCLE, ISLANDS, THREE, TREE, WINLESS, names, simulate, simulated, votes
from .reference import inference as reference

RANK2 = lg.LowRankBradleyTerry(rank=2)


def expanded(table: OutcomeTable, split: FoldSplit):
    """Every single comparison: fold, task, first, second, outcome, cluster."""
    fold = np.concatenate([np.full(counts.sum(), k) for k, counts in enumerate(split.counts)])
    group = np.concatenate([np.repeat(np.arange(table.n_groups), counts) for counts in split.counts])
    cluster = None if table.cluster is None else table.cluster[group]
    return fold, table.task[group], table.low[group], table.high[group], table.outcome[group], cluster


def all_gaps(n_tasks: int, n_models: int) -> list[tuple[int, int, int]]:
    return [(t, a, b) for t in range(n_tasks) for a, b in itertools.combinations(range(n_models), 2)]


def oracle(comparisons: lg.Comparisons, gaps, *, n_folds: int = 6, design: str = "empirical", rank: int = 2):
    """Estimates and influence matrix by the literal Algorithm 2, on the folds and fits of the package."""
    table = comparisons._table
    split = draw_folds(table, n_folds, as_generator(0))
    fits = [lg.LowRankBradleyTerry(rank=rank)._fit_table(table.with_counts(table.count - counts)).scores for counts in split.counts]
    fold, task, first, second, outcome, cluster = expanded(table, split)
    return (*reference.influence_matrix(fits, rank, fold, task, first, second, outcome, gaps, design), cluster)


def named(comparisons: lg.Comparisons, gaps) -> list[tuple[str, str, str]]:
    return [(comparisons.tasks[t], comparisons.models[a], comparisons.models[b]) for t, a, b in gaps]


# ------------------------------------------------------------------------------------------------ low rank, oracle


@pytest.mark.oracle
@pytest.mark.parametrize("design", ["empirical", "uniform"])
def test_one_step_scores_and_covariance_match_the_dense_formulas(design):
    _, comparisons = simulated()
    inference = lg.infer_gaps(comparisons, RANK2, design=design, calibration="cross-fit")
    gaps = all_gaps(6, 7)
    estimate, phi, _ = oracle(comparisons, gaps, design=design)
    covariance = reference.covariance(phi)
    frame = inference.gaps()
    # 1e-9: two routes through a p x p inverse of condition below 1e3.
    np.testing.assert_allclose(frame["estimate"], estimate, atol=1e-9)
    np.testing.assert_allclose(frame["std_error"], np.sqrt(np.diag(covariance)), rtol=1e-8)
    chosen = [0, 5, 21, 40, 100, 125]
    found = inference.covariance(named(comparisons, [gaps[j] for j in chosen]))
    np.testing.assert_allclose(found, covariance[np.ix_(chosen, chosen)], atol=1e-9 * np.abs(covariance).max())


@pytest.mark.oracle
def test_influence_rows_are_the_influence_matrix():
    _, comparisons = simulated()
    inference = lg.infer_gaps(comparisons, RANK2, calibration="cross-fit")
    gaps = [(0, 1, 2), (3, 6, 0), (5, 4, 3)]
    estimate, phi, _ = oracle(comparisons, gaps)
    rows = inference.influence(named(comparisons, gaps))
    assert rows["count"].sum() == comparisons.n
    columns = rows[["influence_0", "influence_1", "influence_2"]].to_numpy()
    repeated = np.repeat(columns, rows["count"], axis=0)  # both lists run over folds, then groups
    np.testing.assert_allclose(repeated, phi, atol=1e-9)
    centred = columns - np.average(columns, axis=0, weights=rows["count"])
    variance = (rows["count"].to_numpy()[:, None] * centred**2).sum(axis=0) / comparisons.n**2
    errors = [inference.gap(*gap).std_error for gap in named(comparisons, gaps)]
    np.testing.assert_allclose(np.sqrt(variance), errors, rtol=1e-9)


@pytest.mark.oracle
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_clusters_are_summed_as_the_formula_says(size):
    scores, task, a, b, outcome = simulate(n=900)
    cluster = np.random.default_rng(1).permutation(len(task)) // size
    comparisons = lg.Comparisons.from_arrays(names("t", 6)[task], names("m", 7)[a], names("m", 7)[b], outcome, cluster=cluster)
    inference = lg.infer_gaps(comparisons, RANK2, n_folds=3)
    gaps = all_gaps(6, 7)
    estimate, phi, expanded_cluster = oracle(comparisons, gaps, n_folds=3)
    covariance = reference.covariance(phi, expanded_cluster)
    frame = inference.gaps()
    np.testing.assert_allclose(frame["estimate"], estimate, atol=1e-9)
    np.testing.assert_allclose(frame["std_error"], np.sqrt(np.diag(covariance)), rtol=1e-8)


def test_singleton_clusters_give_the_plain_variance():
    _, plain = simulated(n=900)
    table = plain._table
    split = draw_folds(table, 4, as_generator(3))
    # The same comparisons, each in a cluster of its own, on the same folds.
    fold, task, low, high, outcome, _ = expanded(table, split)
    order = np.lexsort((np.arange(len(task)), outcome, high, low, task))
    fold, task, low, high, outcome = (column[order] for column in (fold, task, low, high, outcome))
    single = OutcomeTable(
        table.n_tasks, table.n_models, task, low, high, outcome, np.ones(len(task), dtype=np.int64), np.arange(len(task), dtype=np.int64)
    )
    counts = (fold[None, :] == np.arange(4)[:, None]).astype(np.int64)
    seen = np.arange(table.n_models)
    first = cross_fit(table, split, RANK2, "empirical", seen, table.n_models)
    second = cross_fit(single, FoldSplit(counts), RANK2, "empirical", seen, table.n_models)
    np.testing.assert_allclose(second.scores, first.scores, atol=1e-12)
    np.testing.assert_allclose(second.noise.task_covariance, first.noise.task_covariance, atol=1e-14)


@pytest.mark.oracle
def test_joint_draws_have_the_covariance_they_should():
    _, comparisons = simulated(n=1200)
    inference = lg.infer_gaps(comparisons, RANK2, calibration="cross-fit")
    n_draws = 20_000
    draws = np.concatenate(list(inference._noise.joint_draws(np.random.default_rng(0), n_draws)), axis=2)
    gaps = all_gaps(6, 7)[::5]
    t, a, b = (np.array(column) for column in zip(*gaps, strict=True))
    sample = draws[t, a] - draws[t, b]
    wanted = inference._noise.contrast_covariance(t, a, b)
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    # 6 Monte Carlo errors of a correlation from 20,000 draws.
    assert np.max(np.abs(np.cov(sample) - wanted) / scale) < 6 * math.sqrt(2 / n_draws)


@pytest.mark.golden
def test_golden_tangent_fisher(shared):
    golden = json.loads((shared / "golden/lowrank/tangent_fisher.json").read_text())
    data = json.loads((shared / "golden/lowrank/data.json").read_text())
    theta = np.array(golden["theta"])
    factors = factorise(theta, 2)
    space = TangentSpace(factors.left, factors.right)
    contrast = np.zeros_like(theta)
    contrast[1, 2], contrast[1, 5] = 1.0, -1.0
    coords = space.coords(contrast)
    np.testing.assert_allclose(space.matrix(coords), golden["P_gamma"], atol=1e-12)
    comparisons = lg.Comparisons.from_arrays(
        names("t", 4)[data["task"]], names("m", 6)[data["i"]], names("m", 6)[data["j"]], np.array(data["y"], dtype=float)
    )
    table = comparisons._table
    empirical, uniform = (law_cells(table, table.cells(), design) for design in ("empirical", "uniform"))
    assert uniform.count.sum() == pytest.approx(1.0, abs=1e-12)
    weights = np.array(golden["nonuniform"]["model_weights"])
    pair = weights[uniform.low] * weights[uniform.high]
    uneven = type(uniform)(
        4,
        6,
        uniform.task,
        uniform.low,
        uniform.high,
        np.array(golden["nonuniform"]["nu"])[uniform.task] * pair / pair[:15].sum(),
        uniform.wins,
    )
    for name, law in (("uniform", uniform), ("nonuniform", uneven), ("empirical", empirical)):
        operator = Arrowhead.from_cells(space, law.task, law.low, law.high, information(law, theta))
        solved = operator.factor().solve(coords)
        np.testing.assert_allclose(space.matrix(solved), golden[name]["H"], rtol=1e-8, atol=1e-8)
        assert coords @ solved == pytest.approx(golden[name]["V_eff"], rel=1e-8)
        if "eig_A" in golden[name]:
            np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(operator.dense())), np.sort(golden[name]["eig_A"]), rtol=1e-8)


@pytest.mark.statistical
def test_standard_errors_are_right_on_average():
    studentised = []
    for seed in range(4):
        truth, comparisons = simulated(n_tasks=12, n_models=10, n=6000, seed=seed, ties=0.0)
        frame = lg.infer_gaps(comparisons, RANK2, calibration="cross-fit").gaps()
        true = np.array([truth[t, a] - truth[t, b] for t, a, b in all_gaps(12, 10)])
        studentised.append(((frame["estimate"] - true) / frame["std_error"]).to_numpy())
    # About 4 x 40 independent directions: the mean square is 1 within 4 of its Monte Carlo errors, sqrt(2 / 160).
    assert abs(np.mean(np.square(studentised)) - 1.0) < 4 * math.sqrt(2 / 160)


# ------------------------------------------------------------------------------------------------------------ Wald


@pytest.mark.golden
def test_golden_per_task_sandwich(shared):
    golden = json.loads((shared / "golden/lowrank/btl_per_task.json").read_text())
    data = json.loads((shared / "golden/lowrank/data.json").read_text())
    comparisons = lg.Comparisons.from_arrays(
        names("t", 4)[data["task"]], names("m", 6)[data["i"]], names("m", 6)[data["j"]], np.array(data["y"], dtype=float)
    )
    inference = lg.infer_gaps(comparisons, lg.PerTaskBradleyTerry())
    np.testing.assert_allclose(inference.scores, golden["theta_mle"], atol=1e-8)
    np.testing.assert_allclose(inference._noise.task_covariance, golden["sandwich_cov"], atol=1e-8)
    np.testing.assert_allclose(inference._noise.bread, golden["fisher_cov_pinv"], atol=1e-8)


@pytest.mark.parametrize(
    ("data", "pair", "estimate", "error"),
    [
        ({"A:B": (7, 3)}, ("A", "B"), 0.847298, 0.690066),  # A05
        (TREE, ("A", "B"), 1.098612, 1.154701),  # A12
        (TREE, ("A", "C"), 2.197225, 1.632993),
        (CYCLE, ("A", "B"), 0.0, 1.632993),  # A10
        ({key: (100 * a, 100 * b) for key, (a, b) in CYCLE.items()}, ("C", "B"), 0.0, 0.163299),
    ],
)
def test_exact_gaps_and_errors(data, pair, estimate, error):
    comparisons = votes(data)
    for estimator in (lg.PerTaskBradleyTerry(), lg.PooledBradleyTerry()):
        gap = lg.infer_gaps(comparisons, estimator).gap("all", *pair)
        assert gap.estimate == pytest.approx(estimate, abs=1e-6)
        assert gap.std_error == pytest.approx(error, abs=1e-6)
        assert gap.ci_low == pytest.approx(gap.estimate - 1.959964 * gap.std_error, abs=1e-6)
        assert gap.p_value == pytest.approx(math.erfc(abs(estimate / error) / math.sqrt(2)), abs=1e-5)


def test_one_task_low_rank_agrees_with_the_plain_fit():
    comparisons = votes({"A:B": (700, 300), "A:C": (650, 350), "B:C": (520, 480)})
    plain = lg.infer_gaps(comparisons, lg.PerTaskBradleyTerry()).gaps()
    low_rank = lg.infer_gaps(comparisons).gaps()
    # One-step estimates differ from the maximiser by O(1/n).
    np.testing.assert_allclose(low_rank["estimate"], plain["estimate"], atol=2e-3)
    np.testing.assert_allclose(low_rank["std_error"], plain["std_error"], rtol=2e-2)


def test_wald_influence_reproduces_the_variance_and_clusters_pool_it():
    _, comparisons = simulated(n=800)
    inference = lg.infer_gaps(comparisons, lg.PerTaskBradleyTerry())
    wanted = [("t00", "m01", "m02"), ("t03", "m06", "m00"), ("t00", "m03", "m02")]
    rows = inference.influence(wanted)
    phi = rows[[f"influence_{j}" for j in range(3)]].to_numpy()
    covariance = (phi * rows["count"].to_numpy()[:, None]).T @ phi / comparisons.n**2
    np.testing.assert_allclose(inference.covariance(wanted), covariance, atol=1e-12)
    for j, gap in enumerate(wanted):
        assert inference.gap(*gap).std_error == pytest.approx(math.sqrt(covariance[j, j]), rel=1e-9)


@pytest.mark.oracle
@pytest.mark.parametrize("estimator", [lg.PerTaskBradleyTerry(), lg.PooledBradleyTerry()])
def test_wald_cluster_covariance_matches_the_sum_over_clusters(estimator):
    scores, task, a, b, outcome = simulate(n=1200, seed=2)
    rng = np.random.default_rng(5)
    cluster = np.where(np.arange(len(task)) % 3 == 0, rng.integers(20, size=len(task)), 1000 + np.arange(len(task)))  # many tasks each
    comparisons = lg.Comparisons.from_arrays(names("t", 6)[task], names("m", 7)[a], names("m", 7)[b], outcome, cluster=cluster)
    inference = lg.infer_gaps(comparisons, estimator)
    gaps = [("t00", "m01", "m02"), ("t03", "m06", "m00"), ("t00", "m03", "m02"), ("t05", "m04", "m05")]
    rows = inference.influence(gaps)
    phi = rows[[f"influence_{j}" for j in range(4)]].to_numpy() * rows["count"].to_numpy()[:, None]
    sums = np.array([phi[rows["cluster"] == label].sum(axis=0) for label in rows["cluster"].unique()])
    wanted = sums.T @ sums / comparisons.n**2
    np.testing.assert_allclose(inference.covariance(gaps), wanted, atol=1e-12)
    np.testing.assert_allclose([inference.gap(*gap).std_error ** 2 for gap in gaps], np.diag(wanted), rtol=1e-9)
    n_draws = 20_000
    draws = np.concatenate(list(inference._noise.joint_draws(np.random.default_rng(0), n_draws)), axis=2)
    t, first, second = (np.array([int(gap[k][1:]) for gap in gaps]) for k in range(3))
    sample = np.cov(draws[t, first] - draws[t, second])
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    assert np.max(np.abs(sample - wanted) / scale) < 6 * math.sqrt(2 / n_draws)


# ------------------------------------------------------------------------------------------------------ edge cases


def test_separation_leaves_only_the_gaps_inside_components():
    inference = lg.infer_gaps(votes(WINLESS), lg.PerTaskBradleyTerry())
    inside, across = inference.gap("all", "A", "B"), inference.gap("all", "A", "C")
    alone = lg.infer_gaps(votes({"A:B": (3, 1)}), lg.PerTaskBradleyTerry()).gap("all", "A", "B")
    assert inside.std_error == pytest.approx(alone.std_error, rel=1e-5)
    assert inside.estimate == pytest.approx(alone.estimate, rel=1e-5)
    assert math.isinf(across.std_error) and across.ci_low == -math.inf and across.ci_high == math.inf and across.p_value == 1.0
    assert inference.diagnostics["separated"]["status"] == "failed"
    covariance = inference.covariance([("all", "A", "B"), ("all", "A", "C")])
    assert np.isinf(covariance[1, 1]) and np.isnan(covariance[0, 1]) and covariance[0, 0] == pytest.approx(inside.std_error**2)
    assert np.isnan(inference.influence([("all", "A", "C")])["influence_0"]).all()


@pytest.mark.parametrize("estimator", [lg.PerTaskBradleyTerry(disconnected="allow"), lg.PooledBradleyTerry(disconnected="allow")])
def test_islands_share_no_scale(estimator):
    inference = lg.infer_gaps(votes(ISLANDS), estimator)
    assert inference.gap("all", "A", "B").estimate == pytest.approx(1.098612, abs=1e-6)
    across = inference.gap("all", "A", "C")
    assert math.isnan(across.estimate) and math.isinf(across.std_error) and math.isnan(across.p_value)
    with pytest.raises(lg.NotIdentifiableError, match=r"\{A, B\}.*\{C, D\}"):
        lg.infer_gaps(votes(ISLANDS), type(estimator)())


def test_low_rank_islands_are_refused_or_kept_apart():
    truth, task, a, b, outcome = simulate(n=4000, ties=0.0)
    inside = (a < 3) == (b < 3)
    comparisons = lg.Comparisons.from_arrays(
        names("t", 6)[task[inside]], names("m", 7)[a[inside]], names("m", 7)[b[inside]], outcome[inside]
    )
    with pytest.raises(lg.NotIdentifiableError, match="m00, m01, m02"):
        lg.infer_gaps(comparisons, RANK2, calibration="cross-fit")
    inference = lg.infer_gaps(comparisons, lg.LowRankBradleyTerry(rank=2, disconnected="allow"))
    frame = inference.gaps()
    across = (frame["model"] < "m03") & (frame["versus"] >= "m03")
    assert frame.loc[across, "estimate"].isna().all() and np.isinf(frame.loc[across, "std_error"]).all()
    kept = frame[~across]
    true = np.array(
        [truth[int(row.task[1:]), int(row.model[1:])] - truth[int(row.task[1:]), int(row.versus[1:])] for row in kept.itertuples()]
    )
    studentised = (kept["estimate"] - true) / kept["std_error"]
    assert 0.7 < np.sqrt(np.mean(studentised**2)) < 1.4  # some 30 independent directions: 4 Monte Carlo errors
    draws = np.concatenate(list(inference._noise.joint_draws(np.random.default_rng(0), 4000)), axis=2)
    spread = (draws[:, 3] - draws[:, 6]).std(axis=1)
    wanted = [inference.gap(task, "m03", "m06").std_error for task in inference.tasks]
    np.testing.assert_allclose(spread, wanted, rtol=6 / math.sqrt(2 * 4000))


def test_unseen_tasks_and_models_are_flagged():
    scores, task, a, b, outcome = simulate()
    comparisons = lg.Comparisons.from_arrays(
        names("t", 6)[task],
        names("m", 7)[a],
        names("m", 7)[b],
        outcome,
        tasks=[*names("t", 6), "t99"],
        models=[*names("m", 7), "a-new-one"],
    )
    inference = lg.infer_gaps(comparisons, RANK2, calibration="cross-fit")
    _, plain = simulated()
    # The prior's scale counts the declared task too, so scores move a little.
    np.testing.assert_allclose(
        inference.scores.loc["t00", "m00":"m06"], lg.infer_gaps(plain, RANK2, calibration="cross-fit").scores.loc["t00"], atol=1e-2
    )
    unseen = inference.gap("t00", "a-new-one", "m00")
    assert math.isnan(unseen.estimate) and math.isinf(unseen.std_error)
    assert inference.scores["a-new-one"].isna().all()
    borrowed = inference.gap("t99", "m01", "m00")
    assert math.isfinite(borrowed.estimate) and math.isinf(borrowed.std_error)
    assert any("t99" in note for note in inference.notes) and any("a-new-one" in note for note in inference.notes)
    assert inference.diagnostics["tasks_determined"]["status"] == "failed"
    assert inference.diagnostics["models_seen"]["status"] == "failed"


def test_a_model_with_one_vote_is_withheld_and_disturbs_nobody():
    scores, task, a, b, outcome = simulate(n=12_000)
    plain = lg.Comparisons.from_arrays(names("t", 6)[task], names("m", 7)[a], names("m", 7)[b], outcome)
    once = plain + lg.Comparisons.from_arrays(["t00"], ["m00"], ["rare"], [1.0])
    inference = lg.infer_gaps(once, RANK2, calibration="cross-fit")
    assert math.isinf(inference.gap("t00", "rare", "m00").std_error)
    frame, base = inference.gaps(model="m00"), lg.infer_gaps(plain, RANK2, calibration="cross-fit").gaps(model="m00")
    kept = frame[frame["versus"] != "rare"]
    assert np.isfinite(kept["std_error"]).all()
    # Other folds, one more model: the same up to what other folds change by themselves.
    assert (np.abs(kept["estimate"].to_numpy() - base["estimate"].to_numpy()) < base["std_error"].to_numpy()).all()
    np.testing.assert_allclose(kept["std_error"], base["std_error"], rtol=0.25)
    assert inference.diagnostics["gaps_determined"]["status"] == "failed"


def test_only_ties_have_no_variance_and_no_warning():
    inference = lg.infer_gaps(votes({"A:B": (0, 0, 10)}), lg.PerTaskBradleyTerry())
    gap = inference.gap("all", "A", "B")
    assert gap.estimate == pytest.approx(0.0, abs=1e-12) and gap.std_error == 0.0 and math.isnan(gap.p_value)


def test_two_models_one_task_everywhere():
    comparisons = votes({"A:B": (70, 30)})
    for estimator in (None, lg.PerTaskBradleyTerry(), lg.PooledBradleyTerry()):
        inference = lg.infer_gaps(comparisons, estimator)
        assert inference.gap("all", "A", "B").estimate == pytest.approx(math.log(7 / 3), abs=0.05)
        assert len(inference.gaps()) == 1 and inference.covariance([("all", "A", "B")]).shape == (1, 1)
        assert inference.influence([("all", "B", "A")])["count"].sum() == 100


def test_bad_arguments_name_what_is_wrong(monkeypatch):
    _, comparisons = simulated()
    inference = lg.infer_gaps(comparisons, lg.PerTaskBradleyTerry())
    with pytest.raises(lg.ParameterError, match="unknown task 't0x'; did you mean 't0"):
        inference.gap("t0x", "m00", "m01")
    with pytest.raises(lg.ParameterError, match="unknown model 'm0'"):
        inference.gaps(model="m0")
    with pytest.raises(lg.ParameterError, match="two different models"):
        inference.gap("t00", "m00", "m00")
    with pytest.raises(lg.ParameterError, match="10001 contrasts is more than 10000"):
        inference.covariance([("t00", "m00", "m01")] * 10_001)
    with pytest.raises(lg.ParameterError, match="list of"):
        inference.covariance([])
    for bad in ({"n_folds": 1}, {"design": "sparse"}, {"calibration": "jackknife"}, {"random_state": -1}, {"estimator": "btl"}):
        with pytest.raises(lg.ParameterError):
            lg.infer_gaps(comparisons, **bad)
    with pytest.raises(lg.ParameterError, match="cross-fit"):
        lg.infer_gaps(comparisons, calibration="jackknife")
    with pytest.raises(lg.ComparisonError, match="folds"):
        lg.infer_gaps(votes({"A:B": (2, 1)}) + votes({"A:B": (1, 0)}, task="other"), n_folds=6)
    monkeypatch.setattr("lrgittins.inference.MAX_ROWS", 100)
    with pytest.raises(lg.ParameterError, match=r"6 x 21 = 126 rows, more than 100; use gaps\(task="):
        inference.gaps()
    assert len(inference.gaps(task="t00")) == 21 and len(inference.gaps("t01", "m03")) == 6


# ------------------------------------------------------------------------------------------------------ invariances


@pytest.mark.property
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_gaps_do_not_depend_on_how_votes_are_written(seed):
    rng = np.random.default_rng(seed)
    scores, task, a, b, outcome = simulate(n=600, seed=3)
    tasks, models = names("t", 6), names("m", 7)
    base = lg.infer_gaps(lg.Comparisons.from_arrays(tasks[task], models[a], models[b], outcome), RANK2, n_folds=3)
    order, flip = rng.permutation(len(task)), rng.random(len(task)) < 0.5
    left, right = np.where(flip, b, a)[order], np.where(flip, a, b)[order]
    shuffled = lg.Comparisons.from_arrays(tasks[task][order], models[left], models[right], np.where(flip, 1 - outcome, outcome)[order])
    other = lg.infer_gaps(shuffled, RANK2, n_folds=3)
    np.testing.assert_array_equal(other.scores.to_numpy(), base.scores.to_numpy())
    half = len(task) // 2
    first, second = (
        lg.Comparisons.from_arrays(tasks[task][s], models[a][s], models[b][s], outcome[s]) for s in (slice(half), slice(half, None))
    )
    merged = lg.infer_gaps(first + second, RANK2, n_folds=3)
    np.testing.assert_array_equal(merged.gaps()["std_error"].to_numpy(), base.gaps()["std_error"].to_numpy())


@pytest.mark.property
@pytest.mark.parametrize("reverse", [False, True])
def test_plain_fit_is_invariant_under_renaming_and_unrelated_votes(reverse):
    plain = lg.infer_gaps(votes(THREE), lg.PerTaskBradleyTerry())
    rename = {"A": "z", "B": "y", "C": "x"} if reverse else {"A": "a1", "B": "b1", "C": "c1"}
    renamed = votes({":".join(rename[m] for m in pair.split(":")): counts for pair, counts in THREE.items()})
    other = lg.infer_gaps(renamed, lg.PerTaskBradleyTerry())
    wider = lg.infer_gaps(votes({**THREE, "D:E": (2, 2)}), lg.PerTaskBradleyTerry(disconnected="allow"))
    for a, b in itertools.permutations("ABC", 2):
        expected = plain.gap("all", a, b)
        for found in (other.gap("all", rename[a], rename[b]), wider.gap("all", a, b)):
            assert found.estimate == pytest.approx(expected.estimate, abs=1e-9)
            assert found.std_error == pytest.approx(expected.std_error, abs=1e-9)


def test_inputs_are_left_alone_and_seeds_repeat():
    _, comparisons = simulated()
    before = comparisons._table.count.copy()
    comparisons._table.count.setflags(write=False)
    first, second = (lg.infer_gaps(comparisons, RANK2, calibration="cross-fit", random_state=5) for _ in range(2))
    other = lg.infer_gaps(comparisons, RANK2, calibration="cross-fit", random_state=6)
    np.testing.assert_array_equal(comparisons._table.count, before)
    np.testing.assert_array_equal(first.scores.to_numpy(), second.scores.to_numpy())
    assert not np.array_equal(first.scores.to_numpy(), other.scores.to_numpy())
    assert first.random_state == 5


def test_a_withheld_model_leaves_the_others_their_standard_errors():
    """One model with a single vote on an otherwise well-known task: its own error is not known, everybody else's is."""
    truth = low_rank_scores(4, 7, 1, sup_norm=1.0, random_state=0)
    known_votes = simulate_comparisons(truth.iloc[:, :6], 6000, random_state=1)
    single = lg.Comparisons.from_arrays([known_votes.tasks[0]], [known_votes.models[0]], ["late"], [1])
    inference = lg.infer_gaps(known_votes + single, lg.LowRankBradleyTerry(rank=1))
    board = inference.certify(2, n_draws=500).to_frame()
    board = board[board["task"] == inference.tasks[0]].set_index("model")
    assert np.isinf(board.loc["late", "std_error"])
    known = board.drop(index="late")
    assert (known["std_error"] < 0.3).all()
    codes = [list(inference.models).index(model) for model in known.index]
    block = inference._noise.task_covariance[0][np.ix_(codes, codes)]
    centre = np.eye(len(codes)) - 1.0 / len(codes)
    np.testing.assert_allclose(known["std_error"], np.sqrt(np.diag(centre @ block @ centre)), rtol=1e-8)
