"""Folds balanced by (task, pair), drawn on counts: row order and chunking of the votes cannot matter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._outcomes import OutcomeTable
from .errors import ComparisonError

IntArray = NDArray[np.int64]

_HYPERGEOMETRIC_LIMIT = 10**9  # numpy's sampler takes populations below this; larger ones are split by binomials


@dataclass(frozen=True, eq=False)
class FoldSplit:
    """How many comparisons of every group went to every fold.

    Attributes
    ----------
    counts : ndarray of int64, shape (n_folds, n_groups)
        Sums over the folds to the table's counts.
    notes : tuple of str
        What had to be changed (fewer folds, comparisons moved so that no task or model is emptied).
    """

    counts: IntArray
    notes: tuple[str, ...] = ()

    @property
    def n_folds(self) -> int:
        return self.counts.shape[0]


def draw_folds(table: OutcomeTable, n_folds: int, rng: np.random.Generator) -> FoldSplit:
    """Split the comparisons of `table` into `n_folds` parts.

    Cells are dealt in sorted label order, so every fold gets its share of every (task, pair); within a cell, which
    comparisons go where is multivariate hypergeometric, the law of drawing over individual comparisons. With clusters,
    whole clusters are dealt.

    Raises
    ------
    ComparisonError
        Fewer comparisons (or clusters) than folds.
    """
    units = int(table.count.sum()) if table.cluster is None else int(len(np.unique(table.cluster)))
    what = "comparisons" if table.cluster is None else "clusters"
    if units < n_folds:
        raise ComparisonError(f"{n_folds} folds need at least {n_folds} {what}, there are {units}; use fewer folds or more data")
    counts = _deal_cells(table, n_folds, rng) if table.cluster is None else _deal_clusters(table, n_folds, rng)
    notes: list[str] = []
    if table.cluster is None:
        moved = _refill(table, counts)
        if moved:
            notes.append(f"{moved} comparisons were moved between folds so that no training set loses a task or a model")
    lost = _emptied(table, counts)
    if lost:
        notes.append(f"leaving one fold out empties {lost}; their gaps are flagged")
    return FoldSplit(counts, tuple(notes))


def _deal_cells(table: OutcomeTable, n_folds: int, rng: np.random.Generator) -> IntArray:
    cell = table.cell_of_group
    n_cells = int(cell[-1]) + 1
    cell_count = np.zeros(n_cells, dtype=np.int64)
    np.add.at(cell_count, cell, table.count)
    capacity = np.repeat((cell_count // n_folds)[None, :], n_folds, axis=0)
    # The remainders are dealt round-robin over cells in random order within each task: a cell's remainder goes to
    # distinct folds, and neither a task nor the whole ends with folds that differ by more than one.
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    order = np.lexsort((rng.random(n_cells), table.task[first]))
    remainder = (cell_count % n_folds)[order]
    owner = np.repeat(order, remainder)
    start = int(rng.integers(n_folds))
    np.add.at(capacity, ((np.arange(len(owner)) + start) % n_folds, owner), 1)

    counts = np.zeros((n_folds, table.n_groups), dtype=np.int64)
    position = np.arange(table.n_groups) - first[cell]  # rank of the group inside its cell
    by_position = np.argsort(position, kind="stable")
    bounds = np.searchsorted(position[by_position], np.arange(position.max() + 2))
    last = np.zeros(table.n_groups, dtype=bool)
    last[np.append(first[1:], table.n_groups) - 1] = True
    for level in range(len(bounds) - 1):
        groups = by_position[bounds[level] : bounds[level + 1]]
        final = groups[last[groups]]
        counts[:, final] = capacity[:, cell[final]]
        groups = groups[~last[groups]]
        if len(groups) == 0:
            continue
        room = capacity[:, cell[groups]]
        left = table.count[groups].copy()
        free = room.sum(axis=0)
        for fold in range(n_folds - 1):
            free = free - room[fold]
            taken = _hypergeometric(room[fold], free, left, rng)
            counts[fold, groups] = taken
            left = left - taken
        counts[n_folds - 1, groups] = left
        capacity[:, cell[groups]] -= counts[:, groups]
    return counts


def _hypergeometric(good: IntArray, bad: IntArray, sample: IntArray, rng: np.random.Generator) -> IntArray:
    """How many of `sample` draws land in `good` rather than `bad` places; binomial for huge populations, kept in range."""
    total = good + bad
    small = total < _HYPERGEOMETRIC_LIMIT
    taken = np.zeros(len(good), dtype=np.int64)
    if small.any():
        taken[small] = rng.hypergeometric(good[small], bad[small], sample[small])
    if not small.all():
        big = ~small
        draw = rng.binomial(sample[big], good[big] / total[big])
        taken[big] = np.clip(draw, np.maximum(0, sample[big] - bad[big]), np.minimum(sample[big], good[big]))
    return taken


def _deal_clusters(table: OutcomeTable, n_folds: int, rng: np.random.Generator) -> IntArray:
    assert table.cluster is not None
    labels, cluster = np.unique(table.cluster, return_inverse=True)
    size = np.bincount(cluster, table.count, len(labels))
    # Largest first to the emptiest fold, ties at random: whole clusters, folds as even as clusters allow.
    order = np.lexsort((rng.random(len(labels)), -size))
    fold_of = np.empty(len(labels), dtype=np.int64)
    if size.max(initial=0.0) == 1.0 or len(labels) > 100_000:
        fold_of[order] = np.arange(len(labels)) % n_folds
    else:
        load = np.zeros(n_folds)
        for label in order:
            fold = int(np.argmin(load))
            fold_of[label] = fold
            load[fold] += size[label]
    counts = np.zeros((n_folds, table.n_groups), dtype=np.int64)
    counts[fold_of[cluster], np.arange(table.n_groups)] = table.count
    return counts


def _seen(table: OutcomeTable, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Comparisons of every task and of every model, per row of `counts` (n_folds, n_groups)."""
    n_folds = counts.shape[0]
    tasks = np.zeros((n_folds, table.n_tasks), dtype=np.int64)
    models = np.zeros((n_folds, table.n_models), dtype=np.int64)
    for fold in range(n_folds):
        np.add.at(tasks[fold], table.task, counts[fold])
        np.add.at(models[fold], table.low, counts[fold])
        np.add.at(models[fold], table.high, counts[fold])
    return tasks, models


