"""Simultaneous bands: against the literal multiplier bootstrap, nesting, step-down, families, edge cases."""

from __future__ import annotations

import itertools
import json
import math
from statistics import NormalDist

import numpy as np
import pytest

import lrgittins as lg
from lrgittins._kernels.bootstrap import reduce_max
from lrgittins.bands import NoiseDraws, claim_gaps, reject, upper_quantile

from .boards import CYCLE, ISLANDS, THREE, WINLESS, names, simulate, simulated, votes
from .reference import inference as reference
from .test_inference import all_gaps, oracle

RANK2 = lg.LowRankBradleyTerry(rank=2)
FAMILIES = ["cell", "model", "task", "all", ("cell", "t01", "m02"), ("model", "m03"), ("task", "t02")]


@pytest.fixture(scope="module")
def small():
    return simulated(n=1200)[1]


@pytest.fixture(scope="module")
def inference(small):
    return lg.infer_gaps(small, RANK2, calibration="cross-fit")


def family_gaps(family):
    if family == "all":
        return all_gaps(6, 7)
    if family[0] == "task":
        return [gap for gap in all_gaps(6, 7) if gap[0] == 2]
    if family[0] == "model":
        return [(t, 3, b) for t in range(6) for b in range(7) if b != 3]
    return [(1, 2, b) for b in range(7) if b != 2]


@pytest.mark.oracle
@pytest.mark.parametrize("family", FAMILIES[3:], ids=str)
def test_critical_values_are_those_of_the_literal_bootstrap(small, inference, family):
    n_draws = 8000
    _, phi, _ = oracle(small, family_gaps(family))
    slow = reference.multiplier_bootstrap(phi, n_draws, np.random.default_rng(1)).max(axis=1)
    for alpha in (0.05, 0.2):
        fast = inference.bands(family, alpha=alpha, method="max-t", n_draws=n_draws).critical_value
        wanted = np.quantile(slow, 1 - alpha)
        # 5 Monte Carlo errors of the difference of two quantiles, the density taken from the draws.
        density = (np.mean(slow < wanted + 0.1) - np.mean(slow < wanted - 0.1)) / 0.2
        assert abs(fast - wanted) < 5 * math.sqrt(2 * alpha * (1 - alpha) / n_draws) / density


@pytest.mark.oracle
def test_clustered_critical_value_is_that_of_the_literal_bootstrap():
    scores, task, a, b, outcome = simulate(n=900)
    cluster = np.random.default_rng(1).permutation(len(task)) // 30
    comparisons = lg.Comparisons.from_arrays(names("t", 6)[task], names("m", 7)[a], names("m", 7)[b], outcome, cluster=cluster)
    inference = lg.infer_gaps(comparisons, RANK2, n_folds=3)
    _, phi, expanded_cluster = oracle(comparisons, all_gaps(6, 7), n_folds=3)
    slow = np.quantile(reference.multiplier_bootstrap(phi, 8000, np.random.default_rng(1), expanded_cluster).max(axis=1), 0.9)
    fast = inference.bands("all", alpha=0.1, method="max-t", n_draws=8000).critical_value
    assert abs(fast - slow) < 0.1  # 5 Monte Carlo errors: sqrt(2 x .09 / 8000) / (density .25)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("method", ["max-t", "step-down"])
def test_critical_values_lie_between_marginal_and_bonferroni(inference, family, method):
    bands = inference.bands(family, method=method, n_draws=4000)
    kind = family if isinstance(family, str) else family[0]
    size = {"cell": 6, "model": 36, "task": 21, "all": 126}[kind]
    marginal, bonferroni = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(1 - 0.025 / size)
    values = np.atleast_1d(bands.critical_value)
    assert (values > marginal).all()
    assert (values < bonferroni + 0.12).all()  # 3 Monte Carlo errors of a quantile near 0.95 of 4,000 draws
    assert (np.atleast_1d(bands.final_critical_value) <= values).all()
    assert len(values) == {"cell": 42, "model": 7, "task": 6, "all": 1}[kind] or not isinstance(family, str)


