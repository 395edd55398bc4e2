"""Labels of every backend are coded by value, jointly, and the winner vocabulary is closed."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from lrgittins import ComparisonError, Comparisons
from lrgittins._labels import LabelIndex, as_column, factorize, to_numbers

ROWS = [("A", "B", "model_a")] * 8 + [("A", "B", "model_b")] * 2 + [("A", "C", "model_a")] * 9 + [("A", "C", "model_b")]
ROWS += [("B", "C", "model_a")] * 7 + [("C", "B", "model_a")] * 3
A, B, W = ([row[k] for row in ROWS] for k in range(3))
COUNTS = [["all", "A", "B", 8, 2, 0], ["all", "A", "C", 9, 1, 0], ["all", "B", "C", 7, 3, 0]]


def counts_of(comparisons: Comparisons) -> list[list[object]]:
    return comparisons.counts.to_numpy().tolist()


def in_backend(backend: str) -> object:
    columns = {"model_a": A, "model_b": B, "winner": W}
    if backend == "dict of lists":
        return columns
    if backend == "structured":
        return np.array(ROWS, dtype=[("model_a", "U3"), ("model_b", "U3"), ("winner", "U10")])
    if backend == "numpy str":
        return {name: np.array(values) for name, values in columns.items()}
    if backend == "numpy StringDType":
        if not hasattr(np.dtypes, "StringDType"):
            pytest.skip("this numpy has no StringDType")
        return {name: np.array(values, dtype=np.dtypes.StringDType()) for name, values in columns.items()}
    if backend.startswith("polars"):
        pl = pytest.importorskip("polars")
        frame = pl.DataFrame(columns)
        return frame.with_columns(pl.all().cast(pl.Categorical)) if backend.endswith("Categorical") else frame
    if backend.startswith("arrow"):
        pa = pytest.importorskip("pyarrow")
        table = pa.table(columns)
        if backend == "arrow dictionary":
            return pa.table({name: table[name].dictionary_encode() for name in table.column_names})
        if backend == "arrow chunks":
            return pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])
        return table
    if "pyarrow" in backend:
        pytest.importorskip("pyarrow")
    return pd.DataFrame(columns).astype(backend)


BACKENDS = ["object", "category", "string", "string[pyarrow]", "large_string[pyarrow]", "str", "dict of lists", "structured", "numpy str"]
BACKENDS += ["numpy StringDType", "polars String", "polars Categorical", "arrow", "arrow dictionary", "arrow chunks"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_agree(backend: str) -> None:  # case A14
    comparisons = Comparisons.from_frame(in_backend(backend), task=None)
    assert counts_of(comparisons) == COUNTS
    assert [type(name) for name in comparisons.models] == [str, str, str]
    assert comparisons.counts["model_a"].map(type).eq(str).all()


@pytest.mark.parametrize("kind", ["read-only", "strided", "Fortran", "big-endian"])
def test_layouts_agree_and_input_is_untouched(kind: str) -> None:  # case A13
    codes = {"A": 10, "B": 11, "C": 12}
    a, b = (np.array([codes[name] for name in column]) for column in (A, B))
    won = np.array([word == "model_a" for word in W]).astype(np.int64)
    if kind == "strided":
        a, b, won = (np.repeat(column, 2)[::2] for column in (a, b, won))
    elif kind == "Fortran":
        a, b, won = np.asfortranarray(np.stack([a, b, won])).copy(order="F")
    elif kind == "big-endian":
        a, b, won = (column.astype(">i4") for column in (a, b, won))
    for column in (a, b, won):
        column.flags.writeable = False
    before = [column.tobytes() for column in (a, b, won)]
    comparisons = Comparisons.from_arrays(None, a, b, won)
    assert counts_of(comparisons) == [["all", "10", "11", 8, 2, 0], ["all", "10", "12", 9, 1, 0], ["all", "11", "12", 7, 3, 0]]
    assert [column.tobytes() for column in (a, b, won)] == before


def test_categorical_codes_are_never_trusted() -> None:
    frame = pd.DataFrame(
        {
            "model_a": pd.Categorical(["x", "y"], categories=["unused", "y", "x"]),
            "model_b": pd.Categorical(["y", "z"], categories=["z", "y"]),
            "winner": ["model_a", "model_b"],
        }
    )
    comparisons = Comparisons.from_frame(frame, task=None)
    assert list(comparisons.models) == ["x", "y", "z"]  # the unused category is no model
    assert counts_of(comparisons) == [["all", "x", "y", 1, 0, 0], ["all", "y", "z", 0, 1, 0]]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, "", "  "])
@pytest.mark.parametrize("column", ["task", "model_a", "model_b"])
def test_missing_names_are_refused_with_their_rows(column: str, missing: object) -> None:
    frame = pd.DataFrame({"task": ["t"] * 3, "model_a": ["a", "b", "c"], "model_b": ["x", "y", "x"], "winner": ["tie"] * 3}, dtype=object)
    frame.loc[1, column] = missing
    with pytest.raises(ComparisonError, match=rf"column '{column}': 1 row .*\(rows from 0\) 1"):
        Comparisons.from_frame(frame)
    kept = Comparisons.from_frame(frame, on_invalid="drop")
    assert (kept.n, kept.n_dropped) == (2, 1)
    assert kept.summary().attrs["dropped"] == {f"missing {column}": 1}
    if missing is None or missing is pd.NA or missing is np.nan:
        categorical = frame.astype({column: "category"})  # code -1 in pandas
        assert Comparisons.from_frame(categorical, on_invalid="drop").counts.equals(kept.counts)


@pytest.mark.parametrize(
    ("a", "b", "match"),
    [
        ([4, 5], ["4", "5"], "mix int and str"),
        ([4, "4"], [5, 5], "mix int and str"),
        ([True, False], ["x", "y"], "bool"),
        ([0.5, 1.5], ["x", "y"], "0.5"),
        ([b"x", b"y"], ["x", "y"], "bytes"),
        ([["x"], ["y"]], ["x", "y"], "cannot be compared or hashed"),
        (["\ud800", "y"], ["x", "x"], "Unicode"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), ["x", "y"], "datetime|Timestamp"),
    ],
)
def test_what_is_not_a_name_is_refused(a: object, b: object, match: str) -> None:  # case A25
    with pytest.raises(ComparisonError, match=match):
        Comparisons.from_arrays(None, a, b, ["tie", "tie"])


def test_integer_names_become_text() -> None:
    assert list(Comparisons.from_arrays(None, [4, 5], [5.0, 6.0], [1, 0]).models) == ["4", "5", "6"]


def test_wrong_shapes_are_refused() -> None:
    for bad in ("abc", 3, np.zeros((2, 2)), None):
        with pytest.raises(ComparisonError, match="model_a"):
            Comparisons.from_arrays(None, bad, ["x", "y"], ["tie", "tie"])
    with pytest.raises(ComparisonError, match="differ in length: 'model_a' 2, 'model_b' 3"):
        Comparisons.from_arrays(None, ["x", "y"], ["z"] * 3, ["tie"] * 2)


def test_codes_are_int64_beyond_int8() -> None:
    many = [f"m{k:04d}" for k in range(300)]
    frame = pd.DataFrame({"model_a": pd.Categorical(many[:-1]), "model_b": pd.Categorical(many[1:]), "winner": "model_a"})
    comparisons = Comparisons.from_frame(frame, task=None)
    assert comparisons._table.low.dtype == np.int64
    assert comparisons._table.high.tolist() == list(range(1, 300))


def test_factorize_and_numbers_of_a_masked_array() -> None:
    column = as_column(np.ma.masked_array([1, 2, 3], mask=[False, True, False]), "x")
    codes, values = factorize(column, "x")
    assert codes.tolist() == [0, -1, 1] and values == [1, 3]
    np.testing.assert_array_equal(to_numbers(column, "x"), [1.0, np.nan, 3.0])
    with pytest.raises(ComparisonError, match="names mix"):
        index = LabelIndex("model")
        index.encode(np.array(["1"], dtype=object), "a")
        index.encode(np.array([1]), "b")


def test_label_dialects() -> None:  # case A02
    words = ["model_a", "model_b", "tie", "tie (bothbad)", "both_bad", "bothbad"]
    comparisons = Comparisons.from_arrays(None, ["A"] * 6, ["B"] * 6, words)
    assert counts_of(comparisons) == [["all", "A", "B", 1, 1, 4]]
    assert comparisons.summary()["both_bad"].tolist() == [3]
    dropped = Comparisons.from_arrays(None, ["A"] * 6, ["B"] * 6, words, both_bad="drop")
    assert (dropped.n, dropped.n_dropped) == (3, 3)
    assert dropped.summary().attrs["dropped"] == {"both bad": 3}
    with pytest.raises(ComparisonError, match='3 rows are "both bad"'):
        Comparisons.from_arrays(None, ["A"] * 6, ["B"] * 6, words, both_bad="error")


def test_case_does_not_matter_for_keywords() -> None:  # case A01, second reading: documented normalisation
    comparisons = Comparisons.from_arrays(None, ["A"] * 4, ["B"] * 4, ["Model_A", "LEFT", " a ", "model_b"])
    assert counts_of(comparisons) == [["all", "A", "B", 3, 1, 0]]


@pytest.mark.parametrize(
    ("winner", "wins", "losses", "ties"),
    [
        ([1, 0, 1], 2, 1, 0),
        ([True, False, True], 2, 1, 0),
        (np.array([1.0, 0.5, 0.0]), 1, 1, 1),
        ([1, True, "tie"], 2, 0, 1),
        (["X", "Y", "model_b"], 1, 2, 0),
        (pd.array([1, 0, 1], dtype="Int64"), 2, 1, 0),
        (pd.Series([True, False, False], dtype="category"), 1, 2, 0),
    ],
)
def test_every_way_to_name_the_winner(winner: object, wins: int, losses: int, ties: int) -> None:
    assert counts_of(Comparisons.from_arrays(None, ["X"] * 3, ["Y"] * 3, winner)) == [["all", "X", "Y", wins, losses, ties]]


@pytest.mark.parametrize(
    ("winner", "match"),
    [
        (["A wins", "A wins", "model_a"], r"unknown label - 'A wins' \(2 rows\); first at \(rows from 0\) 0 \('A wins'\), 1"),
        (["1", "0", "model_a"], r"unknown label - '1' \(1 row\), '0' \(1 row\)"),
        (["0.5", "tie", "tie"], "unknown label"),
        (["C", "tie", "tie"], "unknown label"),  # a model, but not of that row
        ([None, "tie", "tie"], "no verdict"),
        ([np.nan, 1.0, 0.0], "no verdict"),
        ([2, 1, 0], r"outside \[0, 1\]"),
        ([-0.1, 1.0, 0.0], r"outside \[0, 1\]"),
        ([np.inf, 1.0, 0.0], r"outside \[0, 1\]"),
        ([{"winner": 1}, "tie", "tie"], "cannot be compared or hashed|unknown label"),
    ],
)
def test_bad_verdicts_are_refused_or_counted(winner: list[object], match: str) -> None:  # case A01
    with pytest.raises(ComparisonError, match=match):
        Comparisons.from_arrays(None, ["A", "A", "B"], ["B", "B", "C"], winner)


def test_keyword_that_is_also_a_model_is_ambiguous() -> None:
    with pytest.raises(ComparisonError, match="both a keyword and a model of that row"):
        Comparisons.from_arrays(None, ["a", "x"], ["b", "y"], ["a", "a"])
    # elsewhere the same word is a keyword
    assert Comparisons.from_arrays(None, ["a", "x"], ["b", "y"], ["model_a", "a"]).counts["wins"].tolist() == [1, 1]


def test_graded_preferences_swap_exactly() -> None:
    y = np.array([0.1, 0.3, 0.7, 0.9999999])
    forward = Comparisons.from_arrays(None, ["A"] * 4, ["B"] * 4, y)
    backward = Comparisons.from_arrays(None, ["B"] * 4, ["A"] * 4, 1.0 - y)
    assert forward.counts["graded"].tolist() == [4]
    np.testing.assert_array_equal(forward._table.outcome, backward._table.outcome)
    np.testing.assert_allclose(forward.counts["graded_sum"], [y.sum()], rtol=1e-15)  # the grid is 2**-52


def test_numbers_name_models_only_in_integer_frames() -> None:
    frame = {"model_a": [4, 7], "model_b": [7, 4], "winner": [4, 4]}
    assert counts_of(Comparisons.from_frame(frame, task=None)) == [["all", "4", "7", 2, 0, 0]]
    with pytest.raises(ComparisonError, match="both a keyword and a model"):
        Comparisons.from_frame({"model_a": [0], "model_b": [1], "winner": [1]}, task=None)


def test_numbers_and_words_in_one_column_are_judged_value_by_value() -> None:
    def decided(winner: list[object]) -> list[list[object]]:
        return counts_of(Comparisons.from_frame({"model_a": [2, 0], "model_b": [3, 1], "winner": winner}, task=None))

    alone = [["all", "0", "1", 1, 0, 0], ["all", "2", "3", 1, 0, 0]]
    assert decided([2, 1.0]) == alone  # a float is an outcome, though 1 is a model of its row
    assert decided([2, True]) == decided(["model_a", True]) == decided([2, "model_a"]) == decided([2, Decimal(1)]) == alone
    with pytest.raises(ComparisonError, match="both a keyword and a model"):
        decided(["model_a", 1])
    with pytest.raises(ComparisonError, match="outside"):
        decided([2.0, "model_a"])
    with pytest.raises(ComparisonError, match="outside"):
        decided([10**400, "model_a"])


def test_integers_beyond_float64_name_their_own_model() -> None:
    big = 2**53
    frame = {"model_a": np.array([big, big]), "model_b": np.array([big + 1, big + 1]), "winner": np.array([big + 1, big + 1])}
    assert counts_of(Comparisons.from_frame(frame, task=None)) == [["all", str(big), str(big + 1), 0, 2, 0]]
    frame["winner"] = np.array([big + 1, big], dtype=object)
    assert counts_of(Comparisons.from_frame(frame, task=None)) == [["all", str(big), str(big + 1), 1, 1, 0]]


@pytest.mark.parametrize("chunked", [False, True])
def test_arrow_dictionaries_may_hold_nulls_and_duplicates(chunked: bool) -> None:
    pa = pytest.importorskip("pyarrow")

    def read(values: object) -> Comparisons:
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None], pa.int32()), pa.array(values))
        if chunked:
            column = pa.chunked_array([column.slice(0, 2), column.slice(2)])
        frame = {"model_a": pa.array([2] * 5), "model_b": pa.array([3] * 5), "winner": column}
        return Comparisons.from_frame(pa.table(frame) if chunked else frame, task=None, on_invalid="drop")

    for values in ([1.0, 0.0, None, 1.0], ["model_a", "model_b", None, "model_a"], [2, 3, None, 2], [True, False, None, True]):
        found = read(values)
        assert counts_of(found) == [["all", "2", "3", 2, 1, 0]], values
        assert found.summary().attrs["dropped"] == {"missing winner": 2}
    assert read([0.0, 1.0, 2.0, 3.0]).n == 2  # the values are doubles, whatever the codes are: 2.0 names no model
