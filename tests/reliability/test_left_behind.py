"""What is over costs nothing: no refusal and no race leaves a task behind in memory.

The server refuses new work when it has too much at once; with a low limit, whatever was not let go
shows as a refusal.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from accord.model import Limits
from tests.reliability.agents.busy import agent
from tests.reliability.harness import Refused, message, state_of
from tests.reliability.inside import Inside, pass_turns

MOST = 10


@pytest_asyncio.fixture
async def inside(tmp_path: Path) -> AsyncIterator[Inside]:
    """An app that works on at most ten tasks at once."""
    app = agent.app(store=f"sqlite:///{tmp_path / 'accord.db'}", limits=Limits(tasks=MOST))
    async with app.lifespan():
        yield Inside(app)


async def message_into_another_context(inside: Inside, task_id: str) -> None:
    params = message("hello", task_id=task_id)
    params["message"]["contextId"] = "another"
    with pytest.raises(Refused):
        await inside.send(params)


async def message_without_what_the_skill_needs(inside: Inside, task_id: str) -> None:
    params = message("hello", task_id=task_id)
    params["message"]["parts"] = [{"url": "https://example.com/file"}]
    with pytest.raises(Refused):
        await inside.send(params)


async def cursor_beyond_the_log(inside: Inside, task_id: str) -> None:
    headers = {"a2a-extensions": "urn:accord:resume:1", "last-event-id": "1000"}
    assert "task" in (await inside.first("SubscribeToTask", {"id": task_id}, headers)).event


async def read(inside: Inside, task_id: str) -> None:
    await inside.get(task_id)


async def cancel_in_the_turn_an_answer_arrives(inside: Inside, task_id: str) -> None:
    await asyncio.gather(
        inside.send(message("more", task_id=task_id)),
        inside.cancel(task_id),
        return_exceptions=True,
    )


@pytest.mark.parametrize(
    "visit",
    [
        message_into_another_context,
        message_without_what_the_skill_needs,
        cursor_beyond_the_log,
        read,
        cancel_in_the_turn_an_answer_arrives,
    ],
)
async def test_nothing_is_left_behind(
    inside: Inside, visit: Callable[[Inside, str], Coroutine[Any, Any, None]]
) -> None:
    """V3: three times as many tasks as may be worked on at once come to rest, are visited, and are
    forgotten.
    """
    for _ in range(3 * MOST):
        task = await inside.send(message("hello", "turns"))
        await pass_turns(50)
        await visit(inside, task["id"])
    assert state_of(await inside.send(message("hello", "echo"))) == "TASK_STATE_COMPLETED"
