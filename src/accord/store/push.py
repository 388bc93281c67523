"""What a store promises of push notifications.

The log is the outbox. A webhook is a row with two cursors on the log of its task: `upto`, which the
commit of an event moves, and `sent`, which the deliverer moves. Both stand in one row, so neither
can miss the other; one row per task and webhook is the order in which events are delivered.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec

from .namespace import Namespace

__all__ = ["DeadLetter", "Outcome", "Push", "PushStore"]


class Push(msgspec.Struct, gc=False):
    """A webhook of a task, and how much of the task's log it was sent."""

    task: int  # the key of the task
    id: str
    namespace: Namespace
    endpoint: str  # the origin of its URL: what shares a circuit breaker
    version: str  # of the protocol, in which it was registered
    data: bytes  # private to the push room: its URL and what is secret, sealed
    at_ms: int = 0  # when it was registered: the store says so
    has_artifacts: bool = False  # artifact events are sent too, not only the task and its statuses
    sent: int = 0  # events up to this number were delivered, or given up
    upto: int = 0  # events up to this number are to be delivered
    due_ms: int | None = None  # when the next attempt is due; None if there is nothing to deliver
    tries: int = 0  # attempts at the next event that failed
    claim: int = 0  # counts who took it, and what was said: the last who took it, says it once
    failing_ms: int = 0  # since when every attempt has failed
    error: str = ""  # how the last attempt failed
    disabled: str = ""  # why nothing is sent any more; empty while it is
    n: int = 0  # the n-th of its task: what lists sort by
    task_id: str = ""  # filled in when it is read
    context_id: str = ""


class DeadLetter(msgspec.Struct, gc=False, frozen=True):
    """Events that were given up: refused by the endpoint, or not taken in the end."""

    task: int
    push: str  # the id of the webhook
    first: int  # the numbers of the events
    last: int
    error: str
    n: int = 0  # given by the store
    at_ms: int = 0  # when it was stored: the store says so
    namespace: Namespace = Namespace()  # filled in when it is read
    task_id: str = ""


class Outcome(msgspec.Struct, gc=False):
    """How an attempt went. It counts only if `claim` is still the newest."""

    task: int
    id: str
    claim: int
    sent: int
    pause_ms: int = 0  # until the next attempt, if there is more to deliver
    tries: int = 0
    failing_ms: int = 0  # by the store's clock
    error: str = ""
    disabled: str = ""
    letter: DeadLetter | None = None  # stored with it


class PushStore(Protocol):
    """Webhooks beside the tasks of a store. A webhook goes with its task.

    - A commit that adds events to a task moves `upto` of the task's webhooks, and makes those due
      that were not. `on_due` is called after such a commit.
    - While events are to be delivered, or a dead letter names them, their log is not purged.
    - What reads raises `Unavailable` if the store can't be read now. What writes raises
      `CommitFailed` if nothing was stored; the same may be given again.
    """

    on_due: Callable[[], None]

    async def put(self, push: Push) -> bool:
        """Store a webhook; False if there is no such task.

        One of the same id is replaced: it is enabled, what was not delivered yet goes to the new
        address, and a delivery under way does not count.
        """
        ...

    async def of(self, task: int) -> list[Push]:
        """Return the webhooks of a task, in the order they were registered."""
        ...

    async def delete(self, task: int, id: str) -> None:
        """Delete a webhook, if it is there."""
        ...

    async def count(self, namespace: Namespace) -> int:
        """Return how many webhooks a caller has on tasks that have not ended."""
        ...

    async def take(
        self,
        agents: Collection[str],
        limit: int,
        *,
        lease_ms: int,
        skip: Collection[str] = (),
    ) -> list[Push]:
        """Return webhooks that are due, ours for `lease_ms`, the longest due first; none of these
        endpoints. What is not settled by then is due again.
        """
        ...

    async def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Store how attempts went. An outcome counts once: given again, because the answer was
        lost, it changes nothing.
        """
        ...

    async def postpone(self, agents: Collection[str], endpoint: str, pause_ms: int) -> None:
        """Make nothing of an endpoint due for a while."""
        ...

    async def next_ms(self, agents: Collection[str]) -> int | None:
        """Return when the next webhook is due, by the store's clock; None if none is."""
        ...

    async def listed(self, limit: int, *, is_troubled: bool = False) -> list[Push]:
        """Return the newest webhooks of all tasks, for the operator; with `is_troubled` those that
        fail, are disabled, or have dead letters.
        """
        ...

    async def letters(self, limit: int, *, task_id: str = "") -> list[DeadLetter]:
        """Return dead letters, newest first."""
        ...

    async def replay(self, letters: Collection[int]) -> int:
        """Deliver these dead letters again, and return how many there were.

        Each delivery starts at the first event of the dead letter and goes on in order, so later
        events that were delivered already are delivered once more. The webhooks are enabled again.
        """
        ...
