"""Files of every kind give the counts of the same rows in memory; what is not what it says is one clear error."""

from __future__ import annotations

import gzip
import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lrgittins import ComparisonError, Comparisons, MissingExtraError, _intake

ROWS = [
    ("math", "NA", "null", "model_a"),
    ("math", "1", "NA", "tie"),
    ("code", "nan", "1", "nan"),
    ("code", 'a "b", c', "line\nbreak", "model_b"),
    ("NA", "None", "<b>x</b>", "both_bad"),
    ("code", " spaced ", "ünï", "left"),
]
NAMES = ["task", "model_a", "model_b", "winner"]
FRAME = pd.DataFrame(ROWS, columns=NAMES, dtype=object)
SUFFIXES = [".parquet", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz"]


def write(path: Path, frame: pd.DataFrame) -> Path:
    name = path.name
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    elif ".csv" in name:
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True, force_ascii=False)
    return path


def read_text(tmp_path: Path, text: str | bytes, name: str = "votes.csv", **options: object) -> Comparisons:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return Comparisons.read(path, **options)  # type: ignore[arg-type]


HEADER = "task,model_a,model_b,winner\n"


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("batch", [1, 2, 100])
def test_files_agree_with_frames(tmp_path: Path, suffix: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_intake.read_batches, "__defaults__", (batch,))
    expected = Comparisons.from_frame(FRAME)
    found = Comparisons.read(write(tmp_path / f"votes{suffix}", FRAME))
    assert found.counts.equals(expected.counts)
    assert list(found.models) == list(expected.models) and "NA" in found.models and "1" in found.models
    assert found.n_rows == 6


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("name", "values"), [("real", [0.0, 1.0, 0.5, 0.25, 1.0, 0.0]), ("int", [0, 1, 1, 1, 0, 0]), ("bool", [True, False] * 3)]
)
def test_typed_winners_agree_with_frames(tmp_path: Path, suffix: str, name: str, values: list[float]) -> None:
    frame = FRAME.assign(winner=values, n=[1, 2, 3, 4, 5, 0])
    frame.loc[[1, 2], ["model_a", "model_b"]] = [["x", "NA"], ["nan", "y"]]  # no model named 1 beside a winner of 1
    expected = Comparisons.from_frame(frame, count="n")
    assert Comparisons.read(write(tmp_path / f"votes{suffix}", frame), count="n").counts.equals(expected.counts)


