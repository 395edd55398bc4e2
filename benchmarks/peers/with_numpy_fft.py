"""Plain numpy: the root recursion with FFTs on the paper's grid, as one would write it; not a package, so no environment of its own."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lrgittins._root_methods import panel_roots
from lrgittins.batch_schedule import batch_sizes
from lrgittins.root_schedule import transition_std

from .inputs import Size
from .timing import Case

REFERENCE = Path(__file__).resolve().parents[2] / "tests" / "reference" / "plain_fft.py"  # also what the tests compare with


def cases(size: Size) -> Iterator[Case]:
    plain_fft_roots = runpy.run_path(str(REFERENCE))["plain_fft_roots"]
    full = ((1000, 8, 1, 5.0), (1534, 2, 1, 2.0), (1000, 8, 100, 8.0))
    panels = full if size.matrix[1] >= 1000 else ((60, 8, 1, 1.0), (60, 8, 100, 1.0))
    for n, b, n_prices, wanted in panels:
        sizes = batch_sizes(n, b)
        std = transition_std(sizes, np.cumsum(sizes) - sizes, n_examples=n, prior_variance=0.04, noise_variance=0.25, target="empirical")
        batch = sizes.astype(np.float64)
        price = 1e-4 * (np.ones(1) if n_prices == 1 else np.geomspace(0.1, 10.0, n_prices))
        yield Case(
            "roots", f"root schedules of {n_prices} {'price' if n_prices == 1 else 'prices'}, N = {n}, B = {b}",
            "recursion by FFT, 1,025 grid points: roots are off by up to half a grid step and more", "root schedule to 1e-6",
            lambda price=price, batch=batch, std=std: np.stack([plain_fft_roots(p * batch, std) for p in price]),
            lambda price=price, batch=batch, std=std: panel_roots(price, batch, std, 1e-6).roots,
            lambda theirs, ours: float(np.abs(theirs - ours).max()), "roots (their grid error)", wanted,
        )  # fmt: skip
