"""Rank intervals, certificates and point ranks from signs and bounds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrgittins.certificates import certify_ranks, count_signs, intervals_from_bounds, point_ranks, rank_intervals

from .reference.inference import rank_interval


def bounds(pairs: dict[tuple[int, int], tuple[float, float]], n_models: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.zeros((n_models, n_models)), np.zeros((n_models, n_models))
    for (a, b), (lower, upper) in pairs.items():
        low[a, b], high[a, b], low[b, a], high[b, a] = lower, upper, -upper, -lower
    return low, high


def test_rank_intervals_from_gap_bounds():  # A09
    rank_low, rank_high = intervals_from_bounds(*bounds({(0, 1): (0.1, 0.9), (0, 2): (-0.2, 0.8), (1, 2): (-0.7, 0.3)}, 3))
    assert list(zip(rank_low.tolist(), rank_high.tolist(), strict=True)) == [(1, 2), (2, 3), (1, 3)]
    assert certify_ranks(rank_low, rank_high, 2).tolist() == ["top-k", "unresolved", "unresolved"]
    assert certify_ranks(rank_low, rank_high, 1).tolist() == ["unresolved", "not-top-k", "unresolved"]
    assert certify_ranks(rank_low, rank_high, 3).tolist() == ["top-k"] * 3


def test_bounds_that_touch_zero_declare_nothing():
    rank_low, rank_high = intervals_from_bounds(*bounds({(0, 1): (0.0, 1.0), (0, 2): (-1.0, 0.0), (1, 2): (-np.inf, np.inf)}, 3))
    assert rank_low.tolist() == [1, 1, 1] and rank_high.tolist() == [3, 3, 3]


@pytest.mark.golden
def test_golden_ranks(shared):
    golden = json.loads((shared / "golden/lowrank/ranks.json").read_text())
    gap, half = np.array(golden["gap"]), np.array(golden["half"])  # others minus model 0
    above = np.zeros((1, 7), dtype=np.int64)
    below = np.zeros((1, 7), dtype=np.int64)
    sign = -np.sign(gap) * (np.abs(gap) > half)
    zeros = np.zeros(6, dtype=np.int64)
    count_signs(zeros, zeros, np.arange(1, 7), sign, above, below, one_model=True)
    rank_low, rank_high = rank_intervals(above, below, 7)
    assert [int(rank_low[0, 0]), int(rank_high[0, 0])] == golden["rank_interval"] == list(rank_interval(gap - half, gap + half))
    code = {"top-k": 1, "not-top-k": -1, "unresolved": 0}
    for k, wanted in golden["certificates"].items():
        assert code[certify_ranks(rank_low[0, :1], rank_high[0, :1], int(k))[0]] == wanted


@given(st.integers(2, 9), st.integers(0, 2**31))
def test_pairs_and_one_model_counts_agree(n_models, seed):
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(n_models, 1)
    sign = rng.integers(-1, 2, size=len(first))
    above, below = np.zeros((2, 1, n_models), dtype=np.int64)
    count_signs(np.zeros_like(first), first, second, sign, above, below, one_model=False)
    full = np.zeros((n_models, n_models), dtype=np.int64)
    full[first, second], full[second, first] = sign, -sign
    np.testing.assert_array_equal(above[0], (full < 0).sum(axis=1))
    np.testing.assert_array_equal(below[0], (full > 0).sum(axis=1))
    for model in range(n_models):
        one_above, one_below = np.zeros((2, 1, n_models), dtype=np.int64)
        others = np.delete(np.arange(n_models), model)
        count_signs(np.zeros_like(others), np.full_like(others, model), others, full[model, others], one_above, one_below, one_model=True)
        assert (one_above[0, model], one_below[0, model]) == (above[0, model], below[0, model])
        assert one_above.sum() + one_below.sum() == np.count_nonzero(full[model])


@pytest.mark.parametrize(
    ("scores", "ranks"),
    [
        ([0.3, 0.3, -0.1, 0.9], [2, 2, 4, 1]),
        ([0.0, 0.0, 0.0, 0.0], [1, 1, 1, 1]),
        ([1e-17, -3e-17, 2e-17], [1, 1, 1]),  # a cycle's rounding
        ([1000.0, 1000.0 + 1e-8, 0.0], [1, 1, 3]),
        ([1.0, 1.0 + 1e-6, 0.0], [2, 1, 3]),
        ([np.nan, 1.0, 2.0, np.nan], [3, 2, 1, 3]),
    ],
)
def test_equal_scores_share_the_better_rank(scores, ranks):
    assert point_ranks(np.array(scores))[0].tolist() == ranks


@given(st.integers(0, 2**31))
def test_ranks_follow_labels_and_lie_in_their_intervals(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-3, 4, size=(1, 8)) / 7.0
    order = rng.permutation(8)
    np.testing.assert_array_equal(point_ranks(scores[:, order]), point_ranks(scores)[:, order])
    half = rng.random((8, 8))
    half = np.maximum(half, half.T)
    gap = scores[0][:, None] - scores[0][None, :]
    rank_low, rank_high = intervals_from_bounds(gap - half, gap + half)
    assert (rank_low <= point_ranks(scores)[0]).all() and (point_ranks(scores)[0] <= rank_high).all()
