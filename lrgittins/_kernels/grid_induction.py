"""Backward induction on a uniform grid: W is piecewise linear, slope 0 to the left of the grid and 1 to its right.

``E W(x + s Z) = W(x) + sum_j m_j g_s(x - x_j)``: m_j are the slope changes of W at the grid points and
``g_s(u) = EI_s(-|u|)`` is a bump that vanishes beyond 8.3 s. The sum is done directly over its few taps here
(`solve_banded`), or as one FFT product for many chains at once (the other kernels prepare and digest it).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lrgittins._numba import kernel

from .normal import expected_improvement, inverse_expected_improvement

FloatArray = NDArray[np.float64]

# g_s(8.3 s) is 1e-17 s.
_REACH = 8.3


@kernel
def fill_bump(s: float, step: float, n_points: int, out: FloatArray) -> None:
    """g_s at the lags of a circular convolution: ``out[t] = out[-t]``, 0 where no pair of grid points is that far."""
    length = out.shape[0]
    out[:] = 0.0
    taps = min(n_points - 1, int(_REACH * s / step) + 1)
    out[0] = expected_improvement(0.0, s)
    for t in range(1, taps + 1):
        value = expected_improvement(-t * step, s)
        out[t] = value
        out[length - t] = value


@kernel
def fill_masses(step: float, first: int, values: FloatArray, masses: FloatArray) -> None:
    """Slope changes of W, which is 0 left of grid point `first`; entries of `masses` beyond the grid are set to 0."""
    n_points = values.shape[0]
    masses[:] = 0.0
    before = 0.0
    for i in range(max(0, first - 1), n_points):
        after = (values[i + 1] - values[i]) / step if i + 1 < n_points else 1.0
        masses[i] = after - before
        before = after


@kernel
def sharpen(step: float, first: int, end: int, fraction: float, slope: float, masses: FloatArray, offset: int, values: FloatArray) -> None:
    """Take the excess of the chords over the convex W out of `values[first - 1 : end]`, to second order.

    Spreading a mass at y over its two grid points adds theta (1 - theta) step^2 of second moment, theta the place of y in
    its cell: 1/6 on average for the smooth part, and the kink's own theta for the kink. Without this every stage
    overstates W by O(step^2). `masses[offset + i]` belongs to point i, before the correction.
    """
    values[first - 1] = 0.0
    for i in range(first - 1, end):
        values[i] -= step * masses[offset + i] / 12.0
    excess = 0.5 * slope * step * (fraction * (1.0 - fraction) - 1.0 / 6.0)
    values[first - 1] -= excess * (1.0 - fraction)
    values[first] -= excess * fraction


@kernel
def locate_root(q: FloatArray, k: int, step: float) -> tuple[float, float]:
    """The zero of q between grid points k - 1 (q < 0) and k (q >= 0): its place in the cell, and the slope of q there.

    On the cubic through the four nearest points: q is smooth on the scale of s. Where the grid is coarser than that the
    cubic may leave the cell, and the chord serves.
    """
    linear = -q[k - 1] / (q[k] - q[k - 1])
    chord = (q[k] - q[k - 1]) / step
    if k < 2 or k + 1 >= q.shape[0]:
        return linear, chord
    a, b, c, d = q[k - 2], q[k - 1], q[k], q[k + 1]
    second = a - 2.0 * b + c
    third = d - 3.0 * c + 3.0 * b - a
    u, slope = linear, c - b
    for _ in range(30):
        # Newton's divided differences from point k - 1: nodes 0, 1, -1, 2.
        value = b + u * ((c - b) + (u - 1.0) * (0.5 * second + (u + 1.0) * third / 6.0))
        slope = (c - b) + (2.0 * u - 1.0) * 0.5 * second + (3.0 * u * u - 1.0) * third / 6.0
        if slope <= 0.0:
            return linear, chord
        change = -value / slope
        u += change
        if not 0.0 <= u <= 1.0:
            return linear, chord
        if abs(change) < 1e-13:
            break
    return u, slope / step


@kernel
def start_grid(
    low: float, step: float, s: float, cost: float, snap: bool, known_root: float, values: FloatArray, masses: FloatArray
) -> None:
    """The function the first transform works on.

    `snap` (the paper's rule): W_H = max(x, 0) on the grid. Otherwise W_{H-1}, whose q is closed form, sharpened.
    """
    n_points = values.shape[0]
    if snap:
        for i in range(n_points):
            values[i] = max(0.0, low + i * step)
        fill_masses(step, 0, values, masses)
    else:
        for i in range(n_points):
            values[i] = expected_improvement(low + i * step, s) - cost
        _finish_stage(low, step, False, known_root, values, masses)


@kernel
def _finish_stage(low: float, step: float, snap: bool, known_root: float, values: FloatArray, masses: FloatArray) -> float:
    """From q in `values` to W and its masses, and the root: `known_root` where it is a number, NaN left of the grid."""
    n_points = values.shape[0]
    first = n_points - 1
    for i in range(n_points):
        if values[i] >= 0.0:
            first = i
            break
    root = known_root
    fraction, slope = 1.0, 1.0
    if first > 0:
        if snap:
            fraction = 1.0
        else:
            fraction, slope = locate_root(values, first, step)
        if math.isnan(known_root):
            root = low + (first - 1 + fraction) * step
    for i in range(first):
        values[i] = 0.0
    fill_masses(step, first, values, masses)
    if not snap and first > 0:
        sharpen(step, first, n_points, fraction, slope, masses, 0, values)
        fill_masses(step, first - 1, values, masses)
    return root


@kernel
def advance_grid(
    cost: float, low: float, step: float, snap: bool, known_root: float, values: FloatArray, change: FloatArray, masses: FloatArray
) -> float:
    """One stage for one chain: `change` holds sum_j m_j g(x_i - x_j); overwrites `values` and `masses`, returns the root.

    `snap`: the root is the first grid point with q >= 0 (the paper's rule). A `known_root` that is not NaN is returned as
    it is. NaN comes back where q >= 0 on the first point already: the root lies left of the grid.
    """
    for i in range(values.shape[0]):
        values[i] += change[i] - cost
    return _finish_stage(low, step, snap, known_root, values, masses)


@kernel
def _add_taps(bump: FloatArray, taps: int, masses: FloatArray, pad: int, begin: int, end: int, q: FloatArray) -> None:
    """q[begin:end] += sum over the taps, by the bump's symmetry two masses at a time."""
    out = q[begin:end]
    centre = masses[pad + begin : pad + end]
    for i in range(out.shape[0]):
        out[i] += bump[0] * centre[i]
    for t in range(1, taps + 1):
        weight = bump[t]
        left = masses[pad + begin - t : pad + end - t]
        right = masses[pad + begin + t : pad + end + t]
        for i in range(out.shape[0]):
            out[i] += weight * (left[i] + right[i])


@kernel
def solve_banded(cost: FloatArray, std: FloatArray, low: float, step: float, n_points: int, closeness: float, roots: FloatArray) -> bool:
    """Roots (H,) of one chain on one grid. False where a root left the grid to the left.

    Only the window that matters is touched: left of the root W is 0, and beyond the largest root so far plus
    8.3 S_n it is x - C_n to the last bit.
    """
    n_stages = cost.shape[0]
    cost_to_go = np.zeros(n_stages + 1)
    variance_to_go = np.zeros(n_stages + 1)
    widest = 0.0
    for n in range(n_stages - 1, -1, -1):
        cost_to_go[n] = cost_to_go[n + 1] + cost[n]
        variance_to_go[n] = variance_to_go[n + 1] + std[n] * std[n]
        widest = max(widest, std[n])
    pad = min(n_points - 1, int(_REACH * widest / step) + 1) + 1
    bump = np.zeros(pad + 1)
    masses = np.zeros(n_points + 2 * pad)
    q = np.zeros(n_points)
    kink = 0  # first point of the previous stage with q >= 0
    window_end = 0
    largest_root = 0.0  # the kink of W_H counts: an arm that turns out bad is still left at the end
    inside = True
    for n in range(n_stages - 1, -1, -1):
        s = std[n]
        remaining = math.sqrt(variance_to_go[n])
        ahead = cost_to_go[n + 1]
        lower = ahead + inverse_expected_improvement(cost[n], remaining)
        by_bound = expected_improvement(ahead - lower, remaining) <= closeness
        taps = min(n_points - 1, int(_REACH * s / step) + 1)
        # Points beyond the window are x - C_{n+1} - c_n and have no mass; those the bump can reach are computed.
        end = min(n_points, window_end + taps + 1)
        if n == n_stages - 1:
            end = min(n_points, int((_REACH * s - low) / step) + 2)
            first = -1
            for i in range(end):
                q[i] = expected_improvement(low + i * step, s) - cost[n]
                if first < 0 and q[i] >= 0.0:
                    first = i
        else:
            for t in range(taps + 1):
                bump[t] = expected_improvement(-t * step, s)
            begin = max(0, kink - 8)
            fresh_from = end
            first = -1
            while True:
                for i in range(begin, fresh_from):
                    q[i] = (q[i] if i >= kink else 0.0) - cost[n]
                _add_taps(bump, taps, masses, pad, begin, fresh_from, q)
                if begin == 0 or q[begin + 1] < 0.0:  # the cubic at the crossing wants two points left of it
                    break
                fresh_from = begin
                begin = max(0, begin - 2 * (kink - begin) - 8)
            for i in range(begin, end):
                if q[i] >= 0.0:
                    first = i
                    break
        fraction, slope = 1.0, 1.0
        if first < 0:  # right of everything computed, where q is x - C_n
            first = min(n_points - 1, max(end, int(math.ceil((cost_to_go[n] - low) / step))))
            root = cost_to_go[n]
        elif first == 0:
            inside = False
            root = lower
        else:
            fraction, slope = locate_root(q, first, step)
            root = low + (first - 1 + fraction) * step
        if by_bound:
            root = cost_to_go[n]
        elif n == n_stages - 1:
            root = lower
        roots[n] = root
        if n == 0 or not inside:
            break
        largest_root = max(largest_root, root)
        new_end = int((largest_root + _REACH * remaining - low) / step) + 2
        new_end = min(n_points, max(new_end, first + 2))
        # Beyond the window W is linear; the next stage reads that part as far as its own bump reaches.
        for i in range(min(end, new_end), min(n_points, new_end + pad + 2)):
            q[i] = low + i * step - cost_to_go[n]
        q[first - 1] = 0.0
        _fill_window(step, first, new_end, q, masses, pad)
        sharpen(step, first, new_end, fraction, slope, masses, pad, q)
        _fill_window(step, first - 1, new_end, q, masses, pad)
        kink = first - 1
        window_end = min(n_points, new_end + 1)
    return inside


@kernel
def _fill_window(step: float, first: int, end: int, q: FloatArray, masses: FloatArray, pad: int) -> None:
    """Slope changes of W, which is 0 left of `first` and linear from `end` on."""
    n_points = q.shape[0]
    masses[:] = 0.0
    before = 0.0
    # The last mass is that of the first linear point: without it the slope would not end at 1, and errors would grow.
    for i in range(max(0, first - 1), min(n_points, end + 1)):
        here = q[i] if i >= first else 0.0
        after = (q[i + 1] - here) / step if i + 1 < n_points else 1.0
        if i == end:
            after = 1.0
        masses[pad + i] = after - before
        before = after


@kernel
def solve_banded_many(
    unit_cost: FloatArray,
    batch: FloatArray,
    std: FloatArray,
    low: FloatArray,
    step: FloatArray,
    n_points: int,
    closeness: float,
    roots: FloatArray,
    inside: FloatArray,
) -> None:
    """Chains that differ in cost alone, each on its own grid: fills `roots` (n_costs, H) and `inside` (1.0 or 0.0)."""
    for k in range(unit_cost.shape[0]):
        inside[k] = 1.0 if solve_banded(unit_cost[k] * batch, std, low[k], step[k], n_points, closeness, roots[k]) else 0.0


@kernel
def fill_bumps(s: float, step: FloatArray, n_points: int, out: FloatArray) -> None:
    """One bump per row of `out` (n_rows, length), row k at spacing ``step[k]``."""
    for k in range(step.shape[0]):
        fill_bump(s, step[k], n_points, out[k])


@kernel
def start_grids(
    low: FloatArray, step: FloatArray, s: float, cost: FloatArray, snap: bool, known: FloatArray, values: FloatArray, masses: FloatArray
) -> None:
    """`start_grid` for each row of `values` and `masses` (n_costs, n_points)."""
    for k in range(low.shape[0]):
        start_grid(low[k], step[k], s, cost[k], snap, known[k], values[k], masses[k])


@kernel
def advance_grids(
    cost: FloatArray,
    low: FloatArray,
    step: FloatArray,
    snap: bool,
    known: FloatArray,
    values: FloatArray,
    change: FloatArray,
    masses: FloatArray,
    roots: FloatArray,
) -> None:
    """`advance_grid` for each row; `change` (n_costs, at least n_points), `known` and `roots` (n_costs,)."""
    for k in range(low.shape[0]):
        roots[k] = advance_grid(cost[k], low[k], step[k], snap, known[k], values[k], change[k], masses[k])
