"""One process a store: a lock the operating system holds for the run and drops when the process dies, however it dies."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from .errors import StoreError

_held: dict[str, int] = {}  # path -> process that holds it; a copy inherited through fork names the parent, and is stale here
_held_guard = threading.Lock()
_BYTE = 1 << 30  # the locked byte lies beyond the text, which Windows would make unreadable otherwise


class StoreLock:
    """An exclusive lock on ``<store>.lock``. The file stays behind; what locks is the kernel, so a left-over blocks nobody.

    POSIX record locks belong to the process and are not inherited by forked children: an orphaned worker process of a
    killed run does not keep the store locked. They do not tell two runs of one process apart, hence the table `_held`.
    """

    def __init__(self, store: str) -> None:
        self.path = f"{store}.lock"
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lock or raise `StoreError` naming the holder; never waits."""
        with _held_guard:
            if _held.get(self.path) == os.getpid():
                raise StoreError(f"store {self._store!r} is in use by another evaluate() of this process; give every run its own store")
            try:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o644)
            except OSError as error:
                raise StoreError(f"the lock file {self.path!r} cannot be opened: {error.strerror}; choose a writable folder") from None
            try:
                _lock_byte(handle)
            except OSError:
                os.close(handle)
                raise StoreError(
                    f"store {self._store!r} is in use by another process ({self._holder()}); one run a store: wait for it, or end it"
                ) from None
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            self._handle = handle
            _held[self.path] = os.getpid()

    def release(self) -> None:
        """Give the lock back; closing the file is what unlocks it."""
        with _held_guard:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
                _held.pop(self.path, None)

    @property
    def _store(self) -> str:
        return self.path.removesuffix(".lock")

    def _holder(self) -> str:
        try:
            return Path(self.path).read_text(encoding="utf-8").strip() or "unknown"
        except (OSError, UnicodeDecodeError):
            return "unknown"


def _lock_byte(handle: int) -> None:
    """Lock one byte without waiting; OSError when somebody else has it."""
    if os.name == "nt":
        import msvcrt

        os.lseek(handle, _BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _BYTE, os.SEEK_SET)
