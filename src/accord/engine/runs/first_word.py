"""A message whose skill decides by its first output whether there is a task (`first_word=True`)."""

import asyncio

from ...model import A2AError, Message
from ...store import Idempotency
from ..log import Log, Turn
from ..tasks import Tasks

__all__ = ["FirstWord"]


class FirstWord:
    """The task of such a message before it exists, and what its sender waits for.

    The log is withheld meanwhile: nothing of it is stored, and nobody finds it. If the process dies
    now there never was a task.
    """

    __slots__ = ("_idempotency", "_log", "_tasks", "_turn", "always_task", "said")

    def __init__(
        self,
        tasks: Tasks,
        log: Log,
        turn: Turn,
        idempotency: Idempotency | None,
        *,
        always_task: bool,
    ) -> None:
        self._tasks = tasks
        self._log = log
        self._turn = turn
        self._idempotency = idempotency
        self.always_task = always_task  # the caller's version can't take a message for an answer
        # a message that is the answer, or None: there is a task
        self.said: asyncio.Future[Message | None] = tasks.loop.create_future()

    @property
    def key(self) -> str:
        """The caller's idempotency key; empty if it gave none."""
        return self._idempotency.key if self._idempotency is not None else ""

    def begin_task(self) -> None:
        """The task exists from here on. What is appended next goes into the same commit."""
        if self._idempotency is not None:
            self._log.keep(self._idempotency, self._turn)
        self._tasks.directory.admit(self._log)
        if not self.said.done():
            self.said.set_result(None)

    def answer(self, message: Message) -> None:
        if not self.said.done():
            self.said.set_result(message)

    def refuse(self, error: A2AError) -> None:
        if not self.said.done():
            self.said.set_exception(error)
            self.said.exception()  # looked at, for the case that nobody waits any more
