"""The vectorised exponential and logarithm against libm, in units in the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lrgittins._kernels.elementary import BLOCK, softplus

pytestmark = pytest.mark.oracle


def evaluate(gaps):
    """exp(-|gap|) and log(1 + exp(-|gap|)), block by block."""
    small, soft = np.empty(len(gaps)), np.empty(len(gaps))
    power = np.empty(BLOCK)
    for start in range(0, len(gaps), BLOCK):
        here = slice(start, min(start + BLOCK, len(gaps)))
        softplus(gaps[here], len(gaps[here]), small[here], soft[here], power, power.view(np.int64))
    return small, soft


def test_within_three_units_in_the_last_place():
    rng = np.random.default_rng(0)
    halves = (np.arange(-40, 41) + 0.5) * math.log(2.0)  # where the reduction changes its multiple of ln 2
    edges = np.nextafter(np.concatenate([halves, halves]), np.repeat([-np.inf, np.inf], len(halves)))
    gaps = np.concatenate(
        [rng.standard_normal(20_000) * 3, rng.uniform(-699, 699, 5_000), 10.0 ** rng.uniform(-18, 0, 2_000), edges, [0.0, -0.0]]
    )
    small, soft = evaluate(gaps)
    wanted = np.array([math.exp(-abs(gap)) for gap in gaps])
    np.testing.assert_array_less(np.abs(small - wanted), 2.0 * np.spacing(wanted))
    wanted = np.array([math.log1p(math.exp(-abs(gap))) for gap in gaps])
    np.testing.assert_array_less(np.abs(soft - wanted), 4.0 * np.spacing(wanted))
    np.testing.assert_array_equal(small[-2:], 1.0)


def test_even_and_decreasing():
    gaps = np.linspace(0.0, 50.0, 10_001)
    small, soft = evaluate(gaps)
    for values, mirrored in zip((small, soft), evaluate(-gaps), strict=True):
        np.testing.assert_array_equal(values, mirrored)
        assert (np.diff(values) < 0.0).all()


def test_far_ends_and_what_is_not_a_number():
    small, soft = evaluate(np.array([700.0, 1e4, np.inf, -np.inf, np.nan, 0.5]))
    np.testing.assert_allclose(small[:4], math.exp(-700.0), rtol=1e-14)
    np.testing.assert_allclose(soft[:4], math.exp(-700.0), rtol=1e-14)
    assert np.isnan(small[4]) and np.isnan(soft[4])
    assert small[5] == pytest.approx(math.exp(-0.5), rel=1e-15)
