"""First words over every version and binding."""

import pytest

from accord import Agent, InvalidParams, Reply
from accord.model import A2AError, Task, TaskState


def agent_of(function) -> Agent:
    agent = Agent("Test agent")
    agent.skill(function, first_word=True)
    return agent


async def speak(text: str):
    if text == "refuse":
        raise InvalidParams("not that")
    return Reply("bare") if text == "reply" else text


async def test_the_first_word_decides(reach):
    """A message is one, and only 0.1, which has no place for it, makes it a task."""
    async with reach(agent_of(speak)) as client:
        bare, task = await client.send("reply"), await client.send("hello")
        with pytest.raises(A2AError, match="not that"):
            await client.send("refuse")
        streamed = client.stream("reply")
        kinds = [type(event) async for event in streamed]
        has_messages = client.version != "0.1"
    assert bare.text == "bare"
    assert (bare.task is None) == has_messages
    assert (Task not in kinds) == has_messages
    assert (task.text, task.state) == ("hello", TaskState.COMPLETED)
