"""Files are replaced whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: bytes, *, flush_folder: bool = False) -> None:
    """Write beside `path`, flush to disk, then rename: a reader sees the old file or the new one, never a part.

    The file gets the permissions any new file would get here (0666 less the umask). With `flush_folder` the rename itself is on disk on
    return (POSIX), so that a power cut cannot bring the old file back. Raises OSError, and leaves nothing behind.
    """
    target = Path(path)
    temporary = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(temporary, flags, 0o666)  # the system applies the umask; reading it would mean setting it, for every thread
    except OSError as error:  # about the folder: say the file that was asked for, not the one beside it
        raise OSError(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if flush_folder and hasattr(os, "O_DIRECTORY"):
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
