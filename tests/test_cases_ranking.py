"""Acceptance cases of the ranking pillar, each as a test of its whole kind of fault, through the public functions.

Closed forms stand beside the numbers of the cases. What other files test in full is not repeated here:

- A01 unknown labels, A02 dialects, A13 array layouts and A14 backends at intake: test_labels.py (boards: test_board_invariance.py);
- A06 invariances of gaps and errors: test_bradley_terry.py, test_inference.py (boards: test_board_invariance.py);
- A08 degenerate frames: test_comparisons.py; damaged files: test_malformed_files.py;
- A09 rank intervals from bounds: test_certificates.py (K at and outside its ends: here);
- A11 estimates free of draws and seeds, no draws, few draws: test_leaderboard.py; nesting of levels: test_bands.py (alpha: here);
- A16 hostile installs and cold start, A17 thread counts: test_environments.py;
- A25 names and ids: test_comparisons.py and test_labels.py (their end on a board: here);
- golden/lowrank: scores test_bradley_terry.py, refine.json test_low_rank.py, tangent_fisher.json test_inference.py, ranks.json
  test_certificates.py and test_bands.py, jer.json test_order_statistics.py (its single-step interval: here).
"""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

import lrgittins as lg
from lrgittins.certificates import certify_ranks

from .boards import CYCLE, ISLANDS, THREE, TREE, WINLESS, names, simulated, votes

ELO = 400.0 / math.log(10.0)
PLAIN = [lg.PerTaskBradleyTerry, lg.PooledBradleyTerry]
ONE_TASK = [*PLAIN, lg.LowRankBradleyTerry]  # with one task the low-rank fit is the plain one, to the last digit
METHODS = ["max-t", "step-down", "order-statistic"]


def times(cells, factor):
    return {pair: tuple(factor * number for number in numbers) for pair, numbers in cells.items()}


def interval(board, model, task="all"):
    row = board.to_frame().set_index(["task", "model"]).loc[(task, model)]
    return int(row["rank_low"]), int(row["rank_high"])


# ------------------------------------------------------------------------------------------------ A01, A07: what a label means


@pytest.mark.parametrize("word", ["model_a", "Model_A", "MODEL_A", " left ", "A", "Alpha"])
def test_a_winner_by_any_accepted_name_is_the_same_gap(word):  # A01: ln 3, and never -0.51 from unknowns read as ties
    comparisons = lg.Comparisons.from_arrays(None, ["Alpha"] * 4, ["Beta"] * 4, [word] * 3 + ["model_b"])
    assert lg.infer_gaps(comparisons, lg.PerTaskBradleyTerry()).gap("all", "Alpha", "Beta").estimate == pytest.approx(math.log(3))


@pytest.mark.parametrize("word", ["alpha", "Alpha ", "model a", "model_c", "win", "draw", "1", "both", "model_a_wins", "nan"])
def test_a_word_outside_the_vocabulary_is_never_a_tie(word):  # A01
    rows = [None, ["Alpha"] * 4, ["Beta"] * 4, [word] * 3 + ["model_b"]]
    with pytest.raises(lg.ComparisonError, match=r"\(3 rows\)") as caught:
        lg.Comparisons.from_arrays(*rows)
    assert repr(word) in str(caught.value)
    kept = lg.Comparisons.from_arrays(*rows, on_invalid="drop")
    assert (kept.n, kept.n_dropped) == (1, 3)


@pytest.mark.oracle
@pytest.mark.parametrize(("wins", "losses", "ties"), [(2, 0, 2), (1, 1, 1), (5, 3, 2), (0, 4, 1), (30, 10, 60), (1, 0, 99)])
@pytest.mark.parametrize("estimator", ONE_TASK)
def test_a_tie_is_half_a_win(wins, losses, ties, estimator):  # A07
    comparisons = votes({"A:B": (wins, losses, ties)})
    gap = lg.infer_gaps(comparisons, estimator()).gap("all", "A", "B")
    n, p = wins + losses + ties, (wins + 0.5 * ties) / (wins + losses + ties)
    assert gap.estimate == pytest.approx(math.log(p / (1 - p)), abs=1e-8)
    squares = wins * (1 - p) ** 2 + losses * p**2 + ties * (0.5 - p) ** 2  # the robust variance; 1 / (n p (1 - p)) without ties
    assert gap.std_error == pytest.approx(math.sqrt(squares) / (n * p * (1 - p)), rel=1e-7)


