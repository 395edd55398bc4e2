"""Backward induction of the centred optimal-stopping recursion on Gauss-Legendre panels.

``W_H(x) = max(x, 0);  q_n(x) = -c_n + E W_{n+1}(x + s_n Z);  W_n = max(0, q_n);  q_n(r_n) = 0``.

W_{n+1} is kept at Gauss-Legendre nodes of equal panels over [r_{n+1}, R]: the kink is a panel end, and right of R
the function is x - C_{n+1} to within the chosen tail, so its expectation there is closed form. Widths come from a
ladder, hence most neighbouring stages share theirs, and the Gaussian kernel between their panels depends on the
panel distance alone: one small table of exponentials serves all panels (a block Toeplitz product).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lrgittins._numba import kernel

from .normal import expected_improvement, inverse_expected_improvement, normal_cdf, normal_pdf

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_INV_SQRT_2PI = 0.3989422804014327
# Ratio of neighbouring panel widths on the ladder: a larger one wastes nodes, a smaller one loses shared tables.
_RUNG = 1.25
# Left of the last panel end by this many deviations the closed-form tail is below 1e-30 of anything it is added to.
_NEGLIGIBLE = 12.0


@kernel
def _tail_value(x: float, s: float, right: float, cost_to_go: float) -> tuple[float, float]:
    """E[(Y - C) 1{Y > R}] for Y ~ N(x, s^2), and its derivative in x."""
    z = (x - right) / s
    if right == cost_to_go:  # the whole of max(x - C, 0): keep the relative accuracy of its left tail
        return expected_improvement(x - cost_to_go, s), normal_cdf(z)
    if z < -_NEGLIGIBLE - 26.0:
        return 0.0, 0.0
    probability = normal_cdf(z)
    density = normal_pdf(z)
    return (x - cost_to_go) * probability + s * density, probability + density * (right - cost_to_go) / s


@kernel
def expect_stage(
    x: float,
    s: float,
    first: float,
    width: float,
    n_panels: int,
    values: FloatArray,
    nodes: FloatArray,
    right: float,
    cost_to_go: float,
    band_left: float,
    band_right: float,
) -> tuple[float, float]:
    """E W(x + s Z) and its derivative; `values` (n_nodes, n_panels) are W times the quadrature weights."""
    total, slope = _tail_value(x, s, right, cost_to_go)
    low = max(0, int(math.floor((x - band_left * s - first) / width)))
    high = min(n_panels - 1, int(math.floor((x + band_right * s - first) / width)))
    inverse = 1.0 / s
    for j in range(nodes.shape[0]):
        offset = first + width * nodes[j] - x
        for p in range(low, high + 1):
            z = (offset + width * p) * inverse
            mass = values[j, p] * math.exp(-0.5 * z * z)
            total += mass * (_INV_SQRT_2PI * inverse)
            slope += mass * z * (_INV_SQRT_2PI * inverse * inverse)
    return total, slope


@kernel
def find_root(
    guess: float,
    cost: float,
    s: float,
    first: float,
    width: float,
    n_panels: int,
    values: FloatArray,
    nodes: FloatArray,
    right: float,
    cost_to_go: float,
    band_left: float,
    band_right: float,
    lower: float,
    upper: float,
    remaining_std: float,
) -> float:
    """The x with E W(x + s Z) = cost, between the bounds `lower` and `upper`: safeguarded Newton on the logarithm."""
    low, high = lower - 1e-9 * remaining_std, upper
    root = guess
    if not low < root < high:
        root = 0.5 * (low + high)
    for _ in range(100):
        total, slope = expect_stage(root, s, first, width, n_panels, values, nodes, right, cost_to_go, band_left, band_right)
        if total > cost:
            high = root
        else:
            low = root
        candidate = math.inf
        if total > 0.0 and slope > 0.0:
            if 0.5 * cost < total < 2.0 * cost:
                # The difference is exact here, the logarithm of a ratio near 1 is not.
                candidate = root - math.log1p((total - cost) / cost) * total / slope
            else:
                candidate = root + (math.log(cost) - math.log(total)) * total / slope
        inside = low <= candidate <= high
        if not inside:
            candidate = 0.5 * (low + high)
        step = candidate - root
        root = candidate
        # A Newton step this small leaves an error of its square; a halving must go on to the last bits.
        if abs(step) <= (1e-7 if inside else 1e-16) * s:
            break
    return root


@kernel
def _fill_shared_width(
    start: float,
    first: float,
    width: float,
    n_source: int,
    source: FloatArray,
    s: float,
    nodes: FloatArray,
    band_left: float,
    band_right: float,
    n_target: int,
    out: FloatArray,
) -> None:
    """Panels to panels of the same width: the kernel depends on the panel distance alone."""
    n_nodes = nodes.shape[0]
    shift = first - start
    inverse = 1.0 / s
    low = int(math.floor((-band_left * s - shift) / width)) - 1
    high = int(math.ceil((band_right * s - shift) / width)) + 1
    low = max(low, 1 - n_target)
    high = min(high, n_source - 1)
    for distance in range(low, high + 1):
        begin = max(0, -distance)
        end = min(n_target, n_source - distance)
        if begin >= end:
            continue
        for j in range(n_nodes):
            shifted = source[j, begin + distance : end + distance]
            for i in range(n_nodes):
                z = (shift + width * (distance + nodes[j] - nodes[i])) * inverse
                if z > band_right + 0.5 or z < -band_left - 0.5:
                    continue
                weight = _INV_SQRT_2PI * inverse * math.exp(-0.5 * z * z)
                row = out[i, begin:end]
                for p in range(row.shape[0]):
                    row[p] += weight * shifted[p]


@kernel
def _fill_any_width(
    start: float,
    new_width: float,
    first: float,
    width: float,
    n_source: int,
    source: FloatArray,
    s: float,
    nodes: FloatArray,
    band_left: float,
    band_right: float,
    n_target: int,
    out: FloatArray,
) -> None:
    """Panels to panels of another width: every pair of nodes within the band has its own exponential."""
    n_nodes = nodes.shape[0]
    inverse = 1.0 / s
    for i in range(n_nodes):
        for p in range(n_target):
            x = start + new_width * (p + nodes[i])
            low = max(0, int(math.floor((x - band_left * s - first) / width)))
            high = min(n_source - 1, int(math.floor((x + band_right * s - first) / width)))
            total = 0.0
            for j in range(n_nodes):
                offset = first + width * nodes[j] - x
                for q in range(low, high + 1):
                    z = (offset + width * q) * inverse
                    total += source[j, q] * math.exp(-0.5 * z * z)
            out[i, p] = total * (_INV_SQRT_2PI * inverse)


@kernel
def _finish_nodes(
    start: float,
    width: float,
    n_panels: int,
    s: float,
    right: float,
    cost_to_go: float,
    cost: float,
    tail_from: float,
    nodes: FloatArray,
    weights: FloatArray,
    values: FloatArray,
) -> None:
    """From the panels' part of E W to weighted W: the closed-form tail (right of `tail_from`), the cost, the weights."""
    for i in range(nodes.shape[0]):
        weight = weights[i] * width
        for p in range(n_panels):
            x = start + width * (p + nodes[i])
            total = values[i, p]
            if x > tail_from:
                total += _tail_value(x, s, right, cost_to_go)[0]
            values[i, p] = weight * max(0.0, total - cost)


