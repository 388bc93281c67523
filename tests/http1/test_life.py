"""A server's life: where it listens, over TLS too, and how it ends."""

import asyncio
import signal
import ssl
import sys

import aiohttp
import pytest

from accord import Limits, Tls, connect
from accord.server.http1.listener import HttpServer
from tests.client.certs import Authority
from tests.http1.raw import Wire, agent, post, rpc, send
from tests.processes import start

PATIENCE_S = 60.0

SERVER = """
import asyncio, sys
from accord import Agent

agent = Agent("Stubborn")

@agent.skill
async def work(request: str):
    print("working", flush=True)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("not yet", flush=True)

agent.run(port=0, store="memory://", grace_s=3600, on_start=lambda address: print(address, flush=True))
"""  # noqa: E501


@pytest.fixture
async def stubborn(tmp_path):
    """A server whose work does not end when it is cancelled; its process, which has begun that
    work.
    """
    (tmp_path / "serve.py").write_text(SERVER)
    with start(sys.executable, tmp_path / "serve.py") as process:
        url = await process.line()
        async with aiohttp.ClientSession() as http:
            headers = {"a2a-version": "1.0", "content-type": "application/json"}
            asking = asyncio.ensure_future(http.post(url, data=send("go", "work"), headers=headers))
            assert await process.line() == "working"
            yield process, url
            asking.cancel()
            await asyncio.wait([asking])


async def test_told_to_stop_the_server_is_not_ready_and_still_there(stubborn):
    """SIGTERM: who asks is told, for as long as running work has time to finish (V1)."""
    process, url = stubborn
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as http:
        while True:
            async with http.get(url + "/readyz") as answer:
                if answer.status == 503:
                    break
    assert process.returncode is None


async def test_told_twice_the_server_ends_at_once(stubborn):
    """Ctrl-C in the middle of a grace of an hour; the exit code is that of a server that was told
    to stop.
    """
    process, url = stubborn
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as http:
        while True:
            async with http.get(url + "/readyz") as answer:
                if answer.status == 503:
                    break
    assert await process.stop(signal.SIGINT) == 0


async def test_an_app_is_served_within_a_program():
    """`serving` opens the agent, and closes it with the block; its card names the address."""
    app = agent().app()
    async with app.serving() as url, connect(url) as client:
        assert client.card.supported_interfaces[0].url.startswith(url)
        assert (await client.send("hi")).text == "hi"
    assert app.trouble


async def test_several_agents_are_served_within_one_program():
    """Each on its own port, with its own tasks."""
    one, two = agent().app(), agent().app()
    async with (
        one.serving() as first,
        two.serving() as second,
        connect(first) as a,
        connect(second) as b,
    ):
        await a.send("hi")
        assert [(await client.page()).total_size for client in (a, b)] == [1, 0]


@pytest.fixture
async def secure(tmp_path):
    """An agent served over TLS: its port, and what a client has to know."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    app = agent().app(limits=Limits(body=100_000))
    await app.open()
    server = HttpServer(app.answer, "127.0.0.1", 0, app.limits, Tls(certificate, key))
    await server.start()
    context = ssl.create_default_context(cafile=str(authority.pem))
    context.set_alpn_protocols(["h2", "http/1.1"])
    yield server, context
    await app.close()
    await server.stop()


async def test_over_tls(secure):
    """Requests, streams that are larger than every buffer, refusals of a body that still comes, and
    the protocol's name.
    """
    server, context = secure
    wire = Wire(*await asyncio.open_connection("127.0.0.1", server.port, ssl=context))
    assert wire.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    await wire.drip(post(rpc("ListTasks", {})))
    assert (await wire.answer()).status == 200
    await wire.say(post(send("300 10000", "fill", "SendStreamingMessage")))
    assert (await wire.answer()).body.count(b"artifactUpdate") == 300
    await wire.say(post(b"x" * 200_000).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
    assert (await wire.answer()).status == 413
    wire.writer.transport.abort()


async def test_the_plain_word_on_a_secure_port_is_no_harm(secure):
    """Somebody speaks HTTP where TLS is spoken: the connection ends, others are served."""
    server, context = secure
    plain = Wire(*await asyncio.open_connection("127.0.0.1", server.port))
    await plain.say(post(rpc("ListTasks", {})))
    assert b"200 OK" not in await plain.rest()
    await plain.hang_up()
    wire = Wire(*await asyncio.open_connection("127.0.0.1", server.port, ssl=context))
    await wire.say(post(rpc("ListTasks", {})))
    assert (await wire.answer()).status == 200
    wire.writer.transport.abort()