def test_low_and_high_are_the_max_t_band_for_both_methods(inference):
    single = inference.bands("all", method="max-t")
    stepped = inference.bands("all", method="step-down")
    first, second = single.to_frame(), stepped.to_frame()
    np.testing.assert_array_equal(first[["low", "high"]], second[["low", "high"]])
    errors = inference.gaps()["std_error"]
    np.testing.assert_allclose(first["high"] - first["estimate"], single.critical_value * errors, rtol=1e-12)
    declared = first["sign"] != 0
    np.testing.assert_array_equal(declared, (first["low"] > 0) | (first["high"] < 0))
    np.testing.assert_array_equal(second.loc[declared, "sign"], first.loc[declared, "sign"])
    more = np.abs(first["estimate"] / errors) > stepped.final_critical_value
    np.testing.assert_array_equal(second["sign"] != 0, more)
    assert list(first.columns) == ["task", "model", "versus", "estimate", "low", "high", "sign"]


@pytest.mark.golden
def test_golden_step_down(shared):
    golden = json.loads((shared / "golden/lowrank/ranks.json").read_text())["stepdown"]
    statistic, draws = np.array(golden["T"]), np.array(golden["draws"])
    # Six independent "gaps" against a seventh entry that never moves.
    entries = np.zeros((1, 7, len(draws)))
    entries[0, :6] = draws.T
    zeros, first = np.zeros(6, dtype=np.int64), np.arange(6, dtype=np.int64)
    found = reject([entries], zeros, first, zeros + 6, statistic, np.ones(6), golden["alpha"], "step-down")
    assert found.rejected.tolist() == golden["rejected"]
    single = reject([entries], zeros, first, zeros + 6, statistic, np.ones(6), golden["alpha"], "max-t")
    assert single.critical_value == pytest.approx(np.quantile(np.abs(draws).max(axis=1), 1 - golden["alpha"]))


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(6))
def test_step_down_in_strata_is_the_plain_algorithm(seed):
    rng = np.random.default_rng(seed)
    n_tasks, n_models = 5, 24  # 1,380 gaps: several strata
    task, first, second = claim_gaps("all", (), n_tasks, n_models)
    draws = [rng.standard_normal((n_tasks, n_models, size)) for size in (150, 150, 77)]
    inverse = np.full(len(task), 2**-0.5)
    statistic = rng.standard_normal(len(task)) * rng.choice([1.0, 3.0, 4.5], size=len(task))
    found = reject(draws, task, first, second, statistic, inverse, 0.1, "step-down")
    joined = np.concatenate(draws, axis=2)
    slow = reference.step_down(statistic, ((joined[task, first] - joined[task, second]) * 2**-0.5).T, 0.1)
    np.testing.assert_array_equal(found.rejected, slow)
    assert 0 < slow.sum() < len(task)


def test_reduction_kernel_is_the_maximum_per_stratum():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((3, 5, 11))
    task, first, second = claim_gaps("all", (), 3, 5)
    inverse, stratum = rng.random(len(task)), rng.integers(4, size=len(task))
    out = np.zeros((4, 11))
    reduce_max(draws, task, first, second, inverse, stratum, out)
    values = np.abs(draws[task, first] - draws[task, second]) * inverse[:, None]
    wanted = [values[stratum == s].max(axis=0) for s in range(4)]
    np.testing.assert_array_equal(out, wanted)
    order = np.argsort(stratum)  # strata together: gaps are then taken in fours
    out = np.zeros((4, 11))
    reduce_max(draws, task[order], first[order], second[order], inverse[order], stratum[order], out)
    np.testing.assert_array_equal(out, wanted)


def test_quantile_is_numpys_default():
    values = np.random.default_rng(0).standard_normal(137)
    for size, alpha in itertools.product((1, 2, 3, 137), (0.001, 0.05, 0.5, 0.999)):
        assert upper_quantile(values[:size], alpha) == pytest.approx(np.quantile(values[:size], 1 - alpha), abs=1e-12)


