"""The parametric calibration: its noise is the full-data noise scaled per task, and its bands are honest."""

from __future__ import annotations

import numpy as np
import pytest

import lrgittins as lg
from lrgittins.one_step import FoldTerm
from lrgittins.parametric import VoteSimulator, default_refits
from lrgittins.simulate import low_rank_scores, simulate_comparisons


@pytest.fixture(scope="module")
def setting():
    truth = low_rank_scores(8, 10, 2, sup_norm=2.5, random_state=1)
    votes = simulate_comparisons(truth, 3000, random_state=2)
    return truth, votes, lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), calibration="parametric")


@pytest.mark.oracle
def test_simulated_votes_have_the_fitted_law():
    truth = low_rank_scores(2, 4, 1, sup_norm=1.5, random_state=0)
    table = simulate_comparisons(truth, 600, random_state=1)._table
    cells = table.cells()
    rng = np.random.default_rng(0)
    simulator = VoteSimulator.from_scores(cells, truth.to_numpy())
    wins = np.zeros(len(cells.task))
    for _ in range(400):
        by_group, simulated = simulator.draw(rng)
        again = by_group.cells()
        for name in ("task", "low", "high", "count", "wins"):
            np.testing.assert_array_equal(getattr(simulated, name), getattr(again, name))
        np.testing.assert_array_equal(simulated.count, cells.count)
        wins += simulated.wins
    values = truth.to_numpy()
    p = 1 / (1 + np.exp(-(values[cells.task, cells.low] - values[cells.task, cells.high])))
    error = np.sqrt(p * (1 - p) / (400 * cells.count))
    assert (np.abs(wins / (400 * cells.count) - p) <= 4.5 * error).all()  # 12 cells, 4.5 errors each


@pytest.mark.oracle
def test_noise_is_one_scaled_law(setting):
    _, _, inference = setting
    noise = inference._noise
    task = np.array([0, 0, 3, 7])
    first, second = np.array([1, 2, 5, 0]), np.array([4, 6, 8, 9])
    covariance = noise.contrast_covariance(task, first, second)
    expected = [
        inference.gap(inference.tasks[t], inference.models[a], inference.models[b]).std_error
        for t, a, b in zip(task, first, second, strict=True)
    ]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), expected, rtol=1e-8)
    draws = np.concatenate(list(noise.joint_draws(np.random.default_rng(0), 20_000)), axis=2)
    gaps = draws[task, first] - draws[task, second]
    np.testing.assert_allclose(np.cov(gaps), covariance, atol=5 * np.diag(covariance).max() / np.sqrt(20_000))
    influence = inference.influence([(inference.tasks[0], inference.models[1], inference.models[4])])
    n = influence["count"].sum()
    mean = (influence["count"] * influence.influence_0).sum() / n
    variance = (influence["count"] * (influence.influence_0 - mean) ** 2).sum() / n**2
    assert np.sqrt(variance) == pytest.approx(expected[0], rel=1e-8)


def test_says_what_it_is(setting):
    _, votes, inference = setting
    assert inference.calibration == "parametric"
    assert inference.n_folds == 1
    assert "outside the paper's theory" in inference.notes[0]
    board = inference.certify(3)
    assert board.calibration == "parametric"
    again = lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), calibration="parametric")
    np.testing.assert_array_equal(again.scores, inference.scores)
    np.testing.assert_array_equal(again._noise.scale, inference._noise.scale)
    assert lg.leaderboard(votes, rank=2, calibration="parametric").calibration == "parametric"


def test_scale_and_width_against_cross_fitting(setting):
    _, votes, inference = setting
    assert (inference._noise.scale > 0.9).all()
    assert (inference._noise.scale < 1.6).all()
    crossed = lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), calibration="cross-fit")
    assert inference.gaps().std_error.mean() < 1.1 * crossed.gaps().std_error.mean()


@pytest.mark.statistical
def test_band_coverage_over_seeds():
    """24 data sets, all cells of each at alpha .1; between-set standard deviation near .05, so four errors are .04."""
    truth = low_rank_scores(8, 10, 2, sup_norm=2.0, random_state=3)
    values = truth.to_numpy()
    covered = []
    for seed in range(24):
        votes = simulate_comparisons(truth, 3000, random_state=seed)
        inference = lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), calibration="parametric", n_refits=10, random_state=seed)
        bands = inference.bands("cell", alpha=0.1, method="max-t", n_draws=1000).to_frame()
        task = truth.index.get_indexer(bands.task)
        gap = values[task, truth.columns.get_indexer(bands.model)] - values[task, truth.columns.get_indexer(bands.versus)]
        covered.append(((bands.low <= gap) & (gap <= bands.high)).to_numpy().reshape(80, -1).all(axis=1).mean())
    assert abs(np.mean(covered) - 0.9) <= 0.04


