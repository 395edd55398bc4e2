"""The ways of computing roots: each takes chains that differ in cost alone and says how far it got.

Every solver runs at two resolutions at least and reports the largest change of a root between them, which is the error of
the coarser run, as the bound for the finer one that it returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ._fft import fast_length, get_transform
from ._kernels.grid_induction import advance_grids, fill_bump, fill_bumps, solve_banded_many, start_grids
from ._kernels.induction import bound_roots, solve_panels

FloatArray = NDArray[np.float64]

PAPER_POINTS = 1025
# Grids double from the first size up to the last; at the last one schedule takes seconds.
_FIRST_POINTS = 1025
_LAST_POINTS = 65537
# Rows of one FFT: enough to fill vector units, few enough for the second-level cache.
_FFT_ROWS = 16


@dataclass(frozen=True)
class PanelLevel:
    """Gauss-Legendre nodes a panel, panel width and band in transition deviations, reach of the panels beyond the largest root."""

    n_nodes: int
    width: float
    band: float
    tail: float


# Error of a root at H = 125 to 767, price 1 and 10: 2e-5, 1e-6, 3e-8, 3e-12, 3e-15; the last two are for costs near 0.
PANEL_LEVELS = (
    PanelLevel(3, 2.0, 4.5, 4.5),
    PanelLevel(4, 2.0, 5.5, 5.5),
    PanelLevel(5, 2.0, 6.0, 6.0),
    PanelLevel(8, 2.5, 7.0, 7.0),
    PanelLevel(12, 3.0, 8.0, 8.0),
    PanelLevel(16, 2.5, 9.0, 9.0),
    PanelLevel(16, 1.5, 11.0, 11.0),
)


@dataclass(frozen=True)
class Solution:
    """Roots (n_costs, H) and their error bounds (n_costs,); `level` (n_costs,) is the panel level or the grid points used."""

    roots: FloatArray
    bound: FloatArray
    level: NDArray[np.int64]


@cache
def gauss_legendre(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def rounding_bound(unit_cost: FloatArray, batch: FloatArray, std: FloatArray) -> FloatArray:
    """What H additions of rounded numbers of size S_0 + C_0 can do, shape (n_costs,)."""
    return 2.0 * np.finfo(float).eps * (len(std) + 10) * (math.sqrt(float(np.sum(std**2))) + unit_cost * batch.sum())


def allowed_error(tol: float, unit_cost: FloatArray, batch: FloatArray) -> FloatArray:
    """`tol`, or the rounding of the total cost where that alone is more, shape (n_costs,)."""
    return np.maximum(tol, 2.0 * np.finfo(float).eps * (len(batch) + 10) * unit_cost * batch.sum() * 1.01)


def bounds_of_roots(unit_cost: FloatArray, batch: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower bounds and how far below C_n they lie, both (n_costs, H)."""
    lower = np.empty((len(unit_cost), len(std)))
    gap = np.empty_like(lower)
    bound_roots(unit_cost, batch, std, lower, gap)
    return lower, gap


def closeness_of(tol: float, n_stages: int) -> float:
    """The gap between a root's bounds at which C_n is taken: all stages together may spend a thousandth of `tol`."""
    return 1e-3 * tol / n_stages


def first_panel_level(tol: float) -> int:
    """The coarser of the two levels that usually meet `tol`."""
    return 0 if tol >= 1e-4 else 1 if tol >= 5e-7 else 2 if tol >= 1e-7 else 3 if tol >= 1e-11 else 4


@dataclass(frozen=True)
class PanelValues:
    """W_{H-1}, ..., W_1 of a chain as weighted node values in that order; panels, right ends and lengths by stage, (H,) or (H + 1,)."""

    flat: FloatArray
    starts: FloatArray
    widths: FloatArray
    rights: FloatArray
    lengths: NDArray[np.int64]


