"""Streams over gRPC are resumed as over HTTP: by number, in the metadata (design, rule 1)."""

import asyncio

import pytest

from accord import Agent
from accord.client import BadAnswer, Budget, Gap, Retry, connect
from tests.client.peers import Proxy

STREAMS = 20
CHUNKS = 60


async def test_each_event_once_over_connections_that_break():
    """A TCP proxy cuts HTTP/2 connections at random, all streams on them at once; none is lost,
    none comes twice.
    """
    agent = Agent("Counter")

    @agent.skill
    async def count(text: str):
        for i in range(int(text)):
            yield f"{i} "
            if i % 5 == 4:
                await asyncio.sleep(0.002)

    app = agent.app(grpc_port=0)
    await app.open()
    try:
        async with asyncio.timeout(60), Proxy(app.grpc_port, 0.05, seed=3) as proxy:
            card = app.card("http://localhost")
            for interface in card.supported_interfaces:
                if interface.protocol_binding == "GRPC":
                    interface.url = proxy.url.removeprefix("http://")
            async with connect(
                card,
                binding="GRPC",
                version="1.0",
                retry=Retry(attempts=100, first_s=0.01, most_s=0.1),
            ) as client:
                streams = [client.stream(str(CHUNKS)) for _ in range(STREAMS)]
                received = await asyncio.gather(*[_read(stream) for stream in streams])
                stored = [
                    await _read(client.subscribe(stream.task_id, after=0)) for stream in streams
                ]
    finally:
        await app.close()
    assert proxy.cuts > 0
    assert received == stored
    assert {len(events) for events in received} == {CHUNKS + 3}
    assert not any(isinstance(event, Gap) for events in received for event in events)


async def _read(stream) -> list:
    return [event async for event in stream]


async def test_an_answer_too_large_is_not_asked_for_again():
    """gRPC says RESOURCE_EXHAUSTED for a message over our budget as well as for too many calls;
    only the latter is repeated.
    """
    agent = Agent("Novelist")
    calls = []

    @agent.skill
    async def write(text: str) -> str:
        calls.append(text)
        return "x" * 5000

    app = agent.app(grpc_port=0)
    await app.open()
    try:
        async with connect(
            app.card("http://localhost"), binding="GRPC", budget=Budget(answer_bytes=1000)
        ) as client:
            with pytest.raises(BadAnswer, match="Novelist"):
                await client.send("go")
    finally:
        await app.close()
    assert calls == ["go"]
