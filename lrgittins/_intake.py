"""Where votes come from: frames of any library, and files read in batches."""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from ._labels import as_column, slice_column
from ._optional import import_optional
from .errors import ComparisonError

FRAME_ROWS = 1 << 20
FILE_ROWS = 1 << 16
FIRST_ROWS = 1 << 14  # a first batch is judged the thorough way, which learns the labels: few rows show most of them
_PAGE_BUFFER = 1 << 20  # bytes of a column read at once: a file of one huge row group is streamed too
_DICTIONARY_ROLES = ("task", "model_a", "model_b", "winner")  # few distinct values, many rows; ids and clusters are not like that
SUFFIXES = (".parquet", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz")
_IN_WORKBOOKS = (b"[Content_Types].xml", b"xl/", b"_rels/")  # names of the first members of an .xlsx
_OTHER_FORMATS = {
    (".xlsx", ".xls", ".xlsm", ".ods"): "save a sheet as CSV from the spreadsheet",
    (".json", ".json.gz"): "one JSON object a line belongs in a .jsonl file (a list of objects: pandas.read_json(path), then from_frame)",
    (".tsv", ".tab", ".txt"): 'name it .csv if commas separate (tabs: pandas.read_csv(path, sep="\\t", dtype=str), then from_frame)',
}
_ACCEPTED = "a pandas, polars or Arrow table, anything with __arrow_c_stream__ or to_pandas(), a structured array, or a dict of columns"

Batch = dict[str, Any]


def frame_columns(frame: Any, wanted: Mapping[str, str | None]) -> Batch:
    """The wanted columns (role -> column name) of any kind of frame, by position; the frame is not changed."""
    names = {role: name for role, name in wanted.items() if name is not None}
    if not isinstance(frame, (pd.DataFrame, Mapping)) and not (isinstance(frame, np.ndarray) and frame.dtype.names):
        frame = _materialise(frame)
    if isinstance(frame, Mapping):
        found: list[Any] = list(frame)
    elif isinstance(frame, np.ndarray):
        found = list(frame.dtype.names or ())
    elif isinstance(frame, pd.DataFrame):
        found = list(frame.columns)
    else:
        found = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    check_columns(names, found)
    columns = {}
    for role, name in names.items():
        _refuse_repeated(name, found)
        columns[role] = as_column(frame[name], name)
    same_length(columns, names)
    return columns


def frame_batches(frame: Any, wanted: Mapping[str, str | None]) -> Iterator[Batch]:
    """Batches of any kind of frame; DuckDB relations, record batch readers and Arrow streams never are in memory whole."""
    reader = _open_stream(frame)
    if reader is None:
        return slices(frame_columns(frame, wanted))
    return _read_stream(reader, {role: name for role, name in wanted.items() if name is not None})


def _open_stream(frame: Any) -> Any:
    """A pyarrow RecordBatchReader over `frame`, or None where it is in memory anyway or is no stream."""
    if isinstance(frame, (pd.DataFrame, np.ndarray, Mapping)):  # subclasses of them (geopandas and others) too
        return None
    module = type(frame).__module__.split(".")[0]
    if module in {"duckdb", "_duckdb"}:
        for method in ("to_arrow_reader", "fetch_record_batch"):  # DuckDB's own Arrow stream would hold the whole result first
            if hasattr(frame, method):
                import_optional("pyarrow", extra="arrow", purpose="reading a DuckDB relation")
                duckdb = import_optional("duckdb", extra="scale", purpose="reading a DuckDB relation")
                try:
                    return getattr(frame, method)(FRAME_ROWS)
                except duckdb.Error as error:
                    raise ComparisonError(f"DuckDB could not run the query ({_said(error)}); mend the query or its data") from error
    if module == "polars" or not hasattr(frame, "__arrow_c_stream__"):
        return None
    try:
        pa = import_optional("pyarrow", extra="arrow", purpose="reading an Arrow stream")
    except ImportError:
        if not hasattr(frame, "to_pandas"):
            raise
        return None
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if isinstance(frame, pa.Table) or not hasattr(pa.RecordBatchReader, "from_stream"):
        return None
    try:
        return pa.RecordBatchReader.from_stream(frame)
    except pa.ArrowException as error:
        raise _no_arrow(frame, error) from error


def _no_arrow(frame: Any, error: Exception) -> ComparisonError:
    return ComparisonError(
        f"{type(frame).__name__} cannot be read through Arrow ({_said(error)}); give every column one type (str for names and verdicts), "
        "or pass a pandas DataFrame"
    )


def _said(error: Exception) -> str:
    """The engine's own words, on one line."""
    return " ".join(str(error).split())[:300]


def _read_stream(reader: Any, names: Mapping[str, str]) -> Iterator[Batch]:
    pa = import_optional("pyarrow", extra="arrow", purpose="reading an Arrow stream")
    try:
        found = list(reader.schema.names)
        check_columns(names, found)
        for name in names.values():
            _refuse_repeated(name, found)
        places = {role: found.index(name) for role, name in names.items()}
        for batch in reader:
            for start in range(0, batch.num_rows, FRAME_ROWS):
                part = batch.slice(start, FRAME_ROWS)
                yield {role: part.column(place) for role, place in places.items()}
    except (pa.ArrowException, OSError) as error:  # DuckDB's failures while a query runs come as OSError
        raise ComparisonError(f"the stream of record batches broke off ({_said(error)})") from error


def _refuse_repeated(name: str, found: list[Any]) -> None:
    if found.count(name) > 1:
        raise ComparisonError(f"column {name!r} appears {found.count(name)} times; keep one column of that name")


def _materialise(frame: Any) -> Any:
    """Arrow tables and polars frames as they are; everything else through Arrow or pandas."""
    module = type(frame).__module__.split(".")[0]
    if module == "polars" and hasattr(frame, "get_column"):
        return frame
    if hasattr(frame, "__arrow_c_stream__"):
        try:
            pa = import_optional("pyarrow", extra="arrow", purpose="reading an Arrow stream")
        except ImportError:
            if not hasattr(frame, "to_pandas"):
                raise
        else:
            try:
                return frame if isinstance(frame, pa.Table) else pa.table(frame)
            except pa.ArrowException as error:
                raise _no_arrow(frame, error) from error
    for method in ("to_pandas", "to_df", "df"):
        if hasattr(frame, method):
            converted = getattr(frame, method)()
            if isinstance(converted, pd.DataFrame):
                return converted
    hint = "; call .collect() first" if hasattr(frame, "collect") else ""
    raise ComparisonError(f"cannot read comparisons from {type(frame).__name__}{hint}; give {_ACCEPTED}")


def check_columns(names: Mapping[str, str], found: list[Any]) -> None:
    missing = [f"{name!r}" if name == role else f"{name!r} ({role}=)" for role, name in names.items() if name not in found]
    if missing:
        options = ", ".join(f"{role}=" for role, name in names.items() if name not in found)
        listed = ", ".join(repr(name) for name in found[:30]) or "none at all"
        extra = "; with one task only, pass task=None" if "task" in names and names["task"] not in found else ""
        raise ComparisonError(f"missing columns {', '.join(missing)}; the columns are {listed}; name them with {options}{extra}")


def same_length(columns: Mapping[str, Any], names: Mapping[str, str]) -> None:
    lengths = {names.get(role, role): len(column) for role, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ComparisonError(f"columns differ in length: {', '.join(f'{name!r} {n}' for name, n in lengths.items())}")


def slices(columns: Batch, rows: int = FRAME_ROWS) -> Iterator[Batch]:
    """Columns in memory, cut into batches so that temporaries stay small."""
    n = len(columns["model_a"])
    start, stop = 0, min(rows, FIRST_ROWS)
    while start < n:
        yield {role: slice_column(column, start, stop) for role, column in columns.items()}
        start, stop = stop, stop + rows


def as_path(path: Any) -> Path:
    """A path as it was given; refuses what is none, such as a frame."""
    if isinstance(path, (str, os.PathLike)):
        return Path(path)
    raise ComparisonError(f"read takes the path of a file, got {type(path).__name__}; tables in memory go to from_frame")


def naming(path: Path, error: Exception) -> ComparisonError:
    """The error with the file it is about, unless it says so itself."""
    text = str(error)
    if str(path) in text:
        return ComparisonError(text)
    return ComparisonError(f"{path}: {text}")


def not_utf8(path: Path, error: UnicodeDecodeError) -> str:
    return (
        f"{path}: is not UTF-8 text (byte {error.object[error.start]:#04x}: {error.reason}); save it as UTF-8, or read it with "
        'pandas.read_csv(path, encoding="latin-1") and from_frame'
    )


def file_kind(path: Path) -> str:
    """Which of `SUFFIXES` a path has; refuses others, missing files and files that are not what the suffix says."""
    name = path.name.lower()
    kind = next((suffix for suffix in sorted(SUFFIXES, key=len, reverse=True) if name.endswith(suffix)), None)
    if not path.exists():
        raise ComparisonError(f"{path}: there is no such file")
    if path.is_dir():
        raise ComparisonError(f"{path}: is a folder, not a file")
    if kind is None:
        hint = next((f"; {said}" for suffixes, said in _OTHER_FORMATS.items() if name.endswith(suffixes)), "")
        raise ComparisonError(f"{path}: cannot tell the format from the name; expected one of {', '.join(SUFFIXES)}{hint}")
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise ComparisonError(f"{path}: cannot be read ({error})") from error
    if not head:
        raise ComparisonError(f"{path}: the file is empty (0 bytes)")
    looks = _looks_like(head)
    expected = "parquet" if kind == ".parquet" else "gzip" if kind.endswith(".gz") else "text"
    if looks != expected:
        remedy = "save it as CSV from the spreadsheet" if "Excel" in looks else "rename it, or export it again"
        raise ComparisonError(f"{path}: the name says {kind}, but the content looks like {looks}; {remedy}")
    return kind


def _looks_like(head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"\xd0\xcf\x11\xe0") or (head.startswith(b"PK\x03\x04") and any(part in head for part in _IN_WORKBOOKS)):
        return "an Excel workbook"
    if head.startswith((b"PK\x03\x04", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")):
        return "another kind of archive (zip or Excel workbook, bz2, xz or zstd)"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 text (save it as UTF-8)"
    if b"\x00" in head:
        return "binary data"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<body")):
        return "a web page (HTML or XML)"
    return "text"


def read_batches(path: Path, wanted: Mapping[str, str | None], rows: int = FILE_ROWS) -> Iterator[Batch]:
    """The wanted columns of a file, `rows` at a time; every fault of the file is a `ComparisonError`."""
    kind = file_kind(path)
    names = {role: name for role, name in wanted.items() if name is not None}
    if kind == ".parquet":
        yield from _read_parquet(path, names, 4 * rows)
        return
    reader = _read_csv if ".csv" in kind else _read_jsonl
    try:
        yield from reader(path, names, rows)
    except UnicodeDecodeError as error:
        raise ComparisonError(not_utf8(path, error)) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ComparisonError(f"{path}: the gzip data are damaged or cut off ({error})") from error
    except OSError as error:
        raise ComparisonError(f"{path}: cannot be read ({error})") from error


def _open_text(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _read_csv(path: Path, names: Mapping[str, str], rows: int) -> Iterator[Batch]:
    """CSV as text throughout: no type guessing per chunk, so a model called "NA", "null" or "1" keeps its name."""
    try:
        with _open_text(path) as file:
            header = next((row for row in csv.reader(file, strict=True) if row), None)
    except csv.Error as error:
        raise ComparisonError(f"{path}: the header line is not valid CSV ({error})") from error
    if header is None:
        raise ComparisonError(f"{path}: the file has no header line")
    header = [name.strip() for name in header]
    _check_header(header, path, names)
    places = {role: header.index(name) for role, name in names.items()}
    try:
        with _open_text(path) as file:
            source: Any = RefusingNul(file, path)  # less of a file than pandas-stubs ask for
            for chunk in pd.read_csv(source, dtype=object, chunksize=rows, na_filter=False, keep_default_na=False):
                if not isinstance(chunk.index, pd.RangeIndex) or chunk.shape[1] != len(header):
                    raise ComparisonError(f"{path}: the rows have more fields than the header, which has {len(header)}")
                batch = {role: chunk.iloc[:, place].to_numpy() for role, place in places.items()}
                yield batch
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ComparisonError(
            f"{path}: is not valid CSV ({str(error).strip()}); check for unquoted commas, open quotes, or a file that is cut off"
        ) from error


def _check_header(header: list[str], path: Path, names: Mapping[str, str]) -> None:
    for name in names.values():
        if header.count(name) > 1:
            raise ComparisonError(f"{path}: column {name!r} appears {header.count(name)} times in the header")
    missing = [name for name in names.values() if name not in header]
    if not missing:
        return
    for mark, said in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        fields = [field.strip(' "') for field in mark.join(header).split(mark)]
        if any(mark in field for field in header) and len(fields) > len(header):
            raise ComparisonError(
                f"{path}: the fields seem to be separated by {said}, not commas (columns {', '.join(map(repr, fields[:30]))}); "
                f"read it with pandas.read_csv(path, sep={mark!r}, dtype=str) and Comparisons.from_frame, or save it with commas"
            )
    if header[0].startswith(("{", "[")):
        raise ComparisonError(f"{path}: the content looks like JSON, not CSV; for one JSON object a line, name it .jsonl")
    try:
        check_columns(names, header)
    except ComparisonError as error:
        first = "; the first line must be the header" if path.suffix != ".parquet" and 2 * len(missing) > len(names) else ""
        raise ComparisonError(f"{path}: {error}{first}") from None


class RefusingNul:
    """Text read for pandas; a NUL character is an error, as pandas before 3 ends a field there and takes the rest for nothing."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file = file
        self._path = path

    def read(self, size: int = -1) -> str:
        text = self._file.read(size)
        at = text.find("\x00")
        if at >= 0:
            line = text[text.rfind("\n", 0, at) + 1 :][:40]
            raise ComparisonError(f"{self._path}: holds NUL characters (in {line!r}): it is damaged, or not UTF-8 text")
        return text

    def __iter__(self) -> Iterator[str]:  # what makes it a file for pandas
        return iter(self._file)


def _read_jsonl(path: Path, names: Mapping[str, str], rows: int) -> Iterator[Batch]:
    """One JSON object a line; types are those of JSON."""
    columns: dict[str, list[Any]] = {role: [] for role in names}
    fields = [(columns[role], name) for role, name in names.items()]
    seen: set[str] = set()
    n_read = 0
    with _open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if line.isspace():
                continue
            entry = _parse_line(line, number, path)
            if not seen.issuperset(entry):
                seen.update(entry)
            for values, name in fields:
                values.append(entry.get(name))
            n_read += 1
            if n_read % rows == 0:
                _check_keys(names, seen, path)
                yield _json_batch(columns)
    if n_read == 0:
        raise ComparisonError(f"{path}: there are no comparisons: the file has zero rows")
    _check_keys(names, seen, path)
    yield _json_batch(columns)


def _parse_line(line: str, number: int, path: Path) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        hint = "the file may be cut off" if number > 1 else "a .jsonl file holds one JSON object a line"
        raise ComparisonError(f"{path}: line {number} is not valid JSON ({str(error)[:200]}); {hint}") from error
    if not isinstance(entry, dict):
        raise ComparisonError(
            f"{path}: line {number} holds a JSON {type(entry).__name__}, not an object; a .jsonl file has one object a line, such as "
            '{"task": "math", "model_a": "x", "model_b": "y", "winner": "model_a"}'
        )
    return entry


def _check_keys(names: Mapping[str, str], seen: set[str], path: Path) -> None:
    try:
        check_columns(names, sorted(seen))
    except ComparisonError as error:
        raise ComparisonError(f"{path}: {error}") from None


def _json_batch(columns: dict[str, list[Any]]) -> Batch:
    """Arrays of what has been collected; the lists start anew."""
    batch = {role: pd.Series(values, dtype=object).to_numpy() for role, values in columns.items()}
    for values in columns.values():
        values.clear()
    return batch


def _read_parquet(path: Path, names: Mapping[str, str], rows: int) -> Iterator[Batch]:
    """Row group by row group, so that labels stay the codes they are in the file and memory is that of one batch."""
    pa = import_optional("pyarrow", extra="arrow", purpose=f"reading {path.name}")
    parquet = import_optional("pyarrow.parquet", extra="arrow", purpose=f"reading {path.name}")
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            _check_header(list(schema.names), path, names)
        coded = [
            name
            for role, name in names.items()
            if role in _DICTIONARY_ROLES
            and (pa.types.is_string(schema.field(name).type) or pa.types.is_large_string(schema.field(name).type))
        ]
        wanted = list(dict.fromkeys(names.values()))
        with parquet.ParquetFile(
            path, page_checksum_verification=True, read_dictionary=coded, buffer_size=_PAGE_BUFFER, pre_buffer=False
        ) as file:
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=wanted):
                    yield {role: batch.column(name) for role, name in names.items()}
    except (pa.ArrowException, OSError) as error:
        raise ComparisonError(f"{path}: is not a readable Parquet file, or is cut off ({str(error)[:300]})") from error
