"""BLAS calls of ours run on one thread: our matrices are small, and the last bits must not depend on a thread count."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
_lock = threading.Lock()
_controller: Any = None


def _get_controller() -> Any:
    global _controller
    with _lock:
        if _controller is None:
            import scipy.linalg  # noqa: F401  (its BLAS must be loaded before the controller looks)
            from threadpoolctl import ThreadpoolController

            _controller = ThreadpoolController()
        return _controller


def one_blas_thread(function: F) -> F:
    """Run `function` with every BLAS limited to one thread (restored afterwards)."""

    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        with _get_controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return cast(F, limited)
