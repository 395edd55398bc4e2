"""Planned real transforms of rows: FFTW through pyfftw where it is there, `scipy.fft` otherwise.

Plans are made once per (rows, length) and thread, under one module lock (FFTW's planner is not thread-safe), with
``FFTW_ESTIMATE`` (a measured plan may differ from run to run in the last bits) and no wisdom kept. Each plan owns its
aligned buffers, so nobody's array is handed to FFTW and no two threads share one. Neither backend is imported before the
first transform.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

_MAX_PLANS = 8  # per thread
_lock = threading.Lock()
_local = threading.local()
_log = logging.getLogger("lrgittins")
_backend: tuple[str, ModuleType] | None = None
_generation = 0
_hits = 0
_misses = 0


@dataclass(frozen=True)
class PlanCacheInfo:
    """Counts over all threads since the last `clear_plans`; `size` is that of the calling thread."""

    hits: int
    misses: int
    size: int
    max_size: int


def _get_backend() -> tuple[str, ModuleType]:
    global _backend
    with _lock:
        if _backend is None:
            try:
                import pyfftw

                _backend = ("pyfftw", pyfftw)
            except Exception as error:  # a broken build fails with OSError, ValueError, AttributeError: all mean "not usable"
                import scipy.fft

                _log.info("pyfftw cannot be used (%s: %s); scipy.fft serves", type(error).__name__, error)
                _backend = ("scipy", scipy.fft)
        return _backend


def backend_name() -> str:
    """ "pyfftw" or "scipy"; loads the backend."""
    return _get_backend()[0]


def fast_length(minimum: int) -> int:
    """The smallest 2^a 3^b 5^c that is at least `minimum`: the same for both backends."""
    if minimum <= 1:
        return 1
    best = 1 << (minimum - 1).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            quotient = -(-minimum // three)
            best = min(best, three << max(0, (quotient - 1).bit_length()))
            three *= 3
        five *= 5
    return best


class RealTransform:
    """Transforms of `rows` real sequences of `length`, between two private buffers.

    Fill `real`, call `forward`, read `spectrum`; or fill `spectrum`, call `inverse`, read `real`. The inverse is not
    divided by `length` and spoils `spectrum`. The buffers belong to one thread.
    """

    real: FloatArray
    spectrum: ComplexArray

    def __init__(self, rows: int, length: int) -> None:
        self.rows, self.length = rows, length
        name, module = _get_backend()
        half = (rows, length // 2 + 1)
        self._fft: ModuleType | None = None
        if name == "pyfftw":
            with _lock:
                self.real = module.empty_aligned((rows, length), dtype="float64")
                self.spectrum = module.empty_aligned(half, dtype="complex128")
                self.real[:] = 0.0
                self.spectrum[:] = 0.0
                options: dict[str, Any] = {"axes": (1,), "flags": ("FFTW_ESTIMATE", "FFTW_DESTROY_INPUT"), "threads": 1}
                # The forward transform may spoil `real`, which its owner refills anyway.
                self._forward = module.FFTW(self.real, self.spectrum, direction="FFTW_FORWARD", **options)
                self._inverse = module.FFTW(self.spectrum, self.real, direction="FFTW_BACKWARD", **options)
        else:
            self.real = np.zeros((rows, length))
            self.spectrum = np.zeros(half, dtype=np.complex128)
            self._fft = module

    def forward(self) -> None:
        """`spectrum` from `real`."""
        if self._fft is None:
            self._forward.execute()
        else:
            self.spectrum[:] = self._fft.rfft(self.real, axis=1, workers=1)

    def inverse(self) -> None:
        """`real`, times `length`, from `spectrum`."""
        if self._fft is None:
            self._inverse.execute()
        else:
            self.real[:] = self._fft.irfft(self.spectrum, self.length, axis=1, norm="forward", workers=1)


def get_transform(rows: int, length: int) -> RealTransform:
    """This thread's transform of that shape, planned on first use; the least recently used of `_MAX_PLANS` goes."""
    global _hits, _misses
    if getattr(_local, "generation", None) != _generation:
        _local.plans = OrderedDict()
        _local.generation = _generation
    plans: OrderedDict[tuple[int, int], RealTransform] = _local.plans
    key = (rows, length)
    found = plans.get(key)
    if found is not None:
        plans.move_to_end(key)
        with _lock:
            _hits += 1
        return found
    transform = RealTransform(rows, length)
    plans[key] = transform
    while len(plans) > _MAX_PLANS:
        plans.popitem(last=False)
    with _lock:
        _misses += 1
    return transform


def plan_cache_info() -> PlanCacheInfo:
    """Hits and misses of `get_transform`."""
    plans = _local.plans if getattr(_local, "generation", None) == _generation else ()
    with _lock:
        return PlanCacheInfo(_hits, _misses, len(plans), _MAX_PLANS)


def clear_plans() -> None:
    """Forget all plans (each thread drops its own on its next call), the counters and the choice of backend."""
    global _backend, _generation, _hits, _misses
    with _lock:
        _backend = None
        _generation += 1
        _hits = _misses = 0


def rfft(values: FloatArray, length: int) -> ComplexArray:
    """Transform along the last axis, zero-padded to `length`, of rows copied in; the result is the caller's own."""
    rows = np.atleast_2d(values)
    transform = get_transform(rows.shape[0], length)
    transform.real[:, : rows.shape[1]] = rows
    transform.real[:, rows.shape[1] :] = 0.0
    transform.forward()
    return transform.spectrum.reshape(*np.shape(values)[:-1], length // 2 + 1).copy()


def irfft(spectrum: ComplexArray, length: int) -> FloatArray:
    """Inverse of `rfft`: rows copied in, divided by `length`, the result the caller's own."""
    rows = np.atleast_2d(spectrum)
    transform = get_transform(rows.shape[0], length)
    transform.spectrum[:] = rows
    transform.inverse()
    return (transform.real / length).reshape(*np.shape(spectrum)[:-1], length)
