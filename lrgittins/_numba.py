"""One decorator for every compiled kernel: options and cache policy in one place."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])
_log = logging.getLogger("lrgittins")
_warned = False
_kernels: list[object] = []


def cache_wanted() -> bool:
    """Whether compiled kernels may be kept on disk, as ``LRGITTINS_NUMBA_CACHE`` says."""
    return os.environ.get("LRGITTINS_NUMBA_CACHE", "1").strip().lower() not in {"0", "false", "no", "off"}


def kernel(function: F) -> F:
    """Compile `function` on first call: nopython, cached on disk, GIL released, NaN and inf kept.

    Where no cache folder is writable numba raises at decoration: the kernel is then compiled without a cache
    and one warning per process says so. ``LRGITTINS_NUMBA_CACHE=0`` turns the cache off.
    """
    compiled = _compile(function)
    _kernels.append(compiled)
    return compiled


def kernels() -> list[object]:
    """Every kernel of the modules imported so far; plain functions under ``NUMBA_DISABLE_JIT=1``."""
    return list(_kernels)


def _compile(function: F) -> F:
    global _warned
    if cache_wanted():
        try:
            return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
        except RuntimeError as error:
            if not _warned:
                _warned = True
                warnings.warn(
                    f"lrgittins: kernels are compiled anew in this process, as no cache folder is writable ({error}); "
                    "set NUMBA_CACHE_DIR to a writable folder, or LRGITTINS_NUMBA_CACHE=0 to silence this",
                    RuntimeWarning,
                    stacklevel=2,
                )
    return cast(F, numba.njit(nogil=True, error_model="numpy")(function))
