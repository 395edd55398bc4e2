"""Which models can be compared at all: connected pieces, and separation (strong components of the win graph).

A *piece* is a set of models linked by comparisons; scores of different pieces have no common scale. Inside a piece, scores are
finite without a penalty only where everybody can be reached from everybody along wins (Ford 1957): the strong components of the
directed win graph, in which a tie or a graded outcome is an edge both ways. A gap between two strong components of one piece is
unbounded; a gap inside a component is finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ._outcomes import Cells, IntArray, OutcomeTable

UNSEEN = -1
_LARGEST_KEPT = 1 << 17  # labels (1 MB)
_kept: WeakKeyDictionary[OutcomeTable, dict[tuple[str, bool], IntArray]] = WeakKeyDictionary()  # intake, fit and result ask the same


@dataclass(frozen=True, eq=False)
class Separation:
    """Models whose scores run off to infinity without a penalty, one entry per (task, model).

    The reference of a piece is its largest strong component, where that is unique and has two models or more; its members are
    not listed. In a piece without a reference every model is listed.

    Attributes
    ----------
    task, model : ndarray of int64, shape (n_separated,)
        Codes, sorted; `task` is -1 for the pooled graph.
    component : ndarray of int64, shape (n_separated,)
        Strong component (as numbered by `strong_components_by_task` or `strong_components`).
    side : tuple of str, length n_separated
        "above": nobody outside the component ever beat it; "below": it never beat anybody outside; "between": neither.
    """

    task: IntArray
    model: IntArray
    component: IntArray
    side: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.task)


def pieces(data: Cells | OutcomeTable) -> IntArray:
    """Connected piece of every model in the graph of all tasks together.

    Returns
    -------
    piece : ndarray of int64, shape (n_models,)
        Numbered from 0 in the order of each piece's smallest model code; -1 for a model without comparisons.
    """
    return _components(data, "weak", pooled=True)[0]


def pieces_by_task(data: Cells | OutcomeTable) -> IntArray:
    """Connected piece of every model in each task's own graph, shape (n_tasks, n_models), numbered within the task; -1 where unseen."""
    return _components(data, "weak", pooled=False)


def strong_components(data: Cells | OutcomeTable) -> IntArray:
    """Strong component of every model in the win graph of all tasks together, shape (n_models,); -1 for a model without comparisons."""
    return _components(data, "strong", pooled=True)[0]


def strong_components_by_task(data: Cells | OutcomeTable) -> IntArray:
    """Strong component of every model in each task's win graph, shape (n_tasks, n_models), numbered within the task; -1 where unseen."""
    return _components(data, "strong", pooled=False)


def find_separation(data: Cells | OutcomeTable, *, pooled: bool = False) -> Separation:
    """The separated models of every task, or of the pooled graph."""
    piece = _components(data, "weak", pooled=pooled)
    component = _components(data, "strong", pooled=pooled)
    if (component.max(axis=1, initial=UNSEEN) == piece.max(axis=1, initial=UNSEEN)).all():  # every piece is one component
        empty = np.zeros(0, dtype=np.int64)
        return Separation(empty, empty, empty, ())
    cells = _as_cells(data)
    task, model = np.nonzero(component != UNSEEN)
    # One number per (task, component) and per (task, piece), so that everything below is a bincount.
    width = component.shape[1]
    group = task * width + component[task, model]
    piece_of_node = task * width + piece[task, model]
    n_slots = component.shape[0] * width
    size = np.bincount(group, minlength=n_slots)
    largest = np.zeros(n_slots, dtype=np.int64)
    np.maximum.at(largest, piece_of_node, size[group])
    at_top = size[group] == largest[piece_of_node]
    members_at_top = np.bincount(piece_of_node[at_top], minlength=n_slots)
    is_reference = at_top & (largest[piece_of_node] >= 2) & (members_at_top[piece_of_node] == largest[piece_of_node])
    is_whole = np.bincount(piece_of_node, minlength=n_slots)[piece_of_node] == size[group]
    winner, loser, edge_task = _win_edges(cells, pooled=pooled)
    from_group = edge_task * width + component[edge_task, winner]
    to_group = edge_task * width + component[edge_task, loser]
    across = from_group != to_group
    beats, beaten = np.zeros(n_slots, dtype=bool), np.zeros(n_slots, dtype=bool)
    beats[from_group[across]] = True
    beaten[to_group[across]] = True
    listed = ~is_reference & ~is_whole
    sides = tuple("above" if not beaten[g] else "below" if not beats[g] else "between" for g in group[listed].tolist())
    task_out = np.full(int(listed.sum()), -1, dtype=np.int64) if pooled else task[listed].astype(np.int64)
    return Separation(task_out, model[listed].astype(np.int64), component[task, model][listed], sides)


