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


def _cache_wanted() -> bool:
    return os.environ.get("LRGITTINS_NUMBA_CACHE", "1").strip().lower() not in {"0", "false", "no", "off"}


def kernel(function: F) -> F:
    """Compile `function` on first call: nopython, cached on disk, GIL released, NaN and inf kept.

    Where no cache folder is writable numba raises at decoration: the kernel is then compiled without a cache
    and one warning per process says so. ``LRGITTINS_NUMBA_CACHE=0`` turns the cache off.
    """
    global _warned
    if _cache_wanted():
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
