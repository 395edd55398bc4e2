"""Adding up votes whose columns are dictionary codes."""

from __future__ import annotations

from .._numba import kernel


@kernel
def add_coded_votes(task, model_a, model_b, winner, task_slot, a_slot, b_slot, winner_slot, n_models, step, stop, out):
    """Add `step` to `out[task_slot + a_slot + b_slot + winner_slot]` for the rows before `stop`; how many rows were done.

    The slot tables turn codes (int32) into parts of a flat index, negative where the code has none; `a_slot == n_models * b_slot`
    for one and the same model. The first row without a place, with a code outside its table, or with one model twice, ends the pass.
    """
    n_task, n_a, n_b, n_winner = len(task_slot), len(a_slot), len(b_slot), len(winner_slot)
    for i in range(stop):
        t, a, b, w = task[i], model_a[i], model_b[i], winner[i]
        if (t | a | b | w) < 0 or t >= n_task or a >= n_a or b >= n_b or w >= n_winner:
            return i
        at, first, second, verdict = task_slot[t], a_slot[a], b_slot[b], winner_slot[w]
        if (at | first | second | verdict) < 0 or first == n_models * second:
            return i
        out[at + first + second + verdict] += step
    return stop
