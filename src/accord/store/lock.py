"""One file, one process."""

import os
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks are all there is
    fcntl = None  # type: ignore[assignment]  # the one platform difference, checked where it is used

__all__ = ["hold"]


def hold(path: Path) -> BinaryIO:
    """Hold `path` for this process until the returned file is closed. Its folder is made if need be.

    Raises:
        RuntimeError: Another process holds it, or nothing can be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path.with_name(path.name + "-lock"), "a+b")  # noqa: SIM115  kept open: closing it is letting go
    except OSError as error:
        raise RuntimeError(f"{path} can't be used as a database: {error.strerror}: {error.filename}") from error
    if fcntl is None:
        return lock
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read(32).decode(errors="replace").strip() or "unknown"
        lock.close()
        raise RuntimeError(
            f"{path} is in use by process {holder}; stop that first, or use another file with --store sqlite:///other.db"
        ) from None
    lock.truncate(0)
    lock.write(b"%d\n" % os.getpid())
    lock.flush()
    return lock
