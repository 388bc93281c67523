"""A task that may never exist: its skill decides by its first output (`first_word=True`)."""

import asyncio
from typing import TYPE_CHECKING

from ...model import A2AError, Message
from ...store import Idempotency
from ..log import Log, Turn

if TYPE_CHECKING:
    from .runs import Runs

__all__ = ["PendingTask"]


class PendingTask:
    """A task before the first output of its function, and what the sender of its message waits for.

    Nothing of its log is stored meanwhile, and nobody finds the task. If the process dies now there
    never was one.
    """

    __slots__ = ("_idempotency", "_log", "_runs", "_turn", "always_task", "decided")

    def __init__(
        self,
        runs: "Runs",
        log: Log,
        turn: Turn,
        idempotency: Idempotency | None,
        *,
        always_task: bool,
    ) -> None:
        self._runs = runs
        self._log = log
        self._turn = turn
        self._idempotency = idempotency
        self.always_task = always_task  # the caller's version can't take a message as the answer
        # The message that is the answer. None: there is a task.
        self.decided: asyncio.Future[Message | None] = runs.tasks.loop.create_future()

    @property
    def key(self) -> str:
        """Return the caller's idempotency key; empty if it gave none."""
        return self._idempotency.key if self._idempotency is not None else ""

    def begin_task(self) -> None:
        """Make the task exist. What is appended next goes into the same commit."""
        if self._idempotency is not None:
            self._log.keep(self._idempotency, self._turn)
        self._runs.tasks.directory.admit(self._log)
        if not self.decided.done():
            self.decided.set_result(None)
        self._runs.no_longer_pending(self._log)

    def answer(self, message: Message) -> None:
        """Give the sender a message; there is no task."""
        if not self.decided.done():
            self.decided.set_result(message)
        self._runs.no_longer_pending(self._log)

    def refuse(self, error: A2AError) -> None:
        """Give the sender an error; there is no task."""
        if not self.decided.done():
            self.decided.set_exception(error)
            self.decided.exception()  # marks it as retrieved: perhaps nobody waits any more
        self._runs.no_longer_pending(self._log)
