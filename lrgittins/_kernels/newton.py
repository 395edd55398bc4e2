"""Damped Newton for the score equations: factor rows (r unknowns each) and per-task Bradley-Terry scores."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel
from .elementary import BLOCK, softplus

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Statuses returned by both solvers.
CONVERGED = 0
MAX_ITERATIONS = 1
NO_DATA = 2


@kernel
def _entry_terms(
    start: int, size: int, count: FloatArray, wins: FloatArray, gap: FloatArray, work: FloatArray, bits: IntArray, weight: FloatArray
) -> float:
    """Residual (left in `gap`) and information (`weight`) of `size` entries from `start` on, at their gaps; returns their objective.

    `work` holds four rows of BLOCK numbers, `bits` the same memory as integers.
    """
    small, soft, value = work[0], work[1], work[3]
    softplus(gap, size, small, soft, work[2], bits[2])
    for k in range(size):
        n, won = count[start + k], wins[start + k]
        # Through losses and both probabilities: wins - n p would cancel where one side almost always wins.
        losses = n - won
        share = 1.0 / (1.0 + small[k])
        ahead = gap[k] >= 0.0
        value[k] = (-losses * gap[k] if ahead else won * gap[k]) - n * soft[k]
        gap[k] = (won * small[k] - losses if ahead else won - losses * small[k]) * share
        weight[k] = n * small[k] * share * share
    total = 0.0
    for k in range(size):
        total += value[k]
    return total


@kernel
def _weighted_product(x: FloatArray, y: FloatArray, weight: FloatArray, size: int) -> float:
    """Sum of x y weight, in four sums that do not wait for each other."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = size - size % 4
    for k in range(0, whole, 4):
        first += x[k] * y[k] * weight[k]
        second += x[k + 1] * y[k + 1] * weight[k + 1]
        third += x[k + 2] * y[k + 2] * weight[k + 2]
        fourth += x[k + 3] * y[k + 3] * weight[k + 3]
    for k in range(whole, size):
        first += x[k] * y[k] * weight[k]
    return (first + second) + (third + fourth)


@kernel
def _row_state(
    start: int,
    stop: int,
    plus: IntArray,
    minus: IntArray,
    factors: FloatArray,
    offset: FloatArray,
    count: FloatArray,
    wins: FloatArray,
    ridge: float,
    row: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
    work: FloatArray,
    bits: IntArray,
) -> float:
    """Objective of one row; fills gradient (r,) and minus the Hessian (r, r). `work` holds 7 + r rows of BLOCK numbers."""
    rank = len(row)
    gradient[:] = 0.0
    hessian[:] = 0.0
    gap, weight, ones = work[4], work[5], work[6]
    value = 0.0
    for first in range(start, stop, BLOCK):
        size = min(BLOCK, stop - first)
        for k in range(size):
            e = first + k
            gap[k] = -offset[e]
            ones[k] = 1.0
        for a in range(rank):
            x, by = work[7 + a], row[a]
            for k in range(size):
                e = first + k
                x[k] = factors[plus[e], a]
                if minus[e] >= 0:
                    x[k] -= factors[minus[e], a]
            for k in range(size):
                gap[k] += x[k] * by
        value += _entry_terms(first, size, count, wins, gap, work, bits, weight)
        for a in range(rank):
            gradient[a] += _weighted_product(work[7 + a], gap, ones, size)
            for b in range(a + 1):
                hessian[a, b] += _weighted_product(work[7 + a], work[7 + b], weight, size)
    for a in range(rank):
        value -= 0.5 * ridge * row[a] * row[a]
        gradient[a] -= ridge * row[a]
        hessian[a, a] += ridge
        for b in range(a):
            hessian[b, a] = hessian[a, b]
    return value


@kernel
def _solve_small(matrix: FloatArray, rhs: FloatArray, out: FloatArray) -> None:
    """out = (matrix + the least diagonal that makes it positive definite)^-1 rhs; `matrix` is overwritten."""
    size = len(rhs)
    trace = 0.0
    for a in range(size):
        trace += matrix[a, a]
    added = 0.0
    root = np.empty((size, size))
    while True:
        good = True
        for a in range(size):
            for b in range(a + 1):
                s = matrix[a, b]
                if a == b:
                    s += added
                for c in range(b):
                    s -= root[a, c] * root[b, c]
                if a == b:
                    if s <= 1e-14 * trace / size or not np.isfinite(s):
                        good = False
                        break
                    root[a, a] = math.sqrt(s)
                else:
                    root[a, b] = s / root[b, b]
            if not good:
                break
        if good:
            break
        added = max(10.0 * added, 1e-12 * trace, 1e-300)
        if added > 1e300:
            out[:] = 0.0
            return
    for a in range(size):
        s = rhs[a]
        for c in range(a):
            s -= root[a, c] * out[c]
        out[a] = s / root[a, a]
    for a in range(size - 1, -1, -1):
        s = out[a]
        for c in range(a + 1, size):
            s -= root[c, a] * out[c]
        out[a] = s / root[a, a]


