"""Long columns coded by the identity of their objects, and dictionary codes counted block by block, against the plain ways."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pandas as pd
import pytest

from lrgittins import Comparisons
from lrgittins._coded import CodedCounter
from lrgittins._counting import Options, VoteCounter
from lrgittins._kernels.tally import _add_until_fault, add_coded_votes
from lrgittins._labels import LONG, LabelIndex, factorize
from lrgittins._shared_objects import MOST_OBJECTS, code_objects
from lrgittins.errors import ComparisonError

needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="long columns are coded by value without the JIT")


def make_columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    rows = rng.integers(7, size=LONG)
    names = np.array(["b", "a", "c", "".join(["lo", "ng"]), None, np.nan, "long"], dtype=object)
    shared = names[rows]
    read_only = shared.copy()
    read_only.setflags(write=False)
    return {
        "shared": shared,
        "read-only": read_only,
        "ints": np.array([4, 10**12, -3, 0, 1, 2, 5], dtype=object)[rows],
        "every object its own": np.array([f"name {row}" for row in rows], dtype=object),
        "strided": np.repeat(shared, 2)[::2],
        "python strings": pd.Series(np.array(["x", "y", None], dtype=object)[rows % 3], dtype=pd.StringDtype("python", na_value=np.nan)),
        "short": shared[:100],
    }


@pytest.mark.oracle
@pytest.mark.parametrize("kind", list(make_columns()))
def test_codes_are_those_of_pandas(kind: str) -> None:
    column = make_columns()[kind]
    codes, values = factorize(column, "model_a")
    expected, uniques = pd.factorize(column)
    np.testing.assert_array_equal(codes, expected)
    assert values == uniques.tolist() and codes.dtype == np.int64


@needs_jit
def test_identity_is_used_where_objects_are_shared() -> None:
    shared = make_columns()["shared"]
    found = code_objects(shared)
    assert found is not None and len(found[1]) == 7
    assert all(a is b for a, b in zip(shared[found[1]][found[0]][:1000], shared[:1000], strict=True))
    assert code_objects(np.array([f"name {row}" for row in range(MOST_OBJECTS + 1)], dtype=object)) is None
    assert code_objects(shared[::2]) is None  # not contiguous


def test_long_columns_give_the_same_errors_and_counts() -> None:
    rows = np.random.default_rng(1).integers(3, size=LONG)
    names = np.array(["a", "b", "c"], dtype=object)
    frame = pd.DataFrame({"model_a": names[rows], "model_b": names[(rows + 1) % 3]}, dtype=object)
    frame["winner"] = np.array(["model_a", "tie"], dtype=object)[rows % 2]
    counts = Comparisons.from_frame(frame, task=None).counts
    parts = [Comparisons.from_frame(frame.iloc[i : i + 20_000], task=None) for i in range(0, LONG, 20_000)]
    pd.testing.assert_frame_equal(counts, sum(parts[1:], parts[0]).counts)
    frame.loc[7, "winner"] = None
    with pytest.raises(ComparisonError, match="no verdict.*7"):
        Comparisons.from_frame(frame, task=None)
    unhashable = np.full(LONG, None, dtype=object)
    unhashable[:] = [["list"]] * LONG
    with pytest.raises(ComparisonError, match="hashed"):
        factorize(unhashable, "model_a")


@pytest.mark.oracle
def test_blocks_count_and_stop_as_row_by_row() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        n, n_models = int(rng.integers(1, 1800)), int(rng.integers(2, 6))
        first = rng.integers(n_models, size=n)
        columns = [rng.integers(2, size=n), first, (first + rng.integers(1, n_models, size=n)) % n_models, rng.integers(3, size=n)]
        codes = [column.astype(np.int32) for column in columns]
        slots = [np.arange(2) * 4 * n_models**2, np.arange(n_models) * 4 * n_models, np.arange(n_models) * 4, np.arange(3)]
        for _ in range(int(rng.integers(3))):
            kind, row = int(rng.integers(3)), int(rng.integers(n))
            if kind == 0:
                codes[rng.integers(4)][row] = rng.choice(np.array([-1, -7, 9, 2**31 - 1, -(2**31)], dtype=np.int32))
            elif kind == 1:
                codes[2][row] = codes[1][row]
            else:
                slot = slots[rng.integers(4)]
                slot[rng.integers(len(slot))] = -1
        for code in codes:
            code.setflags(write=False)
        counted, plain = np.zeros((2, 8 * n_models**2), dtype=np.int64)
        done = add_coded_votes(*codes, *slots, n_models, 1, n, counted)
        assert done == _add_until_fault(*codes, *slots, n_models, 1, plain)
        np.testing.assert_array_equal(counted, plain)
        add_coded_votes(*codes, *slots, n_models, -1, done, counted)
        assert not counted.any()


def votes_as_text(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    first = rng.integers(5, size=n)
    second = (first + rng.integers(1, 5, size=n)) % 5
    models = np.array(["a", "b", "c", "d", "e"], dtype=object)
    winner = np.array(["model_a", "model_b", "tie"], dtype=object)[rng.integers(3, size=n)]
    columns = {"task": np.array(["x", "y"], dtype=object)[rng.integers(2, size=n)], "model_a": models[first], "model_b": models[second]}
    return pd.DataFrame({**columns, "winner": winner})


def as_categories(frame: pd.DataFrame, orders: dict[str, list[str]]) -> pd.DataFrame:
    return frame.assign(**{name: pd.Categorical(frame[name], categories=order) for name, order in orders.items()})


ORDERS = {"task": ["y", "x"], "model_a": list("edcba"), "model_b": list("badce"), "winner": ["tie", "model_b", "model_a"]}


@pytest.mark.oracle
@pytest.mark.parametrize(
    "orders",
    [
        ORDERS,
        {**ORDERS, "winner": ["model_a", "A", "model_b", "tie"]},  # two words for one verdict
        {**ORDERS, "model_a": [*"edcba", "never seen"]},  # no slot: rows are looked up one by one
    ],
    ids=["clean", "synonyms", "unknown"],
)
def test_raw_codes_count_as_text_does(orders: dict[str, list[str]]) -> None:
    text = votes_as_text(3_000, 0)
    if "A" in orders["winner"]:
        text.loc[text.index[::2], "winner"] = text["winner"][::2].replace("model_a", "A")
    stream = pd.concat([text.head(40), text])  # the first rows name every label; the rest is larger than a table of codes
    parts = [as_categories(part, orders) for part in (text.head(40), text)]
    index = CodedCounter(*known_labels(), refused=(), tasks_declared=None, models_declared=None)
    assert all(index.add(part, len(part)) for part in parts)
    found = index.take()
    assert found is not None and index.take() is None
    wanted = Comparisons.from_frame(stream).counts
    assert int(found.count.sum()) == len(stream)
    pd.testing.assert_frame_equal(
        Comparisons.from_frame(as_categories(stream, orders)).counts.reset_index(drop=True), wanted.reset_index(drop=True)
    )
    key = pd.DataFrame({"task": found.task, "a": found.model_a, "b": found.model_b, "outcome": found.outcome, "n": found.count})
    assert not key.duplicated(["task", "a", "b", "outcome"]).any()
    names = pd.Series(list("abcde"))
    direct = stream.assign(outcome=stream["winner"].map({"model_a": 1.0, "A": 1.0, "model_b": 0.0, "tie": 0.5}))
    direct = direct.groupby(["task", "model_a", "model_b", "outcome"]).size()
    coded = key.assign(task=key["task"].map({0: "x", 1: "y"}), a=key["a"].map(names), b=key["b"].map(names))
    coded = coded.set_index(["task", "a", "b", "outcome"])["n"].sort_index()
    np.testing.assert_array_equal(coded.to_numpy(), direct.sort_index().to_numpy())
    assert list(coded.index) == list(direct.sort_index().index)


def test_a_batch_with_one_model_twice_leaves_no_trace() -> None:
    text = votes_as_text(3_000, 1)
    spoiled = text.copy()
    spoiled.loc[2_345, "model_b"] = spoiled.loc[2_345, "model_a"]
    counter = CodedCounter(*known_labels(), refused=(), tasks_declared=None, models_declared=None)
    clean, bad = as_categories(text, ORDERS), as_categories(spoiled, ORDERS)
    missing = bad.assign(winner=bad["winner"].where(np.arange(len(bad)) != 2_999))
    assert counter.add(clean, len(clean))
    assert not counter.add(bad, len(bad)) and not counter.add(missing, len(missing))
    assert counter.add(clean, len(clean))
    found = counter.take()
    assert found is not None and int(found.count.sum()) == 2 * len(text) and (found.count % 2 == 0).all()
    with pytest.raises(ComparisonError, match="2345"):
        Comparisons.from_frame(bad)


def test_words_of_a_text_file_are_never_counted_apart_from_its_numbers() -> None:
    """As categories the second batch could be counted by its codes, and nobody would see that the first was read as numbers."""
    numbers = pd.DataFrame({"model_a": ["a", "b"], "model_b": ["b", "a"], "winner": ["1", "0"]}, dtype=object)
    words = numbers.assign(winner=["model_a", "tie"]).astype("category")
    names = {"model_a": "model_a", "model_b": "model_b", "winner": "winner", "task": None}
    options = Options.checked("half", "tie", "error", None, None, None)
    with pytest.raises(ComparisonError, match="2 rows have an unknown label"):
        Comparisons._count_text(lambda: [{role: batch[role] for role in numbers} for batch in (numbers, words)], names, options)


def known_labels() -> tuple[LabelIndex, LabelIndex]:
    tasks, models = LabelIndex("task"), LabelIndex("model")
    tasks.encode(np.array(["x", "y"], dtype=object), "task")
    models.encode(np.array(list("abcde"), dtype=object), "model_a")
    return tasks, models


@pytest.mark.parametrize("dtype", ["str", "string[pyarrow]", "arrow"])
def test_pandas_text_held_by_arrow_is_counted_as_codes(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices, gaps and all: the same counts as from Python strings, and after a first small batch no row goes the thorough way."""
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(3)
    n = 40_000
    first = rng.integers(0, 9, n)
    frame = pd.DataFrame(
        {
            "task": rng.choice(["math", "code"], n),
            "model_a": [f"m{k}" for k in first],
            "model_b": [f"m{k}" for k in (first + rng.integers(1, 9, n)) % 9],
            "winner": rng.choice(["model_a", "model_b", "tie"], n),
        },
        dtype=object,
    )
    held = frame.astype(pd.ArrowDtype(pa.string()) if dtype == "arrow" else pd.StringDtype("pyarrow") if dtype != "str" else "str")
    judged: list[int] = []
    judge = VoteCounter._read_winners
    monkeypatch.setattr(VoteCounter, "_read_winners", lambda self, column, a, b: judged.append(len(a)) or judge(self, column, a, b))
    assert Comparisons.from_frame(held.iloc[5:]).counts.equals(Comparisons.from_frame(frame.iloc[5:].copy()).counts)
    if isinstance(held["task"].dtype, pd.ArrowDtype) or held["task"].dtype.storage == "pyarrow":
        assert judged[0] == 1 << 14 and sum(judged) == judged[0] + n - 5  # the latter: all of the object columns
    holed = held.copy()
    holed.loc[[7, 30_000], "model_b"] = None
    with pytest.raises(ComparisonError, match=r"column 'model_b': 2 rows have no model name; first at \(rows from 0\) 7, 30000"):
        Comparisons.from_frame(holed)
    assert Comparisons.from_frame(holed, on_invalid="drop").n_dropped == 2
