"""Response matrices: joined by value, checked once, every kind of frame and file (case A15)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lrgittins as lg


def long_frame(**columns: Any) -> pd.DataFrame:
    base = {
        "arm": ["b", "a", "a", "b", "a"], "example": [7, 7, 3, 3, 5], "score": [1.0, 0.0, 0.5, 0.25, 1.0], "usd": [2.0, 1.0, 1.0, 2.5, 1.0],
    }  # fmt: skip
    return pd.DataFrame({**base, **columns})


WANTED = np.array([[0.5, 1.0, 0.0], [0.25, np.nan, 1.0]])  # arms a, b; examples 3, 5, 7


def test_a15_ids_not_positions() -> None:
    frame = pd.DataFrame({"arm": ["X"] * 3 + ["Y"] * 3, "example": [5, 2, 9, 2, 5, 9], "score": [1, 0, 1, 0, 1, 0]})
    matrix = lg.ResponseMatrix.from_frame(frame)
    assert matrix.arms == ("X", "Y") and matrix.examples == (2, 5, 9)
    assert [e for e, x, y in zip(matrix.examples, *matrix.scores, strict=True) if x != y] == [9]
    assert matrix.n_cells.tolist() == [3, 3]
    twice = pd.concat([frame.assign(filter="strict"), frame.assign(filter="flexible")])
    with pytest.raises(lg.ResponseError, match=r"duplicate \(arm, example\).*\('X', 2\).*filters"):
        lg.ResponseMatrix.from_frame(twice)
    assert lg.ResponseMatrix.from_frame(twice[twice["filter"] == "strict"]).n_cells.tolist() == [3, 3], "n is 3, not 6"


@pytest.mark.property
def test_row_order_index_and_backend_play_no_part() -> None:
    frame = long_frame()
    kinds: list[Any] = [
        frame,
        frame.sample(frac=1, random_state=1),
        frame.set_axis([0] * 5, axis=0),
        frame.astype({"arm": "category", "score": "Float64", "example": "Int32"}),
        frame.astype({"arm": "string", "score": "float32"}),
        frame.assign(arm=frame["arm"].astype(pd.CategoricalDtype(["zzz", "b", "a"]))),
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame),
        frame.to_dict("list"),
        frame.to_records(index=False),
        frame.astype({"score": object}),
    ]
    for kind in kinds:
        matrix = lg.ResponseMatrix.from_frame(kind, cost="usd")
        assert matrix.arms == ("a", "b") and matrix.examples == (3, 5, 7) and all(type(e) is int for e in matrix.examples)
        np.testing.assert_array_equal(matrix.scores, WANTED)
        np.testing.assert_array_equal(matrix.cost, [[1, 1, 1], [2.5, 0, 2]])
    assert frame.equals(long_frame())


def test_numbers_of_a_matrix() -> None:
    matrix = lg.ResponseMatrix.from_frame(long_frame(), cost="usd")
    assert (matrix.n_arms, matrix.n_examples, matrix.n_missing, matrix.best_arm) == (2, 3, 1, "b")
    np.testing.assert_allclose(matrix.row_means, [0.5, 0.625])
    np.testing.assert_allclose(matrix.arm_cost, [1.0, 2.25])
    assert matrix.total_cost == 7.5 and matrix.cell_cost().sum() == 7.5
    assert "2 arms x 3 examples, 1 missing, cost per cell" in repr(matrix)
    back = lg.ResponseMatrix.from_frame(matrix.to_frame(), cost="cost")
    np.testing.assert_array_equal(back.scores, matrix.scores)
    np.testing.assert_array_equal(back.cost, matrix.cost)
    assert matrix.summary().to_dict("list") == {
        "arm": ["a", "b"],
        "n": [3, 2],
        "n_missing": [0, 1],
        "mean": [0.5, 0.625],
        "cost": [1.0, 2.25],
    }
    with pytest.raises(ValueError, match="read-only"):
        matrix.scores[0, 0] = 0.0
    policy = lg.GittinsPolicy(**matrix.policy_arguments())
    assert policy.cells()["missing"] == 1 and policy.cost.tolist() == [1.0, 2.25] and policy.examples == [3, 5, 7]


def test_costs_constant_within_each_arm_become_prices_by_arm() -> None:
    matrix = lg.ResponseMatrix.from_frame(long_frame(usd=[2.0, 1.0, 1.0, 2.0, 1.0]), cost="usd")
    assert matrix.cost.tolist() == [1.0, 2.0] and matrix.total_cost == 7.0
    assert lg.ResponseMatrix.from_frame(long_frame()).total_cost == 5.0, "without prices every example costs 1"
    assert lg.ResponseMatrix.from_frame(long_frame(), cost={"b": 3, "a": 1}).cost.tolist() == [1.0, 3.0]
    assert lg.ResponseMatrix.from_array(WANTED, cost=[[1, 1, 1], [2, 9, 2]]).cost.tolist() == [1.0, 2.0]
    assert lg.ResponseMatrix.from_array(WANTED, cost=[[1, 1, 1], [2, None, 3]]).total_cost == 8.0


def test_arrays() -> None:
    source = np.asfortranarray(WANTED)
    source.flags.writeable = False
    matrix = lg.ResponseMatrix.from_array(source)
    assert matrix.arms == (0, 1) and matrix.examples == (0, 1, 2) and matrix.scores is not source
    np.testing.assert_array_equal(lg.ResponseMatrix.from_array(WANTED[:, ::-1]).scores, WANTED[:, ::-1])
    assert lg.ResponseMatrix.from_array(np.array([[True, False]])).row_means.tolist() == [0.5]
    assert lg.ResponseMatrix.from_array([[0.5]], arms=["x"], examples=["y"]).examples == ("y",)
    rescaled = lg.ResponseMatrix.from_array([[1.0, 10.0, 5.5]], score_range=(1, 10))
    np.testing.assert_allclose(rescaled.scores, [[0.0, 1.0, 0.5]])


def test_wide_frames() -> None:
    wide = pd.DataFrame(WANTED, index=pd.Index(["a", "b"], name="model"), columns=["e3", "e5", "e7"])
    for frame, options in (
        (wide, {}),
        (wide.reset_index(), {}),
        (wide.reset_index(), {"arm": "model"}),
        (pl.from_pandas(wide.reset_index()), {}),
    ):
        matrix = lg.ResponseMatrix.from_frame(frame, **options)
        assert matrix.arms == ("a", "b") and matrix.examples == ("e3", "e5", "e7")
        np.testing.assert_array_equal(matrix.scores, WANTED)
    costs = pd.DataFrame([[1, 2, 3], [4, 5, 6.0]], index=["b", "a"], columns=["e7", "e5", "e3"])
    matrix = lg.ResponseMatrix.from_frame(wide, cost=costs)
    np.testing.assert_array_equal(matrix.cost, [[6, 5, 4], [3, 0, 1]])
    with pytest.raises(lg.ResponseError, match="neither long"):
        lg.ResponseMatrix.from_frame(long_frame().rename(columns={"example": "item", "score": "pass"}).assign(judge="g"))
    with pytest.raises(lg.ResponseError, match="long frame"):
        lg.ResponseMatrix.from_frame(wide, cost="usd")


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz"])
def test_files(suffix: str, tmp_path: Path) -> None:
    frame = long_frame(arm=["1.10", "007", "007", "1.10", "007"])
    path = tmp_path / f"scores{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix.startswith(".csv"):
        frame.to_csv(path, index=False)
    else:
        text = "\n".join(json.dumps(row) for row in frame.to_dict("records")) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode())
    matrix = lg.ResponseMatrix.read(path, cost="usd")
    assert matrix.arms == ("007", "1.10") and matrix.examples == (3, 5, 7), "names stay as they are written"
    np.testing.assert_array_equal(matrix.scores, WANTED)
    np.testing.assert_array_equal(matrix.cost, [[1, 1, 1], [2.5, 0, 2]])


def test_wide_csv(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    pd.DataFrame(WANTED, index=["007", "b"], columns=["x", "y", "z"]).to_csv(path)
    matrix = lg.ResponseMatrix.read(path)
    assert matrix.arms == ("007", "b") and matrix.examples == ("x", "y", "z")
    np.testing.assert_array_equal(matrix.scores, WANTED)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.csv", None, "no such file"),
        ("scores.xlsx", b"PK", "format"),
        ("broken.parquet", b"PAR1 nonsense", "parquet"),
        ("broken.csv.gz", b"not gzip at all", "csv.gz"),
        ("empty.csv", b"", "csv"),
        ("half.jsonl", b'{"arm": "a", "exam', "jsonl"),
        ("cut.jsonl.gz", gzip.compress(b'{"arm": 1}\n' * 1000)[:-12], "jsonl.gz"),
    ],
)
def test_unreadable_files(name: str, content: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(lg.ResponseError, match=words):
        lg.ResponseMatrix.read(path)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"score": [85.0, 90.0, 100.0, 7.0, 2.0]}, "percent.*first: arm 'a', example 3"),
        ({"score": [1.0, 0.0, -1.0, 0.5, -1.0]}, "2 scores.*sentinel"),
        ({"score": [1.0, 0.0, np.inf, 0.5, 1.0]}, "finite"),
        ({"score": [1.0, 0.0, 1.5, -0.5, 1.0]}, "score_range"),
        ({"score": ["1", "0", "1", "0", "1"]}, "5 values are not"),
        ({"score": [1.0, np.nan, np.nan, 0.0, np.nan]}, "1 arm has no score at all: 'a'"),
        ({"arm": ["a", None, "a", "b", "b"]}, "'arm' is missing in 1 rows"),
        ({"example": [1, 2, None, 1, 2]}, "'example' is missing"),
        ({"arm": ["4", 4, "4", 4, "x"]}, "mixes types"),
        ({"usd": [1.0, -1.0, 1.0, 1.0, 1.0]}, "cost of arm 'a'"),
        ({"usd": [1.0, 1.0, 1.0, np.nan, 1.0]}, "cost of arm 'b'"),
        ({"usd": ["$1"] * 5}, "'usd' must be numbers"),
    ],
)
def test_bad_frames(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(lg.ResponseError, match=words):
        lg.ResponseMatrix.from_frame(long_frame(**columns), cost="usd")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lg.ResponseMatrix.from_frame(long_frame().iloc[:0]), "no rows"),
        (lambda: lg.ResponseMatrix.from_frame(long_frame(), arm="model"), "missing columns 'model'"),
        (lambda: lg.ResponseMatrix.from_frame(long_frame(), cost="price"), "'price' \\(cost=\\)"),
        (lambda: lg.ResponseMatrix.from_frame(pd.concat([long_frame(), long_frame()["score"]], axis=1)), "more than once"),
        (lambda: lg.ResponseMatrix.from_frame(np.ones((2, 2))), "from_array"),
        (lambda: lg.ResponseMatrix.from_frame(pl.LazyFrame({"arm": [1]})), "collect"),
        (lambda: lg.ResponseMatrix.from_array(np.ones(3)), "shape"),
        (lambda: lg.ResponseMatrix.from_array(np.ones((0, 3))), "shape"),
        (lambda: lg.ResponseMatrix.from_array(np.ones((2, 3)), arms=["a"]), "1 labels for 2 rows"),
        (lambda: lg.ResponseMatrix.from_array(np.ones((2, 3)), arms=["a", "a"]), "unique"),
        (lambda: lg.ResponseMatrix.from_array(np.ones((2, 3)), cost=np.ones((3, 2))), "shape of the scores"),
        (lambda: lg.ResponseMatrix.from_array(np.ones((2, 3)), cost=[1, None]), "arm 1"),
        (lambda: lg.ResponseMatrix.from_array(np.full((2, 3), 85.0)), "percent"),
        (lambda: lg.ResponseMatrix.from_array(np.ones((2, 3)), score_range=(0, 0)), "score_range"),
        (lambda: lg.ResponseMatrix.from_array([["a", "b"]]), "must be numbers"),
    ],
)
def test_bad_calls(call: Any, words: str) -> None:
    with pytest.raises((lg.ResponseError, lg.ParameterError), match=words):
        call()


def test_ids_that_arms_do_not_share_are_caught_before_memory_is() -> None:
    n = 20_000
    frame = pd.DataFrame({"arm": np.arange(n), "example": np.arange(n), "score": 1.0})
    with pytest.raises(lg.ResponseError, match="id that arms share"):
        lg.ResponseMatrix.from_frame(frame)


@pytest.mark.golden
def test_real_matrices(shared: Path) -> None:
    data = shared / "data"
    alpaca = lg.ResponseMatrix.read(data / "alpaca_eval2_matrix.parquet")
    assert (alpaca.n_arms, alpaca.n_examples, alpaca.n_missing) == (56, 805, 10)
    arms = pd.read_csv(data / "alpaca_eval2_arms.csv").set_index("model")
    np.testing.assert_allclose(alpaca.row_means, arms.loc[list(alpaca.arms), "mean_score"], atol=2e-3)  # the table fills gaps with 0.5
    bench = lg.ResponseMatrix.read(data / "swebench_verified_bashonly.parquet", arm="model", example="item", cost="cost_usd")
    assert bench.cost.shape == (4, 500) and 0.03 < bench.arm_cost.min() < bench.arm_cost.max() < 0.56
    wild = pd.read_parquet(data / "wildbench_scores.parquet")
    with pytest.raises(lg.ResponseError, match="filters"):
        lg.ResponseMatrix.from_frame(wild, arm="model", example="item")
    one = wild[(wild["version"] == "v2.0522") & wild["judge"].str.contains("turbo")]
    matrix = lg.ResponseMatrix.from_frame(one, arm="model", example="item")
    assert (matrix.n_arms, matrix.n_examples) == (12, 1024) and 1018 <= matrix.n_cells.min() < 1024
    sat = np.load(data / "aslib_sat18_exp.npz", allow_pickle=True)
    solvers = lg.ResponseMatrix.from_array(sat["score"], arms=sat["arms"], examples=sat["examples"], cost=sat["runtime_s"])
    assert solvers.cost.shape == (37, 353) and isinstance(solvers.arms[0], str)
