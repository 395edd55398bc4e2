"""BLAS calls of ours run on one thread: our matrices are small, and the last bits must not depend on a thread count."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class _BlasLimit:
    """One limit shared by all threads: the first to enter sets it, the last to leave restores what was there.

    A limit of each call's own would not do: with two calls at once, one could restore while the other computes, and
    "restore" the other's limit for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._controller: Any = None
        self._limiter: Any = None
        self._users = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limiter = self._get_controller().limit(limits=1, user_api="blas")
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limiter.restore_original_limits()
                self._limiter = None

    def _get_controller(self) -> Any:
        if self._controller is None:
            import scipy.linalg  # noqa: F401  (its BLAS must be loaded before the controller looks)
            from threadpoolctl import ThreadpoolController

            self._controller = ThreadpoolController()
        return self._controller

    def after_fork(self) -> None:
        """In a child process, a lock held by another thread of the parent would never be released."""
        self._lock = threading.Lock()


_limit = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.after_fork)


def one_blas_thread(function: F) -> F:
    """Run `function` with every BLAS limited to one thread (restored afterwards)."""

    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        with _limit:
            return function(*args, **kwargs)

    return cast(F, limited)
