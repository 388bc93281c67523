"""The streams one caller may have open. Nobody has to say who they are yet, so this is asked of the
directory of tasks itself.
"""

import pytest

from accord.engine.log.entries import About
from accord.engine.reading import Receipt, View
from accord.engine.tasks import Tasks
from accord.model import (
    Limits,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    TooManyRequests,
    new_id,
)
from accord.store.contract import Namespace
from accord.store.memory import MemoryStore

MOST = 3


async def opened() -> Tasks:
    tasks = Tasks(MemoryStore(), Limits(streams_per_caller=MOST))
    await tasks.open()
    return tasks


async def reading(tasks: Tasks, caller: str, count: int) -> list[View]:
    """Open streams of one caller, each on a task of its own."""
    views = []
    for _ in range(count):
        message = Message(message_id="m", role=Role.USER, parts=[Part(text="hi")])
        task = Task(
            id=new_id(),
            context_id="c",
            status=TaskStatus(state=TaskState.WORKING),
            history=[message],
        )
        log, turn = tasks.directory.create(Namespace(caller=caller), task, "skill", About(), 1)
        receipt = Receipt(tasks.views, log, turn.number, is_new=True)
        views.append(await receipt.stream())
        receipt.close()
    return views


@pytest.mark.parametrize("more", [0, 1, 99 * MOST])
async def test_a_caller_with_the_most_streams_gets_no_further_one(more: int) -> None:
    """N streams are served; the next is refused, as are all after it, with when to come back; other
    callers are not harmed.
    """
    tasks = await opened()
    views = await reading(tasks, "ada", MOST - 1)
    tasks.views.check(Namespace(caller="ada"), "another")
    views += await reading(tasks, "ada", 1 + more)
    with pytest.raises(TooManyRequests, match="streams of you are open") as refused:
        tasks.views.check(Namespace(caller="ada"), "another")
    assert refused.value.retry_after_s
    tasks.views.check(Namespace(caller="bob"), "another")
    for view in views[: 1 + more]:
        view.close()
    tasks.views.check(Namespace(caller="ada"), "another")
    await tasks.close()


async def test_anonymous_callers_are_not_counted_together() -> None:
    """They are all one caller by name, and not one in truth."""
    tasks = await opened()
    await reading(tasks, "", 10 * MOST)
    tasks.views.check(Namespace(), "another")
    await tasks.close()
