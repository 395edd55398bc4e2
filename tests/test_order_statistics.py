"""Order-statistic rank bounds against the golden case, brute force and their own coverage."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lrgittins._kernels.order_statistics import fill_order_statistics
from lrgittins.order_statistics import Subject, count_bound, order_thresholds, rank_counts


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
        tables.append(np.maximum(np.maximum(-np.sort(-gaps, axis=0), -np.sort(gaps, axis=0)), 0.0))
    for level in range(int(np.floor((1 - alpha) * n_draws)), n_draws + 1):
        thresholds = [np.sort(table, axis=1)[:, level - 1] for table in tables]
        inside = np.all([np.all(table <= c[:, None], axis=0) for table, c in zip(tables, thresholds, strict=True)], axis=0)
        if inside.mean() >= 1 - alpha - 1e-12:
            return thresholds
    raise AssertionError


def some_subjects(rng, n_models, digits):
    everyone = np.arange(n_models)
    return [
        Subject(0, m, np.delete(everyone, m), 1.0 / np.round(1.0 + rng.random(n_models - 1), 0 if digits == 0 else 9)) for m in everyone
    ]


@pytest.mark.oracle
@pytest.mark.parametrize(("alpha", "digits"), [(0.1, 9), (0.25, 9), (0.1, 0), (0.9, 9)])
def test_thresholds_agree_with_brute_force(alpha, digits):
    rng = np.random.default_rng(1)
    draws = np.round(rng.standard_normal((5, 3000)) * 2, digits)  # rounding to integers makes many ties
    subjects = some_subjects(rng, 5, digits)
    found = order_thresholds(subjects, {0: draws}, alpha)
    for mine, theirs in zip(found, brute_force(draws, subjects, alpha), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    single = order_thresholds(subjects[:1], {0: draws}, alpha)[0]
    np.testing.assert_allclose(single, brute_force(draws, subjects[:1], alpha)[0], atol=1e-12)
    assert np.all(np.diff(single) <= 1e-12)
    assert np.all(single <= found[0] + 1e-12)  # one claim alone needs less


@pytest.mark.statistical
def test_many_subjects_are_covered_on_fresh_draws():
    """Thirty rows at once from 1,000 draws: a shared level would be 1 here. Coverage of 20,000 fresh draws stays at the level.

    The threshold factor has a Monte Carlo error of sqrt(.1 * .9 / 1000) = .0095 in coverage; three of them are allowed.
    """
    rng = np.random.default_rng(3)
    n_models, alpha = 30, 0.1
    subjects = some_subjects(rng, n_models, 9)
    thresholds = order_thresholds(subjects, {0: rng.standard_normal((n_models, 1000))}, alpha)
    fresh = rng.standard_normal((n_models, 20_000))
    inside = np.ones(20_000, dtype=bool)
    for subject, c in zip(subjects, thresholds, strict=True):
        values = np.empty((len(c), 20_000))
        fill_order_statistics(fresh, subject.model, subject.others, subject.inverse_se, values)
        inside &= (values <= c[:, None]).all(axis=0)
    assert abs(inside.mean() - (1 - alpha)) <= 3 * 0.0095


@pytest.mark.oracle
@pytest.mark.parametrize("n_others", [1, 2, 3, 7, 16, 33, 49])
def test_order_statistics_agree_with_a_sort(n_others):
    rng = np.random.default_rng(n_others)
    draws = rng.standard_normal((n_others + 1, 300))  # one block and part of a second
    inverse = 1.0 + rng.random(n_others)
    others = np.arange(n_others)
    out = np.empty((n_others, 300))
    fill_order_statistics(draws, n_others, others, inverse, out)
    gaps = (draws[:-1] - draws[-1]) * inverse[:, None]
    expected = np.maximum(-np.sort(-gaps, axis=0), -np.sort(gaps, axis=0))
    np.testing.assert_array_equal(out, np.maximum(expected, 0.0))


@pytest.mark.statistical
def test_bound_holds_at_its_level():
    """True ranks stay inside in at least 1 - alpha of seeded repetitions (four Monte Carlo errors of slack below)."""
    rng = np.random.default_rng(2)
    truth = np.sort(rng.standard_normal(8) * 0.7)[::-1]
    draws = rng.standard_normal((8, 4000))
    subject = Subject(0, 3, np.delete(np.arange(8), 3), np.full(7, 2**-0.5))
    thresholds = order_thresholds([subject], {0: draws}, 0.2)[0]
    hits, narrower = 0, 0
    for _ in range(2000):
        estimate = truth + rng.standard_normal(8)
        statistic = (estimate[subject.others] - estimate[3]) * subject.inverse_se
        above, below = rank_counts(statistic, thresholds)
        hits += 1 + above <= 4 <= 8 - below
        narrower += above + below >= (np.abs(statistic) > thresholds[0]).sum()
    assert hits / 2000 >= 0.8 - 4 * np.sqrt(0.8 * 0.2 / 2000)
    assert narrower == 2000  # never wider than single-step at the same c_1
