"""Files and streams larger than memory: the quick way for coded columns, batches of every kind, counts on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg
from lrgittins import _coded, _intake

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).resolve().parents[1]
ROLES = ["task", "model_a", "model_b", "winner"]


def make_votes(rows: int = 4000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "task": rng.choice(["x", "y", "z"], rows),
            "model_a": rng.choice(list("pqrs"), rows),
            "model_b": rng.choice(list("tuvw"), rows),
            "winner": rng.choice(["model_a", "B", "tie", "tie (bothbad)"], rows),
            "n": rng.integers(0, 4, rows),
            "judge": rng.integers(0, 40, rows),
            "vote": [f"v{i // 2}" for i in range(rows)],
        }
    )


def plain(frame: pd.DataFrame, **options: Any) -> lg.Comparisons:
    """Counted from lists of Python objects, which never take the quick way."""
    return lg.Comparisons.from_frame({name: frame[name].tolist() for name in frame.columns}, **options)


def assert_same(one: lg.Comparisons, two: lg.Comparisons) -> None:
    pd.testing.assert_frame_equal(one.counts, two.counts)
    pd.testing.assert_frame_equal(one.summary(), two.summary())
    assert one.summary().attrs == two.summary().attrs
    assert one._table.cluster is None or np.array_equal(one._table.cluster, two._table.cluster)
    assert np.array_equal(one._kept.count, two._kept.count) and np.array_equal(one._kept.kind, two._kept.kind)


def coded_table(frame: pd.DataFrame) -> Any:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for name in ROLES:
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(name).cast(pa.string()).dictionary_encode())
    return table


OPTIONS: list[dict[str, Any]] = [
    {},
    {"ties": "drop"},
    {"both_bad": "drop", "models": list("pqrstuvwz"), "tasks": ["z", "y", "x", "unseen"]},
    {"task": None, "aliases": {"p": "q"}},
    {"count": "n"},
    {"cluster": "judge"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_every_way_in_gives_the_same_counts(options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = make_votes()
    wanted = plain(frame, **options)
    monkeypatch.setattr(_intake.read_batches, "__defaults__", (64,))
    monkeypatch.setattr(_intake, "FRAME_ROWS", 300)
    path = tmp_path / "votes.parquet"
    pq.write_table(coded_table(frame), path, row_group_size=700)
    plain_path = tmp_path / "plain.parquet"
    pq.write_table(pa.Table.from_pandas(frame), plain_path, row_group_size=700, use_dictionary=False)
    frame.to_csv(tmp_path / "votes.csv", index=False)
    categories = frame.astype(dict.fromkeys(ROLES, "category"))
    for way in (
        lg.Comparisons.read(path, **options),
        lg.Comparisons.read(plain_path, **options),
        lg.Comparisons.read(tmp_path / "votes.csv", **options),
        lg.Comparisons.from_frame(coded_table(frame), **options),
        lg.Comparisons.from_frame(coded_table(frame).to_reader(256), **options),
        lg.Comparisons.from_frame(categories, **options),
    ):
        assert_same(way, wanted)


def test_duckdb_relations_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = make_votes()
    connection = duckdb.connect()
    connection.register("votes", pa.Table.from_pandas(frame))
    monkeypatch.setattr(_intake, "FRAME_ROWS", 2048)
    relation = connection.sql("SELECT task, model_a, model_b, winner, judge FROM votes WHERE task <> 'z'")
    batches = list(_intake.frame_batches(relation, dict(zip(ROLES, ROLES, strict=True))))
    assert max(len(batch["winner"]) for batch in batches) <= 2048 and len(batches) > 1
    kept = frame[frame["task"] != "z"]
    assert_same(lg.Comparisons.from_frame(relation, cluster="judge"), plain(kept, cluster="judge"))
    grouped = connection.sql(f"SELECT {', '.join(ROLES)}, count(*) AS votes FROM votes GROUP BY ALL")
    pd.testing.assert_frame_equal(lg.Comparisons.from_frame(grouped, count="votes").counts, plain(frame).counts)
    with pytest.raises(lg.ComparisonError, match=r"missing columns 'verdict' \(winner=\); the columns are 'task', 'model_a'"):
        lg.Comparisons.from_frame(relation, winner="verdict")


def test_failures_of_duckdb_are_told_in_its_words() -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    votes = "SELECT 'a' AS model_a, 'b' AS model_b, CAST({} AS INT) AS winner"
    with pytest.raises(lg.ComparisonError, match="DuckDB could not run the query .*Could not convert string 'x' to INT32"):
        lg.Comparisons.from_frame(connection.sql(votes.format("'x'")), task=None)
    late = connection.sql(votes.format("CASE WHEN i > 300000 THEN 'x' ELSE '1' END") + " FROM range(400000) t(i)")
    with pytest.raises(lg.ComparisonError, match="Could not convert string 'x' to INT32"):
        lg.Comparisons.from_frame(late, task=None)


MIXED: list[tuple[list[Any], dict[str, int]]] = [  # 2 and 3 name models, floats do not
    ([2, 2, 3, 3] * 2 + [0.25, 0.5, 0.75, 0.5], {}),
    ([2, 2, 3, 3] * 2 + [0.25, 2.0, None, 0.5], {"missing winner": 1, "winner out of range": 1}),
    ([0.25, 0.5, True, 0.0] + [3, 2, 7, 2] * 2, {"winner out of range": 2}),
    ([2.0, 3.0, 1.0, 1] + [2, 3, 3, 2] + ["model_a", 2, 2.0, "tie"], {"winner out of range": 3}),
]


@pytest.mark.parametrize(("winner", "dropped"), MIXED)
def test_where_rows_are_cut_does_not_matter_to_models_named_by_integers(
    winner: list[Any], dropped: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"model_a": [2] * 12, "model_b": [3] * 12, "winner": pd.Series(winner, dtype=object)})
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps({"model_a": 2, "model_b": 3, "winner": value}) + "\n" for value in winner))

    def from_blocks(**options: Any) -> lg.Comparisons:
        dask = pytest.importorskip("dask")
        dd = pytest.importorskip("dask.dataframe")
        with dask.config.set({"dataframe.convert-string": False}):
            return lg.Comparisons.from_dask(dd.from_pandas(frame, npartitions=3, sort=False), **options)

    def read(**options: Any) -> lg.Comparisons:
        return lg.Comparisons.read(path, **options)

    def outcome(way: Any, invalid: str) -> Any:
        try:
            return way(task=None, on_invalid=invalid)
        except lg.ComparisonError as error:
            return str(error).replace(f"{path}: ", "")

    whole = lg.Comparisons.from_frame(frame, task=None, on_invalid="drop")
    assert whole.summary().attrs["dropped"] == dropped and whole.n == 12 - sum(dropped.values())
    refused = outcome(lambda **options: lg.Comparisons.from_frame(frame, **options), "error")
    assert isinstance(refused, str) == bool(dropped)
    for rows in (1, 4, 5, 100):
        monkeypatch.setattr(_intake.read_batches, "__defaults__", (rows,))
        assert_same(read(task=None, on_invalid="drop"), whole)
        again = outcome(read, "error")
        assert again == refused if dropped else again.n == 12
    assert_same(from_blocks(task=None, on_invalid="drop"), whole)
    again = outcome(from_blocks, "error")
    assert again == refused if dropped else again.n == 12


def test_where_a_csv_is_cut_does_not_matter_to_models_named_by_integers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    winner = MIXED[0][0]
    whole = lg.Comparisons.from_frame({"model_a": [2] * 12, "model_b": [3] * 12, "winner": winner}, task=None)
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner\n" + "".join(f"2,3,{value}\n" for value in winner))
    for rows in (1, 4, 5, 100):
        monkeypatch.setattr(_intake.read_batches, "__defaults__", (rows,))
        assert_same(lg.Comparisons.read(path, task=None), whole)


def test_the_quick_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first batch brings the labels; all others must not touch a string per row.
    taken = []
    add = _coded.CodedCounter.add
    monkeypatch.setattr(_coded.CodedCounter, "add", lambda self, batch, n: taken.append(add(self, batch, n)) or taken[-1])
    lg.Comparisons.from_frame(coded_table(make_votes()).to_reader(500))
    assert taken == [False] + [True] * 7


def test_labels_that_come_late_outgrow_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_coded, "MAX_SPACE", 4 * 3 * 12**2)
    first, second, third = (make_votes(600, seed) for seed in range(3))
    second["model_a"] += "2"
    third["model_a"] += "3"  # too many models for the table: the rest goes the thorough way
    frame = pd.concat([first, second, third, first], ignore_index=True)
    assert_same(lg.Comparisons.from_frame(coded_table(frame).to_reader(200)), plain(frame))


@pytest.mark.parametrize("invalid", ["error", "drop"])
def test_faults_are_told_as_without_batches(invalid: str) -> None:
    frame = make_votes()
    frame.loc[[3, 77, 3100], "winner"] = "huh"
    frame.loc[[900, 901], "task"] = None
    frame.loc[2500, "model_b"] = frame.loc[2500, "model_a"]
    frame.loc[2600, "winner"] = frame.loc[2600, "model_b"]  # the winner's own name is no fault
    ways = [coded_table(frame).to_reader(size) for size in (100, 1000)]
    if invalid == "drop":
        for way in ways:
            assert_same(lg.Comparisons.from_frame(way, on_invalid="drop"), plain(frame, on_invalid="drop"))
        return
    messages = set()
    for table in [{name: frame[name].tolist() for name in ROLES}, *ways]:
        with pytest.raises(lg.ComparisonError) as caught:
            lg.Comparisons.from_frame(table)
        messages.add(str(caught.value))
    assert len(messages) == 1, messages
    assert "3 rows have an unknown label" in messages.pop()


@pytest.mark.parametrize("options", [{"ties": "error"}, {"both_bad": "error"}])
def test_policies_that_refuse_hold_for_coded_columns(options: dict[str, Any]) -> None:
    with pytest.raises(lg.ComparisonError, match="are ties|both bad"):
        lg.Comparisons.from_frame(coded_table(make_votes()).to_reader(500), **options)


def test_a_keyword_that_is_a_models_name_is_ambiguous_late_in_a_file() -> None:
    frame = make_votes(1000)
    frame.loc[999, ["model_a", "winner"]] = "tie"
    with pytest.raises(lg.ComparisonError, match="both a keyword and a model of that row - 'tie'|both a keyword and a model"):
        lg.Comparisons.from_frame(coded_table(frame).to_reader(250))


def test_names_that_turn_into_numbers_late() -> None:
    frame = make_votes(600)
    batches = coded_table(frame).to_batches(max_chunksize=200)
    numbers = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200, dtype=np.int32)), pa.array([7]))
    last = {name: batches[2].column(name) for name in ROLES} | {"model_a": numbers}
    counter_batches = [{name: batch.column(name) for name in ROLES} for batch in batches[:2]] + [last]
    with pytest.raises(lg.ComparisonError, match="mix int and str"):
        lg.Comparisons._count(counter_batches, dict(zip(ROLES, ROLES, strict=True)), _options())


def _options() -> Any:
    from lrgittins._counting import Options

    return Options.checked("half", "tie", "error", None, None, None)


def test_memory_does_not_follow_the_rows(tmp_path: Path) -> None:
    # 200,000 and 2,000,000 rows in a fresh process each; strings of the larger file alone would be 100 MB and more.
    code = """
