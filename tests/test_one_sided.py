"""One-sided certificates and order-statistic boards, through the public calls."""

from __future__ import annotations

import numpy as np
import pytest

import lrgittins as lg
from lrgittins.one_sided import step_down_above
from lrgittins.simulate import low_rank_scores, simulate_comparisons


@pytest.fixture(scope="module")
def inference():
    truth = low_rank_scores(5, 9, 2, sup_norm=3.0, random_state=1)
    return lg.infer_gaps(simulate_comparisons(truth, 4000, random_state=2), lg.LowRankBradleyTerry(rank=2))


@pytest.mark.oracle
def test_step_down_is_the_plain_algorithm():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((7, 500))
    others = np.array([0, 1, 2, 4, 5, 6])
    inverse = 1.0 / (1.0 + rng.random(6))
    statistic = np.array([3.5, 2.1, 1.9, -2.5, 0.3, -4.0])
    for turned, sign in ((False, 1.0), (True, -1.0)):
        gaps = sign * (draws[others] - draws[3]) * inverse[:, None]
        rejected: set[int] = set()
        while True:
            active = [j for j in range(6) if j not in rejected]
            critical = np.quantile(gaps[active].max(axis=0), 0.95)
            new = {j for j in active if sign * statistic[j] > critical}
            if not new:
                break
            rejected |= new
        found = step_down_above(draws, 3, others, statistic, inverse, 0.05, turned=turned)
        assert set(np.flatnonzero(found)) == rejected
        assert rejected


def test_one_sided_certifies_more_and_keeps_the_two_sided_ranks(inference):
    one = inference.certify(3, family="cell", method="one-sided").to_frame()
    two = inference.certify(3, family="cell", method="step-down").to_frame()
    assert one[["rank_low", "rank_high"]].equals(two[["rank_low", "rank_high"]])
    certified_two = two.certificate != "unresolved"
    assert (one.certificate[certified_two] == two.certificate[certified_two]).all()
    assert (one.certificate != "unresolved").sum() > certified_two.sum()
    task, model = one.task[0], one.model[0]
    single = inference.certify(3, family=("cell", task, model), method="one-sided").to_frame()
    assert single.certificate[0] == one.certificate[0]


def test_one_sided_is_refused_where_it_means_nothing(inference):
    for family in ("task", "model", "all", ("task", str(inference.tasks[0]))):
        with pytest.raises(lg.ParameterError, match="one model on one task at a time"):
            inference.certify(3, family=family, method="one-sided")
    with pytest.raises(lg.ParameterError, match="certify"):
        inference.bands("cell", method="one-sided")


@pytest.mark.statistical
def test_one_sided_error_in_a_least_favourable_configuration():
    """Nine equal models, K = 3: any certificate for the first is wrong, and both kinds are tested at the full alpha.

    At most one of the two claims can be false for a fixed truth, but with all equal either may be called false; the sum of
    both errors is at most 2 alpha, each at most alpha. 4,000 repetitions: Monte Carlo error .0034 at .05, three allowed.
    """
    rng = np.random.default_rng(5)
    n_models, top_k, alpha = 9, 3, 0.05
    draws = rng.standard_normal((n_models, 4000))
    others, inverse = np.arange(1, n_models), np.full(n_models - 1, 2**-0.5)
    # Least favourable for "not among the top K": K - 1 models far above, the rest level with the first.
    truth = np.zeros(n_models)
    truth[1:top_k] = 20.0
    wrong = 0
    for _ in range(4000):
        estimate = truth + rng.standard_normal(n_models)
        statistic = (estimate[1:] - estimate[0]) * inverse
        wrong += step_down_above(draws, 0, others, statistic, inverse, alpha, turned=False).sum() >= top_k
    assert wrong / 4000 <= alpha + 3 * 0.0034


@pytest.mark.parametrize("family", ["cell", "task", "model", "all"])
def test_order_statistic_boards(inference, family):
    board = inference.certify(3, family=family, method="order-statistic")
    frame = board.to_frame()
    assert ((frame.rank_low <= frame["rank"]) & (frame["rank"] <= frame.rank_high)).all()
    assert frame.rank_low.min() >= 1
    assert frame.rank_high.max() <= 9
    again = inference.certify(3, family=family, method="order-statistic").to_frame()
    assert frame.equals(again)
    bands = inference.bands(family, method="order-statistic").to_frame()
    plain = inference.bands(family, method="max-t").to_frame()
    assert bands[["low", "high"]].equals(plain[["low", "high"]])  # always the max-t band
    assert set(bands.sign) <= {-1, 0, 1}
    assert (bands.sign * bands.estimate >= 0).all()


def test_order_statistic_without_information():
    ties = lg.Comparisons.from_arrays(["x", "y"], ["A", "A"], ["B", "B"], [0.5, 0.5], [10, 10])
    frame = lg.leaderboard(ties, rank=1, top_k=1, method="order-statistic").to_frame()
    assert (frame.certificate == "unresolved").all()
    assert (frame.rank_low == 1).all()
    assert (frame.rank_high == 2).all()
