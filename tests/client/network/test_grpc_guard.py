"""gRPC to addresses that strangers gave: connected to is what the guard has looked at."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Agent, connect
from accord.client import Client, Retry, Unreachable
from accord.net import Guard
from accord.server.transport import Tls
from tests.client.certs import Authority
from tests.client.network.test_guard_cases import outside
from tests.client.peers import Gate

__all__ = ["outside"]

NAME = "agent.example.com"  # by our own table; no resolver of this machine knows it
OURS, OTHERS = "127.0.0.1", "127.0.0.2"


def echo() -> Agent:
    agent = Agent("Echo")

    @agent.skill
    async def say(text: str) -> str:
        return text

    return agent


def card(port: str | int, scheme: str = "http") -> dict[str, Any]:
    url = f"{scheme}://{NAME}:{port}"
    return {
        "name": "Echo",
        "description": "",
        "version": "1",
        "supportedInterfaces": [{"url": url, "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "say", "name": "say", "description": "", "tags": []}],
    }


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[int]:
    app = echo().app(grpc_port=0, **options)
    async with app.serving():
        yield app.grpc_port


def caller(given: dict[str, Any], **options: Any) -> Client:
    guard = Guard([OURS], ports=None, schemes=("http", "https"))
    return connect(given, guard=guard, retry=Retry(max_time_s=0.0), **options)


async def test_the_address_that_was_looked_at_is_called(outside):
    """By a name that grpcio itself could not resolve; blocking, streamed, and again."""
    outside.names[NAME] = [[OURS]] * 2
    async with served() as port, caller(card(port)) as client:
        assert (await client.send("hi")).text == "hi"
        async with client.stream("ho") as stream:
            assert [event async for event in stream]
    assert outside.lookups == [NAME] * 2  # when the card was read, and when it was connected to


async def test_the_name_stays_that_of_the_certificate(outside, tmp_path):
    """The server is asked for by its name, and shows that it has it."""
    ours = Authority(tmp_path)
    outside.names[NAME] = [[OURS]] * 2
    tls = Tls(*ours.issue("server", NAME))
    async with served(tls=tls) as port, caller(card(port, "https"), ca=ours.pem) as client:
        assert (await client.send("hi")).text == "hi"


async def test_a_certificate_for_another_name_is_refused(outside, tmp_path):
    """It is for the address that is connected to, but not for the name that was asked for."""
    ours = Authority(tmp_path)
    outside.names[NAME] = [[OURS]] * 2
    tls = Tls(*ours.issue("server", "other.example.com"))
    async with served(tls=tls) as port, caller(card(port, "https"), ca=ours.pem) as client:
        with pytest.raises(Unreachable):
            await client.send("hi")


async def test_a_name_that_leads_elsewhere_the_second_time_is_not_followed(outside):
    """It was right when the card was read."""
    outside.names[NAME] = [[OURS], [OTHERS]]
    async with served() as port, caller(card(port)) as client:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.2 is no public address") as caught:
            await client.send("hi")
        assert (caught.value.cause, caught.value.is_lasting) == ("guard", True)


@pytest.mark.parametrize(
    ("now", "is_allowed"), [([OURS], True), ([OTHERS], False), ([OURS, OTHERS], False)]
)
async def test_a_lost_connection_is_looked_up_and_looked_at_again(outside, now, is_allowed):
    """The name may have moved since, to where it may be followed or not."""
    outside.names[NAME] = [[OURS], [OURS], *[now] * 1000]
    async with served() as port, Gate(f":{port}") as gate:
        outside.others[OURS] = port  # where the gate leads to
        async with caller(card(gate.url.rpartition(":")[2])) as client:
            assert (await client.send("hi")).text == "hi"
            await gate.shut()
            await gate.open()
            if is_allowed:
                assert (await _after_the_loss(client)).text == "hi"
            else:
                with pytest.raises(Unreachable, match=r"127\.0\.0\.2 is no public address"):
                    await _after_the_loss(client)
    assert len(outside.lookups) >= 3  # one more for each attempt


async def _after_the_loss(client: Client) -> Any:
    """Send until the client has noticed that the connection is gone."""
    while True:
        try:
            return await client.send("hi")
        except ConnectionError as error:
            if isinstance(error, Unreachable) and error.cause == "guard":
                raise