import resource, sys, lrgittins as lg
lg.Comparisons.read(sys.argv[1])
votes = lg.Comparisons.read(sys.argv[2])
print(votes.n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    sys.path.insert(0, str(ROOT / "benchmarks" / "streaming"))
    try:
        from generate_votes import write_votes
    finally:
        sys.path.pop(0)
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    write_votes(small, 200_000, n_models=30, n_tasks=4)
    write_votes(large, 2_000_000, n_models=30, n_tasks=4, chunk=2_000_000)
    peaks = []
    for second in (small, large):
        command = [sys.executable, "-c", code, str(small), str(second)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        n, peak = map(int, result.stdout.split())
        peaks.append(peak)
    assert n == 2_000_000
    assert peaks[1] - peaks[0] < 40, peaks  # MB; the codes of 2,000,000 rows in int64 would be 64


# ------------------------------------------------------------------------------------------------ counts on disk


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("options", [{}, {"cluster": "judge"}, {"id": "vote", "ties": "drop", "on_invalid": "drop"}])
def test_counts_survive_the_disk(suffix: str, options: dict[str, Any], tmp_path: Path) -> None:
    frame = make_votes(2000)
    frame.loc[5, "task"] = None
    frame["vote"] = [f"v{i}" for i in range(len(frame))]
    options = {"models": list("pqrstuvwz"), "on_invalid": "drop", **options}
    votes = plain(frame, **options)
    path = tmp_path / f"counts{suffix}"
    votes.write_counts(path)
    back = lg.Comparisons.read_counts(path)
    pd.testing.assert_frame_equal(back.counts, votes.counts)
    assert back.models.tolist() == votes.models.tolist() and back.tasks.tolist() == votes.tasks.tolist()
    for name in ("task", "low", "high", "outcome", "count", "cluster"):
        assert np.array_equal(getattr(back._table, name), getattr(votes._table, name)), name
    if not suffix.startswith(".csv"):  # CSV has no place for the report of drops
        assert_same(back, votes)
    again = tmp_path / f"again{suffix}"
    back.write_counts(again)
    assert again.read_bytes() == path.read_bytes() or suffix.startswith(".csv")
    half = lg.Comparisons.read_counts(path) + lg.Comparisons.read_counts(path)
    assert half.n == 2 * votes.n


def test_graded_outcomes_survive_the_disk_to_the_bit(tmp_path: Path) -> None:
    outcome = np.random.default_rng(0).random(50)
    votes = lg.Comparisons.from_arrays(None, ["a"] * 50, ["b"] * 50, outcome)
    for suffix in (".json", ".jsonl", ".csv", ".parquet"):
        votes.write_counts(tmp_path / f"c{suffix}")
        assert np.array_equal(lg.Comparisons.read_counts(tmp_path / f"c{suffix}")._table.outcome, votes._table.outcome)
