"""The streams one caller may have open. Nobody has to say who they are yet, so this is asked of the feed itself."""

import pytest

from accord.engine.log.entry import About
from accord.engine.log.feed import Feed
from accord.engine.log.reader import Reader
from accord.model import Limits, Message, Part, Role, Task, TaskState, TaskStatus, TooManyRequests
from accord.store import Scope
from accord.store.memory import MemoryStore

MOST = 3


async def reading(feed, owner, count):
    """Open streams of one caller, each on a task of its own."""
    readers = []
    for n in range(count):
        message = Message(message_id="m", role=Role.USER, parts=[Part(text="hi")])
        task = Task(id=f"{owner}-{n}", context_id="c", status=TaskStatus(state=TaskState.WORKING), history=[message])
        readers.append(Reader(feed, feed.create(Scope("", owner), task, About("skill"), 1), 0))
    return readers


@pytest.mark.parametrize("more", [0, 1, 99 * MOST])
async def test_a_caller_with_the_most_streams_gets_no_further_one(more):
    """N streams are served; the next is refused, as are all after it, with when to come back; other callers are not harmed."""
    feed = Feed(MemoryStore(), Limits(streams_per_caller=MOST))
    readers = await reading(feed, "ada", MOST - 1)
    feed.check_readers(Scope("", "ada"), "another")
    readers += await reading(feed, "ada", 1 + more)
    with pytest.raises(TooManyRequests, match="streams of you are open") as refused:
        feed.check_readers(Scope("", "ada"), "another")
    assert refused.value.retry_after_s
    feed.check_readers(Scope("", "bob"), "another")
    for reader in readers[: 1 + more]:
        reader.close()
    feed.check_readers(Scope("", "ada"), "another")


async def test_anonymous_callers_are_not_counted_together():
    """They are all one caller by name, and not one in truth."""
    feed = Feed(MemoryStore(), Limits(streams_per_caller=MOST))
    await reading(feed, "", 10 * MOST)
    feed.check_readers(Scope(), "another")
