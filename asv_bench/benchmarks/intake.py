"""Reading votes, from 10^5 to 10^7 rows. LRGITTINS_BENCH_MAX_ROWS leaves out the sizes above it (the quick path: 1000000)."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import lrgittins as lg
from lrgittins.simulate import low_rank_scores

ROWS = [10**5, 10**6, 10**7]
WARM_ROWS = 20_000  # kernels depend on the kind of the columns, not on their length
KINDS = ["object", "string", "category", "arrow"]  # "string" is what pandas 3 makes of text, "object" what pandas 2 did


def row_limit() -> int:
    """The largest number of rows to measure."""
    return int(os.environ.get("LRGITTINS_BENCH_MAX_ROWS", ROWS[-1]))


def skip_large(rows: int) -> None:
    """NotImplementedError is asv's way to skip."""
    if rows > row_limit():
        raise NotImplementedError(f"{rows} rows are more than LRGITTINS_BENCH_MAX_ROWS={row_limit()}")


def vote_columns(rows: int) -> dict[str, np.ndarray]:
    """Columns of Python strings: 20 tasks, 100 models, the winner as a label."""
    rng = np.random.default_rng(0)
    truth = low_rank_scores(20, 100, 3)
    task, first = rng.integers(20, size=rows), rng.integers(100, size=rows)
    second = (first + 1 + rng.integers(99, size=rows)) % 100
    gap = truth.to_numpy()[task, first] - truth.to_numpy()[task, second]
    won = rng.random(rows) < 1.0 / (1.0 + np.exp(-gap))
    tasks, models = truth.index.to_numpy(dtype=object), truth.columns.to_numpy(dtype=object)
    winner = np.array(["model_b", "model_a"], dtype=object)[won.astype(np.int64)]
    return {"task": tasks[task], "model_a": models[first], "model_b": models[second], "winner": winner}


@functools.lru_cache(maxsize=2)
def vote_table(rows: int, kind: str) -> Any:
    """The columns as a frame of one kind of column, or as an Arrow table."""
    frame = pd.DataFrame(vote_columns(rows), dtype=object)
    if kind == "object":
        return frame
    if kind in ("string", "category"):
        return frame.astype("str" if kind == "string" else "category")
    try:
        import pyarrow
    except ImportError as error:
        raise NotImplementedError("needs pyarrow") from error
    return pyarrow.Table.from_pandas(frame, preserve_index=False)


class Frame:
    """`Comparisons.from_frame`, and the per-task fit with all gaps from there."""

    params = [ROWS, KINDS]
    param_names = ["rows", "kind"]
    timeout = 600
    number = 1

    def setup(self, rows: int, kind: str) -> None:
        skip_large(rows)
        self.table = vote_table(WARM_ROWS, kind)
        self.all_gaps()
        self.table = vote_table(rows, kind)

    def read(self) -> Any:
        return lg.Comparisons.from_frame(self.table)

    def all_gaps(self) -> Any:
        return lg.infer_gaps(self.read(), lg.PerTaskBradleyTerry()).gaps()

    def time_from_frame(self, rows: int, kind: str) -> None:
        self.read()

    def peakmem_from_frame(self, rows: int, kind: str) -> None:
        self.read()

    def time_to_all_gaps(self, rows: int, kind: str) -> None:
        self.all_gaps()


class File:
    """`Comparisons.read`, in batches. Another process writes the files, once: neither its time nor its memory is in the figures."""

    params = [ROWS, ["csv", "parquet"]]
    param_names = ["rows", "format"]
    timeout = 600
    number = 1

    def setup_cache(self) -> None:
        """In a temporary working folder that asv makes, gives to every benchmark of the class, and removes."""
        for rows in (WARM_ROWS, *ROWS):
            if rows <= row_limit():
                vote_table(rows, "object").to_csv(f"votes_{rows}.csv", index=False)
                with contextlib.suppress(NotImplementedError):
                    table = vote_table(rows, "arrow")
                    importlib.import_module("pyarrow.parquet").write_table(table, f"votes_{rows}.parquet")

    setup_cache.timeout = 600  # type: ignore[attr-defined]

    def setup(self, rows: int, format: str) -> None:
        skip_large(rows)
        self.path = Path(f"votes_{rows}.{format}")
        if not self.path.exists():
            raise NotImplementedError("needs pyarrow")
        lg.Comparisons.read(f"votes_{WARM_ROWS}.{format}")  # compiles

    def time_read(self, rows: int, format: str) -> None:
        lg.Comparisons.read(self.path)

    def peakmem_read(self, rows: int, format: str) -> None:
        lg.Comparisons.read(self.path)
