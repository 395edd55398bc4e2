"""What `Comparisons` shows of itself: the counts per pair, and what was taken in per task."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from ._outcomes import IntArray, OutcomeTable
from ._votes import Tally, VoteLog, Votes
from ._winners import BOTH_BAD
from .graph import find_separation, pieces_by_task


def counts_frame(log: VoteLog, table: OutcomeTable) -> pd.DataFrame:
    """See `Comparisons.counts`."""
    cells = table.cells()
    n_cells = len(cells.task)

    def total(mask: Any) -> IntArray:
        out = np.zeros(n_cells, dtype=np.int64)
        np.add.at(out, table.cell_of_group[mask], table.count[mask])
        return out

    won, lost, tied = table.outcome == 1.0, table.outcome == 0.0, table.outcome == 0.5
    models = np.array(log.models, dtype=object)
    frame = pd.DataFrame(
        {
            "task": np.array(log.tasks, dtype=object)[cells.task],
            "model_a": models[cells.low],
            "model_b": models[cells.high],
            "wins": total(won),
            "losses": total(lost),
            "ties": total(tied),
        }
    )
    graded = ~(won | lost | tied)
    if graded.any():
        frame["graded"] = total(graded)
        weight = np.where(graded, table.count * table.outcome, 0.0)
        frame["graded_sum"] = np.bincount(table.cell_of_group, weight, n_cells)
    return frame


def summary_frame(log: VoteLog, table: OutcomeTable, kept: Votes, dropped: Tally) -> pd.DataFrame:
    """See `Comparisons.summary`; `attrs` has what follows from the votes alone: dropped, zero_count_rows, first_share."""
    n_tasks = table.n_tasks
    piece = pieces_by_task(table)
    cells = table.cells()
    n_per_task = np.zeros(n_tasks, dtype=np.int64)
    np.add.at(n_per_task, table.task, table.count)
    won = kept.outcome == 1.0
    first = _sum_per_task(kept, won, n_tasks)
    both = _sum_per_task(kept, won | (kept.outcome == 0.0), n_tasks)
    reasons: Counter[str] = Counter()
    per_task: Counter[str | None] = Counter()
    for (reason, name), rows in dropped.items():
        reasons[reason] += rows
        if reason != "zero count":
            per_task[name] += rows
    zero = reasons.pop("zero count", 0)
    frame = pd.DataFrame(
        {
            "n": n_per_task,
            "n_models": (piece >= 0).sum(axis=1),
            "n_pairs": np.bincount(cells.task, minlength=n_tasks),
            "n_pieces": piece.max(axis=1) + 1,
            "n_separated": np.bincount(find_separation(table).task, minlength=n_tasks),
            "ties": _sum_per_task(kept, kept.outcome == 0.5, n_tasks),
            "both_bad": _sum_per_task(kept, kept.kind == BOTH_BAD, n_tasks),
            "dropped": [per_task.get(name, 0) for name in log.tasks],
            "first_share": np.divide(first, both, out=np.full(n_tasks, np.nan), where=both > 0),
        },
        index=pd.Index(log.tasks, name="task", dtype=object),
    )
    lost = sorted(name for name in per_task if name is not None and name not in set(log.tasks))
    if lost:
        empty = pd.DataFrame(0, index=pd.Index(lost, name="task", dtype=object), columns=frame.columns)
        empty = empty.assign(dropped=[per_task[name] for name in lost], first_share=np.nan)
        frame = pd.concat([frame, empty]).sort_index()
    decisive = int(both.sum())
    frame.attrs = {
        "dropped": dict(sorted(reasons.items())),
        "zero_count_rows": zero,
        "first_share": int(first.sum()) / decisive if decisive else None,
    }
    return frame


def _sum_per_task(votes: Votes, mask: Any, n_tasks: int) -> IntArray:
    out = np.zeros(n_tasks, dtype=np.int64)
    np.add.at(out, votes.task[mask], votes.count[mask])
    return out