@kernel
def solve_factor_rows(
    indptr: IntArray,
    plus: IntArray,
    minus: IntArray,
    factors: FloatArray,
    offset: FloatArray,
    count: FloatArray,
    wins: FloatArray,
    ridge: float,
    tol: float,
    max_iter: int,
    rows: FloatArray,
    status: IntArray,
    iterations: IntArray,
) -> None:
    """Maximise, for every row u, sum_e wins x'l - count log(1 + e^(x'l - offset)) - ridge |l|^2 / 2 over l in R^r.

    Entries of row u are ``indptr[u]:indptr[u + 1]``; x is ``factors[plus] - factors[minus]`` (minus -1: ``factors[plus]``).
    `rows` (n_rows, r) holds the starts and is overwritten by the solutions. Stops at |gradient| <= tol * count, then
    takes one more step (quadratic convergence makes the root exact to rounding).
    """
    n_rows, rank = rows.shape
    gradient = np.empty(rank)
    hessian = np.empty((rank, rank))
    step = np.empty(rank)
    trial = np.empty(rank)
    work = np.empty((7 + rank, BLOCK))
    bits = work.view(np.int64)
    for u in range(n_rows):
        start, stop = indptr[u], indptr[u + 1]
        total = 0.0
        for e in range(start, stop):
            total += count[e]
        iterations[u] = 0
        if total == 0.0:
            rows[u, :] = 0.0
            status[u] = NO_DATA
            continue
        status[u] = MAX_ITERATIONS
        last = False
        row = rows[u]
        value = _row_state(start, stop, plus, minus, factors, offset, count, wins, ridge, row, gradient, hessian, work, bits)
        for iteration in range(max_iter):
            norm = math.sqrt(np.sum(gradient * gradient))
            if norm <= tol * total:
                if last or norm == 0.0:
                    status[u] = CONVERGED
                    break
                last = True
            iterations[u] = iteration + 1
            _solve_small(hessian, gradient, step)
            slope = np.sum(step * gradient)
            scale = 1.0
            accepted = False
            new_value = value
            for _ in range(40):
                for a in range(rank):
                    trial[a] = row[a] + scale * step[a]
                new_value = _row_state(start, stop, plus, minus, factors, offset, count, wins, ridge, trial, gradient, hessian, work, bits)
                if new_value >= value + 1e-4 * scale * slope - 1e-13 * abs(value):
                    accepted = True
                    break
                scale *= 0.5
            if not accepted:
                _row_state(start, stop, plus, minus, factors, offset, count, wins, ridge, row, gradient, hessian, work, bits)
                break
            for a in range(rank):  # an array assigned to a slice would compile seconds of message formatting
                row[a] = trial[a]
            value = new_value
        if status[u] == MAX_ITERATIONS and math.sqrt(np.sum(gradient * gradient)) <= tol * total:
            status[u] = CONVERGED


@kernel
def _task_state(
    start: int,
    stop: int,
    low: IntArray,
    high: IntArray,
    count: FloatArray,
    wins: FloatArray,
    ridge: float,
    local: IntArray,
    theta: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
    work: FloatArray,
    bits: IntArray,
) -> float:
    """Objective of one task's scores; fills gradient and minus the Hessian over its own models. `work`: 6 rows of BLOCK numbers."""
    size = len(theta)
    gradient[:] = 0.0
    hessian[:] = 0.0
    gap, weight = work[4], work[5]
    value = 0.0
    for first in range(start, stop, BLOCK):
        n_here = min(BLOCK, stop - first)
        for k in range(n_here):
            e = first + k
            gap[k] = theta[local[low[e]]] - theta[local[high[e]]] if count[e] > 0.0 else 0.0
        value += _entry_terms(first, n_here, count, wins, gap, work, bits, weight)
        for k in range(n_here):
            e = first + k
            if count[e] == 0.0:
                continue
            i, j = local[low[e]], local[high[e]]
            gradient[i] += gap[k]
            gradient[j] -= gap[k]
            hessian[i, i] += weight[k]
            hessian[j, j] += weight[k]
            hessian[i, j] -= weight[k]
            hessian[j, i] -= weight[k]
    for a in range(size):
        value -= 0.5 * ridge * theta[a] * theta[a]
        gradient[a] -= ridge * theta[a]
        hessian[a, a] += ridge
    return value


