"""Per-task and pooled Bradley-Terry fits against closed forms, scipy and the golden cases."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons

from .reference.bradley_terry import maximise_bradley_terry


def votes(text, task="all"):
    """Rows from "A:B 7-3, B:C 2-0-1" (wins, losses, ties)."""
    rows = []
    for item in text.split(","):
        pair, record = item.split()
        a, b = pair.split(":")
        numbers = [*map(int, record.split("-")), 0][:3]
        rows += [(task, a, b, winner, n) for winner, n in zip(["model_a", "model_b", "tie"], numbers, strict=True) if n]
    return pd.DataFrame(rows, columns=["task", "model_a", "model_b", "winner", "count"])


def fit(text, estimator=None, **options):
    return (estimator or lg.PerTaskBradleyTerry()).fit(lg.Comparisons.from_frame(votes(text), count="count", **options))


def gap(estimator, a, b, task="all"):
    return estimator.scores_.loc[task, a] - estimator.scores_.loc[task, b]


@pytest.mark.golden
def test_golden_scores(shared):
    data = json.loads((shared / "golden/lowrank/data.json").read_text())
    golden = json.loads((shared / "golden/lowrank/btl_per_task.json").read_text())
    comparisons = lg.Comparisons.from_arrays(data["task"], data["i"], data["j"], data["y"])
    # Newton ends on the root to rounding: the tolerance is the issue's.
    np.testing.assert_allclose(lg.PerTaskBradleyTerry().fit(comparisons).scores_, golden["theta_mle"], atol=1e-8)
    np.testing.assert_allclose(lg.PerTaskBradleyTerry(ridge=0.1).fit(comparisons).scores_, golden["theta_ridge_0p1"], atol=1e-8)


@pytest.mark.oracle
def test_two_models_closed_form():
    fitted = fit("A:B 7-3")
    assert gap(fitted, "A", "B") == pytest.approx(np.log(7 / 3), abs=1e-12)
    assert fitted.predict_proba("all", "A", "B") == pytest.approx(0.7, abs=1e-12)
    assert fitted.converged_["all"]


@pytest.mark.oracle
def test_penalised_separation_closed_forms():  # A03
    assert gap(fit("A:B 10-0", lg.PerTaskBradleyTerry(ridge=0.1)), "A", "B") == pytest.approx(3.913995, abs=1e-6)
    assert gap(fit("A:B 1-0", lg.PerTaskBradleyTerry(ridge=1.0)), "A", "B") == pytest.approx(0.674832, abs=1e-6)
    chain = fit("A:B 1-0,B:C 1-0", lg.PerTaskBradleyTerry(ridge=1.0)).scores_.loc["all"].to_numpy()
    np.testing.assert_allclose(chain, [0.401058, 0.0, -0.401058], atol=1e-6)


@pytest.mark.oracle
@pytest.mark.parametrize("ridge", [1e-3, 0.1, 1.0])
def test_long_chain_is_antisymmetric(ridge):  # A03
    names = [f"m{i:02d}" for i in range(15)]
    text = ",".join(f"{a}:{b} 1-0" for a, b in zip(names, names[1:], strict=False))
    scores = fit(text, lg.PerTaskBradleyTerry(ridge=ridge)).scores_.loc["all"].to_numpy()
    assert (np.diff(scores) < 0).all()
    np.testing.assert_allclose(scores, -scores[::-1], atol=1e-8)


def test_separation_is_flagged_penalised_or_refused():
    text = "A:B 3-1,A:C 2-0,B:C 2-0"  # C never wins
    flagged = fit(text)
    assert flagged.separated_.to_dict("list") == {"task": ["all"], "model": ["C"], "side": ["below"]}
    assert not flagged.converged_["all"]
    assert gap(flagged, "A", "B") == pytest.approx(np.log(3), abs=1e-4)  # untouched by C: the ridge of 1e-6 moves it by 1e-5
    assert flagged.diagnostics_["separated"]["status"] == "failed"
    penalised = fit(text, lg.PerTaskBradleyTerry(separation="penalise"))
    same = fit(text, lg.PerTaskBradleyTerry(ridge=0.3))
    np.testing.assert_allclose(penalised.scores_, same.scores_, atol=1e-12)
    assert "ridge 0.3" in penalised.diagnostics_["separated"]["detail"]
    with pytest.raises(lg.NotIdentifiableError, match="C .below. on all"):
        fit(text, lg.PerTaskBradleyTerry(separation="error"))
    assert fit(text, lg.PerTaskBradleyTerry(separation="error", ridge=1e-3)).converged_["all"]  # an explicit ridge never raises


def test_groups_that_always_beat_another_are_separated_though_everyone_wins():
    # A and B split, C and D split, and the first two always beat the others.
    found = fit("A:B 1-1,C:D 1-1,A:C 2-0,B:D 2-0").separated_
    assert set(found.model) == {"A", "B", "C", "D"}
    assert found.set_index("model").side.to_dict() == {"A": "above", "B": "above", "C": "below", "D": "below"}


def test_ties():  # A07
    assert gap(fit("A:B 2-0-2"), "A", "B") == pytest.approx(np.log(3), abs=1e-9)
    dropped = fit("A:B 2-0-2", ties="drop")
    assert len(dropped.separated_) == 2


@pytest.mark.oracle
def test_cycle_and_tree():  # A10, A12
    np.testing.assert_allclose(fit("A:B 1-0,B:C 1-0,C:A 1-0").scores_, 0.0, atol=1e-9)
    tree = fit("A:B 3-1,B:C 3-1")
    assert gap(tree, "A", "B") == pytest.approx(1.098612, abs=1e-6)
    assert gap(tree, "A", "C") == pytest.approx(2.197225, abs=1e-6)


def test_islands():  # A04
    with pytest.raises(lg.NotIdentifiableError, match=r"\{A, B\}, \{C, D\}"):
        fit("A:B 3-1,C:D 3-1")
    with pytest.raises(lg.NotIdentifiableError, match=r"\{A, B\}, \{C, D\}"):
        fit("A:B 3-1,C:D 3-1", lg.PooledBradleyTerry())
    with pytest.raises(lg.NotIdentifiableError, match=r"\{A, B\}, \{C, D\}"):
        fit("A:B 3-1,C:D 3-1", lg.LowRankBradleyTerry())
    for estimator in (lg.PerTaskBradleyTerry, lg.PooledBradleyTerry):
        allowed = fit("A:B 3-1,C:D 3-1", estimator(disconnected="allow"))
        assert gap(allowed, "A", "B") == pytest.approx(np.log(3), abs=1e-9)
        assert allowed.diagnostics_["connected"]["status"] == "failed"


@pytest.mark.oracle
def test_invariances():  # A06
    text = "A:B 8-2,A:C 9-1,B:C 7-3"
    base = fit(text)
    frame = votes(text)
    rows = frame.loc[frame.index.repeat(frame["count"])].drop(columns="count")
    rng = np.random.default_rng(0)
    rows = rows.sample(frac=1.0, random_state=1)
    flip = rng.random(len(rows)) < 0.5
    swapped = rows.copy()
    swapped.loc[:, "model_a"] = np.where(flip, rows.model_b, rows.model_a)
    swapped.loc[:, "model_b"] = np.where(flip, rows.model_a, rows.model_b)
    other = np.where(rows.winner == "model_a", "model_b", "model_a")
    swapped.loc[:, "winner"] = np.where(flip, other, rows.winner)
    np.testing.assert_allclose(lg.PerTaskBradleyTerry().fit(lg.Comparisons.from_frame(swapped)).scores_, base.scores_, atol=1e-9)
    renamed = swapped.replace({"A": "z", "B": "y", "C": "x"})
    turned = lg.PerTaskBradleyTerry().fit(lg.Comparisons.from_frame(renamed))
    np.testing.assert_allclose(turned.scores_[["z", "y", "x"]], base.scores_[["A", "B", "C"]], atol=1e-9)
    extended = fit(text + ",D:E 2-2", lg.PerTaskBradleyTerry(disconnected="allow"))
    for a, b in [("A", "B"), ("A", "C"), ("B", "C")]:
        assert gap(extended, a, b) == pytest.approx(gap(base, a, b), abs=1e-9)


@pytest.mark.oracle
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_agrees_with_scipy(ridge):
    truth = low_rank_scores(3, 7, 2, sup_norm=1.5, random_state=1)
    comparisons = simulate_comparisons(truth, 900, random_state=2)
    scores = lg.PerTaskBradleyTerry(ridge=ridge).fit(comparisons).scores_.to_numpy()
    cells = comparisons._table.cells()
    for t in range(3):
        mine = cells.task == t
        arrays = (cells.low[mine], cells.high[mine], cells.count[mine], cells.wins[mine])
        # BFGS stops at a gradient of 1e-10; the information is above 1.
        np.testing.assert_allclose(scores[t], maximise_bradley_terry(7, *arrays, ridge=ridge), atol=1e-8)


def test_scale_of_counts_does_not_matter():
    small, large = fit("A:B 7-3,B:C 6-4"), fit("A:B 7000000000-3000000000,B:C 6000000000-4000000000")
    np.testing.assert_allclose(small.scores_, large.scores_, atol=1e-12)
    assert large.converged_["all"]


def test_unseen_models_and_top_k():
    comparisons = lg.Comparisons.from_frame(votes("A:B 7-3,B:C 3-7"), count="count", models=["A", "B", "C", "D"])
    fitted = lg.PerTaskBradleyTerry().fit(comparisons)
    assert np.isnan(fitted.scores_.loc["all", "D"])
    # A and C are equal: both are in the top 1, since equal scores share the better rank.
    assert fitted.top_k(1).loc["all"].to_dict() == {"A": True, "B": False, "C": True, "D": False}
    assert lg.PerTaskBradleyTerry(ridge=0.1).fit(comparisons).scores_.loc["all", "D"] == 0.0
    frame = fitted.boundary(2)
    assert frame.k_gap[0] == pytest.approx(np.log(7 / 3), abs=1e-9)


def test_pooled_repeats_one_row():
    frame = pd.concat([votes("A:B 7-3", task="x"), votes("A:B 1-9", task="y")])
    fitted = lg.PooledBradleyTerry().fit(lg.Comparisons.from_frame(frame, count="count"))
    assert gap(fitted, "A", "B", "x") == gap(fitted, "A", "B", "y") == pytest.approx(np.log(8 / 12), abs=1e-12)
    assert fitted.converged_ is True


def test_parameters():
    estimator = lg.PerTaskBradleyTerry(ridge=0.5)
    assert estimator.get_params()["ridge"] == 0.5
    assert estimator.set_params(tol=1e-6).tol == 1e-6
    assert "ridge=0.5" in repr(estimator)
    with pytest.raises(lg.ParameterError, match="has no parameter 'lam'"):
        estimator.set_params(lam=1)
    comparisons = lg.Comparisons.from_frame(votes("A:B 7-3"), count="count")
    for bad in ({"ridge": -1}, {"ridge": float("nan")}, {"separation": "ignore"}, {"disconnected": "yes"}, {"tol": 0}, {"max_iter": 0}):
        with pytest.raises(lg.ParameterError, match=next(iter(bad))):
            lg.PerTaskBradleyTerry(**bad).fit(comparisons)
    with pytest.raises(lg.ParameterError, match="not fitted"):
        lg.PerTaskBradleyTerry().predict_proba("all", "A", "B")
    fitted = lg.PerTaskBradleyTerry().fit(comparisons)
    with pytest.raises(lg.ParameterError, match="unknown model 'a'"):
        fitted.predict_proba("all", "a", "B")
    for k in (0, 3, 1.5, True):
        with pytest.raises(lg.ParameterError, match="k must be"):
            fitted.top_k(k)


def test_too_few_steps_is_a_warning():
    comparisons = lg.Comparisons.from_frame(votes("A:B 9-1,B:C 7-3"), count="count")
    with pytest.warns(lg.ConvergenceWarning, match="max_iter=1"):
        fitted = lg.PerTaskBradleyTerry(max_iter=1).fit(comparisons)
    assert not fitted.converged_["all"]
