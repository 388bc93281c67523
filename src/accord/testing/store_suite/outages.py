"""A place that can't be reached for a while: which errors a store raises, and that nothing is
half done.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from ...model import Unavailable
from ...protocol import NEWEST
from ...store import Ages, Can, CommitFailed, Outcome, Push, Query
from .box import ME, Box, check, checks_with, key, raises

CAN = Can({"agent": ["echo"]}, 1)

READS: dict[str, Callable[[Any, int], Awaitable[object]]] = {
    "load": lambda store, task: store.load(ME, "t1"),
    "claim": lambda store, task: store.claim(ME, "t1"),
    "unclaim": lambda store, task: store.unclaim(task, 1),
    "orphans": lambda store, task: store.orphans(10, CAN),
    "due": lambda store, task: store.due(10, CAN),
    "owned": lambda store, task: store.owned(),
    "read": lambda store, task: store.read({task: 0}),
    "ends": lambda store, task: store.ends([task]),
    "locate": lambda store, task: store.locate(task, 1),
    "unread_posts": lambda store, task: store.unread_posts([task]),
    "page": lambda store, task: store.page(Query(ME, limit=10)),
    "idempotency": lambda store, task: store.idempotency(ME, "k"),
    "conversation_state": lambda store, task: store.conversation_state(ME, "c1"),
    "ended": lambda store, task: store.ended("agent", 0, 10),
    "count_ended": lambda store, task: store.count_ended("agent", 0, 10),
    "stats": lambda store, task: store.stats(),
    "stored": lambda store, task: store.stored("agent", "me"),
    "webhooks of": lambda store, task: store.pushes.of(task),
}
WRITES: dict[str, Callable[[Any, int], Awaitable[object]]] = {
    "beat": lambda store, task: store.beat(),
    "purge": lambda store, task: store.purge(Ages(tasks_ms=1), 10),
    "webhooks put": lambda store, task: store.pushes.put(_webhook(task)),
    "webhooks settle": lambda store, task: store.pushes.settle([Outcome(task, "w", 0, 1)]),
}


def _webhook(task: int) -> Push:
    return Push(task, "w", ME, "https://example.com", NEWEST, b"sealed")


@checks_with("name", list(READS))
async def what_reads_or_claims_raises_unavailable_while_the_place_is_away(
    box: Box, name: str
) -> None:
    first = box.create(idempotency=key("k", task_id="t1"))
    await box.commit(first)
    if (outage := box.outage()) is None:
        return
    async with outage:
        with raises(Unavailable):
            await READS[name](box.store, first.key)
    await READS[name](box.store, first.key)


@checks_with("name", list(WRITES))
async def what_writes_raises_commit_failed_while_the_place_is_away(box: Box, name: str) -> None:
    first = box.create()
    await box.commit(first)
    if (outage := box.outage()) is None:
        return
    async with outage:
        with raises(CommitFailed):
            await WRITES[name](box.store, first.key)
    await WRITES[name](box.store, first.key)


@check
async def a_commit_that_failed_stored_nothing_and_may_be_given_again(box: Box) -> None:
    """It is an outage, not a death: the number stays."""
    first = box.create()
    await box.commit(first)
    items = [box.append(first), box.create("t2", idempotency=key("k", task_id="t2"))]
    if (outage := box.outage()) is None:
        return
    replica = box.store.replica
    async with outage:
        with raises(CommitFailed):
            await box.store.commit(items)
    assert (await box.store.ends([first.key]))[first.key].pos == 1
    assert await box.store.load(ME, "t2") is None
    assert await box.store.idempotency(ME, "k") is None
    assert await box.store.commit(items) == [True, True]
    assert box.store.replica == replica
