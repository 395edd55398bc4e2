"""`compare` with every policy of the selection paper, by name and end to end, on real matrices of ../shared/data."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import lrgittins as lg
from lrgittins.policy_names import POLICIES

TEN = ("gittins", "gittins-g", "gittins-s", "ucb-e", "ucb-e-lrf", "sysrs", "prompteval", "pbgi", "logei", "logeipc")
WHOLE_ROWS = TEN[7:]
NON_BINARY = ("alpaca_eval2", "lcb_execution")
HAS_EXTRA = all(importlib.util.find_spec(name) for name in ("torch", "botorch"))
needs_extra = pytest.mark.skipif(not HAS_EXTRA, reason="the extra 'bo' (torch, botorch) is not installed")


def matrix(name: str, shared: Path) -> lg.ResponseMatrix:
    if name == "aslib_sat18_exp":
        with np.load(shared / "data/aslib_sat18_exp.npz", allow_pickle=False) as file:
            return lg.ResponseMatrix.from_array(file["score"], arms=file["arms"].tolist(), examples=file["examples"].tolist())
    pytest.importorskip("pyarrow", reason="the extra 'arrow' (pyarrow) is not installed")
    return lg.ResponseMatrix.read(shared / f"data/{name}_matrix.parquet", arm="model")


def check(runs: lg.PolicyComparison, responses: lg.ResponseMatrix, names: tuple[str, ...], budget: float) -> None:
    """Every policy spent some of its budget on cells that exist, and recommends arms that do."""
    worst = responses.row_means.max() - responses.row_means.min()
    frame, at, curve = runs.to_frame(), runs.at(budget), runs.curve(grid=20, how="paper")
    assert set(at["policy"]) == set(frame["policy"]) == set(curve["policy"]) == set(names)
    assert at["regret"].between(0.0, worst + 1e-12).all() and (curve["regret"].dropna() <= worst + 1e-12).all()
    assert frame["recommended"].isin(responses.arms).all()
    dearest = responses.n_cells.max() * responses.arm_cost.max() / responses.total_cost
    for name in names:
        steps = frame[frame["policy"] == name]["cost_fraction"].to_numpy()
        assert len(steps) and (np.diff(steps) > 0).all(), name
        # A batch may cross the budget, a whole row may not; and none stops more than a row short of it.
        assert steps[-1] <= budget + (1e-9 if name in WHOLE_ROWS else 32 / responses.n_cells.sum()), name
        if name != "sysrs":  # its published cap ends it at about half of the cells of a successive-rejects plan
            assert steps[-1] > budget - dearest - 1e-9, name


def test_the_ten_names_are_those_of_compare() -> None:
    assert set(TEN) == set(POLICIES)


@pytest.mark.parametrize("name", NON_BINARY)
def test_prompteval_refuses_scores_that_are_not_binary(name: str, shared: Path) -> None:
    responses = matrix(name, shared)
    with pytest.raises(lg.ResponseError, match=f"matrix '{name}': PromptEval needs binary scores.*leave 'prompteval' out"):
        lg.compare({name: responses}, TEN, budget=0.06, n_runs=1, progress=False)
    with pytest.raises(lg.ResponseError, match="PromptEval needs binary scores"):
        lg.replay(responses, "prompteval", budget=0.06)


@pytest.mark.parametrize("name", [*NON_BINARY, "aslib_sat18_exp"])
def test_the_policies_without_an_extra(name: str, shared: Path) -> None:
    responses = matrix(name, shared)
    names = tuple(p for p in TEN if p not in WHOLE_ROWS and not (p == "prompteval" and name in NON_BINARY))
    check(lg.compare(responses, names, budget=0.06, n_runs=1, progress=False), responses, names, 0.06)


@pytest.mark.skipif(HAS_EXTRA, reason="the extra 'bo' is installed")
def test_without_the_extra_all_ten_end_in_an_error_that_names_it(shared: Path) -> None:
    with pytest.raises(lg.MissingExtraError, match=r"PandoraGittins needs torch.*lrgittins\[bo\]"):
        lg.compare(matrix("aslib_sat18_exp", shared), TEN, budget=0.02, n_runs=1, progress=False)


@needs_extra
@pytest.mark.slow
@pytest.mark.parametrize("name", [*NON_BINARY, "aslib_sat18_exp"])
def test_all_ten(name: str, shared: Path) -> None:
    responses = matrix(name, shared)
    names = tuple(p for p in TEN if not (p == "prompteval" and name in NON_BINARY))
    runs = lg.compare(responses, names, budget=0.12, n_runs=1, progress=False)
    check(runs, responses, names, 0.12)
    rules = {record.policy: record.rule for record in runs.runs}
    for policy in WHOLE_ROWS:  # 5 % of the arms at random, then rows that the model chose
        assert rules[policy].kind == "held" and rules[policy].n_start == int(np.ceil(0.05 * responses.n_arms))
        assert (runs.to_frame()["policy"] == policy).sum() > rules[policy].n_start
