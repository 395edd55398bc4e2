"""Votes held one by one (only where ids were given) and votes held as counts: containers and grouping."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._outcomes import FloatArray, IntArray
from ._winners import BOTH_BAD, TIE

# (what, task label or None where the row has no task) -> rows or comparisons
Tally = Counter[tuple[str, str | None]]

MAX_COUNT = 2.0**53  # exact in every file format
MAX_TOTAL = 2.0**62


@dataclass(frozen=True, eq=False)
class Votes:
    """Equal-length columns of votes or groups of votes, as codes; `outcome` is seen from `model_a`.

    `kind` tells ties from both-bad votes from all others (see `_winners`); `vote_id` and `cluster` are codes or None.
    """

    task: IntArray
    model_a: IntArray
    model_b: IntArray
    outcome: FloatArray
    kind: NDArray[np.int8]
    count: IntArray
    cluster: IntArray | None = None
    vote_id: IntArray | None = None

    def __len__(self) -> int:
        return len(self.task)

    def take(self, rows: NDArray[Any]) -> Votes:
        return Votes(
            self.task[rows],
            self.model_a[rows],
            self.model_b[rows],
            self.outcome[rows],
            self.kind[rows],
            self.count[rows],
            None if self.cluster is None else self.cluster[rows],
            None if self.vote_id is None else self.vote_id[rows],
        )

    def recoded(self, task: IntArray, model: IntArray, cluster: IntArray | None = None, vote_id: IntArray | None = None) -> Votes:
        """The same votes under new codes (`task[old] = new`, and so on)."""
        return Votes(
            task[self.task],
            model[self.model_a],
            model[self.model_b],
            self.outcome,
            self.kind,
            self.count,
            self.cluster if self.cluster is None or cluster is None else cluster[self.cluster],
            self.vote_id if self.vote_id is None or vote_id is None else vote_id[self.vote_id],
        )

    def seen_from_low(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Lower code, higher code and the outcome seen from the lower."""
        swap = self.model_a > self.model_b
        return (
            np.minimum(self.model_a, self.model_b),
            np.maximum(self.model_a, self.model_b),
            np.where(swap, 1.0 - self.outcome, self.outcome),
        )


@dataclass(frozen=True, eq=False)
class VoteLog:
    """Everything a `Comparisons` is made of, before duplicates and clusters are settled.

    `counted` holds grouped votes without ids, `single` those with ids, one by one. Codes follow the sorted label lists. The log, not
    the table made from it, is what merging works on, so merging is exact and its order does not matter.
    """

    tasks: list[str]
    models: list[str]
    counted: Votes | None
    single: Votes | None
    clusters: list[str] | None
    ids: list[str] | None
    n_rows: int
    tally: Tally = field(default_factory=Counter)


def group_rows(columns: Sequence[IntArray], count: IntArray | None) -> tuple[list[IntArray], IntArray]:
    """Distinct rows of non-negative integer columns, sorted, and the (weighted) number of times each occurs."""
    n = len(columns[0])
    if n == 0:
        return [column[:0] for column in columns], np.zeros(0, dtype=np.int64)
    sizes = [int(column.max()) + 1 for column in columns]
    space = float(np.prod([float(size) for size in sizes]))
    if space >= 2.0**62:
        dense = [np.unique(column, return_inverse=True) for column in columns]
        key = dense[0][1]
        for levels, inverse in dense[1:]:
            if float(key.max() + 1) * len(levels) >= 2.0**62:
                key = np.unique(key, return_inverse=True)[1]
            key = key * len(levels) + inverse
        key = np.unique(key, return_inverse=True)[1]
        totals = _sum_by(key, int(key.max()) + 1, count)
        first = np.empty(len(totals), dtype=np.int64)
        first[key[::-1]] = np.arange(n - 1, -1, -1)
        return [column[first] for column in columns], totals
    key = columns[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        key = key * size + column
    if space <= 4.0 * n + 65536:
        present = np.bincount(key, minlength=int(space))
        distinct = np.flatnonzero(present)
        totals = present[distinct] if count is None else _sum_by(key, int(space), count)[distinct]
    else:
        codes, found = pd.factorize(key)
        order = np.argsort(found)
        distinct = found[order]
        totals = _sum_by(codes, len(found), count)[order]
    parts: list[IntArray] = []
    for size in reversed(sizes[1:]):
        distinct, part = np.divmod(distinct, size)
        parts.append(part)
    parts.append(distinct)
    return parts[::-1], totals.astype(np.int64, copy=False)


def _sum_by(key: IntArray, n_groups: int, count: IntArray | None) -> IntArray:
    if count is None:
        return np.bincount(key, minlength=n_groups)
    total = np.zeros(n_groups, dtype=np.int64)
    np.add.at(total, key, count)
    return total


def group_votes(votes: Votes, *, unit_counts: bool = False) -> Votes:
    """Equal votes (all columns but `count`) added up; sorted, so that the order of rows leaves no trace. Drops ids."""
    levels, level = outcome_levels(votes.outcome)
    columns = [votes.task, votes.model_a, votes.model_b, level, votes.kind.astype(np.int64)]
    if votes.cluster is not None:
        columns.append(votes.cluster)
    parts, count = group_rows(columns, None if unit_counts else votes.count)
    cluster = parts[5] if votes.cluster is not None else None
    return Votes(parts[0], parts[1], parts[2], levels[parts[3]], parts[4].astype(np.int8), count, cluster)


def outcome_levels(outcome: FloatArray) -> tuple[FloatArray, IntArray]:
    """Sorted distinct outcomes and each row's level; the common {0, 1/2, 1} without sorting."""
    doubled = outcome * 2.0
    level = doubled.astype(np.int64)
    if np.array_equal(level, doubled):
        return np.array([0.0, 0.5, 1.0]), level
    levels, inverse = np.unique(outcome, return_inverse=True)
    return levels, inverse.astype(np.int64, copy=False)


def concat_votes(parts: Sequence[Votes]) -> Votes:
    """Rows of several `Votes` with the same optional columns."""

    def stack(name: str) -> Any:
        columns = [getattr(part, name) for part in parts]
        return None if columns[0] is None else np.concatenate(columns)

    return Votes(*(stack(name) for name in ("task", "model_a", "model_b", "outcome", "kind", "count", "cluster", "vote_id")))


def dropped_by_policy(kind: NDArray[np.int8], ties: str, both_bad: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of ties and of both-bad votes that a "drop" policy removes; `both_bad="tie"` makes them ties first."""
    bad = (kind == BOTH_BAD) & (both_bad == "drop")
    tied = ((kind == TIE) | ((kind == BOTH_BAD) & (both_bad == "tie"))) & (ties == "drop")
    return tied, bad
