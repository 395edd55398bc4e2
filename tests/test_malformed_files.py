"""Fifty damaged vote files: each is read for what it plainly says, or refused with one `LRGittinsError`."""

from __future__ import annotations

import gzip
import io
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lrgittins import Comparisons, LRGittinsError

N_FILES = 50
SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet")
DAMAGE = (
    "truncate",
    "encoding",
    "bom",
    "semicolons",
    "mixed types",
    "odd names",
    "flip bytes",
    "wrong suffix",
    "missing column",
    "drop fields",
)


def make_frame(rng: np.random.Generator, damage: str) -> pd.DataFrame:
    n = int(rng.integers(20, 60))
    names = ["gpt", "llama", "qwen", "gemma"]
    if damage == "odd names":
        names = ["<b>gpt</b>", "ll\nama", 'q"wen, x', "<script>alert(1)</script>"]
    if damage == "encoding":
        names = ["gpté", "llamaü", "qwen", "gemma"]
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    frame = pd.DataFrame(
        {
            "task": rng.choice(["math", "code"], n),
            "model_a": [names[k] for k in a],
            "model_b": [names[k] for k in b],
            "winner": rng.choice(["model_a", "model_b", "tie"], n),
        },
        dtype=object,
    )
    if damage == "mixed types":
        column = str(rng.choice(["model_a", "winner", "task"]))
        odd = [7, "0", None, True, 2.5][int(rng.integers(5))]
        frame.loc[int(rng.integers(n)), column] = odd
    if damage == "missing column":
        frame = frame.drop(columns=str(rng.choice(list(frame.columns))))
    return frame


def to_bytes(frame: pd.DataFrame, suffix: str, damage: str, rng: np.random.Generator) -> bytes:
    encoding = "latin-1" if damage == "encoding" else "utf-8"
    if suffix == ".parquet":
        sink = io.BytesIO()
        (frame.astype(str) if damage == "mixed types" else frame).to_parquet(sink)
        return sink.getvalue()
    if ".csv" in suffix:
        text = frame.to_csv(index=False, sep=";" if damage == "semicolons" else ",")
    else:
        text = frame.to_json(orient="records", lines=True, force_ascii=False)
    if damage == "drop fields":
        lines = text.split("\n")
        place = int(rng.integers(1, len(frame)))
        lines[place] = lines[place].rpartition(",")[0]
        text = "\n".join(lines)
    data = text.encode(encoding)
    if damage == "bom":
        data = b"\xef\xbb\xbf" + data
    return gzip.compress(data, mtime=0) if suffix.endswith(".gz") else data


def damage_bytes(data: bytes, rng: np.random.Generator, damage: str) -> bytes:
    if damage == "truncate":
        return data[: int(rng.integers(0, len(data)))]
    if damage == "flip bytes":
        raw = bytearray(data)
        for place in rng.integers(0, len(raw), 8).tolist():
            raw[place] ^= int(rng.integers(1, 256))
        return bytes(raw)
    return data


def must_answer(suffix: str, damage: str) -> bool:
    unharmed = (damage == "encoding" and suffix == ".parquet") or (damage == "semicolons" and ".csv" not in suffix)
    return damage in {"bom", "odd names"} or unharmed


def must_refuse(suffix: str, damage: str) -> bool:
    if damage in {"semicolons", "encoding"}:
        return not must_answer(suffix, damage)
    if damage == "drop fields":
        return suffix != ".parquet"  # a row without a verdict, or half a JSON object
    return damage in {"wrong suffix", "missing column"} or (damage == "truncate" and suffix in {".csv.gz", ".jsonl.gz", ".parquet"})


@pytest.mark.parametrize("number", range(N_FILES))
def test_damaged_file(tmp_path: Path, number: int) -> None:
    rng = np.random.default_rng([2025, number])
    suffix, damage = SUFFIXES[number // len(DAMAGE)], DAMAGE[number % len(DAMAGE)]  # every kind of damage to every kind of file
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    frame = make_frame(rng, damage)
    data = damage_bytes(to_bytes(frame, suffix, damage, rng), rng, damage)
    claimed = SUFFIXES[(number // len(DAMAGE) + 1) % len(SUFFIXES)] if damage == "wrong suffix" else suffix
    path = tmp_path / f"votes{claimed}"
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="names that differ only", category=UserWarning)
        try:
            comparisons = Comparisons.read(path)
        except LRGittinsError as error:
            assert not must_answer(suffix, damage), error
            assert len(str(error)) > 20 and "Traceback" not in str(error)
            return
    assert not must_refuse(suffix, damage)
    # An answer must be that of the rows that are there, never more and never other models unless bytes were changed.
    assert 1 <= comparisons.n <= len(frame)
    if must_answer(suffix, damage):
        assert comparisons.counts.equals(Comparisons.from_frame(frame).counts)
    if damage == "truncate":
        assert set(comparisons.models) <= {*frame["model_a"], *frame["model_b"]}
