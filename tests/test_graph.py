"""Pieces and separation against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrgittins import Comparisons
from lrgittins.graph import find_separation, pieces, pieces_by_task, strong_components, strong_components_by_task

VOTES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0, 0.25])), min_size=1)


def make(votes: list[tuple[int, int, int, float]]) -> Comparisons | None:
    votes = [vote for vote in votes if vote[1] != vote[2]]
    if not votes:
        return None
    task, a, b, y = zip(*votes, strict=True)
    names = ["m0", "m1", "m2", "m3", "m4", "m5"]
    return Comparisons.from_arrays(
        [f"t{k}" for k in task], [names[k] for k in a], [names[k] for k in b], list(y), models=names, tasks=["t0", "t1", "t2"]
    )


def reach(edges: set[tuple[int, int]], n: int) -> np.ndarray:
    """Reflexive reachability by Warshall's rule."""
    closed = np.eye(n, dtype=bool)
    for a, b in edges:
        closed[a, b] = True
    for k in range(n):
        closed |= closed[:, [k]] & closed[[k], :]
    return closed


def edges_of(comparisons: Comparisons, task: int | None) -> tuple[set[tuple[int, int]], set[int]]:
    table = comparisons._table
    edges, seen = set(), set()
    for t, low, high, y in zip(table.task, table.low, table.high, table.outcome, strict=True):
        if task is None or t == task:
            seen |= {int(low), int(high)}
            edges |= ({(int(low), int(high))} if y > 0 else set()) | ({(int(high), int(low))} if y < 1 else set())
    return edges, seen


@pytest.mark.oracle
@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(VOTES)
def test_components_match_brute_force(votes: list[tuple[int, int, int, float]]) -> None:
    comparisons = make(votes)
    if comparisons is None:
        return
    table = comparisons._table
    cases = [(None, pieces(table), strong_components(table))]
    cases += [(t, pieces_by_task(table)[t], strong_components_by_task(table)[t]) for t in range(3)]
    separation = {None: find_separation(table, pooled=True), "task": find_separation(table.cells())}
    for task, piece, strong in cases:
        edges, seen = edges_of(comparisons, task)
        along = reach(edges, 6)
        either = reach(edges | {(b, a) for a, b in edges}, 6)
        for a, b in itertools.product(range(6), repeat=2):
            if a in seen and b in seen:
                assert (piece[a] == piece[b]) == either[a, b]
                assert (strong[a] == strong[b]) == (along[a, b] and along[b, a])
        assert {k for k in range(6) if piece[k] >= 0} == seen == {k for k in range(6) if strong[k] >= 0}
        for labels in (piece, strong):  # numbered from 0 by first member
            met = list(dict.fromkeys(labels[labels >= 0].tolist()))
            assert met == list(range(len(met)))
        found = separation[None] if task is None else separation["task"]
        rows = np.flatnonzero(found.task == (-1 if task is None else task))
        listed = {int(found.model[r]): found.side[r] for r in rows}
        for model in seen:
            group = {k for k in seen if along[model, k] and along[k, model]}
            whole = {k for k in seen if either[model, k]}
            sizes = sorted((len({k for k in seen if along[m, k] and along[k, m]}) for m in whole), reverse=True)
            unique_largest = len(group) >= 2 and sizes[0] == len(group) and sizes.count(len(group)) == len(group)
            assert (model in listed) == (group != whole and not unique_largest)
            if model in listed:
                beats = any(a in group and b not in group for a, b in edges)
                beaten = any(a not in group and b in group for a, b in edges)
                assert listed[model] == ("above" if not beaten else "below" if not beats else "between")


def test_islands() -> None:  # case A04
    comparisons = Comparisons.from_arrays(None, list("AAAACCCC"), list("BBBBDDDD"), [1, 1, 1, 0] * 2)
    assert pieces(comparisons._table).tolist() == [0, 0, 1, 1]
    assert comparisons.summary()["n_pieces"].tolist() == [2]
    assert len(find_separation(comparisons._table)) == 0


def test_a_task_without_data_and_the_smallest_input() -> None:
    comparisons = Comparisons.from_arrays(["t"], ["A"], ["B"], [1], tasks=["s", "t"], models=["A", "B", "C"])
    assert pieces_by_task(comparisons._table).tolist() == [[-1, -1, -1], [0, 0, -1]]
    assert strong_components_by_task(comparisons._table).tolist() == [[-1, -1, -1], [0, 1, -1]]
    found = find_separation(comparisons._table)
    assert (found.task.tolist(), found.model.tolist(), found.side) == ([1, 1], [0, 1], ("above", "below"))


def test_winless_model_beside_a_connected_core() -> None:
    # A and B beat each other, both beat C and never lose to it: only C is separated
    comparisons = Comparisons.from_arrays(None, list("AAAABB"), list("BBCCCC"), [1, 0, 1, 1, 1, 1])
    found = find_separation(comparisons._table)
    assert (found.model.tolist(), found.side) == ([2], ("below",))


def test_many_tasks_on_one_edge_do_not_overflow() -> None:
    n = 512  # edges of all tasks add up in the pooled graph
    comparisons = Comparisons.from_arrays([f"t{k}" for k in range(n)], ["A"] * n, ["B"] * n, [1, 0] * (n // 2))
    assert strong_components(comparisons._table).tolist() == [0, 0]