@pytest.mark.parametrize("ties", ["half", "drop"])
def test_the_tie_policy_is_on_the_result(ties):  # A07
    comparisons = votes({"A:B": (2, 0, 2)}, ties=ties)
    assert comparisons.ties == ties == comparisons.summary().attrs["ties"] and f"ties={ties!r}" in repr(comparisons)
    inference = lg.infer_gaps(comparisons, lg.PerTaskBradleyTerry())
    gap = inference.gap("all", "A", "B")
    if ties == "half":
        assert gap.estimate * ELO == pytest.approx(190.849, abs=1e-3)
    else:
        assert comparisons.n == 2 and math.isinf(gap.std_error) and inference.diagnostics["separated"]["status"] == "failed"


# --------------------------------------------------------------------------------------------------------- A03: separation


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("n", "ridge", "gap"), [(10, 0.1, 3.913995), (1, 1.0, 0.674832), (7, 0.01, None), (10**6, 0.3, None), (1, 50, None)]
)
def test_penalised_two_models(n, ridge, gap):  # A03
    scores = lg.PerTaskBradleyTerry(ridge=ridge).fit(votes({"A:B": (n, 0)})).scores_.loc["all"]
    assert scores["A"] == -scores["B"]
    # Stationarity of n log(1 + exp(-2 theta)) + ridge theta^2: n / (1 + exp(2 theta)) = ridge theta.
    assert n / (1 + math.exp(2 * scores["A"])) == pytest.approx(ridge * scores["A"], abs=1e-7 * n)
    if gap is not None:
        assert scores["A"] - scores["B"] == pytest.approx(gap, abs=1e-6)


@pytest.mark.parametrize("length", [2, 3, 4, 9, 15])
@pytest.mark.parametrize("wins", [1, 40])
def test_penalised_chains_descend_antisymmetrically(length, wins):  # A03
    models = names("m", length)
    chain = {f"{a}:{b}": (wins, 0) for a, b in itertools.pairwise(models)}
    scores = lg.PerTaskBradleyTerry(ridge=1.0).fit(votes(chain)).scores_.loc["all"].to_numpy()
    assert (np.diff(scores) < 0).all()
    np.testing.assert_allclose(scores, -scores[::-1], atol=1e-8)
    if (length, wins) == (3, 1):
        np.testing.assert_allclose(scores, [0.401058, 0.0, -0.401058], atol=1e-6)


@pytest.mark.parametrize("estimator", ONE_TASK)
@pytest.mark.parametrize("scale", [1, 10**6])
@pytest.mark.parametrize(
    "cells",
    [
        {"A:B": (10, 0)},
        {"A:B": (1, 0), "B:C": (1, 0)},
        WINLESS,
        {"A:B": (1, 1), "C:D": (1, 1), "A:C": (2, 0), "B:D": (2, 0)},  # everyone wins and loses, two groups all the same
    ],
)
def test_unbounded_gaps_are_flagged_and_declare_nothing(estimator, scale, cells):  # A03
    inference = lg.infer_gaps(votes(times(cells, scale)), estimator())
    assert inference.diagnostics["separated"]["status"] == "failed"
    beaten = {"A:B": [("A", "B")], "A:C": [("A", "C")]}
    for pair, (wins, losses, *_) in cells.items():
        gap = inference.gap("all", *pair.split(":"))
        unbounded = wins == 0 or losses == 0
        assert math.isinf(gap.std_error) == unbounded, beaten
        if unbounded:
            assert (gap.ci_low, gap.ci_high, gap.p_value) == (-math.inf, math.inf, 1.0)
    for method in METHODS:
        bands = inference.bands("task", method=method).to_frame()
        open_ended = np.isinf(bands["high"])
        assert open_ended.any() and (bands.loc[open_ended, "sign"] == 0).all() and (bands.loc[open_ended, "low"] == -np.inf).all()


