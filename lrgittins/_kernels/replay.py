"""Whole replays of one run: the policies' ask / tell arithmetic, step for step and bit for bit, on arrays.

Arms are codes; `order` holds an example per position, one row for all arms or one per arm; NaN scores are cells that do
not exist. Every float is formed by the same operations in the same order as in the policy classes, so that a trace
from here equals one from ask / tell exactly. Both loops fill `out_steps` (arm, n, recommended, completed), `out_money`
(cost, cumulative cost) and, per arm, `out_counts` (seen, next position) and `out_total` (score sum), which must come in as
zeros; they return (steps, end, ...), end being one of the codes below.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lrgittins._numba import kernel

BUDGET, EXHAUSTED, REFUSED = 0, 1, 2
EMPIRICAL, LATENT, UCB = 0, 1, 2

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@kernel
def fill_tree(values: FloatArray, winner: IntArray) -> None:
    """Tournament over leaves `values` (a power of two): `winner[1]` is the largest, the first of equals."""
    width = len(values)
    for leaf in range(width):
        winner[width + leaf] = leaf
    for node in range(width - 1, 0, -1):
        left, right = winner[2 * node], winner[2 * node + 1]
        winner[node] = left if values[left] >= values[right] else right


@kernel
def update_tree(values: FloatArray, winner: IntArray, leaf: int) -> None:
    """Play the matches of one leaf again."""
    node = (len(values) + leaf) >> 1
    while node >= 1:
        left, right = winner[2 * node], winner[2 * node + 1]
        winner[node] = left if values[left] >= values[right] else right
        node >>= 1


@kernel
def take_batch(
    scores: FloatArray, cost: FloatArray, order: IntArray, arm: int, start: int, size: int, total: float
) -> tuple[int, int, float, float]:
    """The next `size` existing cells of an arm from position `start`: (next position, cells, new score sum, cost)."""
    row = order[arm] if len(order) > 1 else order[0]
    position, taken, charged = start, 0, 0.0
    by_cell = cost.shape[1] > 1
    while taken < size and position < len(row):
        example = row[position]
        score = scores[arm, example]
        position += 1
        if score == score:
            total += score
            taken += 1
            if by_cell:
                charged += cost[arm, example]
    return position, taken, total, charged if by_cell else taken * cost[arm, 0]


@kernel
def arm_values(kind: int, n: int, seen: int, total: float, prior: FloatArray, root: float, a: float) -> tuple[float, float, float]:
    """(mean, lower confidence bound, index) of an arm; `prior` is mean, variance, noise variance; root 0 when complete."""
    if kind == UCB:
        if seen == 0:
            return -np.inf, -np.inf, np.inf
        mean = total / seen
        return mean, mean, mean + math.sqrt(a / seen)
    v0, t = prior[1], prior[2]
    mean = (prior[0] * t + v0 * total) / (t + v0 * seen)
    variance = v0 / (1.0 + v0 * seen / t)
    if kind == EMPIRICAL:
        left = n - seen
        mean = (total + left * mean) / n
        variance = (left * left * variance + left * t) / (n * n)
    return mean, mean - math.sqrt(variance), mean - root


@kernel
def replay_by_index(
    kind: int,
    a: float,
    by_mean: bool,
    scores: FloatArray,
    cost: FloatArray,
    order: IntArray,
    tie_order: IntArray,
    n_cells: IntArray,
    chain: IntArray,
    sizes: IntArray,
    roots: FloatArray,
    prior: FloatArray,
    limit: FloatArray,
    by_completed: bool,
    out_steps: IntArray,
    out_money: FloatArray,
    out_counts: IntArray,
    out_total: FloatArray,
) -> tuple[int, int, int, int]:
    """One run of a policy that asks the largest index; also returns the first step with a stop signal (0: none) and the
    recommendation before any data.

    `chain[k]` is where arm k's batch sizes and roots start in `sizes` and `roots`. `limit` is (spend that ends the run,
    spend a batch must not exceed). `by_mean` recommends by mean instead of lower bound, `by_completed` the best completed
    arm as soon as there is one.
    """
    n_arms = len(n_cells)
    width = 1
    while width < n_arms:
        width *= 2
    ask, best = np.full(width, -np.inf), np.full(width, -np.inf)
    ask_tree, best_tree = np.zeros(2 * width, dtype=np.int64), np.zeros(2 * width, dtype=np.int64)
    place = np.empty(n_arms, dtype=np.int64)
    for p in range(n_arms):
        arm = tie_order[p]
        place[arm] = p
        mean, bound, index = arm_values(kind, n_cells[arm], 0, 0.0, prior[arm], roots[chain[arm]], a)
        ask[p] = index
        best[p] = mean if by_mean else bound
    fill_tree(ask, ask_tree)
    fill_tree(best, best_tree)
    initial = tie_order[best_tree[1]]
    seen, position, total = out_counts[0], out_counts[1], out_total
    stage = np.zeros(n_arms, dtype=np.int64)
    done_value, done_place, n_unfinished = -np.inf, -1, n_arms
    spent, step, first_stop, end = 0.0, 0, 0, BUDGET
    while True:
        if ask[ask_tree[1]] == -np.inf:
            end = EXHAUSTED
            break
        if spent >= limit[0]:
            break
        p = ask_tree[1]
        arm = tie_order[p]
        size = sizes[chain[arm] + stage[arm]]
        after, taken, score_sum, charged = take_batch(scores, cost, order, arm, position[arm], size, total[arm])
        if spent + charged > limit[1]:
            end = REFUSED
            break
        position[arm], total[arm] = after, score_sum
        seen[arm] += taken
        stage[arm] += 1
        spent += charged
        complete = seen[arm] == n_cells[arm]
        root = 0.0 if complete else roots[chain[arm] + stage[arm]]
        mean, bound, index = arm_values(kind, n_cells[arm], seen[arm], total[arm], prior[arm], root, a)
        ask[p] = -np.inf if complete else index
        best[p] = mean if by_mean else bound
        update_tree(ask, ask_tree, p)
        update_tree(best, best_tree, p)
        if complete and kind != UCB:
            n_unfinished -= 1
            if done_place < 0 or mean > done_value or (mean == done_value and p < done_place):
                done_value, done_place = mean, p
        if first_stop == 0 and done_place >= 0 and (n_unfinished == 0 or done_value >= ask[ask_tree[1]]):
            first_stop = step + 1
        done = tie_order[done_place] if done_place >= 0 else -1
        out_steps[step, 0], out_steps[step, 1] = arm, taken
        out_steps[step, 2] = done if by_completed and done >= 0 else tie_order[best_tree[1]]
        out_steps[step, 3] = done
        out_money[step, 0], out_money[step, 1] = charged, spent
        step += 1
    return step, end, first_stop, initial


@kernel
def replay_by_rejects(
    batch_size: int,
    phases: IntArray,
    first_phase: int,
    dropped_after: IntArray,
    scores: FloatArray,
    cost: FloatArray,
    order: IntArray,
    tie_order: IntArray,
    n_cells: IntArray,
    limit: FloatArray,
    out_steps: IntArray,
    out_money: FloatArray,
    out_counts: IntArray,
    out_total: FloatArray,
) -> tuple[int, int, int]:
    """One run of successive rejects; `dropped_after` (0: a survivor) is kept up to date. Also returns the last phase."""
    n_arms = len(n_cells)
    n_phases = len(phases)
    seen, position, total = out_counts[0], out_counts[1], out_total
    phase, n_waiting = first_phase, 0
    if phase < n_phases:
        n_waiting = count_waiting(phases[phase], dropped_after, seen, n_cells)
    spent, step, end = 0.0, 0, BUDGET
    while True:
        if phase >= n_phases:
            end = EXHAUSTED
            break
        if spent >= limit[0]:
            break
        chosen, fewest = -1, 0
        for p in range(n_arms):
            arm = tie_order[p]
            if dropped_after[arm] == 0 and seen[arm] < min(phases[phase], n_cells[arm]) and (chosen < 0 or seen[arm] < fewest):
                chosen, fewest = arm, seen[arm]
        target = min(phases[phase], n_cells[chosen])
        size = min(batch_size, target - seen[chosen])
        after, taken, score_sum, charged = take_batch(scores, cost, order, chosen, position[chosen], size, total[chosen])
        if spent + charged > limit[1]:
            end = REFUSED
            break
        position[chosen], total[chosen] = after, score_sum
        seen[chosen] += taken
        spent += charged
        if seen[chosen] >= target:
            n_waiting -= 1
        while phase < n_phases and n_waiting == 0:
            phase += 1
            dropped_after[worst_survivor(dropped_after, seen, total, tie_order)] = phase
            if phase < n_phases:
                n_waiting = count_waiting(phases[phase], dropped_after, seen, n_cells)
        out_steps[step, 0], out_steps[step, 1] = chosen, taken
        out_steps[step, 2] = best_survivor(dropped_after, seen, total, tie_order)
        out_steps[step, 3] = -1
        out_money[step, 0], out_money[step, 1] = charged, spent
        step += 1
    return step, end, phase


@kernel
def count_waiting(target: int, dropped_after: IntArray, seen: IntArray, n_cells: IntArray) -> int:
    """Survivors that do not have their examples of the phase."""
    count = 0
    for arm in range(len(seen)):
        if dropped_after[arm] == 0 and seen[arm] < min(target, n_cells[arm]):
            count += 1
    return count


@kernel
def worst_survivor(dropped_after: IntArray, seen: IntArray, total: FloatArray, tie_order: IntArray) -> int:
    """The smallest mean, -inf without data; of equals the last in the tie order."""
    worst, lowest = -1, 0.0
    for p in range(len(tie_order)):
        arm = tie_order[p]
        if dropped_after[arm] == 0:
            mean = total[arm] / seen[arm] if seen[arm] > 0 else -np.inf
            if worst < 0 or mean <= lowest:
                worst, lowest = arm, mean
    return worst


@kernel
def best_survivor(dropped_after: IntArray, seen: IntArray, total: FloatArray, tie_order: IntArray) -> int:
    """The largest mean among survivors with data, of equals the first; without any data the first survivor."""
    best, first, highest = -1, -1, 0.0
    for p in range(len(tie_order)):
        arm = tie_order[p]
        if dropped_after[arm] == 0:
            if first < 0:
                first = arm
            if seen[arm] > 0:
                mean = total[arm] / seen[arm]
                if best < 0 or mean > highest:
                    best, highest = arm, mean
    return best if best >= 0 else first


@kernel
def mark_told(
    scores: FloatArray, order: IntArray, arms: IntArray, top: IntArray, told: int, out_state: NDArray[np.uint8], out_scores: FloatArray
) -> None:
    """States and scores by position of the cells that a replay evaluated, one row per entry of `arms`; `top` is by arm."""
    for i in range(len(arms)):
        row = order[arms[i]] if len(order) > 1 else order[0]
        for position in range(top[arms[i]]):
            score = scores[arms[i], row[position]]
            if score == score:
                out_state[i, position] = told
                out_scores[i, position] = score
