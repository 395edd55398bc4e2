"""The quick way for batches that arrive as dictionary codes (Parquet, Arrow, categoricals): one pass, no string per row.

Only clean batches take it: every label is known already, every verdict is a keyword, nothing is missing. The first row that is anything
else sends its whole batch to `VoteCounter.add`'s thorough way, which knows every fault and every new label; so both give one result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._kernels.tally import add_coded_votes, count_codes
from ._labels import MISSING, LabelIndex, is_arrow
from ._outcomes import IntArray
from ._votes import Votes
from ._winners import BOTH_BAD, DECISIVE, TIE, keyword

MAX_SPACE = 1 << 24  # cells of the dense table: 128 MB at most
_PLACES_AT_ONCE = 1 << 18  # of raw counts moved to their slots
_ROOMY = 1 << 18  # a table up to this size (2 MB) is made for twice the labels
_OUTCOMES = np.array([0.0, 1.0, 0.5, 0.5])
_KINDS = np.array([DECISIVE, DECISIVE, TIE, BOTH_BAD], dtype=np.int8)
_VERDICT = {(0.0, DECISIVE): 0, (1.0, DECISIVE): 1, (0.5, TIE): 2, (0.5, BOTH_BAD): 3}

Codes = NDArray[np.int32]
FourCodes = tuple[Codes, Codes, Codes, Codes]
FourSlots = tuple[IntArray, IntArray, IntArray, IntArray]
_ONE_TASK = np.array(["all"], dtype=object)


def as_codes(column: Any) -> tuple[Codes, Any] | None:
    """Read-only codes and the values they stand for (an Arrow array or an array of objects); None where a column has no such form."""
    if is_arrow(column):
        return _arrow_codes(column)
    if isinstance(column, pd.Series) and isinstance(column.dtype, pd.CategoricalDtype):
        codes = np.asarray(column.cat.codes).astype(np.int32)  # a missing value is -1, and ends the pass
        codes.setflags(write=False)
        return codes, column.cat.categories.to_numpy(dtype=object)
    return None


def _arrow_codes(column: Any) -> tuple[Codes, Any] | None:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        if not pa.types.is_dictionary(column.type):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        else:
            column = column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()
    if column.null_count:
        return None
    if not pa.types.is_dictionary(column.type):
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return None
        column = column.dictionary_encode()
    if column.indices.type != pa.int32():
        try:
            codes = column.indices.cast(pa.int32()).to_numpy(zero_copy_only=False)
        except pa.ArrowException:
            return None
    else:
        codes = column.indices.to_numpy(zero_copy_only=False)
    codes = np.ascontiguousarray(codes)
    codes.setflags(write=False)
    return codes, column.dictionary


class _SlotTable:
    """Codes of one column's dictionary as parts of the flat index; made anew only when dictionary or known labels change."""

    def __init__(self) -> None:
        self._values: Any = None
        self._key: tuple[Any, ...] = ()
        self._slots: IntArray = np.zeros(0, dtype=np.int64)

    def get(self, values: Any, key: tuple[Any, ...], make: Any, scale: int) -> IntArray:
        if self._values is None or key != self._key or not _same_values(values, self._values):
            found = [make(value) for value in (values.to_pylist() if is_arrow(values) else values.tolist())]
            slots = np.array(found, dtype=np.int64)
            self._slots = np.where(slots >= 0, slots * scale, MISSING)
            self._values, self._key = values, key
        return self._slots


