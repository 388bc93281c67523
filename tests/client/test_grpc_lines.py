"""gRPC connections to agents far away, and to servers that are not ours."""

import asyncio
import math

import grpc
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceServicer, add_A2AServiceServicer_to_server

from accord import Agent
from accord.client import BadCard, Budget, Retry, connect
from tests.client.network.forward import forward
from tests.client.network.wire import handled
from tests.client.peers import PATIENCE_S, card
from tests.drive import serving

ONCE = Retry(attempts=1)


def at(place: str) -> dict:
    return card(
        place,
        supportedInterfaces=[{"url": place, "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
        capabilities={},
    )


class Stranger(A2AServiceServicer):
    """An agent of someone else's, that takes its time."""

    def __init__(self, work_s: float) -> None:
        self._work_s = work_s

    async def SendMessage(self, request, context):  # noqa: N802  as the protocol spells it
        await asyncio.sleep(self._work_s)
        return pb.SendMessageResponse(
            message=pb.Message(message_id="m", role=pb.ROLE_AGENT, parts=[pb.Part(text="done")])
        )


async def started(work_s: float = 0.0) -> tuple[grpc.aio.Server, int]:
    server = grpc.aio.server(options=[("grpc.http2.max_ping_strikes", 1)])
    add_A2AServiceServicer_to_server(Stranger(work_s), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


async def test_an_address_is_a_host_and_a_port():
    """With or without a scheme. Nothing else: what the guard reads is what is called, and grpcio
    would read the others in its own way.
    """
    server, port = await started()
    good = ("{}", "grpc://{}", "http://{}", "http://{}/", "GRPC://{}")
    bad = (
        "x://ipv4:{}#://8.8.8.8:443",
        "grpc://ipv4:{}#://8.8.8.8:443",
        "grpc://{}://8.8.8.8:443",
        "grpc://{}#8.8.8.8:443",
        "grpc://{}?8.8.8.8:443",
        "grpc://{}/8.8.8.8:443",
        "grpc://8.8.8.8:443@{}",
        "dns:///{}",
        "ipv4:{}",
        "unix:/tmp/agent.sock",
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            for form in good:
                place = form.format(f"127.0.0.1:{port}")
                async with connect(at(place), retry=ONCE) as client:
                    assert (await client.send("x")).text == "done", place
            for form in bad:
                place = form.format(f"127.0.0.1:{port}")
                with pytest.raises(BadCard, match="is not a gRPC address"):
                    await connect(at(place), retry=ONCE)
    finally:
        await server.stop(None)


async def test_other_servers_are_not_asked_so_often_that_they_hang_up():
    """They count pings that come with nothing else, and three in five minutes are an attack to
    them.
    """
    server, port = await started(work_s=3.5)
    try:
        async with (
            asyncio.timeout(PATIENCE_S),
            connect(at(f"127.0.0.1:{port}"), budget=Budget(lost_s=2), retry=ONCE) as client,
        ):
            assert (await client.send("x")).text == "done"
    finally:
        await server.stop(0)


async def test_no_limit_is_a_limit_too():
    """`math.inf`: as long as it takes."""
    server, port = await started()
    budget = Budget(lost_s=math.inf, connect_s=math.inf)
    try:
        async with (
            asyncio.timeout(PATIENCE_S),
            connect(at(f"127.0.0.1:{port}"), budget=budget) as client,
        ):
            assert (await client.send("x")).text == "done"
    finally:
        await server.stop(0)


async def test_a_connection_may_take_its_time():
    """TCP, TLS and the settings of HTTP/2 are several journeys there and back: over an ocean half a
    second, in one attempt.
    """
    server, port = await started()

    async def pump(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
        finally:
            writer.close()

    async def far(reader, writer):
        await asyncio.sleep(0.5)  # a host that is far away
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(pump(reader, outer), pump(inner, writer))
        finally:
            outer.close()
            await outer.wait_closed()

    try:
        async with asyncio.timeout(PATIENCE_S), handled(far) as url:
            place = url.removeprefix("http://").rstrip("/")
            async with connect(at(place), retry=ONCE) as client:
                assert (await client.send("x")).text == "done"
    finally:
        await server.stop(0)


async def test_a_proxy_of_the_environment_gets_no_grpc_to_this_machine(monkeypatch):
    """As with HTTP: it could not reach it, or would reach another one."""
    agent = Agent("Here")

    @agent.skill
    async def echo(text: str) -> str:
        return text

    app = agent.app(store="memory://")
    app.listen("127.0.0.1", 0)
    async with serving(app, app.close) as url, forward() as proxy:
        for name in ("http_proxy", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, proxy.url)
        async with connect(url, binding="GRPC") as client:
            assert (await client.send("hi")).text == "hi"
    assert proxy.lines == []


async def test_grpc_through_a_proxy():
    """A proxy given by hand takes all calls, those of gRPC through a tunnel, its password
    included.
    """
    agent = Agent("Echo")

    @agent.skill
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    app = agent.app(grpc_port=0)
    async with serving(app, app.close) as url, forward("ada:pw") as proxy:
        await app.open()
        async with connect(
            url, binding="GRPC", proxy=proxy.url.replace("://", "://ada:pw@")
        ) as client:
            assert (await client.send("hello")).text == "hello"
    assert [line.partition(" ")[0] for line in proxy.lines] == ["GET", "CONNECT"]
