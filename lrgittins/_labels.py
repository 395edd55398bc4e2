"""Columns of any backend, and labels coded jointly by value.

Every column becomes a 1-d numpy array, a pandas Series or an Arrow array once (`as_column`). Labels are then coded by their value
against one growing index, so that two columns, two chunks or two files share their codes, a categorical's own codes mean nothing,
and a missing name is a mask, never a code that reaches a kernel.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._optional import import_optional
from ._outcomes import FloatArray, IntArray
from .errors import ComparisonError

MISSING = -1
LONG = 50_000  # rows from which loading one more kernel pays


def is_arrow(values: Any) -> bool:
    return type(values).__module__.split(".")[0] == "pyarrow"


def as_column(values: Any, name: str) -> Any:
    """A 1-d numpy array in native byte order, a pandas Series, or a pyarrow array; never the caller's object changed."""
    if isinstance(values, (str, bytes)) or values is None or np.isscalar(values):
        raise ComparisonError(f"column {name!r} must be a sequence with one entry per comparison, got {values!r}")
    if isinstance(values, pd.DataFrame):
        raise ComparisonError(f"column {name!r} appears {values.shape[1]} times; keep one column of that name")
    if isinstance(values, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)):
        series = values if isinstance(values, pd.Series) else pd.Series(values)
        if isinstance(series.dtype, np.dtype):
            return _native(series.to_numpy(), name)
        array: Any = series.array
        return array.__arrow_array__() if _is_arrow_text(series.dtype) else series
    if is_arrow(values):
        return values
    if type(values).__module__.split(".")[0] == "polars":
        return _from_polars(values)
    if isinstance(values, np.ma.MaskedArray):
        plain = values.data.astype(object)
        plain[np.ma.getmaskarray(values)] = None
        return _native(plain, name)
    if isinstance(values, np.ndarray):
        return _native(values, name)
    if isinstance(values, Iterable):
        # Through an object array, so that numpy cannot turn [4, "4"] into two equal strings.
        return pd.Series(list(values), dtype=object).to_numpy()
    raise ComparisonError(f"column {name!r} must be a sequence with one entry per comparison, got {type(values).__name__}")


def _is_arrow_text(dtype: Any) -> bool:
    """Text that pandas holds as Arrow does, its default since pandas 3: taken as it is, it is coded in one pass, without a copy."""
    if isinstance(dtype, pd.StringDtype):
        return str(dtype.storage).startswith("pyarrow")
    return isinstance(dtype, pd.ArrowDtype) and str(dtype.pyarrow_dtype) in {"string", "large_string"}


def _from_polars(values: Any) -> Any:
    try:
        import_optional("pyarrow", extra="arrow", purpose="reading polars columns at full speed")
    except ImportError:
        return pd.Series(values.to_list(), dtype=object).to_numpy()
    return values.to_arrow()


def _native(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.ndim != 1:
        raise ComparisonError(f"column {name!r} must be one-dimensional, got shape {array.shape}")
    if array.dtype.kind == "T":
        return array.astype(object)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array)


def slice_column(column: Any, start: int, stop: int) -> Any:
    """Rows [start, stop) of what `as_column` returned, by position."""
    if isinstance(column, pd.Series):
        return column.iloc[start:stop]
    if is_arrow(column):
        return column.slice(start, stop - start)
    return column[start:stop]


def factorize(column: Any, name: str) -> tuple[IntArray, list[Any]]:
    """Codes by value (-1 missing) and the distinct values, for what `as_column` returned."""
    if is_arrow(column):
        return _factorize_arrow(column, name)
    if isinstance(column, pd.Series) and isinstance(column.dtype, pd.CategoricalDtype):
        codes = np.asarray(column.cat.codes).astype(np.int64)
        values = column.cat.categories.tolist()
        if len(codes) and (codes.min() < -1 or codes.max() >= len(values)):
            raise ComparisonError(f"column {name!r} is a categorical whose codes do not fit its {len(values)} categories; rebuild it")
        return codes, values
    if isinstance(column, np.ndarray) and column.dtype.kind in "US":
        column = column.astype(object)
    try:
        shared = _shared_objects(column)
        if shared is None:
            codes, uniques = pd.factorize(column)
        else:
            code_of_object, uniques = pd.factorize(shared[1])
            codes = code_of_object[shared[0]]
    except TypeError as error:
        raise ComparisonError(f"column {name!r} holds values that cannot be compared or hashed ({error})") from error
    return codes.astype(np.int64, copy=False), list(uniques.tolist())