def _same_values(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if is_arrow(a) and is_arrow(b):
        return bool(a.type == b.type and a.equals(b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and len(a) == len(b):
        return all(type(x) is type(y) and x == y for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return False


class _RawTable:
    """Counts per combination of raw codes, for as long as batches keep their dictionaries: no slot is looked up per row."""

    def __init__(self) -> None:
        self._slots: FourSlots | None = None
        self._sizes = (0, 0, 0, 0)
        self._counts: Codes = np.zeros(0, dtype=np.int32)
        self._twice: IntArray = np.zeros(0, dtype=np.int64)  # places of a model against itself
        self._rows = 0

    def takes(self, slots: FourSlots, n_models: int, n: int, out: IntArray) -> bool:
        """Whether a batch of `n` rows is for this table; what it holds of other dictionaries goes to `out` first.

        It is where every code has a slot, and the table is not larger than the batch or its dictionaries have come before.
        """
        same = self._slots is not None and all(a is b for a, b in zip(slots, self._slots, strict=True))
        if not same or self._rows + n >= 2**31:
            self.empty_into(out)
        if same and len(self._counts):
            return n < 2**31
        sizes = len(slots[0]), len(slots[1]), len(slots[2]), len(slots[3])
        n_places = sizes[0] * sizes[1] * sizes[2] * sizes[3]
        fits = all(len(slot) > 0 and slot.min() >= 0 for slot in slots) and n_places <= (MAX_SPACE if same else min(n, MAX_SPACE))
        self._slots, self._sizes = slots, sizes
        self._counts = np.zeros(n_places if fits else 0, dtype=np.int32)
        if fits:
            first, second = np.nonzero(slots[1][:, None] == n_models * slots[2])
            pair = (first * sizes[2] + second) * sizes[3]
            by_task = np.arange(sizes[0]) * (sizes[1] * sizes[2] * sizes[3])
            self._twice = (by_task[:, None, None] + pair[:, None] + np.arange(sizes[3])).ravel()
        return fits and n < 2**31

    def add(self, codes: FourCodes, n: int) -> bool:
        """Count a whole batch, or nothing and return False."""
        done = count_codes(*codes, self._sizes, 1, n, self._counts)
        if done == n and not self._counts[self._twice].any():
            self._rows += n
            return True
        count_codes(*codes, self._sizes, -1, done, self._counts)
        return False

    def empty_into(self, out: IntArray) -> None:
        """Move every count to its slot in `out`."""
        if not self._rows or self._slots is None:
            return
        task, a, b, winner = self._slots
        distinct = all(len(np.unique(slots)) == len(slots) for slots in self._slots)
        counts = self._counts.reshape(self._sizes)
        inner = b[:, None] + winner
        step = max(1, _PLACES_AT_ONCE // inner.size)
        for t, start in itertools.product(range(len(task)), range(0, len(a), step)):
            some = slice(start, start + step)
            places = task[t] + a[some, None, None] + inner
            if distinct:
                out[places] += counts[t, some]
            else:
                np.add.at(out, places, counts[t, some])  # two words for one verdict share a place
        self._counts[:] = 0
        self._rows = 0


class CodedCounter:
    """A dense table of counts per (task, model_a, model_b, verdict), for as long as it is small enough."""

    def __init__(
        self, tasks: LabelIndex, models: LabelIndex, *, refused: tuple[int, ...], tasks_declared: int | None, models_declared: int | None
    ) -> None:
        self._tasks = tasks
        self._models = models
        self._refused = refused  # kinds that are errors, so for the thorough way
        self._limits = tasks_declared, models_declared
        self._size = (0, 0)
        self._counts: IntArray = np.zeros(0, dtype=np.int64)
        self._tables = {role: _SlotTable() for role in ("task", "model_a", "model_b", "winner")}
        self._no_task: Codes = np.zeros(0, dtype=np.int32)
        self._used = False
        self._raw = _RawTable()

    def add(self, batch: Mapping[str, Any], n: int) -> bool:
        """Count a whole batch, or nothing and return False."""
        if not self._models.labels or not self._tasks.labels:
            return False
        if not self._fits():
            return False
        coded = {}
        for role in ("winner", "model_a", "model_b", "task"):
            if role in batch:
                found = as_codes(batch[role])
                if found is None or len(found[0]) != n:
                    return False
                coded[role] = found
        if "task" not in coded:
            if len(self._no_task) < n:
                self._no_task = np.zeros(n, dtype=np.int32)
                self._no_task.setflags(write=False)
            coded["task"] = self._no_task[:n], _ONE_TASK
        n_models = self._size[1]
        tasks, models = self._tasks, self._models
        key: tuple[Any, ...] = (len(tasks.labels), len(models.labels), tasks.kind, models.kind, self._size)
        one_task = "task" not in batch
        slots = {
            "task": self._slots(
                "task", coded, key, lambda value: 0 if one_task else _known(tasks, value, self._limits[0]), 4 * n_models**2
            ),
            "model_a": self._slots("model_a", coded, key, lambda value: _known(models, value, self._limits[1]), 4 * n_models),
            "model_b": self._slots("model_b", coded, key, lambda value: _known(models, value, self._limits[1]), 4),
            "winner": self._slots("winner", coded, key, self._verdict, 1),
        }
        roles = ("task", "model_a", "model_b", "winner")
        codes = cast(FourCodes, tuple(coded[role][0] for role in roles))
        places = cast(FourSlots, tuple(slots[role] for role in roles))
        if self._raw.takes(places, n_models, n, self._counts):
            clean = self._raw.add(codes, n)
        else:
            add: Callable[..., int] = partial(add_coded_votes, *codes, *places, n_models)
            done = add(1, n, self._counts)
            clean = done == n
            if not clean:
                add(-1, done, self._counts)
        self._used = self._used or clean
        return clean

    def take(self) -> Votes | None:
        """What was counted so far, as groups; the table is empty afterwards."""
        if not self._used:
            return None
        self._raw.empty_into(self._counts)
        cell = np.flatnonzero(self._counts)
        count = self._counts[cell]
        self._counts[cell] = 0
        self._used = False
        rest, verdict = np.divmod(cell, 4)
        rest, model_b = np.divmod(rest, self._size[1])
        task, model_a = np.divmod(rest, self._size[1])
        return Votes(task, model_a, model_b, _OUTCOMES[verdict], _KINDS[verdict], count)

    @property
    def must_grow(self) -> bool:
        """Whether new labels have outgrown the table: `take` what is in it, then go on."""
        return self._used and (len(self._tasks.labels) > self._size[0] or len(self._models.labels) > self._size[1])

    def _fits(self) -> bool:
        n_tasks, n_models = len(self._tasks.labels), len(self._models.labels)
        if n_tasks <= self._size[0] and n_models <= self._size[1]:
            return True
        for room, largest in ((2.0, _ROOMY), (1.25, MAX_SPACE), (1.0, MAX_SPACE)):  # room for labels to come, where it costs little
            size = max(self._size[0], int(room * n_tasks)), max(self._size[1], int(room * n_models))
            if 4 * size[0] * size[1] ** 2 <= largest:
                self._size = size
                self._raw = _RawTable()
                self._counts = np.zeros(4 * size[0] * size[1] ** 2, dtype=np.int64)
                return True
        return False

    def _slots(self, role: str, coded: Mapping[str, Any], key: tuple[Any, ...], make: Any, scale: int) -> IntArray:
        return self._tables[role].get(coded[role][1], key, make, scale)

    def _verdict(self, value: Any) -> int:
        """Place of a keyword; a word that is a model's name too, or anything else, goes the thorough way."""
        if not isinstance(value, str) or (self._models.kind != "int" and self._models.lookup(value) >= 0):
            return MISSING
        found = keyword(value)
        if found is None or found[1] in self._refused:
            return MISSING
        return _VERDICT[found]


def _known(index: LabelIndex, value: Any, declared: int | None) -> int:
    """Code of a label that is known and allowed, else -1."""
    if isinstance(value, str):
        text = str.__str__(value)
        if index.kind != "str" or not text or text.isspace():
            return MISSING
    elif index.kind == "int" and isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        text = str(int(value))
    else:
        return MISSING
    code = index.lookup(text)
    return code if declared is None or code < declared else MISSING