def _as_cells(data: Cells | OutcomeTable) -> Cells:
    return data.cells() if isinstance(data, OutcomeTable) else data


def _win_edges(cells: Cells, *, pooled: bool) -> tuple[IntArray, IntArray, IntArray]:
    """Winner, loser and row of every edge of the win graph; `wins` strictly inside (0, count) gives both directions."""
    low_won = (cells.count > 0) & (cells.wins > 0)
    high_won = (cells.count > 0) & (cells.wins < cells.count)
    winner = np.concatenate([cells.low[low_won], cells.high[high_won]])
    loser = np.concatenate([cells.high[low_won], cells.low[high_won]])
    row = np.concatenate([cells.task[low_won], cells.task[high_won]])
    return winner, loser, np.zeros_like(row) if pooled else row


def _components(data: Cells | OutcomeTable, connection: Literal["weak", "strong"], *, pooled: bool) -> IntArray:
    """Component labels, shape (n_tasks or 1, n_models), read-only; a table's are kept while it lives, unless they are large."""
    if not isinstance(data, OutcomeTable):
        return _find_components(data, connection, pooled=pooled)
    kept = _kept.setdefault(data, {})
    found = kept.get((connection, pooled))
    if found is None:
        found = _find_components(data.cells(), connection, pooled=pooled)
        if found.size <= _LARGEST_KEPT:
            kept[connection, pooled] = found
    return found


def _find_components(cells: Cells, connection: Literal["weak", "strong"], *, pooled: bool) -> IntArray:
    """Component labels from one call on the block graph of all tasks."""
    n_rows = 1 if pooled else cells.n_tasks
    labels = np.full((n_rows, cells.n_models), UNSEEN, dtype=np.int64)
    winner, loser, row = _win_edges(cells, pooled=pooled)
    if len(row) == 0:
        labels.setflags(write=False)
        return labels
    if pooled and cells.n_models**2 <= len(row):  # one edge for all tasks' wins of one model over another
        met = np.zeros(cells.n_models**2, dtype=bool)
        met[winner * cells.n_models + loser] = True
        winner, loser = np.divmod(np.flatnonzero(met), cells.n_models)
        row = np.zeros_like(winner)
    from_node, to_node = row * cells.n_models + winner, row * cells.n_models + loser
    occurs = np.zeros(n_rows * cells.n_models, dtype=bool)
    occurs[from_node] = True
    occurs[to_node] = True
    nodes = np.flatnonzero(occurs)
    compact = (np.cumsum(occurs) - 1).astype(np.int32)  # scipy before 1.12 knows no other index here, and goes on with garbage
    source, target = compact[from_node], compact[to_node]
    graph = coo_array((np.ones(len(row)), (source, target)), shape=(len(nodes), len(nodes))).tocsr()
    _, found = connected_components(graph, directed=connection == "strong", connection=connection)
    # Number components by their first node, from 0 in every row; nodes are sorted by (row, model) and no component spans two rows.
    _, first_node, label = np.unique(found, return_index=True, return_inverse=True)
    is_first = np.zeros(len(nodes), dtype=np.int64)
    is_first[first_node] = 1
    number = np.cumsum(is_first) - 1
    row_of_node, model_of_node = np.divmod(nodes, cells.n_models)
    row_start = np.searchsorted(row_of_node, row_of_node)
    labels[row_of_node, model_of_node] = number[first_node][label] - number[row_start]
    labels.setflags(write=False)
    return labels