def _refill(table: OutcomeTable, counts: IntArray) -> int:
    """Move single comparisons out of a fold that holds all of a task's or a model's data (in place); how many moved."""
    moved = 0
    tasks, models = _seen(table, counts)
    n_folds = counts.shape[0]
    for seen, members in ((tasks, [table.task]), (models, [table.low, table.high])):
        total = seen.sum(axis=0)
        for fold, item in zip(*np.nonzero((seen == total) & (total > 1)), strict=True):
            holds = np.zeros(table.n_groups, dtype=bool)
            for member in members:
                holds |= member == item
            groups = np.flatnonzero(holds & (counts[fold] > 0))
            if counts[:, holds][np.arange(n_folds) != fold].sum() > 0:
                continue  # an earlier move has already mended it
            target = (fold + 1) % n_folds
            counts[fold, groups[0]] -= 1
            counts[target, groups[0]] += 1
            moved += 1
    return moved


def _emptied(table: OutcomeTable, counts: IntArray) -> str:
    tasks, models = _seen(table, counts)
    n_tasks = int(((tasks == tasks.sum(axis=0)) & (tasks > 0)).any(axis=0).sum())
    n_models = int(((models == models.sum(axis=0)) & (models > 0)).any(axis=0).sum())
    parts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((n_tasks, "task"), (n_models, "model")) if n]
    return " and ".join(parts)
