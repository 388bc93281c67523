"""One certificate for both servers, and clients' certificates if they are asked for."""

import asyncio
import ssl
import sys
from pathlib import Path

import aiohttp
import grpc
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceStub

from accord import Agent
from accord.server.transport.tls import Tls
from tests.client.certs import Authority
from tests.drive import PATIENCE_S
from tests.processes import start

SERVER = """
import sys
from pathlib import Path
from accord import Agent
from accord.server.transport.tls import Tls

agent = Agent("Echo")

@agent.skill
async def echo(request: str):
    return request

folder = Path(sys.argv[1])
tls = Tls(folder / "server.pem", folder / "server.key", folder / "ca.pem")
agent.run(port=0, store="memory://", grpc_port=0, tls=tls, on_start=lambda address: print(address, flush=True))
"""  # noqa: E501


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    """A folder with an authority, a server's and a client's certificate it signed, and a
    stranger's.
    """
    folder = tmp_path_factory.mktemp("certificates")
    ours, others = Authority(folder), Authority(tmp_path_factory.mktemp("others"))
    ours.issue("server")
    ours.issue("client")
    for path in others.issue("stranger"):
        path.rename(folder / path.name)
    return folder


def credentials(folder, name=""):
    chain = (folder / f"{name}.pem").read_bytes() if name else None
    key = (folder / f"{name}.key").read_bytes() if name else None
    return grpc.ssl_channel_credentials((folder / "ca.pem").read_bytes(), key, chain)


async def says(address, secret) -> int:
    """Return the state of a task made over a secure channel."""
    message = pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text="hi")])
    async with grpc.aio.secure_channel(address, secret) as channel:
        answer = await A2AServiceStub(channel).SendMessage(
            pb.SendMessageRequest(message=message), timeout=PATIENCE_S
        )
        return answer.task.status.state


async def opened(tls):
    agent = Agent("Echo")

    @agent.skill
    async def echo(request: str):
        return request

    app = agent.app(grpc_port=0, tls=tls)
    await app.open()
    return app


async def test_grpc_shows_its_certificate(certificates):
    """And does not speak to who does not want to see it."""
    app = await opened(Tls(certificates / "server.pem", certificates / "server.key"))
    address = f"127.0.0.1:{app.grpc_port}"
    try:
        assert await says(address, credentials(certificates)) == pb.TASK_STATE_COMPLETED
        async with grpc.aio.insecure_channel(address) as plain:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await A2AServiceStub(plain).GetTask(pb.GetTaskRequest(id="t"), timeout=PATIENCE_S)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        await app.close()


@pytest.mark.parametrize("name", ["", "stranger"])
async def test_with_mutual_tls_strangers_stay_out(certificates, name):
    """Only clients whose certificate the named authority signed are let in."""
    app = await opened(
        Tls(certificates / "server.pem", certificates / "server.key", certificates / "ca.pem")
    )
    address = f"127.0.0.1:{app.grpc_port}"
    try:
        assert await says(address, credentials(certificates, "client")) == pb.TASK_STATE_COMPLETED
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await says(address, credentials(certificates, name))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        await app.close()


async def test_http_and_grpc_share_the_options(certificates):
    """One `tls` for `run`: the card over HTTPS, a call over gRPC, both with the client's
    certificate.
    """
    with start(sys.executable, "-c", SERVER, certificates) as server:
        url = await server.line()
        assert url.startswith("https://")
        secure = ssl.create_default_context(cafile=certificates / "ca.pem")
        async with aiohttp.ClientSession(trust_env=False) as http:
            with pytest.raises(aiohttp.ClientError):
                await http.get(url + "/.well-known/agent-card.json", ssl=secure)
            secure.load_cert_chain(certificates / "client.pem", certificates / "client.key")
            async with http.get(url + "/.well-known/agent-card.json", ssl=secure) as response:
                card = await response.json()
        [address, _] = [
            place["url"]
            for place in card["supportedInterfaces"]
            if place["protocolBinding"] == "GRPC"
        ]
        assert await says(address, credentials(certificates, "client")) == pb.TASK_STATE_COMPLETED
        assert await server.stop() == 0


@pytest.mark.parametrize("protocols", [["http/1.1"], []])
async def test_over_tls_only_http_2_is_spoken(certificates, protocols):
    """Who did not agree to it is told so, and that is all."""
    app = await opened(Tls(certificates / "server.pem", certificates / "server.key"))
    secure = ssl.create_default_context(cafile=certificates / "ca.pem")
    if protocols:
        secure.set_alpn_protocols(protocols)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", app.grpc_port, ssl=secure)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 505 ")
    finally:
        await app.close()
