"""The board: columns, families, sets, serialisation, edge cases, invariances."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg

from .boards import CYCLE, ISLANDS, THREE, WINLESS, names, simulate, simulated, votes

RANK2 = lg.LowRankBradleyTerry(rank=2)
COLUMNS = ["task", "model", "score", "std_error", "rank", "rank_low", "rank_high", "certificate", "n"]
FAMILIES = ["cell", "model", "task", "all", ("cell", "t01", "m02"), ("model", "m03"), ("task", "t02")]


@pytest.fixture(scope="module")
def comparisons():
    return simulated(n=3000)[1]


@pytest.fixture(scope="module")
def inference(comparisons):
    return lg.infer_gaps(comparisons, RANK2)


@pytest.fixture(scope="module")
def board(inference):
    return inference.certify(3)


def interval(board, model, task="all"):
    frame = board.to_frame().set_index(["task", "model"])
    return tuple(int(frame.loc[(task, model), column]) for column in ("rank_low", "rank_high"))


def test_frame_has_the_contract_columns_and_order(board, comparisons):
    frame = board.to_frame()
    assert list(frame.columns) == COLUMNS and len(frame) == 42 == len(board)
    ordered = frame.sort_values(["task", "rank", "model"], kind="stable").reset_index(drop=True)
    pd.testing.assert_frame_equal(frame, ordered)
    assert ((frame["rank_low"] <= frame["rank"]) & (frame["rank"] <= frame["rank_high"])).all()
    assert frame["n"].sum() == 2 * comparisons.n
    assert set(frame["certificate"]) <= {"top-k", "not-top-k", "unresolved"}
    assert frame["rank_low"].dtype == np.int64 and frame["n"].dtype == np.int64
    frame["score"] = 0.0
    assert not (board.to_frame()["score"] == 0.0).all()  # what was handed out is a copy


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("method", ["max-t", "step-down"])
def test_boards_count_the_signs_of_the_bands(inference, family, method):
    frame = inference.certify(3, family=family, method=method).to_frame()
    bands = inference.bands(family, method=method).to_frame()
    assert len(frame) == {"cell": 1, "model": 6, "task": 7}.get(family[0], 42)
    kind = family if isinstance(family, str) else family[0]
    for row in frame.itertuples():
        here = bands[bands["task"] == row.task]
        own, other = here[here["model"] == row.model]["sign"], here[here["versus"] == row.model]["sign"]
        if kind in ("cell", "model"):
            other = other[:0]
        above, below = (own < 0).sum() + (other > 0).sum(), (own > 0).sum() + (other < 0).sum()
        assert (row.rank_low, row.rank_high) == (1 + above, 7 - below)
        assert row.certificate == ("top-k" if row.rank_high <= 3 else "not-top-k" if row.rank_low > 3 else "unresolved")


def test_sets_bracket_the_top_k(inference):
    board = inference.certify(3, family="all")
    frame, inner, outer = board.to_frame(), board.inner_sets(), board.outer_sets()
    assert list(inner) == list(outer) == list(inference.tasks)
    for task in inference.tasks:
        rows = frame[frame["task"] == task]
        assert inner[task] == rows.loc[rows["rank_high"] <= 3, "model"].tolist()
        assert outer[task] == rows.loc[rows["rank_low"] <= 3, "model"].tolist()
        assert len(inner[task]) <= 3 <= len(outer[task])
    assert any(inner.values())


def test_step_down_and_smaller_families_certify_no_less(inference):
    def resolved(**options):
        return inference.certify(3, **options).to_frame().set_index(["task", "model"])["certificate"] != "unresolved"

    assert (resolved(method="step-down", family="all") >= resolved(method="max-t", family="all")).all()
    assert resolved(family="cell").sum() >= resolved(family="task").sum() >= resolved(family="all").sum() > 0


@pytest.mark.statistical
def test_certificates_are_true(inference):
    truth = simulated(n=3000)[0]
    true_rank = 1 + (truth[:, None, :] > truth[:, :, None]).sum(axis=2)
    frame = inference.certify(3, family="all", alpha=0.01).to_frame()
    rank = np.array([true_rank[int(row.task[1:]), int(row.model[1:])] for row in frame.itertuples()])
    # One claim at level .01 on a fixed seed; it holds here.
    assert ((frame["rank_low"] <= rank) & (rank <= frame["rank_high"])).all()


# ------------------------------------------------------------------------------------------------- acceptance cases


@pytest.mark.parametrize("estimator", [lg.PerTaskBradleyTerry(), lg.PooledBradleyTerry()])
def test_cycle_certifies_nothing(estimator):  # A10
    for scale in (1, 100):
        data = {key: (scale * a, scale * b) for key, (a, b) in CYCLE.items()}
        board = lg.infer_gaps(votes(data), estimator).certify(1, family="all")
        frame = board.to_frame()
        assert (frame["rank"] == 1).all() and (frame["rank_low"] == 1).all() and (frame["rank_high"] == 3).all()
        assert (frame["certificate"] == "unresolved").all() and frame["score"].abs().max() < 1e-9


def test_islands_keep_honest_intervals():  # A04
    islands = {key: (a * 10**6, b * 10**6) for key, (a, b) in ISLANDS.items()}
    board = lg.infer_gaps(votes(islands), lg.PerTaskBradleyTerry(disconnected="allow")).certify(1)
    assert interval(board, "A") == (1, 3) and interval(board, "B") == (2, 4)
    assert interval(board, "C") == (1, 3) and interval(board, "D") == (2, 4)
    frame = board.to_frame().set_index("model")
    assert frame.loc[["A", "C"], "certificate"].tolist() == ["unresolved", "unresolved"]
    assert board.diagnostics["connected"]["status"] == "failed"


def test_separated_models_get_no_certificate():
    data = {key: (a * 1000, b * 1000) for key, (a, b) in WINLESS.items()}
    board = lg.infer_gaps(votes(data), lg.PerTaskBradleyTerry()).certify(1)
    assert interval(board, "A") == (1, 2) and interval(board, "B") == (2, 3) and interval(board, "C") == (1, 3)
    assert np.isinf(board.to_frame()["std_error"]).all()


@pytest.mark.parametrize("low_rank", [False, True])
def test_estimates_do_not_depend_on_draws_or_seed(low_rank):  # A11
    if low_rank:
        inference = lg.infer_gaps(simulated(n=800)[1], RANK2)
    else:
        inference = lg.infer_gaps(votes(THREE), lg.PerTaskBradleyTerry())
    base = inference.certify(1).to_frame()
    for n_draws in (0, 50, 2000):
        for seed in range(3):
            frame = inference.certify(1, n_draws=n_draws, random_state=seed, alpha=0.4).to_frame()
            for column in ("score", "std_error", "rank"):
                np.testing.assert_array_equal(frame[column], base[column])


def test_no_draws_give_a_point_board(inference):
    board = inference.certify(3, n_draws=0)
    frame = board.to_frame()
    assert frame["rank_low"].isna().all() and frame["rank_high"].isna().all() and (frame["certificate"] == "unresolved").all()
    assert board.diagnostics["draws"]["status"] == "not_checked"
    assert not any(board.inner_sets().values()) and all(len(models) == 7 for models in board.outer_sets().values())
    assert lg.Leaderboard.from_dict(board.to_dict()).to_dict() == board.to_dict()


def test_few_draws_warn_and_fail_the_diagnostic(inference):
    with pytest.warns(UserWarning, match="n_draws=10"):
        board = inference.certify(3, n_draws=10)
    assert board.diagnostics["draws"]["status"] == "failed"


def test_unseen_tasks_and_models_are_unresolved():
    scores, task, a, b, outcome = simulate()
    comparisons = lg.Comparisons.from_arrays(
        names("t", 6)[task], names("m", 7)[a], names("m", 7)[b], outcome, tasks=[*names("t", 6), "t99"], models=[*names("m", 7), "new"]
    )
    for estimator in (RANK2, lg.PerTaskBradleyTerry()):
        frame = lg.infer_gaps(comparisons, estimator).certify(3).to_frame()
        for rows in (frame[frame["task"] == "t99"], frame[frame["model"] == "new"]):
            assert (rows["certificate"] == "unresolved").all() and (rows["rank_low"] == 1).all() and (rows["rank_high"] == 8).all()
            assert np.isinf(rows["std_error"]).all() and (rows["n"] == 0).all()
        new = frame[frame["model"] == "new"]
        assert new["score"].isna().all() and ((new["rank"] == 8) | (new["task"] == "t99")).all()


def test_two_models_one_task():
    frame = lg.leaderboard(votes({"A:B": (700, 300)})).to_frame()
    assert frame["model"].tolist() == ["A", "B"] and frame["certificate"].tolist() == ["top-k", "not-top-k"]
    assert frame["rank_low"].tolist() == [1, 2] and frame["rank_high"].tolist() == [1, 2]


def test_one_call_is_infer_and_certify(comparisons):
    board = lg.leaderboard(comparisons, rank=2, family="all", random_state=4)
    assert board.top_k == 3 and board.calibration == "parametric" and board.random_state == 4
    direct = lg.infer_gaps(comparisons, RANK2, random_state=4).certify(3, family="all", random_state=4)
    assert board.to_dict() == direct.to_dict()
    again = lg.leaderboard(comparisons, rank=2, family="all", random_state=4)
    assert again.to_dict() == board.to_dict()


@pytest.mark.parametrize(
    "arguments",
    [{"top_k": 0}, {"top_k": 8}, {"top_k": 2.5}, {"alpha": 95}, {"family": "tasks"}, {"method": "best"}, {"n_draws": -1}, {"rank": 0}],
)
def test_bad_arguments_are_refused_before_anything_is_fitted(comparisons, arguments, monkeypatch):
    def never(*args):
        raise AssertionError("fitted")

    monkeypatch.setattr(lg.LowRankBradleyTerry, "_fit_table", never)
    with pytest.raises(lg.ParameterError, match=next(iter(arguments))):
        lg.leaderboard(comparisons, **arguments)


# ---------------------------------------------------------------------------------------------------- serialisation


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_json_round_trip(inference, tmp_path, family):
    board = inference.certify(3, family=family)
    board.to_json(tmp_path / "board.json")
    again = lg.Leaderboard.read(tmp_path / "board.json")
    pd.testing.assert_frame_equal(again.to_frame(), board.to_frame())
    assert again.to_dict() == board.to_dict() and again.family == board.family
    if isinstance(board.critical_value, pd.Series):
        pd.testing.assert_series_equal(again.critical_value, board.critical_value)
    assert os.listdir(tmp_path) == ["board.json"]


def plain(value):
    if isinstance(value, dict):
        return all(type(key) is str and plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return value is None or type(value) in (int, float, str, bool)


@pytest.mark.parametrize(
    ("data", "options"),
    [(WINLESS, {}), (ISLANDS, {"disconnected": "allow"}), ({"A:B": (0, 0, 10)}, {})],
    ids=["winless", "islands", "ties"],
)
def test_dict_is_strict_json(data, options):  # A24
    board = lg.infer_gaps(votes(data), lg.PerTaskBradleyTerry(**options)).certify(1)
    encoded = board.to_dict()
    assert json.loads(json.dumps(encoded, allow_nan=False)) == encoded and plain(encoded)
    assert {entry["status"] for entry in encoded["diagnostics"].values()} <= {"ok", "failed", "not_checked"}
    if data is WINLESS:
        assert [row["std_error"] for row in encoded["rows"]] == [None] * 3
    pd.testing.assert_frame_equal(lg.Leaderboard.from_dict(encoded).to_frame(), board.to_frame())


def test_parquet_and_csv(board, tmp_path):
    pytest.importorskip("pyarrow")
    board.to_parquet(tmp_path / "board.parquet")
    assert lg.Leaderboard.read(tmp_path / "board.parquet").to_dict() == board.to_dict()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "board.parquet")[COLUMNS], board.to_frame(), check_dtype=False)
    board.to_csv(tmp_path / "board.csv")
    text = pd.read_csv(tmp_path / "board.csv")
    assert text.pop("schema_version").eq(1).all()
    pd.testing.assert_frame_equal(text, board.to_frame(), check_dtype=False)
    with pytest.raises(lg.ParameterError, match=r"\.json or \.parquet"):
        lg.Leaderboard.read(tmp_path / "board.csv")


def test_wrong_broken_and_newer_files_are_named(board, tmp_path):
    good = board.to_dict()
    broken = {key: value for key, value in good.items() if key != "method"}
    for data, message in [
        ({"schema": "other"}, "schema"),
        ({**good, "schema_version": 99}, "update lrgittins"),
        (broken, "method"),
        ({**good, "rows": [{"task": "x"}]}, "model"),
        ([], "schema"),
    ]:
        (tmp_path / "board.json").write_text(json.dumps(data))
        with pytest.raises(lg.StateError, match=message):
            lg.Leaderboard.read(tmp_path / "board.json")
    (tmp_path / "board.json").write_text("{")
    with pytest.raises(lg.StateError, match="not a JSON file"):
        lg.Leaderboard.read(tmp_path / "board.json")
    with pytest.raises(FileNotFoundError):
        lg.Leaderboard.read(tmp_path / "absent.json")


def test_a_failed_write_leaves_the_old_file(board, tmp_path, monkeypatch):
    target = tmp_path / "board.json"
    target.write_text("old")

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        board.to_json(target)
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["board.json"]


def test_odd_names_survive(tmp_path):
    data = {'<b>"x"</b>\n:é,;': (30, 10)}
    board = lg.infer_gaps(votes(data), lg.PerTaskBradleyTerry()).certify(1)
    board.to_json(tmp_path / "b.json")
    assert lg.Leaderboard.read(tmp_path / "b.json").to_frame()["model"].tolist() == ['<b>"x"</b>\n', "é,;"]
    board.to_csv(tmp_path / "b.csv")
    assert pd.read_csv(tmp_path / "b.csv")["model"].tolist() == ['<b>"x"</b>\n', "é,;"]


# ------------------------------------------------------------------------------------------------------ invariances


def test_row_order_and_sides_change_nothing(comparisons):
    scores, task, a, b, outcome = simulate(n=3000)
    rng = np.random.default_rng(8)
    order, flip = rng.permutation(len(task)), rng.random(len(task)) < 0.5
    shuffled = lg.Comparisons.from_arrays(
        names("t", 6)[task][order],
        names("m", 7)[np.where(flip, b, a)][order],
        names("m", 7)[np.where(flip, a, b)][order],
        np.where(flip, 1 - outcome, outcome)[order],
    )
    assert lg.leaderboard(shuffled, rank=2).to_dict() == lg.leaderboard(comparisons, rank=2).to_dict()


def test_renaming_in_sorted_order_changes_names_only(comparisons):
    scores, task, a, b, outcome = simulate(n=3000)
    renamed = lg.Comparisons.from_arrays(names("x", 6)[task], names("model-", 7)[a], names("model-", 7)[b], outcome)
    first, second = lg.leaderboard(comparisons, rank=2).to_frame(), lg.leaderboard(renamed, rank=2).to_frame()
    pd.testing.assert_frame_equal(first.drop(columns=["task", "model"]), second.drop(columns=["task", "model"]))
    assert [name[-2:] for name in first["model"]] == [name[-2:] for name in second["model"]]


def test_an_unrelated_task_leaves_the_plain_boards_of_others_alone(comparisons):
    extra = lg.Comparisons.from_arrays(["aaa"] * 3, ["m00", "m01", "m02"], ["m01", "m02", "m00"], [1.0, 1.0, 1.0])
    estimator = lg.PerTaskBradleyTerry()
    before = lg.infer_gaps(comparisons, estimator).certify(3).to_frame()
    after = lg.infer_gaps(comparisons + extra, estimator).certify(3).to_frame()
    pd.testing.assert_frame_equal(after[after["task"] != "aaa"].reset_index(drop=True), before)


_THREADS = """
import sys
import numpy as np, lrgittins as lg
rng = np.random.default_rng(0)
n = 4000
task, a = rng.integers(5, size=n), rng.integers(50, size=n)
b = (a + rng.integers(1, 50, size=n)) % 50
names = np.array([f"m{i:02d}" for i in range(50)])
votes = lg.Comparisons.from_arrays(names[task], names[a], names[b], (rng.random(n) < 0.6) * 1.0)
board = lg.leaderboard(votes, rank=2, family="all", n_draws=600)
import hashlib, json
print(hashlib.sha256(json.dumps(board.to_dict(), sort_keys=True).encode()).hexdigest())
"""


def test_thread_count_does_not_matter():  # A17
    digests = set()
    for threads in ("1", "2", "8"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
        run = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, text=True, env=environment, check=False)
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout.strip())
    assert len(digests) == 1


def test_exported_functions_stay_functions_after_their_modules_are_loaded():
    code = "import lrgittins as lg; lg.Leaderboard; lg.GapBands; assert callable(lg.leaderboard) and callable(lg.infer_gaps)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_islands_in_one_call():
    islands = votes({key: (a * 10**4, b * 10**4) for key, (a, b) in ISLANDS.items()})
    with pytest.raises(lg.NotIdentifiableError, match="disconnected"):
        lg.leaderboard(islands)
    board = lg.leaderboard(islands, disconnected="allow")
    assert [interval(board, model) for model in "ABCD"] == [(1, 3), (2, 4), (1, 3), (2, 4)]


def test_cluster_boards_are_wider():
    scores, task, a, b, outcome = simulate(n=3000, seed=1)
    cells = names("t", 6)[task], names("m", 7)[a], names("m", 7)[b]
    copies = [np.tile(column, 4) for column in (*cells, outcome)]  # every vote four times: four times nothing new
    plain = lg.infer_gaps(lg.Comparisons.from_arrays(*copies), RANK2).gaps()["std_error"]
    clustered = lg.infer_gaps(lg.Comparisons.from_arrays(*copies, cluster=np.tile(np.arange(3000), 4)), RANK2).gaps()["std_error"]
    assert math.isclose(float(np.median(clustered / plain)), 2.0, rel_tol=0.1)
