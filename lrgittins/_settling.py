"""From a `VoteLog` to the table everything downstream works on: copies out, clusters joined, policies applied; and merging of logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ._outcomes import IntArray, OutcomeTable
from ._votes import MAX_TOTAL, Tally, VoteLog, Votes, concat_votes, dropped_by_policy, group_votes
from .errors import ComparisonError


def settle(log: VoteLog, ties: str, both_bad: str) -> tuple[OutcomeTable, Votes, Tally, list[str]]:
    """The table, the kept votes (grouped, sides as given), the full tally of drops and the final cluster names."""
    dropped: Tally = Counter(log.tally)
    single = log.single
    if single is not None:
        single, copies = settle_duplicates(single, log.ids or [], log.tasks)
        _add_rows(dropped, "duplicate id", copies, log.tasks)
    cluster_code, clusters = settle_clusters(log, single)
    if single is not None:
        tied, bad = dropped_by_policy(single.kind, ties, both_bad)
        _add_rows(dropped, "tie", single.task[tied], log.tasks)
        _add_rows(dropped, "both bad", single.task[bad], log.tasks)
        single = single.take(~(tied | bad))
        if log.clusters is None and cluster_code is not None:
            single = replace(single, cluster=single.vote_id)
    parts = []
    for votes in (log.counted, single):
        if votes is not None and len(votes):
            parts.append(replace(votes, vote_id=None))
    if not parts:
        listed = ", ".join(f"{reason}: {n}" for (reason, _), n in sorted(dropped.items(), key=str))
        raise ComparisonError(f"no comparisons are left: {log.n_rows} rows read, all dropped ({listed})")
    kept = concat_votes(parts)
    if cluster_code is not None and kept.cluster is not None:
        kept = replace(kept, cluster=cluster_code[kept.cluster])
    if float(kept.count.astype(np.float64).sum()) > MAX_TOTAL:
        raise ComparisonError("the counts add up to more than 2**62 comparisons; rescale them")
    kept = group_votes(kept)
    low, high, outcome = kept.seen_from_low()
    plain = group_votes(Votes(kept.task, low, high, outcome, np.zeros(len(kept), dtype=np.int8), kept.count, kept.cluster))
    arrays = (plain.task, plain.model_a, plain.model_b, plain.outcome, plain.count)
    return OutcomeTable(len(log.tasks), len(log.models), *arrays, plain.cluster), kept, dropped, clusters


def _add_rows(tally: Tally, reason: str, task: IntArray, tasks: Sequence[str]) -> None:
    for code, rows in enumerate(np.bincount(task, minlength=len(tasks)).tolist()):
        if rows:
            tally[(reason, tasks[code])] += rows


def merge(a: VoteLog, b: VoteLog) -> VoteLog:
    if (a.clusters is None) != (b.clusters is None):
        raise ComparisonError("cannot merge comparisons with clusters and comparisons without; give cluster= for both, or for neither")
    tasks, task_of = _unite(a.tasks, b.tasks)
    models, model_of = _unite(a.models, b.models)
    clusters, cluster_of = _unite(a.clusters, b.clusters)
    ids, id_of = _unite(a.ids, b.ids)
    merged: dict[str, Votes | None] = {}
    for name in ("counted", "single"):
        parts = []
        for side, log in enumerate((a, b)):
            votes: Votes | None = getattr(log, name)
            if votes is not None:
                parts.append(votes.recoded(task_of[side], model_of[side], cluster_of[side], id_of[side]))
        merged[name] = concat_votes(parts) if parts else None
    counted = merged["counted"]
    tally: Tally = Counter(a.tally)
    tally.update(b.tally)
    return VoteLog(
        tasks, models, None if counted is None else group_votes(counted), merged["single"], clusters, ids, a.n_rows + b.n_rows, tally
    )


def _unite(a: Sequence[str] | None, b: Sequence[str] | None) -> tuple[Any, tuple[Any, Any]]:
    """Sorted union of two label lists, and the new code of every old one."""
    if a is None and b is None:
        return None, (None, None)
    union = sorted({*(a or ()), *(b or ())})
    code = {label: position for position, label in enumerate(union)}
    first, second = (np.array([code[label] for label in labels or ()], dtype=np.int64) for labels in (a, b))
    return union, (first, second)


def settle_duplicates(votes: Votes, ids: Sequence[str], tasks: Sequence[str]) -> tuple[Votes, IntArray]:
    """One vote per (id, task), and the tasks of the copies left out; contradictory copies raise.

    A copy with its sides swapped is still a copy. Which copy stays does not depend on the order of rows.
    """
    assert votes.vote_id is not None
    low, high, seen = votes.seen_from_low()
    order = np.lexsort((votes.model_a, low, votes.task, votes.vote_id))
    same = (np.diff(votes.vote_id[order]) == 0) & (np.diff(votes.task[order]) == 0)
    if not same.any():
        return votes, np.zeros(0, dtype=np.int64)
    first, second = order[:-1][same], order[1:][same]
    differs = (low[first] != low[second]) | (high[first] != high[second]) | (seen[first] != seen[second])
    differs |= (votes.kind[first] != votes.kind[second]) | (votes.count[first] != votes.count[second])
    if differs.any():
        bad = np.unique(votes.vote_id[second[differs]])
        shown = ", ".join(repr(ids[code]) for code in bad[:5].tolist())
        example = second[differs][0]
        raise ComparisonError(
            f"column 'id': {len(bad)} ids have contradictory votes in one task (other models, another winner or count): {shown}"
            f"{', ...' if len(bad) > 5 else ''}; id {ids[int(votes.vote_id[example])]!r} in task {tasks[int(votes.task[example])]!r}; "
            "keep one vote per id and task, or leave the id out"
        )
    keep = np.ones(len(votes), dtype=bool)
    keep[second] = False
    return votes.take(keep), votes.task[second]


def settle_clusters(log: VoteLog, single: Votes | None) -> tuple[IntArray | None, list[str]]:
    """New cluster code of every old one (or of every id, where ids serve as clusters) and the sorted names; (None, []) without clusters.

    Rows with one id belong to one cluster: clusters that share an id are joined under their smallest name. Without a cluster column
    an id under several tasks makes every id its own cluster.
    """
    if log.clusters is not None:
        n = len(log.clusters)
        if single is None:
            return np.arange(n), log.clusters
        assert single.vote_id is not None and single.cluster is not None
        size = n + len(log.ids or [])
        ends = single.cluster.astype(np.int32), (single.vote_id + n).astype(np.int32)  # see graph.py: old scipy knows no other index
        links = coo_array((np.ones(len(single)), ends), shape=(size, size)).tocsr()
        joined = connected_components(links, directed=False)[1][:n]
        # Codes follow sorted names, so a component's first member has its smallest name.
        _, first, component = np.unique(joined, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(first), dtype=np.int64)
        rank[order] = np.arange(len(first))
        return rank[component], [log.clusters[i] for i in first[order].tolist()]
    if single is not None and log.counted is None and _spans_tasks(single):
        return np.arange(len(log.ids or [])), list(log.ids or [])
    if single is not None and log.counted is not None and _spans_tasks(single):
        raise ComparisonError(
            "some ids occur under several tasks, so their votes are not independent, but other votes merged here have neither id nor "
            "cluster; give id= or cluster= for all of them"
        )
    return None, []


def _spans_tasks(single: Votes) -> bool:
    assert single.vote_id is not None
    order = np.lexsort((single.task, single.vote_id))
    return bool(((np.diff(single.vote_id[order]) == 0) & (np.diff(single.task[order]) != 0)).any())