def test_numbers_as_text_are_read_only_where_the_column_is_numbers_throughout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ComparisonError, match=r"unknown label - '1' \(1 row\)"):
        read_text(tmp_path, HEADER + "t,A,B,1\nt,A,B,tie\n")
    with pytest.raises(ComparisonError, match="both a keyword and a model"):
        read_text(tmp_path, HEADER + "t,1,0,1\n")
    assert read_text(tmp_path, HEADER + "t,4,7,4\n").counts["wins"].tolist() == [1]


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_how_a_text_file_is_cut_never_changes_what_it_says(tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers first, words later: a winner column is numbers only if all of it is, whichever rows come in one batch."""
    monkeypatch.setattr(_intake.read_batches, "__defaults__", (batch,))
    votes = read_text(tmp_path, HEADER + "1,17,3,17\n1,3,17,17\nt,gpt,17,gpt\nt,3,gpt,3\nt,3,gpt,tie\n")
    assert list(votes.models) == ["17", "3", "gpt"] and list(votes.tasks) == ["1", "t"]
    assert votes.counts[["model_a", "model_b", "wins", "losses", "ties"]].to_numpy().tolist() == [
        ["17", "3", 2, 0, 0], ["17", "gpt", 0, 1, 0], ["3", "gpt", 1, 0, 1]]  # fmt: skip
    with pytest.raises(ComparisonError, match=r"votes\.csv: column 'winner': 1 row has an unknown label - '1' \(1 row\)"):
        read_text(tmp_path, HEADER + "t,A,B,1\nt,A,B,tie\n")
    dropped = read_text(tmp_path, HEADER + "t,A,B,1\nt,A,B,0.5\nt,A,B,tie\n", on_invalid="drop")
    assert (dropped.n, dropped.n_dropped) == (1, 2) and dropped.counts["ties"].tolist() == [1]
    assert read_text(tmp_path, HEADER + "t,A,B,1\nt,A,B,\nt,A,B,0.5\n", on_invalid="drop").counts["wins"].tolist() == [1]


def test_missing_fields_are_missing_names(tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match="column 'model_b': 1 row has no model name.* 1;"):
        read_text(tmp_path, HEADER + "t,A,B,tie\nt,A,,tie\n")
    assert read_text(tmp_path, HEADER + "t,A,B,tie\nt,A,,tie\nt,A,B\n", on_invalid="drop").n_dropped == 2
    lines = [{"task": "t", "model_a": "A", "model_b": "B", "winner": "tie"}, {"task": "t", "model_a": "A", "winner": "tie"}]
    with pytest.raises(ComparisonError, match="column 'model_b': 1 row"):
        read_text(tmp_path, "\n".join(map(json.dumps, lines)), "votes.jsonl")


def test_byte_order_marks_blank_lines_and_foreign_line_ends_are_accepted(tmp_path: Path) -> None:
    assert read_text(tmp_path, b"\xef\xbb\xbf" + HEADER.encode() + b"t,A,B,tie\n\n").n == 1
    assert read_text(tmp_path, HEADER.replace("\n", "\r\n") + "t,A,B,tie\r\n").n == 1
    assert read_text(tmp_path, HEADER.replace("\n", "\r") + "t,A,B,tie\r").n == 1
    line = '{"task": "t", "model_a": "A", "model_b": "B", "winner": "tie"}'
    assert read_text(tmp_path, b"\xef\xbb\xbf" + f"\n{line}\r\n\n".encode(), "votes.jsonl").n == 1


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("v.csv", b"", "empty"),
        ("v.csv", HEADER.encode(), "zero rows"),
        ("v.csv", b"\n\n", "no header"),
        ("v.csv", b"task;model_a;model_b;winner\nt;A;B;tie\n", r"separated by semicolons.*'task', 'model_a'.*sep=';'"),
        ("v.csv", b"task\tmodel_a\tmodel_b\twinner\nt\tA\tB\ttie\n", "separated by tabs"),
        ("v.csv", b"<!DOCTYPE html><html></html>", "web page"),
        ("v.csv", gzip.compress(HEADER.encode()), "looks like gzip"),
        ("v.csv", b"PAR1" + bytes(50), "looks like parquet"),
        ("v.csv", "task,model_a".encode("utf-16"), "UTF-16"),
        ("v.csv", b"PK\x03\x04aaaa", "archive"),
        ("v.csv", HEADER.encode() + "t,\xe9,B,tie\n".encode("latin-1"), "not UTF-8 text.*0xe9"),
        ("v.csv", HEADER.encode() + b"t,A,B,tie,x\nt,A,B,tie,y\n", "more fields than the header"),
        ("v.csv", HEADER.encode() + b"t,A,B,tie\nt,A,B,tie,y\n", "not valid CSV"),
        ("v.csv", HEADER.encode() + b't,"A,B,tie\n', "not valid CSV"),
        ("v.csv", b"task,model_a,model_b,winner,winner\nt,A,B,tie,tie\n", "'winner' appears 2 times"),
        ("v.csv", b'{"task": "t", "model_a": "A", "model_b": "B", "winner": "tie"}\n', "looks like JSON"),
        ("v.csv", b"prompt,left,right,vote\nt,A,B,tie\n", "missing columns 'task', .*'prompt', 'left', 'right', 'vote'"),
        ("v.csv", HEADER.encode() + b" " * 600 + b"\nt,A\x00,B,tie\n", "NUL"),
        ("v.csv.gz", HEADER.encode(), "looks like text"),
        ("v.csv.gz", gzip.compress(HEADER.encode() + b"t,A,B,tie\n" * 999, mtime=0)[:-9], "damaged or cut off"),
        ("v.csv.gz", gzip.compress(HEADER.encode() + b"t,A,B,tie\n" * 999, mtime=0)[:30] + bytes(30), "damaged or cut off"),
        ("v.jsonl", b'[{"task": "t"}]\n', "holds a JSON list"),
        ("v.jsonl", b'{"task": "t", "model_a": "A"\n', "line 1 is not valid JSON"),
        ("v.jsonl", b'{"task": "t", "model_a": "A"}\n', "missing columns 'model_b', 'winner'; the columns are 'model_a', 'task'"),
        ("v.jsonl", b"\n \n", "zero rows"),
        ("v.jsonl", b"[" * 100_000, "not valid JSON"),
        ("v.parquet", HEADER.encode(), "looks like text"),
        ("v.parquet", b"PAR1" + b"x" * 100, "not a readable Parquet file"),
        ("v.tsv", HEADER.encode(), "cannot tell the format"),
    ],
)
def test_what_a_file_is_not(tmp_path: Path, name: str, content: bytes, match: str) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    with pytest.raises(ComparisonError, match=match) as caught:
        read_text(tmp_path, content, name)
    assert name in str(caught.value) or "zero rows" in match


def test_missing_files_folders_and_truncated_parquet(tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match=r"none\.csv: there is no such file"):
        Comparisons.read(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ComparisonError, match="is a folder"):
        Comparisons.read(tmp_path / "folder.csv")
    path = write(tmp_path / "v.parquet", FRAME)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ComparisonError, match="not a readable Parquet file, or is cut off"):
        Comparisons.read(path)


def test_parquet_names_its_columns_and_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "v.parquet", FRAME.rename(columns={"winner": "vote"}))
    with pytest.raises(ComparisonError, match="missing columns 'winner'; the columns are 'task', 'model_a', 'model_b', 'vote'"):
        Comparisons.read(path)
    assert Comparisons.read(path, winner="vote").n == 6
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r'pip install "lrgittins\[arrow\]"'):
        Comparisons.read(path, winner="vote")


def test_text_files_and_polars_need_no_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({name: FRAME[name].tolist() for name in NAMES})
    expected = Comparisons.from_frame(FRAME).counts
    path = write(tmp_path / "v.csv.gz", FRAME)
    monkeypatch.setattr(_intake, "import_optional", _no_pyarrow)
    monkeypatch.setattr("lrgittins._labels.import_optional", _no_pyarrow)
    assert Comparisons.read(path).counts.equals(expected)
    assert Comparisons.from_frame(frame).counts.equals(expected)


def _no_pyarrow(module: str, *, extra: str, purpose: str) -> None:
    raise MissingExtraError(f"{purpose} needs {module} ({extra})")


def test_other_frames_come_through_to_pandas_or_a_stream() -> None:
    expected = Comparisons.from_frame(FRAME).counts

    class WithToPandas:
        def to_pandas(self) -> pd.DataFrame:
            return FRAME

    assert Comparisons.from_frame(WithToPandas()).counts.equals(expected)
    pa = pytest.importorskip("pyarrow")

    class WithStream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.Table.from_pandas(FRAME).__arrow_c_stream__(requested_schema)

    assert Comparisons.from_frame(WithStream()).counts.equals(expected)
    pl = pytest.importorskip("polars")
    with pytest.raises(ComparisonError, match="collect"):
        Comparisons.from_frame(pl.DataFrame({"task": ["t"]}).lazy())


def test_subclasses_of_data_frames_are_data_frames() -> None:
    class GeoFrame(pd.DataFrame):
        pass

    frame = GeoFrame({"model_a": ["A"] * 3, "model_b": ["B"] * 3, "winner": ["model_a", 0.25, True], "shape": [1, "x", b"y"]})
    assert Comparisons.from_frame(frame, task=None).counts[["wins", "graded"]].to_numpy().tolist() == [[2, 1]]


def test_what_arrow_cannot_hold_is_told_with_its_column() -> None:
    pa = pytest.importorskip("pyarrow")

    class Mixed:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.Table.from_pandas(pd.DataFrame({"winner": ["model_a", 0.25]})).__arrow_c_stream__(requested_schema)

    with pytest.raises(ComparisonError, match="Mixed cannot be read through Arrow .*winner.*give every column one type"):
        Comparisons.from_frame(Mixed(), task=None)


def test_faults_are_counted_over_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_intake.read_batches, "__defaults__", (10,))
    text = HEADER + "".join(f"t,A,B,{'who' if k % 7 == 0 else 'tie'}\n" for k in range(70))
    with pytest.raises(
        ComparisonError, match=r"10 rows have an unknown label - 'who' \(10 rows\); first at \(rows from 0\) 0 .* 28 .*\.\.\."
    ):
        read_text(tmp_path, text)


@pytest.mark.parametrize(
    "name", ["llmfao_crowd_pairs.csv", "football_pairs.parquet", "football_men_pairs.parquet", "alpaca_eval2_pairs.parquet"]
)
def test_real_files(shared: Path, name: str) -> None:
    path = shared / "data" / name
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    comparisons = Comparisons.read(path)
    frame = pd.read_csv(path) if name.endswith(".csv") else pd.read_parquet(path)
    assert comparisons.n == len(frame) and comparisons.n_dropped == 0
    assert comparisons.summary()["ties"].sum() == (frame["winner"] == "tie").sum()
    a_won = (frame["winner"] == "model_a") == (frame["model_a"] < frame["model_b"])
    decisive = frame["winner"] != "tie"
    assert comparisons.counts["wins"].sum() == (a_won & decisive).sum()
    if name == "football_pairs.parquet":
        pieces = comparisons.summary()["n_pieces"]
        assert pieces["continental_qualification"] == 7 and pieces["world_cup_qualification"] == 1


def test_memory_follows_the_groups_not_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_intake.read_batches, "__defaults__", (4096,))
    rng = np.random.default_rng(0)
    peaks = []
    for n in (100_000, 500_000):
        frame = pd.DataFrame({"model_a": rng.choice(["aa", "bb"], n), "model_b": "cc", "winner": rng.choice(["model_a", "tie"], n)})
        path = write(tmp_path / f"{n}.csv", frame)
        Comparisons.read(path, task=None)  # imports and caches
        tracemalloc.start()
        Comparisons.read(path, task=None)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]  # five times the rows; the slack is garbage not collected yet