@kernel
def _solve_definite(matrix: FloatArray, column: FloatArray, out: FloatArray) -> None:
    """out = matrix^-1 out by Cholesky, for a positive definite matrix up to rounding; overwrites `matrix` and `column`.

    np.linalg.solve would be as good, but takes 7 s to compile. Columns are taken off the rest row by row, which vectorises.
    """
    size = len(out)
    floor = 0.0
    for a in range(size):
        floor = max(floor, 1e-16 * matrix[a, a])
    for k in range(size):
        pivot = math.sqrt(max(matrix[k, k], floor))
        matrix[k, k] = pivot
        for i in range(k + 1, size):
            column[i] = matrix[i, k] / pivot
            matrix[i, k] = column[i]
        for i in range(k + 1, size):
            factor = column[i]
            for j in range(k + 1, i + 1):
                matrix[i, j] -= factor * column[j]
        out[k] /= pivot
        for i in range(k + 1, size):
            out[i] -= column[i] * out[k]
    for k in range(size - 1, -1, -1):
        out[k] /= matrix[k, k]
        for j in range(k):
            out[j] -= matrix[k, j] * out[k]


@kernel
def solve_bradley_terry(
    indptr: IntArray,
    low: IntArray,
    high: IntArray,
    count: FloatArray,
    wins: FloatArray,
    pieces: IntArray,
    ridge: FloatArray,
    tol: float,
    max_iter: int,
    scores: FloatArray,
    status: IntArray,
    iterations: IntArray,
    gradient_norm: FloatArray,
    objective: FloatArray,
) -> None:
    """Fill `scores` (T, M) with every task's maximiser of loglik - ridge/2 |theta|^2; each connected piece sums to 0.

    `pieces` (T, M) labels connected pieces (-1: model unseen on the task, score left as it is). Cells of task t are
    ``indptr[t]:indptr[t + 1]``. Gradient norms are divided by the task's count. Stops at |gradient| <= tol * count and within
    1e-4 standard errors of the root (the Newton decrement: where one side almost always wins, as in 10^9 to 1, a gradient that is
    small per comparison is large against the information), then takes one more step.
    """
    n_tasks, n_models = pieces.shape
    local = np.empty(n_models, dtype=np.int64)
    work = np.empty((6, BLOCK))
    bits = work.view(np.int64)
    for t in range(n_tasks):
        start, stop = indptr[t], indptr[t + 1]
        size = 0
        for m in range(n_models):
            local[m] = -1
            if pieces[t, m] >= 0:
                local[m] = size
                size += 1
        total = 0.0
        for e in range(start, stop):
            total += count[e]
        iterations[t] = 0
        gradient_norm[t] = 0.0
        objective[t] = 0.0
        if size == 0 or total == 0.0:
            status[t] = NO_DATA
            continue
        piece = np.empty(size, dtype=np.int64)
        for m in range(n_models):
            if local[m] >= 0:
                piece[local[m]] = pieces[t, m]
        piece_size = np.zeros(size)  # at most that many pieces
        for a in range(size):
            piece_size[piece[a]] += 1.0
        theta = np.zeros(size)
        trial = np.empty(size)
        gradient = np.empty(size)
        hessian = np.empty((size, size))
        step = np.empty(size)
        column = np.empty(size)
        status[t] = MAX_ITERATIONS
        last = False
        n_small = 0
        value = _task_state(start, stop, low, high, count, wins, ridge[t], local, theta, gradient, hessian, work, bits)
        for iteration in range(max_iter):
            norm = math.sqrt(np.sum(gradient * gradient))
            if norm <= tol * total:
                if last or norm == 0.0:
                    status[t] = CONVERGED
                    break
                n_small += 1
            iterations[t] = iteration + 1
            # The gauge: adding a constant to a piece changes nothing, so its direction is filled in.
            scale = 0.0
            for a in range(size):
                scale += hessian[a, a] / size
            for a in range(size):
                for b in range(size):
                    if piece[a] == piece[b]:
                        hessian[a, b] += scale / piece_size[piece[a]]
                hessian[a, a] += 1e-15 * scale
            for a in range(size):
                step[a] = gradient[a]
            _solve_definite(hessian, column, step)
            slope = float(np.sum(step * gradient))
            last = n_small > 0 and (slope <= 1e-8 or n_small > 40)  # 40: rounding may keep the decrement above that
            shrink = 1.0
            accepted = False
            new_value = value
            for _ in range(50):
                for a in range(size):
                    trial[a] = theta[a] + shrink * step[a]
                new_value = _task_state(start, stop, low, high, count, wins, ridge[t], local, trial, gradient, hessian, work, bits)
                if new_value >= value + 1e-4 * shrink * slope - 1e-13 * abs(value):
                    accepted = True
                    break
                shrink *= 0.5
            if not accepted:
                _task_state(start, stop, low, high, count, wins, ridge[t], local, theta, gradient, hessian, work, bits)
                break
            for a in range(size):
                theta[a] = trial[a]
            value = new_value
        norm = math.sqrt(np.sum(gradient * gradient))
        if status[t] == MAX_ITERATIONS and norm <= tol * total:
            status[t] = CONVERGED
        gradient_norm[t] = norm / total
        objective[t] = value
        shift = np.zeros(len(piece_size))
        for a in range(size):
            shift[piece[a]] += theta[a]
        for m in range(n_models):
            a = local[m]
            if a >= 0:
                scores[t, m] = theta[a] - shift[piece[a]] / piece_size[piece[a]]