# ------------------------------------------------------------------------------------------------------------ A04: islands

PIECES = [
    ISLANDS,
    {"A:B": (3, 1), "C:D": (3, 1), "D:E": (2, 1)},
    {"A:B": (3, 1), "C:D": (1, 3), "E:F": (5, 1)},
    {"A:F": (3, 1), "B:E": (3, 1), "C:D": (2, 2)},
]


@pytest.mark.parametrize("cells", PIECES)
@pytest.mark.parametrize("estimator", ONE_TASK)
def test_pieces_are_named_and_never_compared(cells, estimator):  # A04
    comparisons = votes(times(cells, 10**6))
    groups: list[set[str]] = []
    for a, b in (pair.split(":") for pair in cells):
        home = next((group for group in groups if {a, b} & group), None)
        if home is None:
            groups.append(home := set())
        home |= {a, b}
    with pytest.raises(lg.NotIdentifiableError) as caught:
        lg.infer_gaps(comparisons, estimator())
    for group in groups:
        assert "{" + ", ".join(sorted(group)) + "}" in str(caught.value)
    assert 'disconnected="allow"' in str(caught.value)

    inference = lg.infer_gaps(comparisons, estimator(disconnected="allow"))
    assert inference.diagnostics["connected"] | {"detail": ""} == {
        "status": "failed",
        "value": inference.diagnostics["connected"]["value"],
        "detail": "",
    }
    n_models = len(comparisons.models)
    for a, b in itertools.combinations(comparisons.models, 2):
        gap = inference.gap("all", a, b)
        if any({a, b} <= group for group in groups):
            assert math.isfinite(gap.estimate) and gap.std_error < 0.01
        else:
            assert math.isnan(gap.estimate) and math.isinf(gap.std_error) and gap.ci_low == -math.inf and math.isnan(gap.p_value)
    for method, family in itertools.product(METHODS, ["cell", "model", "task", "all"]):
        board = inference.certify(1, family=family, method=method)
        for group in groups:
            for model in group:
                low, high = interval(board, model)
                # Everyone of another piece may be above or below, however many votes there are.
                assert low <= len(group) and high >= n_models - len(group) + 1
        assert "top-k" not in set(board.to_frame()["certificate"])
    if cells is ISLANDS:
        assert inference.gap("all", "A", "B").estimate == pytest.approx(1.098612, abs=1e-6)
        assert [interval(board, model) for model in "ABCD"] == [(1, 3), (2, 4), (1, 3), (2, 4)]


# ------------------------------------------------------------------------------------------------ A05, A10, A12: closed forms


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("wins", "losses"), [(7, 3), (1, 1), (9, 1), (99, 1), (999, 1), (3, 1), (10**9, 1), (10**15, 1), (7 * 10**14, 3 * 10**14)]
)
@pytest.mark.parametrize("estimator", ONE_TASK)
def test_two_models(wins, losses, estimator):  # A05
    inference = lg.infer_gaps(votes({"A:B": (wins, losses)}), estimator())
    gap, turned = inference.gap("all", "A", "B"), inference.gap("all", "B", "A")
    assert gap.estimate == pytest.approx(math.log(wins / losses), rel=1e-9, abs=1e-9) == -turned.estimate
    assert gap.std_error == pytest.approx(math.sqrt(1 / wins + 1 / losses), rel=1e-7) == turned.std_error
    np.testing.assert_allclose(inference.scores.loc["all"], [gap.estimate / 2, -gap.estimate / 2], atol=1e-12 * max(1, gap.estimate))
    if (wins, losses) == (7, 3):
        assert [gap.estimate * ELO, gap.std_error * ELO] == pytest.approx([147.191, 119.877], abs=1e-3)
    frame = inference.certify(1).to_frame()
    assert frame["model"].tolist() == ["A", "B"] and frame["rank"].tolist() == ([1, 1] if wins == losses else [1, 2])


