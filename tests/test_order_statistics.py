"""Order-statistic rank bounds against the golden case, brute force and their own coverage."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lrgittins.order_statistics import Subject, common_quantile_thresholds, count_bound, rank_counts


@pytest.mark.golden
def test_golden_rank_interval(shared):
    golden = json.loads((shared / "golden/lowrank/jer.json").read_text())
    statistic, thresholds = np.array(golden["T"]), np.array(golden["c"])
    above, below = rank_counts(statistic, thresholds)
    assert [1 + above, len(statistic) + 1 - below] == golden["rank_interval"]
    above, below = rank_counts(statistic, thresholds[:1])
    assert [1 + above, len(statistic) + 1 - below] == golden["single_step_interval_c1"]


@pytest.mark.oracle
def test_count_bound_is_the_formula():
    rng = np.random.default_rng(0)
    for _ in range(200):
        statistic = np.round(rng.normal(0, 2, rng.integers(1, 9)), 1)
        thresholds = -np.sort(-np.round(np.abs(rng.normal(1, 1, rng.integers(1, 9))), 1))
        expected = max(max(0, int((statistic > c).sum()) - k) for k, c in enumerate(thresholds))
        assert count_bound(statistic, thresholds) == expected
    assert count_bound(np.array([]), np.array([1.0])) == 0


def brute_force(draws, subjects, alpha):
    """Every level in turn, from the definition."""
    n_draws = draws.shape[1]
    tables = []
    for s in subjects:
        gaps = (draws[s.others] - draws[s.model]) * s.inverse_se[:, None]
        tables.append(np.maximum(-np.sort(-gaps, axis=0), -np.sort(gaps, axis=0)))
    for level in range(1, n_draws + 1):
        thresholds = [np.sort(table, axis=1)[:, level - 1] for table in tables]
        inside = np.all([np.all(table <= c[:, None], axis=0) for table, c in zip(tables, thresholds, strict=True)], axis=0)
        if inside.mean() >= 1 - alpha - 1e-12:
            return [np.maximum(c, 0.0) for c in thresholds]
    raise AssertionError


@pytest.mark.oracle
@pytest.mark.parametrize(("alpha", "digits"), [(0.1, 9), (0.25, 9), (0.1, 0), (0.9, 9)])
def test_thresholds_agree_with_brute_force(alpha, digits):
    rng = np.random.default_rng(1)
    draws = np.round(rng.standard_normal((5, 60)) * 2, digits)  # rounding to integers makes many ties
    subjects = [Subject(0, m, np.delete(np.arange(5), m), 1.0 / np.round(1.0 + rng.random(4), 0 if digits == 0 else 9)) for m in range(5)]
    found = common_quantile_thresholds(subjects, {0: draws}, alpha)
    for mine, theirs in zip(found, brute_force(draws, subjects, alpha), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    single = common_quantile_thresholds(subjects[:1], {0: draws}, alpha)[0]
    np.testing.assert_allclose(single, brute_force(draws, subjects[:1], alpha)[0], atol=1e-12)
    assert np.all(np.diff(single) <= 1e-12)
    assert np.all(single <= found[0] + 1e-12)  # one claim alone needs less


@pytest.mark.statistical
def test_bound_holds_at_its_level():
    """True ranks stay inside in at least 1 - alpha of seeded repetitions (four Monte Carlo errors of slack below)."""
    rng = np.random.default_rng(2)
    truth = np.sort(rng.standard_normal(8) * 0.7)[::-1]
    draws = rng.standard_normal((8, 4000))
    subject = Subject(0, 3, np.delete(np.arange(8), 3), np.full(7, 2**-0.5))
    thresholds = common_quantile_thresholds([subject], {0: draws}, 0.2)[0]
    hits, narrower = 0, 0
    for _ in range(2000):
        estimate = truth + rng.standard_normal(8)
        statistic = (estimate[subject.others] - estimate[3]) * subject.inverse_se
        above, below = rank_counts(statistic, thresholds)
        hits += 1 + above <= 4 <= 8 - below
        narrower += above + below >= (np.abs(statistic) > thresholds[0]).sum()
    assert hits / 2000 >= 0.8 - 4 * np.sqrt(0.8 * 0.2 / 2000)
    assert narrower == 2000  # never wider than single-step at the same c_1
