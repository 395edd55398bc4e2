"""Votes as strings become counts: frames, CSV and Parquet, up to a million rows (LRGITTINS_BENCH_ROWS adds a larger size)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import lrgittins as lg
from lrgittins.simulate import low_rank_scores

ROWS = [10**4, 10**5, 10**6]
if "LRGITTINS_BENCH_ROWS" in os.environ:
    ROWS.append(int(os.environ["LRGITTINS_BENCH_ROWS"]))


def vote_frame(n: int) -> pd.DataFrame:
    """`n` rows of string columns: 20 tasks, 100 models, the winner as a label."""
    rng = np.random.default_rng(0)
    truth = low_rank_scores(20, 100, 3)
    task, first = rng.integers(20, size=n), rng.integers(100, size=n)
    second = (first + 1 + rng.integers(99, size=n)) % 100
    gap = truth.to_numpy()[task, first] - truth.to_numpy()[task, second]
    won = rng.random(n) < 1.0 / (1.0 + np.exp(-gap))
    return pd.DataFrame(
        {
            "task": truth.index.to_numpy(dtype=object)[task],
            "model_a": truth.columns.to_numpy(dtype=object)[first],
            "model_b": truth.columns.to_numpy(dtype=object)[second],
            "winner": np.where(won, "model_a", "model_b").astype(object),
        }
    )


class Frame:
    """`Comparisons.from_frame` on string columns, and the per-task fit with all gaps from there."""

    params = ROWS
    param_names = ["rows"]
    timeout = 600

    def setup(self, rows: int) -> None:
        self.frame = vote_frame(rows)
        self.all_gaps()

    def read(self) -> Any:
        return lg.Comparisons.from_frame(self.frame)

    def all_gaps(self) -> Any:
        return lg.infer_gaps(self.read(), lg.PerTaskBradleyTerry()).gaps()

    def time_from_frame(self, rows: int) -> None:
        self.read()

    def peakmem_from_frame(self, rows: int) -> None:
        self.read()

    def time_strings_to_all_gaps(self, rows: int) -> None:
        self.all_gaps()


class File:
    """`Comparisons.read`, in batches."""

    params = [ROWS, ["csv", "parquet"]]
    param_names = ["rows", "format"]
    timeout = 600

    def setup(self, rows: int, format: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / f"votes.{format}"
        frame = vote_frame(rows)
        if format == "csv":
            frame.to_csv(self.path, index=False)
        else:
            try:
                frame.to_parquet(self.path, index=False)
            except ImportError as error:
                raise NotImplementedError("needs pyarrow") from error  # asv's way to skip
        lg.Comparisons.read(self.path)

    def teardown(self, rows: int, format: str) -> None:
        self.folder.cleanup()

    def time_read(self, rows: int, format: str) -> None:
        lg.Comparisons.read(self.path)

    def peakmem_read(self, rows: int, format: str) -> None:
        lg.Comparisons.read(self.path)