def _shared_objects(column: Any) -> tuple[IntArray, Any] | None:
    """Codes by identity and the distinct objects as a column, for a long column of few Python objects; else None."""
    objects = column
    if isinstance(column, pd.Series) and isinstance(column.dtype, pd.StringDtype) and column.dtype.storage == "python":
        objects = np.asarray(column.array, dtype=object)
    if len(column) < LONG or not isinstance(objects, np.ndarray) or objects.dtype.kind != "O":
        return None
    from ._shared_objects import code_objects

    found = code_objects(objects)
    return None if found is None else (found[0], column.iloc[found[1]] if isinstance(column, pd.Series) else column[found[1]])


def _factorize_arrow(column: Any, name: str) -> tuple[IntArray, list[Any]]:
    pa = import_optional("pyarrow", extra="arrow", purpose="reading Arrow columns")
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if "view" in str(chunked.type):
        chunked = chunked.cast(pa.large_string())
    try:
        if pa.types.is_dictionary(chunked.type) and any(chunk.dictionary.null_count for chunk in chunked.chunks):
            chunked = chunked.cast(chunked.type.value_type)  # pyarrow cannot unify dictionaries that hold nulls
        encoded = chunked.dictionary_encode().unify_dictionaries()
    except pa.ArrowException as error:
        raise ComparisonError(f"column {name!r} of Arrow type {column.type} cannot hold labels ({error})") from error
    if encoded.num_chunks == 0:
        return np.zeros(0, dtype=np.int64), []
    parts = [
        np.asarray(chunk.indices.cast(pa.int64()).fill_null(MISSING).to_numpy(zero_copy_only=False), dtype=np.int64)
        for chunk in encoded.chunks
    ]
    return np.concatenate(parts), encoded.chunk(0).dictionary.to_pylist()


def to_numbers(column: Any, name: str) -> FloatArray | None:
    """The column as float64 with NaN where missing, or None where it holds anything but numbers and bools."""
    if is_arrow(column):
        kind = getattr(column.type, "value_type", column.type) if str(column.type).startswith("dictionary<") else column.type
        if str(kind) in {"string", "large_string", "string_view"}:
            return None
        # A dictionary may hold nulls and duplicates, which a pandas categorical refuses: its values are taken out first.
        column = (column if kind is column.type else column.cast(kind)).to_pandas()
    if isinstance(column, pd.Series):
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels = to_numbers(column.cat.categories.to_series(), name)
            return None if levels is None else np.append(levels, np.nan)[np.asarray(column.cat.codes)]
        if isinstance(column.dtype, pd.StringDtype) or str(column.dtype) in {"string[pyarrow]", "large_string[pyarrow]"}:
            return None
        if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        column = column.to_numpy(dtype=object)
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind != "O" or (len(column) and isinstance(column[0], str)):
        return None
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind not in {"boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"}:
        return None
    missing = pd.isna(column)
    numbers = np.full(len(column), np.nan)
    try:
        numbers[~missing] = column[~missing].astype(np.float64)
    except OverflowError:
        return None
    return numbers


def value_at(column: Any, row: int) -> Any:
    """One entry as a plain Python object, for messages."""
    if isinstance(column, pd.Series):
        value = column.iloc[row]
    else:
        value = column[row]
    if is_arrow(value):
        value = value.as_py()
    return value.item() if isinstance(value, np.generic) else value


