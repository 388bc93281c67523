"""Strands: what turns at once must not share, beside what `test_wrap.py` asks of all frameworks."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import AfterModelCallEvent, BeforeModelCallEvent
from strands.session import FileSessionManager
from strands.tools import ToolProvider
from strands.types.exceptions import ModelThrottledException

from accord import Agent, connect
from tests.integrations.frameworks.agents import script
from tests.integrations.frameworks.agents.with_strands import FakeModel, made


class Provider(ToolProvider):
    """Knows who uses its tools, as an MCP client does."""

    def __init__(self) -> None:
        self.consumers: set[Any] = set()

    async def load_tools(self, **kwargs: Any) -> Sequence[Any]:
        return []

    def add_consumer(self, consumer_id: Any, **kwargs: Any) -> None:
        self.consumers.add(consumer_id)

    def remove_consumer(self, consumer_id: Any, **kwargs: Any) -> None:
        self.consumers.discard(consumer_id)


def test_an_agent_with_a_session_of_its_own_is_refused(tmp_path: Path) -> None:
    """All callers would write to that one session, and read it after a restart."""
    session = FileSessionManager(session_id="s", storage_dir=str(tmp_path))
    with pytest.raises(TypeError, match="session_manager"):
        Agent.wrap(made("Talker", FakeModel(), session_manager=session))


async def test_a_turn_does_not_close_the_mcp_clients_of_the_agent() -> None:
    """Strands closes them when an agent object is deleted, and each turn has one."""
    provider = Provider()
    agent = made("Talker", FakeModel(), tools=[provider])
    assert len(provider.consumers) == 1
    async with connect(Agent.wrap(agent)) as client:
        await client.send("hello")
        await client.send("hello")
    assert len(provider.consumers) == 1


async def test_a_tool_that_cancels_its_agent_stops_its_own_turn_only() -> None:
    def stop_the_first(event: BeforeModelCallEvent) -> None:
        if "first" in str(event.agent.messages):
            event.agent.cancel()

    agent = made("Talker", FakeModel(), hooks=[stop_the_first])
    async with connect(Agent.wrap(agent)) as client:
        first, second = await asyncio.gather(client.send("first"), client.send("second"))
    assert second.text.strip() == "".join(script.answer(["second"])).strip()
    assert "first" not in first.text


class Throttled(FakeModel):
    """Refuses the first two calls of each turn."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    async def stream(self, messages: list[Any], *args: Any, **kwargs: Any) -> Any:
        text = self.said(messages)[-1]
        self.calls[text] = self.calls.get(text, 0) + 1
        if self.calls[text] <= 2:
            await script.think()
            raise ModelThrottledException("not now")
        async for event in super().stream(messages, *args, **kwargs):
            yield event


async def test_attempts_of_one_turn_do_not_count_for_another() -> None:
    """Three attempts are allowed, and each of ten turns needs three."""
    from strands import ModelRetryStrategy

    retry = ModelRetryStrategy(max_attempts=3, initial_delay=0, max_delay=0)
    agent = made("Talker", Throttled(), retry_strategy=retry)
    async with connect(Agent.wrap(agent)) as client:
        replies = await asyncio.gather(*(client.send(f"caller {n}") for n in range(10)))
    assert [reply.state.word for reply in replies] == ["completed"] * 10


async def test_the_window_of_a_conversation_is_its_own() -> None:
    """What its manager counts is counted on the copy of the turn, by the hooks too."""
    counted: list[int] = []

    def count(event: AfterModelCallEvent) -> None:
        counted.append(event.agent.conversation_manager._model_call_count)

    window = SlidingWindowConversationManager(per_turn=2)
    agent = made("Talker", FakeModel(), conversation_manager=window, hooks=[count])
    async with connect(Agent.wrap(agent)) as client:
        for text in ("one", "two", "three"):
            await client.send(text)
    assert counted == [1, 1, 1]
    assert window._model_call_count == 0