@pytest.mark.parametrize("estimator", ONE_TASK)
def test_every_function_works_with_two_models_and_one_task(estimator, tmp_path):  # A05
    comparisons = votes({"A:B": (700, 300)})
    fitted = estimator().fit(comparisons)
    assert fitted.predict_proba("all", "A", "B") == pytest.approx(0.7) and fitted.top_k(1).loc["all"].tolist() == [True, False]
    assert fitted.boundary(1)["n_within"].tolist() == [2] and np.isnan(fitted.boundary(2)["k_gap"][0])
    assert len(comparisons.counts) == len(comparisons.summary()) == 1 and (comparisons + comparisons).n == 2000
    inference = lg.infer_gaps(comparisons, estimator())
    contrast = [("all", "A", "B")]
    assert inference.covariance(contrast) == pytest.approx(np.array([[inference.gap(*contrast[0]).std_error ** 2]]))
    assert inference.influence(contrast)["count"].sum() == 1000 and len(inference.gaps("all", "A")) == len(inference.gaps()) == 1
    families = ["cell", "model", "task", "all", ("cell", "all", "A"), ("model", "B"), ("task", "all")]
    for family, method, top_k in itertools.product(families, METHODS, (1, 2)):
        assert len(inference.bands(family, method=method).to_frame()) in (1, 2)
        frame = inference.certify(top_k, family=family, method=method).to_frame()
        for row in frame.itertuples():
            assert (row.rank, row.rank_low, row.rank_high) == ((1, 1, 1) if row.model == "A" else (2, 2, 2))
            assert row.certificate == ("top-k" if row.rank <= top_k else "not-top-k")
    board = inference.certify(1, family="cell", method="one-sided")
    assert board.to_frame()["certificate"].tolist() == ["top-k", "not-top-k"]
    board.to_json(tmp_path / "board.json")
    assert lg.Leaderboard.read(tmp_path / "board.json").to_dict() == board.to_dict()
    assert board.inner_sets() == board.outer_sets() == {"all": ["A"]}


@pytest.mark.oracle
@pytest.mark.parametrize("length", [3, 4, 7])
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("estimator", PLAIN)
def test_cycles(length, count, estimator):  # A10
    models = names("m", length)
    cells = {f"{a}:{b}": (count, 0) for a, b in zip(models, np.roll(models, -1), strict=True)}
    inference = lg.infer_gaps(votes(cells), estimator())
    assert np.abs(inference.scores.to_numpy()).max() < 1e-9
    for i, j in itertools.combinations(range(length), 2):
        distance = j - i  # the resistance between two nodes of a ring of resistors 4 / count
        error = math.sqrt(4 / count * distance * (length - distance) / length)
        assert inference.gap("all", models[i], models[j]).std_error == pytest.approx(error, rel=1e-9)
    if length == 3:
        assert error == pytest.approx(1.632993 / math.sqrt(count), abs=1e-6)
    frame = inference.certify(1, family="all").to_frame()
    assert (frame[["rank", "rank_low", "rank_high"]].to_numpy() == [1, 1, length]).all() and set(frame["certificate"]) == {"unresolved"}


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("estimator", ONE_TASK)
def test_trees_add_up_along_their_paths(seed, estimator):  # A12: gaps and variances of a path are sums over its edges
    rng = np.random.default_rng(seed)
    n_models = 3 + 2 * seed
    parent = [None, *(int(rng.integers(i)) for i in range(1, n_models))]
    record = {i: (int(rng.integers(1, 30)), int(rng.integers(1, 30))) for i in range(1, n_models)}
    models = names("m", n_models)
    inference = lg.infer_gaps(votes({f"{models[i]}:{models[parent[i]]}": record[i] for i in record}), estimator())

    def path(i):
        return set() if parent[i] is None else {i} | path(parent[i])

    for i, j in itertools.combinations(range(n_models), 2):
        up, down = path(i) - path(j), path(j) - path(i)
        gap = inference.gap("all", models[i], models[j])
        log_odds = {k: math.log(record[k][0] / record[k][1]) for k in up | down}
        assert gap.estimate == pytest.approx(sum(log_odds[k] for k in up) - sum(log_odds[k] for k in down), abs=1e-7)
        assert gap.std_error == pytest.approx(math.sqrt(sum(1 / record[k][0] + 1 / record[k][1] for k in up | down)), rel=1e-6)


