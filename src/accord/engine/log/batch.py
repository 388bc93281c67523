"""What of a log goes to the store in one commit."""

import asyncio
from typing import Any

import msgspec

from ...model import A2AError, TaskState
from ...store import Idempotency, Push, StateWrite
from .entries import Event, PostRefused

__all__ = ["LogBatch"]


class LogBatch(msgspec.Struct, eq=False):
    """Entries of one log that are stored together, and who waits for that.

    It gathers while the log grows, is in flight while the writer stores it, and is reported when it
    is stored.
    """

    # The position of the last entry, its visible number and the state there; set when the batch is
    # taken.
    pos: int = 0
    seq: int = 0
    state: TaskState = TaskState.SUBMITTED
    lines: list[bytes] = []
    size: int = 0  # of the lines
    events: list[Event] = []  # the visible ones among the entries
    posts: dict[int, int | PostRefused] = {}  # what became of posts: the turn, or why there is none
    idempotency: Idempotency | None = None
    pushes: tuple[Push, ...] = ()  # webhooks to be registered
    conversation: StateWrite | None = None  # the state of the conversation
    waiting: list[tuple[asyncio.Future[Any], Any]] = []  # and what each gets
    # The same, for those who wait through an outage.
    outage_waiters: list[asyncio.Future[None]] = []

    def settle(self) -> None:
        """Notify everybody who waits: it is stored."""
        for waiter, value in self.waiting:
            if not waiter.done():
                waiter.set_result(value)
        for through_outage in self.outage_waiters:
            if not through_outage.done():
                through_outage.set_result(None)

    def fail(self, error: A2AError) -> None:
        """Raise an error in those who do not wait through an outage."""
        waiting, self.waiting = self.waiting, []
        for waiter, _ in waiting:
            if not waiter.done():
                waiter.set_exception(error)

    def lose(self, error: A2AError) -> None:
        """Raise an error in everybody who waits: it is never stored."""
        self.fail(error)
        for waiter in self.outage_waiters:
            if not waiter.done():
                waiter.set_exception(error)
