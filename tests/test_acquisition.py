"""Acquisition values of the Bayesian-optimisation policies against direct quadrature, and the features of arms; no torch needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import lrgittins as lg
from lrgittins.policies.bayes_opt import log_improvement
from lrgittins.policies.features import check_features
from lrgittins.policies.pandora import pandora_index


def quadrature_log_ei(u: float) -> float:
    """log E[max(0, u + Z)] = log phi(u) + log int_0^inf t exp(u t - t^2 / 2) dt, integrated in a variable of order one."""
    unit = 1.0 / max(1.0, -u)
    peak = 0.5 * u * u if u > 0.0 else 0.0  # keeps the integrand near one
    value, _ = quad(
        lambda w: w * unit * math.exp(u * w * unit - 0.5 * (w * unit) ** 2 - peak),
        0.0, max(60.0, u + 12.0), epsabs=0.0, epsrel=1e-12, limit=400, points=[max(u, 1.0)],
    )  # fmt: skip
    return -0.5 * u * u - 0.5 * math.log(2.0 * math.pi) + peak + math.log(value * unit)


@pytest.mark.oracle
@pytest.mark.parametrize("u", [6.0, 2.0, 0.3, 0.0, -0.5, -1.0, -3.9, -4.0, -4.1, -8.0, -20.0, -45.0, -300.0, -5000.0])
@pytest.mark.parametrize("std", [1.0, 0.07, 3e-6])
def test_log_improvement_equals_quadrature(u: float, std: float) -> None:
    best = 0.6 if std > 1e-3 else 0.0  # with a small spread best + u std would round u away
    got = log_improvement(np.array([best + u * std]), np.array([std]), best)[0]
    exact_u = (best + u * std - best) / std
    expected = quadrature_log_ei(exact_u) + math.log(std)
    assert got == pytest.approx(expected, rel=1e-12, abs=1e-8)  # the logarithm itself to 1e-8; rel: 1e7 has no more digits
    if u > -30.0:  # the improvement itself, by the definition
        mean = best + u * std
        direct, _ = quad(
            lambda f: (f - best) * math.exp(-0.5 * ((f - mean) / std) ** 2) / (std * math.sqrt(2.0 * math.pi)),
            best, max(best, mean) + 40.0 * std, points=[best + std * max(u, 1.0 / max(1.0, -u))], epsabs=0.0, epsrel=1e-11, limit=400,
        )  # fmt: skip
        assert math.exp(got) == pytest.approx(direct, rel=1e-8)


@pytest.mark.oracle
def test_log_improvement_without_spread() -> None:
    got = log_improvement(np.array([0.7, 0.5, 0.3, 0.3]), np.array([0.0, 0.0, 0.0, 1e-320]), 0.5)
    assert got[0] == pytest.approx(math.log(0.2)) and (got[1:] == -np.inf).all()


@pytest.mark.oracle
@pytest.mark.parametrize("cost", [1e-30, 1e-12, 1e-6, 3e-3, 0.2, 1.5])
@pytest.mark.parametrize("std", [1e-4, 0.05, 0.3])
def test_pandora_index_equals_a_root_finder(cost: float, std: float) -> None:
    mean = 0.4
    g = pandora_index(np.array([mean]), np.array([std]), np.array([cost]))[0]

    def excess(candidate: float) -> float:
        return quadrature_log_ei((mean - candidate) / std) + math.log(std) - math.log(cost)

    if cost > 8.0 * std:  # far left EI is linear, f - g, to the last bit
        assert g == pytest.approx(mean - cost, abs=1e-12)
    else:
        assert g == pytest.approx(brentq(excess, mean - cost - std, mean + 13.0 * std, xtol=1e-13, rtol=1e-14), abs=1e-9)


@pytest.mark.property
def test_pandora_index_limits_and_order() -> None:
    costs = np.array([0.0, 1e-6, 1e-3, 0.1, 10.0])
    g = pandora_index(np.full(5, 0.5), np.full(5, 0.2), costs)
    assert g[0] == np.inf and (np.diff(g) < 0).all() and g[4] == pytest.approx(0.5 - 10.0)
    assert (np.diff(pandora_index(np.full(3, 0.5), np.array([0.0, 0.1, 0.4]), np.full(3, 0.01))) > 0).all()
    assert pandora_index(np.array([0.5]), np.array([0.0]), np.array([0.1]))[0] == pytest.approx(0.4)


# -- features -----------------------------------------------------------------------------------------------------------


def test_features_in_every_form_give_the_same_codes() -> None:
    arms = ["a", "b", "c", "d"]
    rows = [("x", 1), ("x", 2), ("y", 1), ("y", 2)]
    expected = [[0, 0], [0, 1], [1, 0], [1, 1]]
    frame = pd.DataFrame(rows, index=arms, columns=["family", "size"])
    forms: list[Any] = [rows, np.array(rows), frame, frame.iloc[::-1], dict(zip(arms, rows, strict=True))]
    forms.append({arm: {"size": size, "family": family} for arm, (family, size) in zip(arms[::-1], rows[::-1], strict=True)})
    forms[-1]["a"] = {"family": "x", "size": 1}  # the first arm's order of names counts
    for form in forms:
        codes = check_features(form, arms)
        assert codes.tolist() == expected and codes.dtype == np.int64
    assert check_features(None, arms).tolist() == [[0], [1], [2], [3]]
    assert check_features(["p", "q", "r", "s"], arms).tolist() == [[0], [1], [2], [3]]
    # A constant column is left out; arms that agree in all features get their name as one more.
    assert check_features([("k", row[0]) for row in rows], arms).tolist() == [[0, 0], [0, 1], [1, 2], [1, 3]]
    assert check_features([("k",)] * 4, arms).tolist() == [[0], [1], [2], [3]]
    assert check_features([("k",)], ["alone"]).tolist() == [[0]]
    for codes in (check_features(rows, arms), check_features([("k", row[0]) for row in rows], arms)):
        assert np.array_equal(check_features(codes.tolist(), arms), codes), "codes of codes are the codes: states save them"


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("abc", "one row per arm"),
        (3, "one row per arm"),
        ([1, 2, 3], r"\(2\), got 3"),
        ({"a": 1}, "no entry for 1 of 2 arms: 'b'"),
        (pd.DataFrame({"f": [1, 2]}), "arms as its index"),
        (pd.DataFrame({"f": [1, 2, 3]}, index=["a", "a", "b"]), "more than once: 'a'"),
        ([("x", 1), ("x",)], "features of arm 'b'"),
        ([(), ()], "empty"),
        ([("x", None), ("x", 1)], "feature 1 of arm 'a' is missing"),
        ([1.0, math.nan], "arm 'b' is missing"),
        ([[["x"]], [["y"]]], "must be a category"),
    ],
)
def test_bad_features_name_the_arm(features: Any, words: str) -> None:
    with pytest.raises(lg.ParameterError, match=words):
        check_features(features, ["a", "b"])
