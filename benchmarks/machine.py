"""What one core of this machine can do: memory, cache, multiplications, exponentials, normal numbers; best of several runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numba
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

RATES = {
    "copy": "bytes/s, c = a beyond the caches, 16 bytes an element (STREAM's count: no write-allocate)",
    "triad": "bytes/s, c = a + s b beyond the caches, 24 bytes an element",
    "read": "bytes/s, sum of an array beyond the caches",
    "cache": "bytes/s, c = a + s b in 48 kB, 24 bytes an element",
    "flops": "flops/s, dgemm of OpenBLAS at 1,000 x 1,000",
    "exp": "calls/s, math.exp in a compiled loop",
    "log1p": "calls/s, math.log1p in a compiled loop",
    "normals": "numbers/s, Generator.standard_normal",
}


def best_time(run: Callable[[], object], rounds: int) -> float:
    """Smallest CPU time of a run, after one untimed."""
    run()
    best = math.inf
    for _ in range(rounds):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return max(best, 1e-9)


@numba.njit(nogil=True)
def _copy(a: FloatArray, out: FloatArray, times: int) -> None:
    for _ in range(times):
        for i in range(len(a)):
            out[i] = a[i]


@numba.njit(nogil=True)
def _triad(a: FloatArray, b: FloatArray, out: FloatArray, times: int) -> None:
    for k in range(times):
        for i in range(len(a)):
            out[i] = a[i] + (k + 0.5) * b[i]


@numba.njit(nogil=True, fastmath=True)  # several partial sums, or the additions' latency would be measured
def _read(a: FloatArray) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i]
    return total


@numba.njit(nogil=True)
def _exponentials(a: FloatArray) -> float:
    total = 0.0
    for i in range(len(a)):
        total += math.exp(a[i])
    return total


@numba.njit(nogil=True)
def _logarithms(a: FloatArray) -> float:
    total = 0.0
    for i in range(len(a)):
        total += math.log1p(a[i])
    return total


def measure(elements: int = 16_000_000, rounds: int = 5) -> dict[str, float]:
    """Every rate of `RATES`, per second; `elements` float64 of an array beyond the caches (128 MB each by default)."""
    a, b, c = np.ones(elements), np.ones(elements), np.zeros(elements)
    small = [np.ones(2000) for _ in range(3)]
    times = max(1, elements // 2000)
    size = 1000 if elements >= 1_000_000 else 100
    square = np.random.default_rng(0).standard_normal((size, size))
    product = np.empty((size, size))
    points = np.linspace(-4.0, 0.0, max(1000, elements // 16))
    small_points = np.exp(points)
    rng = np.random.default_rng(0)
    return {
        "copy": 16 * elements / best_time(lambda: _copy(a, c, 1), rounds),
        "triad": 24 * elements / best_time(lambda: _triad(a, b, c, 1), rounds),
        "read": 8 * elements / best_time(lambda: _read(a), rounds),
        "cache": 24 * 2000 * times / best_time(lambda: _triad(small[0], small[1], small[2], times), rounds),
        "flops": 2.0 * size**3 / best_time(lambda: np.matmul(square, square, out=product), 2 * rounds),
        "exp": len(points) / best_time(lambda: _exponentials(points), rounds),
        "log1p": len(points) / best_time(lambda: _logarithms(small_points), rounds),
        "normals": len(points) / best_time(lambda: rng.standard_normal(len(points)), rounds),
    }