@pytest.mark.parametrize("method", ["max-t", "step-down"])
@pytest.mark.parametrize("family", ["cell", "task", "model", "all"])
def test_levels_nest_with_one_seed(inference, family, method):
    frames = [inference.bands(family, alpha=alpha, method=method).to_frame() for alpha in (0.1, 0.05, 0.01)]
    for inner, outer in itertools.pairwise(frames):
        assert (outer["low"] <= inner["low"]).all() and (outer["high"] >= inner["high"]).all()
        assert ((outer["sign"] == 0) | (outer["sign"] == inner["sign"])).all()


@pytest.mark.parametrize(("one", "many"), [(("cell", "t01", "m02"), "cell"), (("task", "t02"), "task"), (("model", "m03"), "model")])
def test_a_claim_does_not_depend_on_which_others_are_asked(inference, one, many):
    alone, together = inference.bands(one), inference.bands(many)
    key = one[1] if len(one) == 2 else one[1:]
    assert together.critical_value[key] == alone.critical_value
    frame = together.to_frame()
    mine = frame[frame["model"] == one[-1]] if one[0] != "task" else frame[frame["task"] == one[1]]
    if one[0] == "cell":
        mine = mine[mine["task"] == one[1]]
    np.testing.assert_array_equal(mine["low"], alone.to_frame()["low"])


def test_draws_are_prefixes_and_chunks_do_not_matter(inference, monkeypatch):
    noise = inference._noise
    long = np.concatenate(list(NoiseDraws(noise, 700, 3).joint()), axis=2)
    short = np.concatenate(list(NoiseDraws(noise, 130, 3).joint()), axis=2)
    np.testing.assert_allclose(long[:, :, :130], short, atol=1e-13)
    monkeypatch.setattr("lrgittins._noise.CHUNK", 41)
    np.testing.assert_allclose(np.concatenate(list(NoiseDraws(noise, 700, 3).joint()), axis=2), long, atol=1e-13)
    monkeypatch.setattr("lrgittins.bands._KEPT_BYTES", 0)
    again = NoiseDraws(noise, 700, 3).joint()
    first, second = (np.concatenate(list(again), axis=2) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, long, atol=1e-13)


@pytest.mark.oracle
def test_draws_inside_a_task_have_its_covariance(inference):
    draws = np.concatenate([chunk[0] for chunk in NoiseDraws(inference._noise, 20_000, 0).of_task(2)], axis=1)
    wanted = inference._noise.task_covariance[2]
    assert np.max(np.abs(np.cov(draws) - wanted)) < 6 * math.sqrt(2 / 20_000) * np.max(np.diag(wanted))


@pytest.mark.statistical
def test_bands_cover_simultaneously():
    hits = []
    for seed in range(24):
        truth, task, a, b, outcome = simulate(n_tasks=8, n_models=8, n=4000, seed=seed, ties=0.0)
        comparisons = lg.Comparisons.from_arrays(names("t", 8)[task], names("m", 8)[a], names("m", 8)[b], outcome)
        bands = lg.infer_gaps(comparisons, RANK2, n_folds=4).bands("task", alpha=0.2, method="max-t", n_draws=500).to_frame()
        true = np.array([truth[t, x] - truth[t, y] for t, x, y in all_gaps(8, 8)])
        inside = ((bands["low"] <= true) & (true <= bands["high"])).to_numpy().reshape(8, -1)
        hits.extend(inside.all(axis=1))
    # 192 claims, tasks of one run dependent: at least .8 less 4 Monte Carlo errors of 24 runs' worth.
    assert np.mean(hits) > 0.8 - 4 * math.sqrt(0.16 / (24 * 4))
    assert np.mean(hits) < 0.97


# ------------------------------------------------------------------------------------------------------ edge cases


def test_cycle_declares_nothing():
    for scale in (1, 100):
        data = {key: (scale * a, scale * b) for key, (a, b) in CYCLE.items()}
        bands = lg.infer_gaps(votes(data), lg.PerTaskBradleyTerry()).bands("all")
        assert (bands.to_frame()["sign"] == 0).all()


