"""The deadline of a question, as a person reads it: when it is, and how much time is left."""

import datetime
import shutil
import sys
import threading
from types import TracebackType

from ..model import Question, Task, TaskState

__all__ = ["Countdown", "deadline_line", "expires_at_of", "time_left"]

_AGAIN_S = 1.0
# Save the cursor, go to the line above and empty it; at the end go back.
_ABOVE, _BACK = "\0337\033[1A\r\033[K", "\0338"
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def expires_at_of(task: Task) -> datetime.datetime | None:
    """Return until when the question of a task may be answered; None if it asks none, or has no
    deadline.
    """
    asked = task.status.message
    if task.status.state is not TaskState.INPUT_REQUIRED or asked is None:
        return None
    return Question.read(asked).expires_at


def deadline_line(expires_at: datetime.datetime) -> str:
    """Return a line such as `until 2026-11-20 09:00:00 (1 h 59 min left)`, in local time."""
    return f"until {expires_at.astimezone():%Y-%m-%d %H:%M:%S} ({time_left(expires_at)})"


def time_left(expires_at: datetime.datetime) -> str:
    """Return how much time is left: `1 h 59 min left`."""
    rest_s = (expires_at - datetime.datetime.now(datetime.UTC)).total_seconds()
    return f"{_words(int(rest_s))} left" if rest_s > 0 else "the time is up"


def _words(seconds: int) -> str:
    """The two largest units of a duration: 1 h 59 min."""
    found: list[str] = []
    for name, size in _UNITS:
        if seconds >= size or (name == "s" and not found):
            found.append(f"{seconds // size} {name}")
            seconds %= size
        elif found:
            break
    return " ".join(found[:2])


class Countdown:
    """Keeps the line above the prompt up to date while a person types. Nothing is written if there
    is no terminal, or once the input is longer than a line.
    """

    def __init__(self, expires_at: datetime.datetime | None, prompt: str) -> None:
        self._expires_at = expires_at
        self._prompt = prompt
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._expires_at is not None and sys.stdout.isatty() and sys.stdin.isatty():
            self._thread = threading.Thread(target=self._count, daemon=True)
            self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _count(self) -> None:
        assert self._expires_at is not None  # there is a deadline to count to
        while not self._is_over.wait(_AGAIN_S):
            if len(self._prompt) + _typed() < shutil.get_terminal_size().columns:
                sys.stdout.write(f"{_ABOVE}{deadline_line(self._expires_at)}{_BACK}")
                sys.stdout.flush()


def _typed() -> int:
    """How many characters were typed, as far as Python knows."""
    readline = sys.modules.get("readline")
    return len(readline.get_line_buffer()) if readline is not None else 0