def fill_roots(
    unit_cost: FloatArray, batch: FloatArray, std: FloatArray, level: int, tol: float, keep: bool, roots: FloatArray, gaps: FloatArray
) -> PanelValues:
    """One run of the panel kernel at one level, from the roots in `roots` (NaN: none) into them; `keep` the last chain's W."""
    settings = PANEL_LEVELS[level]
    # One compiled form, whether the caller's arrays are read-only or not.
    unit_cost, batch, std = (np.require(array, requirements=["C", "W"]) for array in (unit_cost, batch, std))
    nodes, weights = gauss_legendre(settings.n_nodes)
    n_stages = len(std)
    starts, widths, rights = np.zeros(n_stages), np.ones(n_stages), np.zeros(n_stages)
    lengths = np.zeros(n_stages + 1, dtype=np.int64)
    flat = solve_panels(
        unit_cost,
        batch,
        std,
        nodes,
        weights,
        settings.width,
        settings.band,
        settings.tail,
        closeness_of(tol, n_stages),
        keep,
        roots,
        gaps,
        starts,
        widths,
        rights,
        lengths,
    )
    return PanelValues(flat, starts, widths, rights, lengths)


def _run_panels(unit_cost: FloatArray, batch: FloatArray, std: FloatArray, level: int, tol: float, start: FloatArray) -> Solution:
    roots = start.copy()
    gaps = np.zeros(len(unit_cost))
    fill_roots(unit_cost, batch, std, level, tol, False, roots, gaps)
    return Solution(roots, gaps * len(std), np.full(len(unit_cost), level))


def panel_roots(unit_cost: FloatArray, batch: FloatArray, std: FloatArray, tol: float) -> Solution:
    """Gauss-Legendre panels, two levels at a time, finer ones for the costs that have not met `tol`."""
    first = first_panel_level(tol)
    none = np.full((len(unit_cost), len(std)), np.nan)
    coarse = _run_panels(unit_cost, batch, std, first, tol, none).roots
    roots, bound = coarse.copy(), np.full(len(unit_cost), np.inf)
    used = np.zeros(len(unit_cost), dtype=np.int64)
    floor, allowed = rounding_bound(unit_cost, batch, std), allowed_error(tol, unit_cost, batch)
    todo = np.arange(len(unit_cost))
    for level in range(first + 1, len(PANEL_LEVELS)):
        fine = _run_panels(unit_cost[todo], batch, std, level, tol, roots[todo])
        reached = np.abs(fine.roots - roots[todo]).max(axis=1) + fine.bound + floor[todo]
        roots[todo], bound[todo], used[todo] = fine.roots, reached, level
        todo = todo[~(reached <= allowed[todo])]
        if len(todo) == 0 or np.all(floor[todo] > allowed[todo]):
            break
    return Solution(roots, bound, used)


def _grid_class(unit_cost: FloatArray, total_batch: float, total_std: float) -> NDArray[np.int64]:
    """Costs that may share a grid: octaves of C_0 / S_0 above 1, factors of 1024 below; no other cost changes a root's bits."""
    octave = np.ceil(np.log2(unit_cost * total_batch / total_std))
    return np.where(octave >= 1, octave, np.ceil(octave / 10)).astype(np.int64)


def _grid_range(grid_class: int, batch: FloatArray, std: FloatArray) -> tuple[float, float]:
    """The paper's interval for the largest cost of the class, widened on the left where the cheapest one's roots need it."""
    total_std = math.sqrt(float(np.sum(std**2)))
    scale = total_std / float(batch.sum())
    if grid_class >= 1:
        smallest, largest = 0.5 * 2.0**grid_class, 2.0**grid_class
    else:
        smallest, largest = 2.0 ** (10 * grid_class - 10), 2.0 ** (10 * grid_class)
    lower, _ = bounds_of_roots(np.array([smallest * scale]), batch, std)
    return min(-5.0 * total_std, float(lower.min()) - 0.1 * total_std), 1.01 * largest * total_std + 5.0 * total_std