@pytest.mark.parametrize("estimator", ONE_TASK)
def test_the_tree_of_the_case(estimator):  # A12
    gap = lg.infer_gaps(votes(TREE), estimator()).gap("all", "A", "C")
    assert [gap.estimate, gap.std_error, gap.estimate * ELO] == pytest.approx([2.197225, 1.632993, 381.697], abs=1e-3)


# --------------------------------------------------------------------------------------------- A09, A11: K, alpha, sizes


@pytest.mark.parametrize("top_k", [0, 4, -1, 1.5, "2", None, True, np.nan])
def test_k_outside_its_range_is_refused(top_k):  # A09
    inference = lg.infer_gaps(votes(THREE), lg.PerTaskBradleyTerry())
    with pytest.raises(lg.ParameterError, match="top_k must be"):
        inference.certify(top_k)
    if top_k is not None:
        with pytest.raises(lg.ParameterError, match="top_k must be"):
            lg.leaderboard(votes(THREE), top_k=top_k)


@pytest.mark.parametrize("cells", [THREE, CYCLE, WINLESS])
@pytest.mark.parametrize("method", METHODS)
def test_everyone_is_in_the_top_of_all(cells, method):  # A09
    board = lg.infer_gaps(votes(cells), lg.PerTaskBradleyTerry()).certify(3, method=method)
    assert set(board.to_frame()["certificate"]) == {"top-k"}


@pytest.mark.parametrize(
    ("alpha", "hint"),
    [(95, r"0\.95"), (99.9, r"0\.999"), (5, r"0\.05"), (1, r"0\.01"), (0, ""), (-0.05, ""), (np.nan, ""), ("0.05", ""), (True, "")],
)
def test_alpha_as_a_percentage_is_refused_with_what_was_meant(alpha, hint):  # A11
    inference = lg.infer_gaps(votes(THREE), lg.PerTaskBradleyTerry())
    calls = [
        lambda: inference.certify(1, alpha=alpha),
        lambda: inference.bands("all", alpha=alpha),
        lambda: lg.leaderboard(votes(THREE), alpha=alpha),
    ]
    for call in calls:
        with pytest.raises(lg.ParameterError, match=f"alpha must .*{hint}"):
            call()


# ----------------------------------------------------------------------------------------------- A24, A25: what is written


