"""Repeated cross-fitting: means over splits, a covariance that is theirs, and a steadier answer."""

from __future__ import annotations

import numpy as np
import pytest

import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons


@pytest.fixture(scope="module")
def votes():
    truth = low_rank_scores(8, 10, 2, sup_norm=2.5, random_state=1)
    return simulate_comparisons(truth, 3000, random_state=2)


@pytest.fixture(scope="module")
def three(votes):
    return lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), n_splits=3, random_state=5)


def test_one_split_is_the_plain_cross_fit(votes):
    plain = lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), calibration="cross-fit", random_state=5)
    one = lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), n_splits=1, calibration="cross-fit", random_state=5)
    np.testing.assert_array_equal(plain.scores, one.scores)
    assert "split_spread" not in one.diagnostics and one.n_splits == 1


@pytest.mark.oracle
def test_means_of_the_splits(votes, three):
    """The three splits drawn one after another from one generator, each as its own cross-fit, averaged by hand."""
    rng = np.random.default_rng(5)
    singles = [lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), calibration="cross-fit", random_state=rng) for _ in range(3)]
    np.testing.assert_allclose(three.scores, np.mean([s.scores for s in singles], axis=0), atol=1e-12)
    contrasts = [(three.tasks[0], three.models[1], three.models[4]), (three.tasks[5], three.models[0], three.models[9])]
    np.testing.assert_allclose(three.covariance(contrasts), np.mean([s.covariance(contrasts) for s in singles], axis=0), rtol=1e-10)
    gap = three.gap(*contrasts[0])
    assert gap.std_error == pytest.approx(np.sqrt(np.mean([s.gap(*contrasts[0]).std_error ** 2 for s in singles])), rel=1e-10)
    # The mean over splits has a variance of at most that of one of them: the spread is real, and below a standard error.
    moved = [s.gap(*contrasts[0]).estimate - gap.estimate for s in singles]
    assert max(map(abs, moved)) > 0.0
    assert 0.0 < three.diagnostics["split_spread"]["value"] < 1.0 and three.diagnostics["split_spread"]["status"] == "ok"


@pytest.mark.oracle
def test_draws_and_influence_have_that_covariance(three):
    task, first, second = np.array([0, 0, 3]), np.array([1, 2, 5]), np.array([4, 6, 8])
    covariance = three._noise.contrast_covariance(task, first, second)
    draws = np.concatenate(list(three._noise.joint_draws(np.random.default_rng(0), 20_000)), axis=2)
    np.testing.assert_allclose(
        np.cov(draws[task, first] - draws[task, second]), covariance, atol=5 * np.diag(covariance).max() / np.sqrt(20_000)
    )
    influence = three.influence([(three.tasks[0], three.models[1], three.models[4])])
    variances = []
    for _, part in influence.groupby("split"):
        n = part["count"].sum()
        assert n == three._table.count.sum()
        mean = (part["count"] * part.influence_0).sum() / n
        variances.append((part["count"] * (part.influence_0 - mean) ** 2).sum() / n**2)
    assert len(variances) == 3
    assert np.mean(variances) == pytest.approx(covariance[0, 0], rel=1e-8)


def test_steadier_than_one_split(votes):
    """Two answers from different seeds lie closer together with eight splits than with one."""
    distance = []
    for n_splits in (1, 8):
        a, b = (
            lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), n_splits=n_splits, calibration="cross-fit", random_state=s).scores
            for s in (1, 2)
        )
        distance.append(float(np.sqrt(((a - b) ** 2).to_numpy().mean())))
    assert distance[1] < 0.6 * distance[0]


def test_boards_come_from_it(three):
    board = three.certify(3, family="all", n_draws=500)
    assert (board.to_frame().rank_low <= board.to_frame()["rank"]).all()


@pytest.mark.parametrize(
    ("estimator", "options", "what"),
    [
        (lg.LowRankBradleyTerry(rank=2), {"calibration": "parametric"}, "parametric"),
        (lg.PerTaskBradleyTerry(), {}, "PerTaskBradleyTerry"),
    ],
)
def test_refused_where_there_are_no_folds(votes, estimator, options, what):
    with pytest.raises(lg.ParameterError, match=f"n_splits=2 repeats cross-fitting, but .*{what}"):
        lg.infer_gaps(votes, estimator, n_splits=2, **options)
    with pytest.raises(lg.ParameterError, match="n_splits"):
        lg.infer_gaps(votes, estimator, n_splits=0)
