"""Reading what the adapters are given (paths, frames, lists of dicts), and votes dropped by an adapter counted like all others."""

from __future__ import annotations

import ast
import dataclasses
import gzip
import inspect
import json
import os
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._intake import frame_batches
from .._tables import read_table, to_pandas
from ..comparisons import Comparisons, Options, _names
from ..errors import ComparisonError, LRGittinsError, ResponseError

# What numbers that are not there look like in CSV files; names are never read so.
_NO_NUMBER = {"", "na", "n/a", "nan", "null", "none", "<na>", "#n/a"}
_COLUMNS = ("task", "model_a", "model_b", "winner", "count", "id", "cluster")


def is_text_file(source: Any) -> bool:
    """Whether the source is a file that knows no types."""
    return isinstance(source, (str, os.PathLike)) and Path(source).name.lower().endswith((".csv", ".csv.gz"))


def read_source(source: Any, error: type[LRGittinsError], what: str, *, numeric: Sequence[str | None] = ()) -> pd.DataFrame:
    """A table from a path (.json with a list of objects, .jsonl, .csv, .parquet), a frame of any library or a list of dicts.

    Every fault is an `error`; the frame given is never changed, and its index plays no part. Of a CSV file all columns but the `numeric`
    ones are the text that is written ("007" and "NA" are names), as `Comparisons.read` takes it; an empty field is missing.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if path.name.lower().endswith((".json", ".json.gz")):
            frame = pd.DataFrame(_read_json(path, error), dtype=object)
        else:
            try:
                frame = read_table(path, as_text=True)
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
    if is_text_file(source):
        frame = frame.mask(frame == "", None)
        frame = frame.assign(**{name: written_numbers(frame[name]) for name in numeric if name is not None and name in frame.columns})
    return frame.reset_index(drop=True)


def written_numbers(column: pd.Series) -> pd.Series:
    """A column of a text file as numbers, or as flags, where it holds nothing else; else as it is."""
    words = ["" if is_missing(value) else str(value).strip().casefold() for value in column]
    there = [word for word in words if word not in _NO_NUMBER]
    if there and len(there) == len(words) and set(there) <= {"true", "false"}:
        return pd.Series([word == "true" for word in words], index=column.index, name=column.name)
    try:
        found = pd.to_numeric(pd.Series([None if word in _NO_NUMBER else word for word in words], index=column.index, name=column.name))
    except (ValueError, TypeError):
        return column
    return found if there else found.astype(np.float64)


def make_votes(table: Any, *, from_text: bool, **arguments: Any) -> Comparisons:
    """`Comparisons.from_frame`; verdicts and counts of a text file are read as `Comparisons.read` reads them."""
    if not from_text:
        return Comparisons.from_frame(table, **arguments)
    bound = inspect.signature(Comparisons.from_frame).bind(table, **arguments)
    bound.apply_defaults()
    given = dict(bound.arguments)
    del given["df"]
    names = _names(*(given.pop(role) for role in _COLUMNS))
    return Comparisons._count_text(lambda: frame_batches(table, names), names, Options.checked(**given))


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
        return value.strip().casefold() in {"true", "1", "1.0", "yes"}
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