def plain(value):
    """Only strict JSON types, exactly (numpy scalars are subclasses of none of these but float)."""
    if isinstance(value, dict):
        return all(type(key) is str and plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return value is None or type(value) in (str, bool, int) or (type(value) is float and math.isfinite(value))


@pytest.mark.parametrize("cells", [WINLESS, ISLANDS, {"A:B": (10, 0)}, {"A:B": (0, 0, 10)}, THREE])
@pytest.mark.parametrize("estimator", ONE_TASK)
@pytest.mark.parametrize("n_draws", [0, 2000])
def test_boards_are_strict_json(cells, estimator, n_draws):  # A24
    inference = lg.infer_gaps(votes(cells), estimator(disconnected="allow"))
    for family, method in itertools.product(["cell", "model", "task", "all", ("cell", "all", "B")], [*METHODS, "one-sided"]):
        if method == "one-sided" and "cell" not in (family, family[0]):
            continue
        board = inference.certify(1, family=family, method=method, n_draws=n_draws)
        data = json.loads(json.dumps(board.to_dict(), allow_nan=False))
        assert data == board.to_dict() and plain(board.to_dict())
        assert {entry["status"] for entry in data["diagnostics"].values()} <= {"ok", "failed", "not_checked"}
        for row, error in zip(data["rows"], board.to_frame()["std_error"], strict=True):
            assert (row["std_error"] is None) == math.isinf(error)
            assert (row["rank_low"] is None) == (n_draws == 0)


def test_lookalike_names_stay_apart_up_to_the_board():  # A25
    look_alike = ["gpt-4", "gpt-4 ", "GPT-4"]
    rows = [None, ["gpt-4"] * 30 + ["gpt-4 "] * 30, ["gpt-4 "] * 30 + ["GPT-4"] * 30, [1.0, 0.0, 1.0] * 20]
    with pytest.warns(UserWarning, match="'GPT-4' and 'gpt-4' and 'gpt-4 '") as caught:
        comparisons = lg.Comparisons.from_arrays(*rows)
    assert len(caught) == 1
    assert sorted(lg.leaderboard(comparisons).to_frame()["model"]) == sorted(look_alike)
    with pytest.warns(UserWarning, match="'GPT-4' and 'gpt-4'"):
        merged = lg.Comparisons.from_arrays(*rows, aliases={"gpt-4 ": "gpt-4"}, on_invalid="drop")
    assert merged.models.tolist() == ["GPT-4", "gpt-4"] and (merged.n, merged.n_dropped) == (30, 30)


# ------------------------------------------------------------------------------------------------------------ golden files


@pytest.mark.golden
def test_golden_covariances_of_contrasts(shared):
    golden = json.loads((shared / "golden/lowrank/btl_per_task.json").read_text())
    data = json.loads((shared / "golden/lowrank/data.json").read_text())
    tasks, models = names("t", 4), names("m", 6)
    comparisons = lg.Comparisons.from_arrays(tasks[data["task"]], models[data["i"]], models[data["j"]], np.array(data["y"], dtype=float))
    inference = lg.infer_gaps(comparisons, lg.PerTaskBradleyTerry())
    wanted = np.array(golden["sandwich_cov"])
    scores = np.array(golden["theta_mle"])
    for t in range(4):
        pairs = list(itertools.combinations(range(6), 2))
        design = np.array([np.eye(6)[i] - np.eye(6)[j] for i, j in pairs])
        found = inference.covariance([(tasks[t], models[i], models[j]) for i, j in pairs])
        np.testing.assert_allclose(found, design @ wanted[t] @ design.T, atol=1e-8)
        frame = inference.gaps(tasks[t])
        np.testing.assert_allclose(frame["estimate"], design @ scores[t], atol=1e-8)
        np.testing.assert_allclose(frame["std_error"], np.sqrt(np.diag(design @ wanted[t] @ design.T)), atol=1e-8)
    assert inference.covariance([("t00", "m00", "m01"), ("t01", "m00", "m01")])[0, 1] == 0.0  # tasks share nothing


@pytest.mark.golden
def test_golden_single_step_interval(shared):
    golden = json.loads((shared / "golden/lowrank/jer.json").read_text())
    statistic, critical = np.array(golden["T"]), golden["c"][0]
    low, high = 1 + int((statistic > critical).sum()), len(statistic) + 1 - int((-statistic > critical).sum())
    assert [low, high] == golden["single_step_interval_c1"]
    assert certify_ranks(np.array([low]), np.array([high]), 2).tolist() == ["not-top-k"]


@pytest.mark.parametrize("calibration", ["cross-fit", "parametric"])
def test_one_call_needs_no_second_thought(calibration):
    board = lg.leaderboard(simulated(n=1500)[1], rank=2, calibration=calibration)
    assert board.calibration == calibration and board.top_k == 3 and board.alpha == 0.05
