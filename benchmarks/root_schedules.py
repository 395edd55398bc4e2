"""Root schedules against the recursion in plain numpy, interleaved: ``python benchmarks/root_schedules.py``.

Prints, for each claim, the best time of either side over alternating runs, their ratio, the ratio wanted and the
error of the roots. One thread; the JIT is warm and FFTs are planned before the first timed run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(variable, None)
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402

from asv_bench.benchmarks.induction import make_chain  # noqa: E402
from lrgittins._root_methods import banded_roots, fft_roots, panel_roots, paper_roots  # noqa: E402
from tests.reference.plain_fft import plain_fft_roots  # noqa: E402

Roots = Callable[[], np.ndarray]


def interleave(sides: dict[str, Roots], seconds: float, least: int = 3) -> dict[str, float]:
    """Best time of each side, in milliseconds, over alternating runs."""
    best = dict.fromkeys(sides, np.inf)
    for run in sides.values():
        run()
    begun, rounds = time.perf_counter(), 0
    while rounds < least or time.perf_counter() - begun < seconds:
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
        rounds += 1
    return {name: 1e3 * t for name, t in best.items()}


def report(title: str, plain: Roots, ours: dict[str, tuple[Roots, float | None]], exact: np.ndarray, seconds: float) -> None:
    best = interleave({"plain": plain, **{name: run for name, (run, _) in ours.items()}}, seconds)
    print(f"\n{title}\n  {'plain numpy FFT, P = 1025':<34}{best['plain']:10.2f} ms{'':>24}  root error {np.abs(plain() - exact).max():.1e}")
    for name, (run, wanted) in ours.items():
        ratio = best["plain"] / best[name]
        goal = "" if wanted is None else f"(wanted {wanted:.3g})"
        print(f"  {name:<34}{best[name]:10.2f} ms  {ratio:7.2f} x {goal:<14}  root error {np.abs(run() - exact).max():.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="time spent on each comparison")
    seconds = parser.parse_args().seconds
    unit = np.array([1e-4])
    for (n, b), panel_goal, banded_goal in (((1000, 8), 5.0, 4.0), ((1534, 2), 2.0, 10.0)):
        batch, std = make_chain(n, b)
        exact = panel_roots(unit, batch, std, 1e-10).roots
        ours: dict[str, tuple[Roots, float | None]] = {
            "panel to 1e-6 (auto)": (lambda batch=batch, std=std: panel_roots(unit, batch, std, 1e-6).roots, panel_goal),
            "panel to 1e-10": (lambda batch=batch, std=std: panel_roots(unit, batch, std, 1e-10).roots, None),
            "banded, P = 1025 (with its bound)": (
                lambda batch=batch, std=std: banded_roots(unit, batch, std, 1.0, 1025).roots,
                banded_goal,
            ),
            "paper through FFTW": (lambda batch=batch, std=std: paper_roots(unit, batch, std, None).roots, 1 / 0.7),
        }
        report(
            f"one schedule, N = {n}, B = {b}",
            lambda batch=batch, std=std: plain_fft_roots(unit[0] * batch, std),
            ours,
            exact,
            seconds,
        )
    batch, std = make_chain(1000, 8)
    prices = unit * np.geomspace(0.1, 10.0, 100)
    many: dict[str, tuple[Roots, float | None]] = {
        "panel to 1e-6 (auto)": (lambda: panel_roots(prices, batch, std, 1e-6).roots, 8.0),
        "banded to 1e-5": (lambda: banded_roots(prices, batch, std, 1e-5, None).roots, None),
        "fft to 1e-5, kernels shared": (lambda: fft_roots(prices, batch, std, 1e-5, None).roots, None),
        "banded, P = 1025": (lambda: banded_roots(prices, batch, std, 1.0, 1025).roots, None),
        "fft, P = 1025, kernels shared": (lambda: fft_roots(prices, batch, std, 1.0, 1025).roots, None),
        "paper through FFTW": (lambda: paper_roots(prices, batch, std, None).roots, 1 / 0.7),
    }
    report(
        "100 distinct prices, N = 1000, B = 8",
        lambda: np.stack([plain_fft_roots(p * batch, std) for p in prices]),
        many,
        panel_roots(prices, batch, std, 1e-10).roots,
        seconds,
    )


if __name__ == "__main__":
    main()
