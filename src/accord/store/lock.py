"""One file, one process."""

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

from .. import forks
from .look import NO_ROOM

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
    name = path.with_name(path.name + "-lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(name, "a+b", buffering=0)  # noqa: SIM115  kept open: closing it is letting go
    except OSError as error:
        raise _unusable(path, error) from error
    if fcntl is None:
        return lock
    with contextlib.ExitStack() as undo:
        undo.enter_context(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read(32).decode(errors="replace").strip()
            raise RuntimeError(
                f"{path} is in use by {_named(holder)}; stop that first, or use another file with --store sqlite:///other.db"
            ) from None
        forks.keep(lock, lambda lock: [lock.fileno()])
        try:
            lock.truncate(0)
            lock.write(b"%d\n" % os.getpid())
        except OSError as error:
            error.filename = str(name)
            raise _unusable(path, error) from error
        undo.pop_all()
    return lock


def _unusable(path: Path, error: OSError) -> RuntimeError:
    what = "the disk is full" if error.errno in NO_ROOM else error.strerror
    return RuntimeError(f"{path} can't be used as a database: {what}: {error.filename}")


def _named(holder: str) -> str:
    """Who holds it, by what stands in the file: the number of the process that took it."""
    if not holder.isdigit():
        return "an unknown process"
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return f"a child of process {holder}, which has ended, or by a process in another container"
    except OSError:
        pass  # somebody else's, and alive
    return f"process {holder}"
