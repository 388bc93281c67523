"""A send repeated under its key is the same send, whichever way it comes: over every pair of doors
the client has.
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from accord import Agent, Message
from accord.client import Client, connect
from accord.model import File
from tests.client.conftest import DOORS
from tests.drive import serving

CONTENT = [
    "Rome",
    File(b"\x00\x01", name="map.bin", media_type="application/octet-stream"),
    {"zoom": 2.0, "at": {"y": 1.5, "x": [True]}},
]
METADATA = {"zeta": {"b": 1, "a": "2"}, "alpha": [1, 2.5, None]}


async def _waiting(client: Client, **options) -> str:
    return (await client.send(CONTENT, metadata=METADATA, **options)).task_id


async def _at_once(client: Client, **options) -> str:
    return (await client.send(CONTENT, metadata=METADATA, wait=False, **options)).task_id


async def _with_history(client: Client, **options) -> str:
    return (await client.send(CONTENT, metadata=METADATA, history_length=1, **options)).task_id


async def _reading(client: Client, **options) -> str:
    async with client.stream(CONTENT, metadata=METADATA, **options) as stream:
        assert [event async for event in stream]
    return stream.task_id


WAYS = {
    "waiting": _waiting,
    "at once": _at_once,
    "with history": _with_history,
    "reading": _reading,
}


@pytest.fixture
async def doors() -> AsyncIterator[tuple[dict[str, Client], list[Message]]]:
    """A client for each door of one agent, and the messages the agent was given."""
    agent, given = Agent("Clerk"), []

    @agent.skill
    async def work(message: Message) -> str:
        """Work."""
        given.append(message)
        return "done"

    app = agent.app(grpc_port=0)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(serving(app, app.close))
        await app.open()
        reached = [
            connect(url, binding=binding, version=version) for binding, version in DOORS.values()
        ]
        yield (
            dict(
                zip(
                    DOORS,
                    [await stack.enter_async_context(client) for client in reached],
                    strict=True,
                )
            ),
            given,
        )


@pytest.mark.parametrize("way", WAYS)
async def test_over_every_pair_of_doors(doors, way):
    """Sent over one door and again over another: one task, one piece of work (design, rule 17)."""
    clients, given = doors
    for first, second in itertools.product(clients, repeat=2):
        key = f"{first} then {second}"
        assert (key, await WAYS[way](clients[first], key=key)) == (
            key,
            await WAYS[way](clients[second], key=key),
        )
    assert len(given) == len(DOORS) ** 2


@pytest.mark.parametrize("door", DOORS)
async def test_in_every_pair_of_ways(doors, door):
    """Waited for, asked for at once, read as a stream: that is how the answer is told, not what is
    asked.
    """
    clients, given = doors
    for first, second in itertools.product(WAYS, repeat=2):
        key = f"{first} then {second}"
        assert (key, await WAYS[first](clients[door], key=key)) == (
            key,
            await WAYS[second](clients[door], key=key),
        )
    assert len(given) == len(WAYS) ** 2