def test_algorithm_one_and_sparse_tasks():
    truth = low_rank_scores(6, 7, 1, sup_norm=1.5, random_state=4)
    votes = simulate_comparisons(truth, 500, task_weights=np.array([1, 1, 1, 1, 1, 0.01]), random_state=0)
    for estimator in (lg.LowRankBradleyTerry(rank=1, polish=False), lg.LowRankBradleyTerry(rank=1)):
        inference = lg.infer_gaps(votes, estimator, calibration="parametric", n_refits=4)
        frame = inference.certify(2).to_frame()
        assert ((frame.rank_low <= frame["rank"]) & (frame["rank"] <= frame.rank_high)).all()


def test_variances_that_round_to_less_than_nothing(setting, monkeypatch):
    """A model against itself is no gap, even where its variance comes out a rounding error below 0."""
    _, votes, _ = setting
    whole = FoldTerm.task_covariances

    def rounded(self, *frame):
        for some, blocks in whole(self, *frame):
            blocks[:, 0, :] = blocks[:, :, 0] = 0.0
            blocks[:, 0, 0] = -1e-30
            yield some, blocks

    monkeypatch.setattr(FoldTerm, "task_covariances", rounded)
    inference = lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), calibration="parametric", n_refits=2)
    assert np.isfinite(inference._noise.scale).all()


def test_refused_for_wald_fits(setting):
    _, votes, _ = setting
    with pytest.raises(lg.ParameterError, match="for low-rank fits"):
        lg.infer_gaps(votes, lg.PerTaskBradleyTerry(ridge=1e-6), calibration="parametric")
    with pytest.raises(lg.ParameterError, match="n_refits"):
        lg.infer_gaps(votes, calibration="parametric", n_refits=0)
    with pytest.raises(lg.ParameterError, match="'cross-fit', 'parametric'"):
        lg.infer_gaps(votes, calibration="jackknife")


def test_automatic_choice(setting):
    """Refits where votes are independent; folds where they come in clusters, are too few, or where folds are asked for."""
    _, votes, _ = setting
    rank2 = lg.LowRankBradleyTerry(rank=2)
    assert lg.infer_gaps(votes, rank2, n_refits=2).calibration == "parametric"
    folded = lg.infer_gaps(votes, rank2, n_folds=3)
    assert (folded.calibration, folded.n_folds) == ("cross-fit", 3)
    assert lg.infer_gaps(votes, rank2, n_splits=2).calibration == "cross-fit"
    assert lg.infer_gaps(votes, rank2, calibration="cross-fit").n_folds == 6
    assert lg.infer_gaps(votes, lg.PerTaskBradleyTerry()).calibration == "wald"
    frame = votes.counts.iloc[::8].head(40)
    task, a, b = (frame[name].repeat(4) for name in ("task", "model_a", "model_b"))
    clustered = lg.Comparisons.from_arrays(task, a, b, np.tile([1.0, 0.0, 1.0, 0.5], 40), cluster=np.repeat(np.arange(80), 2))
    assert lg.infer_gaps(clustered, lg.LowRankBradleyTerry(rank=1, disconnected="allow")).calibration == "cross-fit"
    few = lg.Comparisons.from_arrays(["s", "s", "t", "t"], list("abab"), list("baba"), [1.0, 1.0, 1.0, 1.0])
    with pytest.raises(lg.ComparisonError, match="6 folds need at least 6 comparisons"):
        lg.infer_gaps(few, lg.LowRankBradleyTerry(rank=1))


def test_refits_by_default_follow_the_models_that_have_votes():
    assert [default_refits(n_models) for n_models in (2, 50, 51, 100, 150, 5000)] == [30, 30, 30, 15, 10, 10]
    votes = simulate_comparisons(low_rank_scores(4, 6, 1, random_state=0), 600, random_state=1)
    declared = [*votes.models, *(f"unseen {i}" for i in range(200))]
    again = votes + lg.Comparisons.from_arrays([votes.tasks[0]], [declared[0]], [declared[1]], [1], models=declared)
    assert len(again.models) == 206
    notes = lg.infer_gaps(again, lg.LowRankBradleyTerry(rank=1)).notes
    assert any("from 30 refits" in note for note in notes)
