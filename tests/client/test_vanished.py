"""An agent whose machine is gone says no goodbye: who waits for it is told long before the time it
gave, or gets its answer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from accord import Agent
from accord.client import Budget, Client, ConnectionLost, Retry, connect
from accord.protocol import BindingName
from tests.client.network.wire import get, network, ok
from tests.client.peers import PATIENCE_S
from tests.drive import serving
from tests.swallow import on_linux, swallow

pytestmark = on_linux

LOST_S = 2.0


class Hole:
    """The way to a server, which can be lost: what is connected stays so, and nothing comes through
    any more.
    """

    def __init__(self, port: int) -> None:
        self.port = 0
        self._to = port
        self._inside: list[asyncio.StreamWriter] = []
        self._pumps: list[asyncio.Task[None]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", self._to)
        self._inside += [writer, outer]
        self._pumps += [
            asyncio.create_task(_pump(reader, outer)),
            asyncio.create_task(_pump(inner, writer)),
        ]

    async def lose(self) -> None:
        """Lose all who are connected; who connects from now on comes through."""
        pumps, self._pumps = self._pumps, []
        for writer in self._inside:
            swallow(writer.get_extra_info("socket"))
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def close(self) -> None:
        await self.lose()
        for writer in self._inside:
            writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)


@asynccontextmanager
async def behind_a_hole(agent: Agent, binding: BindingName) -> AsyncIterator[tuple[Client, Hole]]:
    app = agent.app(grpc_port=0 if binding == "GRPC" else None)
    async with serving(app, app.close) as url:
        await app.open()
        hole = Hole(app.grpc_port if binding == "GRPC" else int(url.rpartition(":")[2]))
        server = await asyncio.start_server(hole.serve, "127.0.0.1", 0)
        place = "127.0.0.1:%d" % server.sockets[0].getsockname()[1]
        there = app.card(f"http://{place}")
        for interface in there.supported_interfaces:
            interface.url = place if interface.protocol_binding == "GRPC" else interface.url
        try:
            budget = Budget(lost_s=LOST_S, idle_s=1000)
            async with connect(
                there, binding=binding, budget=budget, retry=Retry(first_s=0.01)
            ) as client:
                yield client, hole
        finally:
            server.close()
            await hole.close()


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("way", ["send", "stream"])
async def test_an_answer_is_not_lost_with_the_machine_on_the_way(binding, way):
    """No bytes come, and none are missed: only its system can tell that nobody is there. Then the
    message is sent again, the stream gone on with, and the work is done once.
    """
    agent, calls, begun, go = Agent("Clerk"), [], asyncio.Event(), asyncio.Event()

    @agent.skill
    async def work(text: str) -> str:
        """Work."""
        calls.append(text)
        begun.set()
        await go.wait()
        return "done"

    async with asyncio.timeout(PATIENCE_S), behind_a_hole(agent, binding) as (client, hole):
        waiting = asyncio.create_task(
            client.send("x", timeout_s=1000) if way == "send" else _read(client)
        )
        try:
            await begun.wait()
            await hole.lose()
            go.set()
            assert (await waiting).text == "done"
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
    assert calls == ["x"]


async def _read(client: Client):
    async with client.stream("x") as stream:
        assert [event async for event in stream]
    return stream.reply


@pytest.mark.parametrize("is_sent", [True, False], ids=["waiting", "sending"])
async def test_a_lost_connection_is_told_of_before_the_deadline(is_sent):
    """Whether it was lost before the request, of which nothing is ever taken, or after."""
    taken: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok())
        if is_sent:
            await reader.readuntil(b"\r\n\r\n")
        swallow(writer.get_extra_info("socket"))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = "http://127.0.0.1:%d/" % server.sockets[0].getsockname()[1]
    try:
        async with network(lost_s=LOST_S) as net:
            assert (await get(net, url)).status == 200
            with pytest.raises(ConnectionLost, match="timed out"):
                await get(net, url, "POST", timeout_s=1000)
    finally:
        server.close()
        for writer in taken:
            writer.transport.abort()