def _grid_doubling(unit_cost: FloatArray, batch: FloatArray, std: FloatArray, tol: float, grid_points: int | None, fft: bool) -> Solution:
    """Grids of doubling size until two neighbours agree to `tol`; one pair only where `grid_points` names the finer."""
    lower, gap = bounds_of_roots(unit_cost, batch, std)
    closeness = closeness_of(tol, len(std))
    known = np.where(gap <= closeness, lower + gap, np.nan)
    total_std = math.sqrt(float(np.sum(std**2)))
    classes = _grid_class(unit_cost, float(batch.sum()), total_std)
    floor = rounding_bound(unit_cost, batch, std) + np.where(gap <= closeness, gap, 0.0).sum(axis=1)
    if fft:
        # A transform rounds at a fraction of eps of the largest value, and q rises by about c over one S at its root.
        floor = floor + 0.25 * np.finfo(float).eps * total_std**2 / (unit_cost * batch.min())
    allowed = allowed_error(tol, unit_cost, batch)
    low, high = np.empty(len(unit_cost)), np.empty(len(unit_cost))
    for value in np.unique(classes):
        low[classes == value], high[classes == value] = _grid_range(int(value), batch, std)

    def solve(rows: NDArray[np.int64], n_points: int) -> FloatArray:
        step = (high[rows] - low[rows]) / (n_points - 1)
        found = np.empty((len(rows), len(std)))
        if not fft:
            inside = np.empty(len(rows))
            solve_banded_many(unit_cost[rows], batch, std, low[rows], step, n_points, closeness, found, inside)
            found[inside == 0.0] = np.nan
            return found
        for value in np.unique(classes[rows]):
            mine = np.flatnonzero(classes[rows] == value)
            found[mine] = fft_grid_roots(
                unit_cost[rows[mine]], batch, std, low[rows[mine]], step[mine], n_points, snap=False, known=known[rows[mine]]
            )
        return found

    every = np.arange(len(unit_cost))
    n_points = _FIRST_POINTS if grid_points is None else grid_points
    half = (n_points + 1) // 2
    roots = solve(every, half)
    change = np.abs(roots - solve(every, (half + 1) // 2)).max(axis=1)
    bound = np.full(len(unit_cost), np.inf)
    used = np.full(len(unit_cost), n_points)
    todo = every
    while True:
        fine = solve(todo, n_points)
        newer, older = np.abs(fine - roots[todo]).max(axis=1), change[todo]
        # The error falls at least fourfold from grid to grid, but not evenly: where two neighbours agree by chance, the
        # change before that one tells. A grid too coarse to hold its roots gives NaN.
        reached = np.where(np.isnan(older), 4.0 * newer, np.fmax(newer, 0.25 * older)) + floor[todo]
        reached[np.isnan(newer)] = np.inf
        roots[todo], bound[todo], used[todo], change[todo] = fine, reached, n_points, newer
        todo = todo[~(reached <= allowed[todo])]
        if len(todo) == 0 or grid_points is not None or n_points >= _LAST_POINTS or np.all(floor[todo] > allowed[todo]):
            return Solution(roots, bound, used)
        n_points = 2 * n_points - 1


def banded_roots(unit_cost: FloatArray, batch: FloatArray, std: FloatArray, tol: float, grid_points: int | None) -> Solution:
    """Direct sums over the few non-zero taps of the kernel, chain by chain."""
    return _grid_doubling(unit_cost, batch, std, tol, grid_points, fft=False)


def fft_roots(unit_cost: FloatArray, batch: FloatArray, std: FloatArray, tol: float, grid_points: int | None) -> Solution:
    """Batched transforms; chains on one grid share the transforms of the kernel."""
    return _grid_doubling(unit_cost, batch, std, tol, grid_points, fft=True)


def paper_roots(unit_cost: FloatArray, batch: FloatArray, std: FloatArray, grid_points: int | None) -> Solution:
    """The paper's rule: each cost on its own grid, the root the first grid point with q >= 0. The bounds are left NaN."""
    n_points = PAPER_POINTS if grid_points is None else grid_points
    total_std = math.sqrt(float(np.sum(std**2)))
    low = np.full(len(unit_cost), -5.0 * total_std)
    step = (1.01 * unit_cost * batch.sum() + 5.0 * total_std - low) / (n_points - 1)
    none = np.full((len(unit_cost), len(std)), np.nan)
    roots = fft_grid_roots(unit_cost, batch, std, low, step, n_points, snap=True, known=none)
    left = np.isnan(roots)
    if left.any():  # left of the grid: the bound, never the grid's edge
        lower, _ = bounds_of_roots(unit_cost, batch, std)
        roots[left] = np.minimum(lower, low[:, None])[left]
    return Solution(roots, np.full(len(unit_cost), np.nan), np.full(len(unit_cost), n_points))


def fft_grid_roots(
    unit_cost: FloatArray,
    batch: FloatArray,
    std: FloatArray,
    low: FloatArray,
    step: FloatArray,
    n_points: int,
    *,
    snap: bool,
    known: FloatArray,
) -> FloatArray:
    """Roots (n_costs, H) on given grids; NaN where a root lies left of its grid.

    The masses beyond a grid are zero, so a circular convolution of length 2 P - 1 is exact. Transforms run on blocks of rows;
    the kernel's is made once a stage where all grids have the same step.
    """
    n_costs, n_stages = len(unit_cost), len(std)
    length = fast_length(2 * n_points - 1)
    shared = bool(np.all(step == step[0]))
    n_rows = min(_FFT_ROWS, n_costs)
    values, masses = np.empty((n_costs, n_points)), np.empty((n_costs, n_points))
    roots = np.empty((n_costs, n_stages))
    last = n_stages - 1
    start_grids(low, step, float(std[last]), unit_cost * batch[last], snap, known[:, last].copy(), values, masses)
    if not snap:
        lower, _ = bounds_of_roots(unit_cost, batch[last:], std[last:])
        roots[:, last] = np.where(np.isnan(known[:, last]), lower[:, 0], known[:, last])
        last -= 1
    transform = get_transform(n_rows, length)
    single = get_transform(1, length)
    column = np.empty(n_costs)
    for n in range(last, -1, -1):
        cost, known_now = unit_cost * batch[n], known[:, n].copy()
        if shared:
            fill_bump(float(std[n]), float(step[0]), n_points, single.real[0])
            single.forward()
            kernel_spectrum = single.spectrum * (1.0 / length)
        for begin in range(0, n_costs, n_rows):
            end = min(begin + n_rows, n_costs)
            rows = slice(begin, end)
            if not shared:
                fill_bumps(float(std[n]), step[rows], n_points, transform.real)
                transform.forward()
                kernel_spectrum = transform.spectrum * (1.0 / length)
            transform.real[: end - begin, :n_points] = masses[rows]
            transform.real[: end - begin, n_points:] = 0.0
            transform.forward()
            np.multiply(transform.spectrum, kernel_spectrum, out=transform.spectrum)
            transform.inverse()
            advance_grids(
                cost[rows], low[rows], step[rows], snap, known_now[rows], values[rows], transform.real, masses[rows], column[rows]
            )
        roots[:, n] = column
    return roots


def in_threads(solver: Callable[[FloatArray], Solution], unit_cost: FloatArray, n_jobs: int) -> Solution:
    """The costs in `n_jobs` contiguous parts, one thread each: kernels and transforms release the GIL."""
    if n_jobs == 1 or len(unit_cost) < 2:
        return solver(unit_cost)
    parts = np.array_split(unit_cost, min(n_jobs, len(unit_cost)))
    with ThreadPoolExecutor(len(parts)) as pool:
        solved = list(pool.map(solver, parts))
    return Solution(
        np.concatenate([s.roots for s in solved]), np.concatenate([s.bound for s in solved]), np.concatenate([s.level for s in solved])
    )
