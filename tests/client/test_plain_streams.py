"""Cut at random, with agents that know nothing of our extensions: what is read is still the whole,
each piece once.
"""

import asyncio

import pytest

from accord import Agent
from accord.client import Gap, Retry, connect
from accord.model import (
    IDEMPOTENT,
    AgentExtension,
    ArtifactUpdate,
    StatusUpdate,
    Task,
)
from accord.protocol import BindingName, VersionNumber
from tests.client.peers import Proxy
from tests.client.sdk import serving_sdk
from tests.drive import serving

STREAMS = 12
CHUNKS = 80
WHOLE = "".join(f"{i} " for i in range(CHUNKS))
PATIENT = Retry(attempts=200, first_s=0.005, most_s=0.02)
DOORS = [
    ("JSONRPC", "1.0"),
    ("HTTP+JSON", "1.0"),
    ("JSONRPC", "0.3"),
    ("HTTP+JSON", "0.3"),
    ("JSONRPC", "0.1"),
]


async def count(text: str):
    for i in range(int(text)):
        yield f"{i} "
        if i % 4 == 3:
            await asyncio.sleep(0.004)


async def through(
    proxy: Proxy, url: str, binding: BindingName, version: VersionNumber
) -> list[list]:
    """Read streams through the proxy, by the plain protocol; only sends are recognised, so that
    none has to be given up.
    """
    async with connect(url) as looking:
        card = looking.card
    for interface in card.supported_interfaces:
        interface.url = interface.url.replace(url, proxy.url)
    card.capabilities.extensions = [AgentExtension(uri=IDEMPOTENT)]
    async with (
        asyncio.timeout(60),
        connect(card, binding=binding, version=version, retry=PATIENT) as client,
    ):
        return await asyncio.gather(*[_read(client.stream(str(CHUNKS))) for _ in range(STREAMS)])


async def _read(stream) -> list:
    return [event async for event in stream]


def told(events: list) -> str:
    """The text of a stream, chunk after chunk: from the task it begins with, and what follows."""
    text = (
        "".join(artifact.text for artifact in events[0].artifacts)
        if isinstance(events[0], Task)
        else ""
    )
    for event in events:
        if isinstance(event, ArtifactUpdate):
            text = text + event.artifact.text if event.append else event.artifact.text
    return text


@pytest.mark.parametrize(("binding", "version"), DOORS, ids=[f"{b}-{v}" for b, v in DOORS])
async def test_every_version_of_ours(binding, version):
    """A subscription's first task is compared with what was seen; old versions are looked at first
    and compared in the end.
    """
    agent = Agent("Counter")
    agent.skill(count)
    app = agent.app()
    async with (
        serving(app, app.close) as url,
        Proxy(int(url.rpartition(":")[2]), 0.06, seed=5) as proxy,
    ):
        received = await through(proxy, url, binding, version)
    assert proxy.cuts > 0
    assert {told(events) for events in received} == {WHOLE}
    assert not any(isinstance(event, Gap) for events in received for event in events)
    ends = [
        sum(isinstance(e, StatusUpdate) and e.status.state.word == "completed" for e in events)
        for events in received
    ]
    assert set(ends) <= {0, 1}  # none if the first task that came through was already complete


async def test_an_agent_of_the_sdk():
    """The same with a2a-sdk's server, whose subscriptions are its own."""
    async with serving_sdk() as url, Proxy(int(url.rpartition(":")[2]), 0.03, seed=6) as proxy:
        received = await through(proxy, url, "JSONRPC", "1.0")
    assert proxy.cuts > 0
    assert {told(events) for events in received} == {WHOLE}
