"""Adding up votes whose columns are dictionary codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

IntArray = NDArray[np.int64]
Codes = NDArray[np.int32]

_BLOCK = 512  # rows whose places are found before any is counted
_NOWHERE = -(2**60)  # four of them still add up to an int64, and one of them with three places is still negative


@kernel
def count_codes(
    task: Codes, model_a: Codes, model_b: Codes, winner: Codes, sizes: tuple[int, int, int, int], step: int, stop: int, out: Codes
) -> int:
    """Add `step` to ``out[((task * sizes[1] + model_a) * sizes[2] + model_b) * sizes[3] + winner]`` for the rows before `stop`.

    Returns the number of rows done: the first block with a code below 0 or not below its size (of task, model_a, model_b, winner)
    ends the pass. `out` has at most 2^31 places.

    Places are found block by block and loaded in eights: a load waits for every store before it whose address is not known yet.
    """
    n_task, n_a, n_b, n_winner = np.int32(sizes[0]), np.int32(sizes[1]), np.int32(sizes[2]), np.int32(sizes[3])
    one, by = np.int32(1), np.int32(step)
    last_task, last_a, last_b, last_winner = n_task - one, n_a - one, n_b - one, n_winner - one
    place = np.empty(_BLOCK, dtype=np.int32)
    for start in range(0, stop, _BLOCK):
        size = min(_BLOCK, stop - start)
        t, a, b, w = task[start : start + size], model_a[start : start + size], model_b[start : start + size], winner[start : start + size]
        outside = np.int32(0)
        for k in range(size):
            outside |= (t[k] | a[k] | b[k] | w[k]) | (last_task - t[k]) | (last_a - a[k]) | (last_b - b[k]) | (last_winner - w[k])
            place[k] = ((t[k] * n_a + a[k]) * n_b + b[k]) * n_winner + w[k]
        if outside < 0:
            return start
        whole = size - size % 8
        for k in range(0, whole, 8):
            p0, p1, p2, p3 = np.uint32(place[k]), np.uint32(place[k + 1]), np.uint32(place[k + 2]), np.uint32(place[k + 3])
            p4, p5, p6, p7 = np.uint32(place[k + 4]), np.uint32(place[k + 5]), np.uint32(place[k + 6]), np.uint32(place[k + 7])
            out[p0] += by
            out[p1] += by
            out[p2] += by
            out[p3] += by
            out[p4] += by
            out[p5] += by
            out[p6] += by
            out[p7] += by
        for k in range(whole, size):
            out[np.uint32(place[k])] += by
    return stop


@kernel
def _far(slots: IntArray) -> IntArray:
    """The slots with -1 replaced by a number so small that a sum with it is negative."""
    out = np.empty(len(slots), dtype=np.int64)
    for code in range(len(slots)):
        out[code] = slots[code] if slots[code] >= 0 else _NOWHERE
    return out


@kernel
def add_coded_votes(
    task: Codes,
    model_a: Codes,
    model_b: Codes,
    winner: Codes,
    task_slot: IntArray,
    a_slot: IntArray,
    b_slot: IntArray,
    winner_slot: IntArray,
    n_models: int,
    step: int,
    stop: int,
    out: IntArray,
) -> int:
    """Add `step` to `out[task_slot + a_slot + b_slot + winner_slot]` for the rows before `stop`; how many rows were done.

    The slot tables turn codes (int32) into parts of a flat index, negative where the code has none; `a_slot == n_models * b_slot`
    for one and the same model. The first row without a place, with a code outside its table, or with one model twice, ends the pass.

    Places are found block by block: a load from a slot table waits for every store to `out` before it whose address is not known yet,
    which cost up to 60 ns a row.
    """
    last_task, last_a = np.int32(len(task_slot) - 1), np.int32(len(a_slot) - 1)
    last_b, last_winner = np.int32(len(b_slot) - 1), np.int32(len(winner_slot) - 1)
    task_far, a_far, b_far, winner_far = _far(task_slot), _far(a_slot), _far(b_slot), _far(winner_slot)
    place = np.empty(_BLOCK, dtype=np.int64)
    for start in range(0, stop, _BLOCK):
        size = min(_BLOCK, stop - start)
        t, a, b, w = task[start : start + size], model_a[start : start + size], model_b[start : start + size], winner[start : start + size]
        outside = np.int32(0)  # negative as soon as one code is: below 0, or beyond its table
        for k in range(size):
            outside |= (t[k] | a[k] | b[k] | w[k]) | (last_task - t[k]) | (last_a - a[k]) | (last_b - b[k]) | (last_winner - w[k])
        lowest, twice = np.int64(outside), False
        if outside >= 0:
            for k in range(size):
                first, second = a_far[np.uint32(a[k])], b_far[np.uint32(b[k])]
                place[k] = task_far[np.uint32(t[k])] + first + second + winner_far[np.uint32(w[k])]
                lowest |= place[k]
                twice |= first == n_models * second
        if lowest < 0 or twice:
            return start + _add_until_fault(t, a, b, w, task_slot, a_slot, b_slot, winner_slot, n_models, step, out)
        for k in range(size):
            out[np.uint64(place[k])] += step
    return stop


@kernel
def _add_until_fault(
    task: Codes,
    model_a: Codes,
    model_b: Codes,
    winner: Codes,
    task_slot: IntArray,
    a_slot: IntArray,
    b_slot: IntArray,
    winner_slot: IntArray,
    n_models: int,
    step: int,
    out: IntArray,
) -> int:
    """The same row by row."""
    n_task, n_a, n_b, n_winner = len(task_slot), len(a_slot), len(b_slot), len(winner_slot)
    for i in range(len(task)):
        t, a, b, w = task[i], model_a[i], model_b[i], winner[i]
        if (t | a | b | w) < 0 or t >= n_task or a >= n_a or b >= n_b or w >= n_winner:
            return i
        at, first, second, verdict = task_slot[t], a_slot[a], b_slot[b], winner_slot[w]
        if (at | first | second | verdict) < 0 or first == n_models * second:
            return i
        out[at + first + second + verdict] += step
    return len(task)
