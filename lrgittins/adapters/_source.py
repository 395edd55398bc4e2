"""Reading what the adapters are given (paths, frames, lists of dicts), and votes dropped by an adapter counted like all others."""

from __future__ import annotations

import ast
import dataclasses
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._tables import read_table, to_pandas
from ..comparisons import Comparisons
from ..errors import ComparisonError, LRGittinsError, ResponseError


def read_source(source: Any, error: type[LRGittinsError], what: str) -> pd.DataFrame:
    """A table from a path (.json with a list of objects, .jsonl, .csv, .parquet), a frame of any library or a list of dicts.

    Every fault is an `error`; the frame given is never changed, and its index plays no part.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if path.name.lower().endswith((".json", ".json.gz")):
            frame = pd.DataFrame(_read_json(path, error), dtype=object)
        else:
            try:
                frame = read_table(path)
            except ResponseError as problem:
                raise error(str(problem)) from problem
    elif isinstance(source, Sequence) and not isinstance(source, (str, bytes)):
        frame = pd.DataFrame(_objects(list(source), what, error), dtype=object)
    else:
        try:
            frame = to_pandas(source, what)
        except ResponseError as problem:
            raise error(str(problem)) from problem
    if len(frame) == 0:
        raise error(f"{what}: there are no rows")
    return frame.reset_index(drop=True)


def _read_json(path: Path, error: type[LRGittinsError]) -> list[Any]:
    if not path.is_file():
        raise error(f"{path}: there is no such file")
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig") as stream:
            data = json.load(stream)
    except (ValueError, OSError, EOFError, zlib.error, RecursionError) as problem:
        raise error(f"{path}: cannot be read as JSON ({str(problem)[:200]}); one object a line belongs in a .jsonl file") from problem
    if isinstance(data, dict) and len(data) == 1 and isinstance(next(iter(data.values())), list):
        data = next(iter(data.values()))
    if not isinstance(data, list):
        raise error(f"{path}: holds a JSON {type(data).__name__}; a list of objects, one a row, is needed")
    return _objects(data, str(path), error)


def _objects(rows: list[Any], what: str, error: type[LRGittinsError]) -> list[Any]:
    bad = next((i for i, row in enumerate(rows) if not isinstance(row, Mapping)), None)
    if bad is not None:
        raise error(f"{what}: row {bad} is a {type(rows[bad]).__name__}, not an object with named fields")
    return rows


def need_columns(frame: pd.DataFrame, names: Sequence[str], what: str, error: type[LRGittinsError]) -> None:
    """Refuse a table that lacks one of the columns, with those it has."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        listed = ", ".join(repr(name) for name in list(frame.columns)[:30]) or "none at all"
        raise error(f"{what} need the columns {', '.join(map(repr, missing))}; the columns here are {listed}")


def nested(value: Any) -> Any:
    """A nested field as Python has it: dicts and lists themselves, their text in CSV files (JSON or Python), None where there is none."""
    if isinstance(value, (Mapping, list, tuple)):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, str) and value.strip()[:1] in ("{", "["):
        for parse in (json.loads, ast.literal_eval):
            try:
                return parse(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
    return None


def is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def is_true(value: Any) -> bool:
    """Whether a flag is set, as booleans, 0 / 1 or the words of a text file."""
    if isinstance(value, str):
        return value.strip().casefold() in {"true", "1", "yes"}
    return not is_missing(value) and bool(value)


def count_drops(votes: Comparisons, drops: Counter[str]) -> Comparisons:
    """The same votes, with rows that an adapter left out in `n_rows`, `n_dropped` and `summary()`."""
    if not drops:
        return votes
    tally = Counter(votes._log.tally)
    tally.update({(reason, None): rows for reason, rows in drops.items()})
    log = dataclasses.replace(votes._log, tally=tally, n_rows=votes._log.n_rows + sum(drops.values()))
    return Comparisons(log, ties=votes.ties, both_bad=votes.both_bad, warn=False)


def refuse_empty(kept: int, n_rows: int, drops: Counter[str]) -> None:
    """Nothing is left after the filters: say which filter took what."""
    if kept == 0:
        listed = ", ".join(f"{reason}: {rows}" for reason, rows in drops.items())
        raise ComparisonError(f"no votes are left of {n_rows} rows ({listed}); loosen that filter")