@kernel
def solve_panels(
    unit_cost: FloatArray,
    batch: FloatArray,
    std: FloatArray,
    nodes: FloatArray,
    weights: FloatArray,
    width_factor: float,
    band: float,
    tail: float,
    closeness: float,
    keep: bool,
    roots: FloatArray,
    gaps: FloatArray,
    starts: FloatArray,
    widths: FloatArray,
    rights: FloatArray,
    bounds: IntArray,
) -> FloatArray:
    """Roots of chains that differ in cost alone, last stage first: fills `roots` (n_costs, H).

    `unit_cost`: (n_costs,); `batch`, `std`: (H,); `roots` holds NaN or the roots of a coarser pass to start from. `gaps`
    (n_costs,) gets the largest gap accepted where a root was taken from its bounds (`closeness` at most).
    With `keep`, the weighted node values of W_{H-1}, ..., W_1 of the last chain come back in one flat array, in that order:
    stage n takes `bounds[n]` of them, shape (n_nodes, n_panels), on panels of `widths[n]` from `starts[n]`; right of
    `rights[n]` it is x - C_n. One function does it all, as every further layer of calls costs seconds of compile time.
    """
    n_stages = std.shape[0]
    n_nodes = nodes.shape[0]
    cost_to_go = np.zeros(n_stages + 1)
    variance_to_go = np.zeros(n_stages + 1)
    flat = np.empty(1 if not keep else 1024)
    used = 0
    for k in range(unit_cost.shape[0]):
        cost = unit_cost[k] * batch
        for n in range(n_stages - 1, -1, -1):
            cost_to_go[n] = cost_to_go[n + 1] + cost[n]
            variance_to_go[n] = variance_to_go[n + 1] + std[n] * std[n]
        used = 0
        bounds[:] = 0
        gaps[k] = 0.0
        largest_root = 0.0  # the kink of W_H counts: an arm that turns out bad is still left at the end
        previous_root = 0.0
        # The function of the stage ahead; W_H = max(x, 0) has no panels and its tail starts at 0.
        first, width, n_panels, right = 0.0, 1.0, 0, 0.0
        values = np.empty((n_nodes, 0))
        for n in range(n_stages - 1, -1, -1):
            s = std[n]
            remaining = math.sqrt(variance_to_go[n])
            ahead = cost_to_go[n + 1]
            lower = ahead + inverse_expected_improvement(cost[n], remaining)
            upper = cost_to_go[n]
            gap = expected_improvement(ahead - lower, remaining)  # equals C_n - lower, without its cancellation
            by_bound = s <= 0.0 or gap <= closeness
            if by_bound:
                root = upper
                if s > 0.0:
                    gaps[k] = max(gaps[k], gap)
            elif n == n_stages - 1:
                root = lower
            else:
                tilt = 0.0
                if lower < ahead:  # a cheap batch: W grows by orders of magnitude to the right, and the band must follow
                    tilt = s * (ahead - lower) / variance_to_go[n]
                guess = roots[k, n]  # the roots of a coarser pass, where there was one
                if math.isnan(guess):
                    guess = 2.0 * roots[k, n + 1] - previous_root if n < n_stages - 2 else roots[k, n + 1]
                root = find_root(
                    guess, cost[n], s, first, width, n_panels, values, nodes, right, ahead, band, band + tilt, lower, upper, remaining
                )
            previous_root = roots[k, n + 1] if n < n_stages - 1 else root
            roots[k, n] = root
            if n == 0:
                break
            largest_root = max(largest_root, root)
            # W_n at its own nodes, on the widest rung below width_factor times the two deviations that meet here.
            tilt = 0.0
            if lower < ahead and s > 0.0:
                tilt = s * (ahead - lower) / variance_to_go[n]
            if by_bound:
                new_width, new_panels, new_right = 1.0, 0, root
                new_values = np.empty((n_nodes, 0))
            else:
                wanted = width_factor * min(s, std[n - 1])
                new_width = _RUNG ** math.floor(math.log(wanted) / math.log(_RUNG))
                reach = max(largest_root, root) + tail * remaining
                new_panels = max(1, int(math.ceil((reach - root) / new_width)))
                new_right = root + new_panels * new_width
                new_values = np.zeros((n_nodes, new_panels))
                if n_panels > 0:
                    if new_width == width:
                        _fill_shared_width(root, first, width, n_panels, values, s, nodes, band, band + tilt, new_panels, new_values)
                    else:
                        _fill_any_width(
                            root, new_width, first, width, n_panels, values, s, nodes, band, band + tilt, new_panels, new_values
                        )
                tail_from = right - (band + tilt + 1.0) * s if n_panels > 0 else -math.inf
                _finish_nodes(root, new_width, new_panels, s, right, ahead, cost[n], tail_from, nodes, weights, new_values)
            first, width, n_panels, right, values = root, new_width, new_panels, new_right, new_values
            starts[n], widths[n], rights[n] = first, width, right
            bounds[n] = n_panels * n_nodes
            if keep:
                length = n_panels * n_nodes
                if used + length > flat.shape[0]:
                    grown = np.empty(2 * (used + length))
                    grown[:used] = flat[:used]
                    flat = grown
                for i in range(n_nodes):
                    for p in range(n_panels):
                        flat[used] = values[i, p]
                        used += 1
    return flat[:used].copy()


@kernel
def bound_roots(unit_cost: FloatArray, batch: FloatArray, std: FloatArray, lower: FloatArray, gap: FloatArray) -> None:
    """Bounds of every root, both (n_costs, H): ``lower = C_{n+1} + EIinv_{S_n}(c_n)`` and ``gap = C_n - lower``.

    With the outcome of the whole arm known in advance, one would go on exactly where it pays for the rest: hence
    ``W_{n+1}(x) <= E max(0, x + S_{n+1} Z - C_{n+1})``, which gives the lower bound. Going on to the end whatever happens
    gives the upper one, C_n.
    """
    for k in range(unit_cost.shape[0]):
        ahead = 0.0
        variance = 0.0
        for n in range(std.shape[0] - 1, -1, -1):
            variance += std[n] * std[n]
            remaining = math.sqrt(variance)
            offset = inverse_expected_improvement(unit_cost[k] * batch[n], remaining)
            lower[k, n] = ahead + offset
            gap[k, n] = expected_improvement(-offset, remaining)  # without the cancellation of c - EIinv(c)
            ahead += unit_cost[k] * batch[n]
