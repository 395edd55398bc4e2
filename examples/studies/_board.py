"""What a study of simulated votes runs on: the scores of the paper's section 6.1, or a table of the user's own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lrgittins._tables import numbers, read_table
from lrgittins.errors import ResponseError
from lrgittins.simulate import low_rank_scores


@dataclass(frozen=True)
class Board:
    """True scores, numbers of votes and the rank the low-rank fits are given.

    Attributes
    ----------
    scores : DataFrame, tasks x models, or None
        Rows sum to 0; None: simulated, 50 tasks x 50 models of rank 5.
    votes : tuple of int
        Sizes of the data sets.
    rank : int or "auto"
    header : dict
        What differs from the paper's setting.
    """

    scores: pd.DataFrame | None = None
    votes: tuple[int, ...] = ()
    rank: int | str = 5
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def is_paper(self) -> bool:
        """Whether the paper's printed figures belong beside the results."""
        return not self.header

    @property
    def n_votes(self) -> int:
        """The size, where a study has one."""
        return self.votes[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Tasks and models."""
        return (50, 50) if self.scores is None else (len(self.scores.index), len(self.scores.columns))

    def truth(self, random_state: int | np.random.Generator) -> pd.DataFrame:
        """The given scores, or simulated ones."""
        return low_rank_scores(50, 50, 5, random_state=random_state) if self.scores is None else self.scores

    def thetas(self, seeds: tuple[int, ...]) -> tuple[int, ...]:
        """Seeds of the fixed score matrices; a table of true scores is one matrix."""
        return seeds if self.scores is None else seeds[:1]

    def top_k(self, k: int) -> int:
        """`k`, or half the models of a small board."""
        return min(k, max(1, self.shape[1] // 2))

    def describe(self) -> str:
        """The setting, for the head of a table."""
        n_tasks, n_models = self.shape
        source = "simulated scores of rank 5" if self.scores is None else f"scores of the given file ({self.header['data']})"
        return f"{n_tasks} tasks x {n_models} models, {source}, fits of rank {self.rank}"


def file_fingerprint(path: Path) -> str:
    """First 16 hex digits of the file's SHA-256."""
    if not path.is_file():
        raise ResponseError(f"{path}: there is no such file")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def read_scores(path: Path) -> pd.DataFrame:
    """A table of true scores, rows centred, tasks and models in sorted order.

    CSV(.gz), Parquet or JSON Lines; one row per task, its name in the first column (or in the index a frame was saved with), then one
    column of scores per model, natural-log units.

    Raises
    ------
    ResponseError
        No such file, an unknown format, names that repeat, fewer than two models, or scores that are missing or no numbers.
    """
    frame = read_table(path)
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    if frame.shape[1] < 3 or len(frame) == 0:
        raise ResponseError(
            f"{path}: a table of true scores has one row per task: its name, then one column for each of two or more models"
        )
    tasks = frame.iloc[:, 0]
    for what, names in (("task", tasks), ("model", frame.columns[1:])):
        known = pd.Index(names)
        if known.isna().any():
            raise ResponseError(f"{path}: a {what} has no name")
        repeated = known.astype(str)[known.astype(str).duplicated()]
        if len(repeated):
            raise ResponseError(f"{path}: {what} {str(repeated[0])!r} appears more than once")
    scores = np.column_stack([numbers(frame[column], f"{path}: column {column!r}") for column in frame.columns[1:]])
    if not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise ResponseError(f"{path}: no finite score for task {str(tasks.iloc[row])!r}, model {str(frame.columns[column + 1])!r}")
    scores = scores - scores.mean(axis=1, keepdims=True)
    table = pd.DataFrame(scores, index=tasks.astype(str).to_numpy(), columns=frame.columns[1:].astype(str))
    return table.loc[sorted(table.index), sorted(table.columns)]
