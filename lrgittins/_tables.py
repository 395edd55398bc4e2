"""Frames of any library and the files scores and prices come in, as pandas frames."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from ._intake import RefusingNul, as_path, file_kind, naming, not_utf8
from ._optional import import_optional
from .errors import ComparisonError, ResponseError


def to_pandas(frame: Any, what: str) -> pd.DataFrame:
    """`frame` as pandas: pandas itself, an Arrow stream, `to_pandas()`, a structured array or a dict of columns."""
    if isinstance(frame, pd.DataFrame):
        return frame
    if isinstance(frame, Mapping):
        try:
            return pd.DataFrame(dict(frame))
        except ValueError as error:
            raise ResponseError(f"{what}: the columns cannot be put side by side ({error})") from None
    if isinstance(frame, np.ndarray) and frame.dtype.names:
        return pd.DataFrame({name: frame[name] for name in frame.dtype.names})
    for method in ("to_pandas", "df"):
        if hasattr(frame, method):
            converted = getattr(frame, method)()
            if isinstance(converted, pd.DataFrame):
                return converted
    if hasattr(frame, "__arrow_c_stream__"):
        pyarrow = import_optional("pyarrow", extra="arrow", purpose="reading an Arrow stream")
        converted = pyarrow.table(frame).to_pandas()
        assert isinstance(converted, pd.DataFrame)
        return converted
    hint = (
        "; call .collect() first" if hasattr(frame, "collect") else "; for a plain array use from_array" if hasattr(frame, "shape") else ""
    )
    raise ResponseError(
        f"{what} cannot be read from {type(frame).__name__}{hint}; give a data frame (pandas, polars, Arrow) or a dict of columns"
    )


def read_table(path: str | Path, labels: Iterable[str] = (), *, as_text: bool = False) -> pd.DataFrame:
    """A table from .parquet, .csv(.gz) or .jsonl(.gz). In CSV the `labels` columns are text unless every value is a plain integer.

    With `as_text` every CSV field is the text that is written: "007" and "NA" are names, and an empty field is empty text.
    """
    try:
        file = as_path(path)
        kind = file_kind(file)
    except ComparisonError as error:
        raise ResponseError(str(error)) from error.__cause__
    if kind == ".parquet":
        import_optional("pyarrow", extra="arrow", purpose="reading parquet files")
    try:
        if kind == ".parquet":
            return pd.read_parquet(file)
        if kind.startswith(".csv"):
            return _read_csv(file, kind, labels, as_text=as_text)
        with _open_text(file, kind) as stream:
            return _read_jsonl(stream)
    except ResponseError:
        raise
    except ComparisonError as error:
        raise ResponseError(str(error)) from None
    except UnicodeDecodeError as error:
        raise ResponseError(not_utf8(file, error)) from error
    except pd.errors.ParserError as error:
        raise ResponseError(
            f"{file}: is not valid CSV ({str(error).strip()}); check for unquoted commas, open quotes, or a file that is cut off"
        ) from error
    except (ValueError, OSError, EOFError, zlib.error, UnicodeError) as error:
        raise ResponseError(f"{file}: cannot be read as {kind} ({error})") from error
    except Exception as error:  # pyarrow's own errors share no base with the above
        if type(error).__module__.split(".")[0] == "pyarrow":
            raise ResponseError(f"{file}: cannot be read as {kind} ({error})") from error
        raise


def naming_file(path: str | Path, error: ResponseError) -> ResponseError:
    """The error with the file it is about, unless it says so itself."""
    return ResponseError(str(naming(Path(path), error)))


def _open_text(file: Path, kind: str) -> IO[str]:
    if kind.endswith(".gz"):
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _read_csv(file: Path, kind: str, labels: Iterable[str], *, as_text: bool) -> pd.DataFrame:
    try:
        with _open_text(file, kind) as stream:
            header = next((row for row in csv.reader(stream, strict=True) if row), None)
    except csv.Error as error:
        raise ResponseError(f"{file}: the header line is not valid CSV ({error})") from error
    if header is None:
        raise ResponseError(f"{file}: the file has no header line")
    written, header = header, [name.strip() for name in header]
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise ResponseError(f"{file}: column {twice[0]!r} appears {header.count(twice[0])} times in the header; keep one of that name")
    for mark, said in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(header) == 1 and mark in header[0]:
            raise ResponseError(
                f"{file}: the fields seem to be separated by {said}, not commas; save it with commas, or read it with "
                f"pandas.read_csv(path, sep={mark!r}) and ResponseMatrix.from_frame"
            )
    # Names and ids as text first: "007" and "1.10" are names, and must not come back as 7 and 1.1.
    keep = [column for column in header if column in set(labels)] or header[:1]
    kept = {name: "object" for name, column in zip(written, header, strict=True) if column in keep}
    with _open_text(file, kind) as stream:
        source: Any = RefusingNul(stream, file)
        if as_text:
            frame = pd.read_csv(source, dtype=object, na_filter=False, keep_default_na=False)
        else:
            frame = pd.read_csv(source, dtype=kept, keep_default_na=True)
    if not isinstance(frame.index, pd.RangeIndex) or frame.shape[1] != len(header):
        # pandas would take the first fields for row names, and every column for its neighbour.
        raise ResponseError(f"{file}: the rows have more fields than the header, which has {len(header)}")
    frame.columns = pd.Index([name or given for name, given in zip(header, frame.columns, strict=True)])
    if as_text:
        return frame
    for column in frame.columns[[name in keep for name in header]]:
        frame[column] = _integers_if_plain(frame[column])
    # A first column without a name is the index that pandas wrote: names of rows, never scores.
    return frame.set_index(frame.columns[0]).rename_axis(None) if header[0] == "" and len(header) > 1 else frame


def _read_jsonl(stream: Iterable[str]) -> pd.DataFrame:
    """One object a line, values as JSON has them: "007" stays text."""
    rows = []
    for line, text in enumerate(stream, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {line}: {str(error)[:200]}") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {line} is not an object")
        rows.append(row)
    return pd.DataFrame(rows)


def _integers_if_plain(column: pd.Series) -> pd.Series:
    values = column.tolist()
    if values and all(isinstance(v, str) and v.isascii() and v.isdigit() and (v == "0" or v[0] != "0") and len(v) < 19 for v in values):
        return pd.Series([int(v) for v in values], index=column.index, name=column.name)
    return column


def _is_written_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return isinstance(value, str)


def numbers(column: Any, what: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Float64 values, NaN where missing; text and other things that are no numbers are refused, never parsed."""
    series = column if isinstance(column, pd.Series) else pd.Series(column)
    if pd.api.types.is_numeric_dtype(series.dtype):
        if pd.api.types.is_complex_dtype(series.dtype):
            raise ResponseError(f"{what} must be real numbers, got complex ones")
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    values = series.tolist()
    bad = [(row, v) for row, v in enumerate(values) if not (v is None or v is pd.NA or isinstance(v, (bool, int, float, np.number)))]
    bad = [(row, v) for row, v in bad if not (isinstance(v, float) and np.isnan(v))]
    if bad:
        # One word makes a CSV column text throughout: the word is the fault, not the numbers beside it.
        words = [(row, v) for row, v in bad if not _is_written_number(v)]
        odd = words or bad
        first = ", ".join(f"{v!r} (row {row})" for row, v in odd[:3]) + (", ..." if len(odd) > 3 else "")
        said = "1 value is not" if len(odd) == 1 else f"{len(odd)} values are not"
        raise ResponseError(f"{what} must be numbers; {said}: {first}; {'mend it' if words else 'they are text: convert the column'} first")
    try:
        return np.array([np.nan if v is None or v is pd.NA else float(v) for v in values], dtype=np.float64)
    except OverflowError:
        raise ResponseError(f"{what} holds an integer too large for a score") from None