class LabelIndex:
    """Labels in the order they were first met, each with its code; grows as columns and chunks are encoded.

    Labels are str, or int throughout (they become their decimal text); a mixture of the two is an error, because 4 and "4" may
    or may not mean the same thing. Empty and blank strings are missing, like None and NaN.
    """

    def __init__(self, what: str, aliases: Mapping[str, str] | None = None) -> None:
        self.what = what
        self.labels: list[str] = []
        self.kind: str | None = None
        self.kind_seen: tuple[Any, str] = ("", "")  # the first value of that kind, and its column
        self._code: dict[str, int] = {}
        self._aliases = dict(aliases or {})

    def lookup(self, text: str) -> int:
        """Code of a label after aliases, or -1 where it was never met."""
        return self._code.get(self._aliases.get(text, text), MISSING)

    def add(self, text: str) -> int:
        text = self._aliases.get(text, text)
        code = self._code.setdefault(text, len(self.labels))
        if code == len(self.labels):
            self.labels.append(text)
        return code

    def encode(self, column: Any, name: str) -> IntArray:
        """Codes of a column by value, shape (n,); -1 where the label is missing."""
        codes, values = factorize(column, name)
        table = np.full(len(values) + 1, MISSING, dtype=np.int64)
        used = np.zeros(len(values) + 1, dtype=bool)
        used[codes] = True  # unused categories must not count as labels; a missing code marks the spare last slot
        for position, value in enumerate(values):
            if used[position]:
                text = self.text(value, name)
                if text is not None:
                    table[position] = self.add(text)
        return table[codes]

    def text(self, value: Any, name: str) -> str | None:
        """The label as plain str, None where it is missing; refuses what is not a name."""
        if isinstance(value, str):
            text = str.__str__(value)
            if not text or text.isspace():
                return None
            kind = "str"
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise ComparisonError(f"column {name!r}: the label {text!r} is not valid Unicode; mend its encoding") from error
        elif isinstance(value, (bool, np.bool_)):
            raise ComparisonError(f"column {name!r}: {value!r} is a bool, not a {self.what} name; is this the winner column?")
        elif isinstance(value, (int, np.integer)) or (isinstance(value, (float, np.floating)) and float(value).is_integer()):
            # An integer column with gaps arrives as floats in pandas.
            text, kind = str(int(value)), "int"
        elif pd.api.types.is_scalar(value) and pd.isna(value):
            return None
        else:
            raise ComparisonError(
                f"column {name!r}: {value!r} ({type(value).__name__}) is not a {self.what} name; names must be str (or int throughout)"
            )
        self.check_kind(kind, (value, name))
        return text

    def check_kind(self, kind: str | None, seen: tuple[Any, str]) -> None:
        """Take note of labels of a kind ("str", "int", None for none yet), first seen as this value in this column."""
        if self.kind is None:
            self.kind, self.kind_seen = kind, seen
        elif kind is not None and self.kind != kind:
            raise ComparisonError(
                f"{self.what} names mix int and str: {self.kind_seen[0]!r} in column {self.kind_seen[1]!r}, "
                f"{seen[0]!r} in column {seen[1]!r}; convert all of them to str first"
            )


def check_aliases(aliases: Any) -> dict[str, str]:
    """A plain old-name -> new-name dict with chains followed to their end."""
    if aliases is None:
        return {}
    if not isinstance(aliases, Mapping) or not all(isinstance(k, str) and isinstance(v, str) and v.strip() for k, v in aliases.items()):
        raise ComparisonError(f"aliases must map old model names to new ones (str to str), got {aliases!r}")
    resolved = {}
    for old in aliases:
        new, passed = aliases[old], [old]
        while new in aliases and aliases[new] != new:
            if new in passed:
                raise ComparisonError(f"aliases go round in a circle: {' -> '.join([*passed, new])}")
            passed.append(new)
            new = aliases[new]
        resolved[str.__str__(old)] = str.__str__(new)
    return resolved


def check_universe(labels: Sequence[Any] | None, name: str, what: str) -> list[str] | None:
    """Distinct declared labels as str, or None."""
    if labels is None:
        return None
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        what_came = "the single string " if isinstance(labels, (str, bytes)) else ""
        raise ComparisonError(f"{name} must be a list of names, got {what_came}{labels!r}")
    index = LabelIndex(what)
    for label in labels:
        text = index.text(label, f"{name}=")
        if text is None:
            raise ComparisonError(f"{name} lists a missing or blank name ({label!r})")
        index.add(text)
    if not index.labels:
        raise ComparisonError(f"{name} is an empty list; leave it out to take the labels found in the data")
    return index.labels


def near_duplicates(labels: Sequence[str]) -> list[list[str]]:
    """Groups of distinct labels that look alike: equal after Unicode compatibility folding, case folding and trimming."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(unicodedata.normalize("NFKC", label).casefold().strip(), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def warn_of_near_duplicates(tasks: Sequence[str], models: Sequence[str], stacklevel: int) -> None:
    """Names that differ in case or spaces only may be one name twice: they are kept apart, with a warning."""
    found = [("task", group) for group in near_duplicates(tasks)] + [("model", group) for group in near_duplicates(models)]
    if found:
        shown = "; ".join(f"{what}s {' and '.join(map(repr, group))}" for what, group in found[:10])
        more = f"; and {len(found) - 10} more groups" if len(found) > 10 else ""
        warnings.warn(
            f"names that differ only in case or spaces are kept apart: {shown}{more}; merge model names with aliases= if they are the same",
            UserWarning,
            stacklevel=stacklevel,
        )
