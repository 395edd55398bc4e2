"""Edge cases of the ranking pillar on whole boards, and bad arguments: a defined result or one clear error, never a surprise.

Every board made here is checked for what no board may do: an interval without its point rank, a certificate on an unbounded
gap, a number that is not strict JSON. Warnings are errors, so each is also checked for silence.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg

from .boards import CYCLE, ISLANDS, THREE, TREE, WINLESS, names, simulated, votes

ESTIMATORS = {
    "per task": lg.PerTaskBradleyTerry(disconnected="allow"),
    "penalised": lg.PerTaskBradleyTerry(disconnected="allow", separation="penalise"),
    "ridge": lg.PerTaskBradleyTerry(ridge=0.5),
    "pooled": lg.PooledBradleyTerry(disconnected="allow"),
    "low rank": lg.LowRankBradleyTerry(disconnected="allow"),
    "paper": lg.LowRankBradleyTerry(rank=1, splits=3, polish=False, disconnected="allow"),
    "unpolished": lg.LowRankBradleyTerry(rank=1, polish=False, disconnected="allow"),
}


def over_tasks(cells):
    """Merge {task: {"A:B": counts}}."""
    parts = [votes(data, task=task) for task, data in cells.items()]
    out = parts[0]
    for part in parts[1:]:
        out = out + part
    return out


def declared(**universe):
    return lg.Comparisons.from_arrays(["t"] * 20, ["A"] * 20, ["B"] * 20, [1.0, 0.0] * 10, **universe)


DATA = {
    "one vote": votes({"A:B": (1, 0)}),
    "ten ties": votes({"A:B": (0, 0, 10)}),
    "ties in a chain": votes({"A:B": (0, 0, 10), "B:C": (0, 0, 4)}),
    "cycle": votes(CYCLE),
    "tree": votes(TREE),
    "islands": votes(ISLANDS),
    "winless": votes(WINLESS),
    "chain": votes({f"{a}:{b}": (1, 0) for a, b in zip(names("m", 9), names("m", 10)[1:], strict=True)}),
    "one vote a task": over_tasks({f"t{i:02d}": {f"m{i % 4}:m{(i + 1) % 4}": (1, 0)} for i in range(12)}),
    "ties on every task": over_tasks({task: {"A:B": (0, 0, 5), "B:C": (0, 0, 5)} for task in "tuv"}),
    "unseen task": declared(tasks=["t", "u"]),
    "unseen model": declared(models=["A", "B", "Z"]),
    "unseen both": declared(tasks=["a", "t", "z"], models=["A", "AA", "B", "Z"]),
    "model on one task": over_tasks({"t": THREE, "u": {"A:B": (30, 20)}, "v": {"A:B": (20, 30)}}),
    "equal": over_tasks({task: {"A:B": (50, 50), "B:C": (50, 50), "A:C": (50, 50)} for task in "tu"}),
    "two models": over_tasks({f"t{i}": {"A:B": (30 + i, 20)} for i in range(5)}),
    "one side on every task": over_tasks({task: {"A:B": (10, 0)} for task in "tuv"}),
    "islands that change": over_tasks({"t": ISLANDS, "u": {"A:C": (3, 1), "B:D": (3, 1)}}),
    "islands everywhere": over_tasks({"t": ISLANDS, "u": ISLANDS}),
    "many votes": votes({"A:B": (7 * 10**14, 3 * 10**14), "A:C": (7 * 10**14, 3 * 10**14)}),
}


def check_board(board):
    frame = board.to_frame()
    json.dumps(board.to_dict(), allow_nan=False)
    assert ((frame["rank_low"] <= frame["rank"]) & (frame["rank"] <= frame["rank_high"])).all()
    assert (frame["rank_low"] >= 1).all() and (frame["rank_high"] <= board.n_models).all()
    never_seen = frame["score"].isna()
    assert (frame.loc[never_seen, "rank_high"] == board.n_models).all()
    if board.top_k < board.n_models:
        assert not (frame.loc[never_seen, "certificate"] == "top-k").any()
    assert frame["std_error"].notna().all() and frame["score"].fillna(0.0).abs().max() < 100
    return frame


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_edge_ends_in_an_honest_board(data, estimator):
    comparisons = DATA[data]
    inference = lg.infer_gaps(comparisons, ESTIMATORS[estimator])
    tasks, models = list(comparisons.tasks), list(comparisons.models)
    families = ["cell", "model", "task", "all", ("cell", tasks[0], models[-1]), ("model", models[0]), ("task", tasks[-1])]
    for family, method in [*((family, "step-down") for family in families), ("task", "max-t"), ("all", "order-statistic")]:
        check_board(inference.certify(1, family=family, method=method, n_draws=400))
        bands = inference.bands(family, method=method, n_draws=400).to_frame()
        told = bands[bands["sign"] != 0]
        assert np.isfinite(told[["estimate", "low", "high"]].to_numpy()).all() and (np.sign(told["estimate"]) == told["sign"]).all()
    check_board(inference.certify(len(models), n_draws=400))
    check_board(inference.certify(1, family="cell", method="one-sided", n_draws=400))
    point = inference.certify(1, n_draws=0).to_frame()
    assert point["rank_low"].isna().all() and set(point["certificate"]) == {"unresolved"}
    contrast = [(tasks[0], models[0], models[1])]
    assert inference.covariance(contrast).shape == (1, 1)
    assert inference.influence(contrast)["count"].sum() == comparisons.n


@pytest.mark.parametrize("data", ["ten ties", "ties in a chain", "ties on every task"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_ties_and_nothing_else_certify_nothing(data, estimator):
    inference = lg.infer_gaps(DATA[data], ESTIMATORS[estimator])
    gap = inference.gap(str(DATA[data].tasks[0]), "A", "B")
    assert gap.estimate == pytest.approx(0.0, abs=1e-12)
    assert gap.std_error == 0.0 and math.isnan(gap.p_value)
    for family in ("cell", "model", "task", "all"):
        frame = inference.certify(1, family=family).to_frame()
        assert (frame["rank"] == 1).all() and set(frame["certificate"]) == {"unresolved"} and (frame["rank_low"] == 1).all()
        assert (inference.bands(family).to_frame()["sign"] == 0).all()


@pytest.mark.parametrize("estimator", ["per task", "pooled", "low rank"])
@pytest.mark.parametrize("n_tasks", [1, 2])
def test_grades_that_all_agree_have_no_variance_to_certify_with(estimator, n_tasks):
    # A tree of constant grades is fitted exactly; residuals of rounding once passed for a standard error of 1e-16.
    grades = np.repeat([0.7, 0.6, 0.9], 10)
    left, right = np.repeat(["A", "B", "C"], 10), np.repeat(["B", "C", "D"], 10)
    task = np.repeat([f"t{i}" for i in range(n_tasks)], 30)
    comparisons = lg.Comparisons.from_arrays(task, *(np.tile(column, n_tasks) for column in (left, right, grades)))
    inference = lg.infer_gaps(comparisons, ESTIMATORS[estimator])
    if estimator != "low rank" or n_tasks == 1:  # the low-rank fit is penalised, so its training fits leave residuals
        assert (inference.gaps()["std_error"] == 0.0).all()
        assert set(inference.certify(1).to_frame()["certificate"]) == {"unresolved"}
    assert inference.scores.loc["t0"].tolist() == sorted(inference.scores.loc["t0"], reverse=True)


# ------------------------------------------------------------- few losses: where one-steps from single folds once ran away


@pytest.mark.parametrize("record", [(3, 1), (9, 1), (99, 1), (999, 1), (10**6, 1), (10**9, 1)])
@pytest.mark.parametrize("estimator", ["per task", "pooled", "low rank"])
def test_who_wins_nearly_always_leads_a_single_task(record, estimator):
    # A fold that takes the only loss leaves a maximiser without information; the step from it put A last, by 90,000.
    inference = lg.infer_gaps(votes({"A:B": record}), ESTIMATORS[estimator])
    frame = inference.certify(1).to_frame()
    assert frame["model"].tolist() == ["A", "B"]
    assert inference.gap("all", "A", "B").estimate == pytest.approx(math.log(record[0]), rel=1e-6)
    assert (frame["certificate"][0] == "top-k") == (record[0] >= 9)


@pytest.mark.parametrize("estimator", ["low rank", "unpolished"])
@pytest.mark.parametrize("n_tasks", [2, 5])
def test_steps_over_no_information_are_withheld(estimator, n_tasks):
    comparisons = over_tasks({f"t{i}": {"A:B": (400, 1), "B:C": (400, 1), "C:D": (60, 40)} for i in range(n_tasks)})
    inference = lg.infer_gaps(comparisons, ESTIMATORS[estimator])
    # The fits themselves stay within what 400:1 and a lucky training set (a ridge of 1e-6) can say.
    assert inference.scores.abs().to_numpy().max() < 30
    frame = inference.gaps()
    assert frame.loc[np.isfinite(frame["std_error"]), "std_error"].max() < 12
    for task in comparisons.tasks:
        assert inference.scores.loc[task].idxmax() == "A" and inference.gap(task, "A", "C").estimate > 2
        assert math.isfinite(inference.gap(task, "C", "D").std_error)


def test_small_fields_keep_the_order_of_their_records():
    # 10:1 and 10:1..4 over four tasks once came out with A last.
    cells = {f"t{i}": {"A:B": (10, 1), "B:C": (10, 1 + i)} for i in range(4)}
    for calibration in ("cross-fit", "parametric"):
        inference = lg.infer_gaps(over_tasks(cells), calibration=calibration)
        assert (np.diff(inference.scores.to_numpy(), axis=1) < 0.1).all() and (inference.scores.idxmax(axis=1) == "A").all()


def test_withheld_offsets_are_those_of_the_fits():
    """A model seen twice gets no place of its own from a step over nearly nothing (two friendlies once led the world by 15)."""
    _, comparisons = simulated(n=6000)
    twice = comparisons + lg.Comparisons.from_arrays(["t00", "t03"], ["rare", "rare"], ["m00", "m04"], [1.0, 1.0])
    estimator = lg.LowRankBradleyTerry(rank=2)
    inference = lg.infer_gaps(twice, estimator)
    assert all(math.isinf(inference.gap(task, "rare", "m00").std_error) for task in twice.tasks)
    fitted = estimator.fit(twice).scores_
    shift = (inference.scores["rare"] - inference.scores["m00"]) - (fitted["rare"] - fitted["m00"])
    assert shift.abs().max() < 1.5  # training sets without one of the two votes fit other offsets
    frame = inference.certify(3).to_frame()
    rare = frame[frame["model"] == "rare"]
    assert (rare["rank_low"] == 1).all() and (rare["rank_high"] == 8).all() and set(rare["certificate"]) == {"unresolved"}
    assert (frame[frame["model"] != "rare"]["rank_high"] < 8).any()  # the others are still told apart


def test_fewer_votes_than_folds():
    few = over_tasks({"t": {"A:B": (1, 1)}, "u": {"A:B": (1, 0)}})
    with pytest.raises(lg.ComparisonError, match="6 folds need at least 6 comparisons, there are 3"):
        lg.leaderboard(few)
    assert len(lg.infer_gaps(few, n_folds=3).certify(1)) == 4
    clustered = lg.Comparisons.from_arrays(["t", "u"] * 20, ["A"] * 40, ["B"] * 40, [1.0, 1.0, 0.0, 0.5] * 10, cluster=[1, 2] * 20)
    with pytest.raises(lg.ComparisonError, match="6 folds need at least 6 clusters, there are 2"):
        lg.leaderboard(clustered)


@pytest.mark.parametrize("estimator", ["per task", "pooled", "low rank"])
def test_one_judge_is_no_variance_but_no_certificate(estimator):
    clusters = lg.Comparisons.from_arrays(["t"] * 40, ["A"] * 40, ["B"] * 40, [1.0, 1.0, 1.0, 0.0] * 10, cluster=["judge"] * 40)
    frame = lg.infer_gaps(clusters, ESTIMATORS[estimator]).certify(1).to_frame()
    assert set(frame["certificate"]) == {"unresolved"} and (frame["rank_high"] == 2).all()


# ----------------------------------------------------------------------------------------------------------- bad arguments

WRONG = [None, "x", "5", b"a", 5.5, np.nan, np.inf, -1, True, [], (), {"a": 1}, np.array([1, 2]), object(), 1 + 2j]


@pytest.fixture(scope="module")
def comparisons():
    return simulated(n=600)[1]


@pytest.fixture(scope="module")
def inference(comparisons):
    return lg.infer_gaps(comparisons, lg.PerTaskBradleyTerry())


@pytest.fixture
def never_fitted(monkeypatch):
    def never(*args):
        raise AssertionError("fitted")

    monkeypatch.setattr(lg.LowRankBradleyTerry, "_fit_table", never)


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize(
    "argument", ["rank", "top_k", "alpha", "family", "method", "calibration", "n_draws", "random_state", "disconnected"]
)
def test_leaderboard_refuses_before_it_fits(comparisons, never_fitted, argument, wrong):
    if wrong is None and argument in ("top_k", "random_state"):
        return
    with pytest.raises(lg.ParameterError, match=argument):
        lg.leaderboard(comparisons, **{argument: wrong})


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"family": "tasks"}, "unknown family 'tasks'"),
        ({"family": ("task", "t0")}, "unknown task 't0'; did you mean"),
        ({"family": ("cell", "t00")}, "unknown family"),
        ({"family": ("model", "M00")}, "unknown model 'M00'"),
        ({"method": "one-sided"}, "family='cell'"),
        ({"method": "maxt"}, "'max-t'"),
        ({"n_draws": 10**9}, "between 0 and 1000000"),
        ({"top_k": 8}, "between 1 and 7"),
        ({"alpha": 95}, "0.95"),
    ],
)
def test_the_message_says_what_to_do(comparisons, inference, never_fitted, arguments, match):
    with pytest.raises(lg.ParameterError, match=match):
        lg.leaderboard(comparisons, **arguments)
    with pytest.raises(lg.ParameterError, match=match):
        inference.certify(**{"top_k": 1, **arguments})


@pytest.mark.parametrize("wrong", [*WRONG, pd.DataFrame({"task": ["t"], "model_a": ["A"], "model_b": ["B"], "winner": ["tie"]})], ids=type)
def test_what_is_not_comparisons_is_named(wrong):
    estimators = lg.PerTaskBradleyTerry(), lg.PooledBradleyTerry(), lg.LowRankBradleyTerry()
    for call in (lg.leaderboard, lg.infer_gaps, *(estimator.fit for estimator in estimators)):
        with pytest.raises(lg.ParameterError, match=f"must be a Comparisons, got {type(wrong).__name__}; make one with"):
            call(wrong)


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_names_and_contrasts_are_checked(inference, wrong):
    for call in (lambda: inference.gap(wrong, "m00", "m01"), lambda: inference.gap("t00", wrong, "m01")):
        with pytest.raises(lg.ParameterError, match="unknown"):
            call()
    for contrasts in (wrong, [wrong], [(wrong, wrong, wrong)]):
        for call in (inference.covariance, inference.influence):
            with pytest.raises(lg.ParameterError):
                call(contrasts)
    fitted = lg.PerTaskBradleyTerry().fit(votes(THREE))
    for call in (lambda: fitted.predict_proba("all", wrong, "B"), lambda: fitted.predict_proba(wrong, "A", "B")):
        with pytest.raises(lg.ParameterError, match="unknown"):
            call()
    for call in (lambda: fitted.top_k(wrong), lambda: fitted.boundary(wrong)):
        with pytest.raises(lg.ParameterError, match="k must be"):
            call()


@pytest.mark.parametrize("wrong", [None, 3.5, [], {}, "Model_a"], ids=repr)
@pytest.mark.parametrize("role", ["model_a", "model_b", "winner"])
def test_columns_are_named_by_names(wrong, role):
    frame = {"task": ["t"], "model_a": ["A"], "model_b": ["B"], "winner": ["tie"]}
    with pytest.raises(lg.ComparisonError, match=f"{role}="):
        lg.Comparisons.from_frame(frame, **{role: wrong})
    with pytest.raises(lg.ComparisonError, match="models must be a list of names"):
        lg.Comparisons.from_frame(frame, models=7)


@pytest.mark.parametrize("huge", [10**30, 2**63])
def test_numbers_beyond_64_bits_are_refused_or_taken_as_large(comparisons, huge):
    for estimator in (lg.PerTaskBradleyTerry, lg.LowRankBradleyTerry):
        with pytest.raises(lg.ParameterError, match="max_iter"):
            estimator(max_iter=huge).fit(comparisons)
        assert estimator(tol=huge).fit(comparisons).scores_.notna().all().all()
    assert lg.PerTaskBradleyTerry(ridge=huge).fit(comparisons).scores_.abs().max().max() < 1e-9
    assert lg.LowRankBradleyTerry(rank=huge).fit(comparisons).rank_ <= 6


@pytest.mark.parametrize("n_draws", [1, 2, 399])
def test_too_few_draws_warn_and_still_nest_the_rank(inference, n_draws):
    with pytest.warns(UserWarning, match=f"n_draws={n_draws} leaves .* use n_draws=400"):
        board = inference.certify(3, n_draws=n_draws)
    assert check_board(board)["rank_low"].notna().all() and board.diagnostics["draws"]["status"] == "failed"
