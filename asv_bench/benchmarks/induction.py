"""Root schedules: time and peak memory by method at three sizes, with the error of the roots beside them."""

from __future__ import annotations

import numpy as np

from lrgittins._root_methods import Solution, banded_roots, fft_roots, panel_roots, paper_roots
from lrgittins.batch_schedule import batch_sizes
from lrgittins.root_schedule import transition_std

COST = 1e-4


def make_chain(n_examples: int, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Batch sizes and transition deviations (H,) of the default prior, noise and target."""
    sizes = batch_sizes(n_examples, batch_size)
    seen = np.cumsum(sizes) - sizes
    std = transition_std(sizes, seen, n_examples=n_examples, prior_variance=0.04, noise_variance=0.25, target="empirical")
    return sizes.astype(np.float64), std


def solve(method: str, unit_cost: np.ndarray, batch: np.ndarray, std: np.ndarray, tol: float) -> Solution:
    """The solvers below the cache of `root_schedule`."""
    if method == "panel":
        return panel_roots(unit_cost, batch, std, tol)
    if method == "banded":
        return banded_roots(unit_cost, batch, std, tol, None)
    if method == "fft":
        return fft_roots(unit_cost, batch, std, tol, None)
    return paper_roots(unit_cost, batch, std, None)


class OneSchedule:
    """One price, by method and size (n_examples, batch_size): H = 13, 125, 767."""

    params = (["panel", "banded", "fft", "paper"], [(100, 8), (1000, 8), (1534, 2)])
    param_names = ("method", "size")
    timeout = 300

    def setup(self, method: str, size: tuple[int, int]) -> None:
        self.batch, self.std = make_chain(*size)
        self.cost = np.array([COST])
        # The grid methods need tens of thousands of points at the largest size; 1e-5 shows the same work.
        self.tol = 1e-6 if method == "panel" else 1e-5
        solve(method, self.cost, self.batch, self.std, self.tol)  # compiles and plans here

    def time_solve(self, method: str, size: tuple[int, int]) -> None:
        solve(method, self.cost, self.batch, self.std, self.tol)

    def peakmem_solve(self, method: str, size: tuple[int, int]) -> None:
        solve(method, self.cost, self.batch, self.std, self.tol)

    def track_root_error(self, method: str, size: tuple[int, int]) -> float:
        exact = panel_roots(self.cost, self.batch, self.std, 1e-10).roots
        return float(np.abs(solve(method, self.cost, self.batch, self.std, self.tol).roots - exact).max())


class ManyPrices:
    """Distinct prices on one chain, N = 1000, B = 8."""

    params = (["panel", "banded", "fft", "paper"], [1, 10, 100])
    param_names = ("method", "n_prices")
    timeout = 300

    def setup(self, method: str, n_prices: int) -> None:
        self.batch, self.std = make_chain(1000, 8)
        self.cost = COST * np.geomspace(0.1, 10.0, n_prices)
        self.tol = 1e-6 if method == "panel" else 1e-5
        solve(method, self.cost[:1], self.batch, self.std, self.tol)

    def time_solve(self, method: str, n_prices: int) -> None:
        solve(method, self.cost, self.batch, self.std, self.tol)

    def peakmem_solve(self, method: str, n_prices: int) -> None:
        solve(method, self.cost, self.batch, self.std, self.tol)

    def track_root_error(self, method: str, n_prices: int) -> float:
        exact = panel_roots(self.cost, self.batch, self.std, 1e-10).roots
        return float(np.abs(solve(method, self.cost, self.batch, self.std, self.tol).roots - exact).max())
