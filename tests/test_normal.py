"""Scalar kernels of the normal distribution against scipy and quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from lrgittins._kernels.normal import (
    expected_improvement,
    inverse_expected_improvement,
    log_expected_improvement,
    normal_cdf,
    normal_pdf,
)

POINTS = [-37.0, -20.0, -8.0, -4.1, -4.0, -3.9, -1.0, 0.0, 1.0, 6.0]


@pytest.mark.oracle
@pytest.mark.parametrize("x", POINTS)
def test_pdf_and_cdf_agree_with_scipy_in_relative_terms(x: float) -> None:
    assert normal_pdf(x) == pytest.approx(norm.pdf(x), rel=1e-13)
    assert normal_cdf(x) == pytest.approx(norm.cdf(x), rel=1e-12)  # erfc far left: a few units in x^2 eps


@pytest.mark.oracle
@pytest.mark.parametrize("u", POINTS)
def test_expected_improvement_is_the_integral_in_relative_terms(u: float) -> None:
    # The density is factored out so that the integral keeps its digits where phi underflows towards 1e-300.
    value, _ = quad(lambda t: t * math.exp(-0.5 * t * t + u * t), 0.0, max(0.0, u) + 12.0, epsabs=0.0, epsrel=1e-13, limit=200)
    assert log_expected_improvement(u) == pytest.approx(math.log(value) - 0.5 * u * u - 0.5 * math.log(2 * math.pi), abs=2e-12)
    assert expected_improvement(3.0 * u, 3.0) == pytest.approx(3.0 * math.exp(log_expected_improvement(u)), rel=1e-11)


def test_expected_improvement_without_spread_is_the_positive_part() -> None:
    assert [expected_improvement(z, 0.0) for z in (-1.0, 0.0, 2.0)] == [0.0, 0.0, 2.0]


def test_tail_and_centre_meet_where_the_formula_changes() -> None:
    below, above = expected_improvement(np.nextafter(-4.0, -5.0), 1.0), expected_improvement(-4.0, 1.0)
    assert below == pytest.approx(above, rel=1e-13)  # 16 eps of cancellation on one side


@pytest.mark.property
@given(st.floats(-300.0, 3.0), st.floats(-3.0, 3.0))
@settings(max_examples=300, deadline=None)
def test_inverse_undoes_expected_improvement_in_log_space(log10_value: float, log10_s: float) -> None:
    value, s = 10.0**log10_value, 10.0**log10_s
    z = inverse_expected_improvement(value, s)
    if value > 40.0 * s:
        assert z == value
    elif value / s > 0.0:
        # log EI is known to about u^2 eps / 2 < 1e-13 down to u = -38.
        assert log_expected_improvement(z / s) == pytest.approx(math.log(value / s), abs=1e-12)


def test_inverse_at_the_ends() -> None:
    assert inverse_expected_improvement(0.0, 1.0) == -math.inf
    assert inverse_expected_improvement(0.3, 0.0) == 0.3
    assert inverse_expected_improvement(5.0, 1e-300) == 5.0
    assert -39.0 < inverse_expected_improvement(5e-324, 1.0) < -38.0


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("cost", "index"),
    [(0.05, 0.767050), (0.20, 0.182974), (0.2820948, 0.0), (0.30, -0.035115), (10.0, -10.0), (0.0589129, 0.707107), (1e-12, 4.743086)],
)
def test_one_item_left_known_indices(cost: float, index: float) -> None:
    """Mean 0, variance 1, noise variance 1, one evaluation left: E max(m' - g, 0) = c has the solution g = -root."""
    assert -inverse_expected_improvement(cost, math.sqrt(0.5)) == pytest.approx(index, abs=6e-7)  # printed to six digits


def test_inverse_is_increasing_and_below_the_identity() -> None:
    values = np.geomspace(1e-12, 30.0, 200)
    z = np.array([inverse_expected_improvement(v, 0.7) for v in values])
    assert np.all(np.diff(z) > 0)
    assert np.all(z <= values)
