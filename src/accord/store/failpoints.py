"""Places where a test can have the process die, as if by a power cut: around every write, named.

`python -X accord_fail_point=commit.events:3 -m accord serve ...` is killed with SIGKILL when it
comes past that place for the third time. No environment variable does that: a server in production
can't be made to die by one. Without the option a point is a call of an empty function.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable

__all__ = ["OPTION", "POINTS", "PUSH_POINTS", "is_armed", "point"]

OPTION = "accord_fail_point"
POINTS = (
    # opening a store
    "open.locked",  # the file is locked, the schema not looked at
    "open.migrated",
    "open.owned",  # this process has its number
    "take-over.before",
    "take-over.fenced",  # in the transaction: other processes may not write any more
    "take-over.after",
    # one commit
    "commit.before",
    "commit.begun",
    "commit.counts",
    "commit.tasks",  # the tasks are written, their log not
    "commit.events",
    "commit.keys",
    "commit.after",  # on the disk; nobody was notified
    "publish.after",  # notified, on this side of the wire
    # a step of a run
    "step.begun",  # not done
    "step.done",  # done, not noted
    "step.stored",
    # upkeep
    "beat.begun",
    "beat.after",
    "purge.events",
    "purge.tasks",
    "purge.keys",
    "purge.after",
    # closing
    "close.written",  # all is stored, this process still has its number
    "close.left",
)
# webhooks: only who has one comes past these
PUSH_POINTS = (
    "commit.pushes",  # registered with a message, in its commit
    "push.put",  # registered by itself, in the transaction
    "push.settled",  # delivered; that it was is in the transaction
)


def _nothing(name: str) -> None:
    """No test is going on."""


def _armed(setting: str) -> Callable[[str], None]:
    wanted, _, count = setting.partition(":")
    if wanted not in (*POINTS, *PUSH_POINTS):
        raise ValueError(f"-X {OPTION}: there is no point {wanted!r}")
    left = int(count or 1)
    lock = threading.Lock()  # points are passed on the loop and in the writer thread

    def point(name: str) -> None:
        nonlocal left
        if name == wanted:
            with lock:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    return point


is_armed = OPTION in sys._xoptions
point: Callable[[str], None] = _armed(str(sys._xoptions[OPTION])) if is_armed else _nothing