def test_zero_variance_gaps_are_left_out():
    inference = lg.infer_gaps(votes({"A:B": (0, 0, 10)}), lg.PerTaskBradleyTerry())
    bands = inference.bands("all")
    assert math.isnan(bands.critical_value)
    assert bands.to_frame()["sign"].tolist() == [0] and np.isinf(bands.to_frame()["low"]).all()


def test_unbounded_gaps_have_infinite_bands_and_no_sign():
    bands = lg.infer_gaps(votes(WINLESS), lg.PerTaskBradleyTerry()).bands("all").to_frame()
    across = bands["versus"] == "C"
    assert (
        (bands.loc[across, "low"] == -np.inf).all()
        and (bands.loc[across, "high"] == np.inf).all()
        and (bands.loc[across, "sign"] == 0).all()
    )
    assert np.isfinite(bands.loc[~across, ["low", "high"]]).to_numpy().all()
    islands = {key: (a * 10**6, b * 10**6) for key, (a, b) in ISLANDS.items()}
    bands = lg.infer_gaps(votes(islands), lg.PerTaskBradleyTerry(disconnected="allow")).bands("all").to_frame()
    assert bands["sign"].tolist() == [1, 0, 0, 0, 0, 1]
    assert bands["estimate"].isna().tolist() == [False, True, True, True, True, False]


def test_no_draws_no_bands_and_few_draws_warn(inference):
    bands = inference.bands("task", n_draws=0)
    frame = bands.to_frame()
    assert frame[["low", "high"]].isna().to_numpy().all() and (frame["sign"] == 0).all() and np.isnan(bands.critical_value).all()
    with pytest.warns(UserWarning, match=r"n_draws=10 leaves 0.5 draws .* use n_draws=400 or more"):
        inference.bands("all", n_draws=10)


def test_two_models():
    inference = lg.infer_gaps(votes({"A:B": (700, 300)}))
    for family in ("cell", "model", "task", "all"):
        bands = inference.bands(family)
        # One gap: the marginal critical value, within 4 Monte Carlo errors of a .95 quantile of 2,000 draws.
        assert np.allclose(bands.critical_value, 1.96, atol=4 * math.sqrt(0.05 * 0.95 / 2000) / 0.117)
        assert (bands.to_frame()["sign"] != 0).all()


def test_plain_fit_of_one_task_matches_across_families():
    inference = lg.infer_gaps(votes(THREE), lg.PerTaskBradleyTerry())
    assert inference.bands("task").critical_value["all"] == inference.bands(("task", "all")).critical_value
    assert abs(inference.bands("all").critical_value - inference.bands(("task", "all")).critical_value) < 0.25  # two streams


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"family": "everything"}, r"unknown family 'everything'; use \('cell', task, model\)"),
        ({"family": ("task", "m00")}, "unknown task 'm00'"),
        ({"family": ("cell", "t00")}, "unknown family"),
        ({"family": "all", "alpha": 95}, "0.05"),
        ({"family": "all", "alpha": 0.0}, "strictly between"),
        ({"family": "all", "method": "bootstrap"}, "'max-t', 'step-down'"),
        ({"family": "cell", "method": "one-sided"}, "certify"),
        ({"family": "all", "n_draws": -1}, "n_draws"),
        ({"family": "all", "n_draws": 2.5}, "n_draws"),
        ({"family": "all", "random_state": "x"}, "random_state"),
    ],
)
def test_bad_arguments_name_what_is_wrong(inference, arguments, message):
    with pytest.raises(lg.ParameterError, match=message):
        inference.bands(**arguments)


def test_too_many_rows_name_the_narrower_call(inference, monkeypatch):
    monkeypatch.setattr("lrgittins.inference.MAX_ROWS", 100)
    with pytest.raises(lg.ParameterError, match=r"1 x 126 = 126 rows, more than 100; use family=\('task', task\)"):
        inference.bands("all")
    with pytest.raises(lg.ParameterError, match=r"use family=\('cell', task, model\)"):
        inference.bands("cell")
    assert len(inference.bands(("task", "t00")).to_frame()) == 21
