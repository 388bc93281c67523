"""Other processes that serve the same agent: workers of one parent, as `uvicorn --workers 2` and
gunicorn start them. A store for one process can't be theirs.
"""

import multiprocessing
import os
import tempfile
import zlib
from pathlib import Path
from typing import BinaryIO

from .after_fork import close_in_children
from .model import whole_number
from .private import private_folder, private_opener

try:
    import fcntl
except ImportError:  # Windows: a second worker is not noticed there
    fcntl = None  # type: ignore[assignment]  # checked where it is used

__all__ = ["SEVERAL", "parent_of_workers", "worker_beside_us"]

SEVERAL = (
    "several processes need a store they can share: use store='postgresql://...', or one worker"
)

_LAST_PID = 2**31 - 1

_held: dict[Path, BinaryIO] = {}  # until this process ends


def parent_of_workers() -> int:
    """Return the pid of a parent that may have started other workers beside this one; 0 if there
    is none.
    """
    is_gunicorn = os.environ.get("SERVER_SOFTWARE", "").startswith("gunicorn")
    return os.getppid() if multiprocessing.parent_process() is not None or is_gunicorn else 0


def worker_beside_us(name: str) -> int:
    """Return the pid of another worker of our parent that serves an agent of this name; 0 if there
    is none.
    """
    parent = parent_of_workers()
    if not parent or fcntl is None:
        return 0
    folder = Path(tempfile.gettempdir(), f"accord-{os.getuid()}")
    path = folder / f"worker-{parent}-{zlib.crc32(name.encode()):x}"
    if path in _held:
        return 0
    try:
        private_folder(folder)
        lock = open(path, "a+b", buffering=0, opener=private_opener)  # noqa: SIM115  kept open
    except OSError:
        return 0  # no lock can be made here
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        found = whole_number(lock.read(32).decode(errors="replace").strip(), _LAST_PID)
        lock.close()
        return found or 0
    lock.truncate(0)
    lock.write(b"%d\n" % os.getpid())
    close_in_children(lock, lambda lock: [lock.fileno()])
    _held[path] = lock
    return 0
