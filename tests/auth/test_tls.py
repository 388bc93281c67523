"""Mutual TLS: real certificates, over HTTP and gRPC."""

import ssl
from contextlib import asynccontextmanager

import aiohttp
import grpc
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceStub

from accord import Agent, Caller, Tls
from accord.auth import ApiKeys, MutualTLS
from tests.client.certs import Authority
from tests.drive import PATIENCE_S, say

KEY = {"X-API-Key": "a-key-of-sixteen-letters"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An authority, certificates of the server and of two clients, and a stranger's."""
    folder = tmp_path_factory.mktemp("certificates")
    ours, others = Authority(folder), Authority(tmp_path_factory.mktemp("others"))
    for name in ("server", "mia", "bob"):
        ours.issue(name)
    for path in others.issue("stranger"):
        path.rename(folder / path.name)
    return folder


def hr(auth, **more):
    agent = Agent("HR", auth=auth, **more)

    @agent.skill
    async def ask(text: str, caller: Caller) -> str:
        return f"{caller.name} {sorted(caller.scopes)} by {caller.scheme}"

    return agent


class Clients:
    """Asks one server with one certificate or another."""

    def __init__(self, folder, url, grpc_address):
        self.folder, self.url, self.address = folder, url, grpc_address

    def _context(self, name):
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if name:
            context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context

    async def http(self, name, verb="POST", path="/message:send", headers=None):
        named = {"A2A-Version": "1.0"} | (headers or {})
        body = say("hello") if verb == "POST" else None
        async with aiohttp.ClientSession(trust_env=False) as session:
            ask = session.request(
                verb, self.url + path, json=body, headers=named, ssl=self._context(name)
            )
            async with ask as response:
                return response.status, await response.json(content_type=None)

    async def grpc(self, name, headers=None):
        chain = (self.folder / f"{name}.pem").read_bytes() if name else None
        key = (self.folder / f"{name}.key").read_bytes() if name else None
        secret = grpc.ssl_channel_credentials((self.folder / "ca.pem").read_bytes(), key, chain)
        message = pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text="hi")])
        metadata = [(k.lower(), v) for k, v in (headers or {}).items()]
        async with grpc.aio.secure_channel(self.address, secret) as channel:
            answer = await A2AServiceStub(channel).SendMessage(
                pb.SendMessageRequest(message=message), timeout=PATIENCE_S, metadata=metadata
            )
        return answer.task.artifacts[0].parts[0].text


@asynccontextmanager
async def serving(folder, auth, **more):
    tls = Tls(folder / "server.pem", folder / "server.key", folder / "ca.pem")
    app = hr(auth, **more).app(grpc_port=0, tls=tls)
    async with app.serving() as url:
        yield Clients(folder, url, f"127.0.0.1:{app.grpc_port}")


def text(answer):
    status, task = answer
    assert status == 200, task
    return task["task"]["artifacts"][0]["parts"][0]["text"]


async def test_a_certificate_names_its_caller(folder):
    """Over HTTP and gRPC; what one made the other does not find (AUT-4)."""
    async with serving(folder, MutualTLS()) as clients:
        assert text(await clients.http("mia")) == "mia [] by mutualTLS"
        assert await clients.grpc("mia") == "mia [] by mutualTLS"
        status, listed = await clients.http("mia", "GET", "/tasks")
        assert (status, listed["totalSize"]) == (200, 2)
        assert (await clients.http("bob", "GET", "/tasks"))[1]["totalSize"] == 0


async def test_without_a_certificate_only_the_card_is_shown(folder):
    """It says that mutual TLS is needed."""
    async with serving(folder, MutualTLS()) as clients:
        status, card = await clients.http("", "GET", "/.well-known/agent-card.json")
        assert (status, card["securityRequirements"]) == (200, [{"schemes": {"mutualTLS": {}}}])
        assert (await clients.http(""))[0] == 401
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await clients.grpc("")
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_certificate_of_another_authority_is_refused(folder):
    """In the handshake: no request of it is read."""
    async with serving(folder, MutualTLS()) as clients:
        with pytest.raises(aiohttp.ClientError):
            await clients.http("stranger")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await clients.grpc("stranger")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_the_card_may_need_a_certificate_too(folder):
    """Then the handshake needs one: without it not even the card is shown."""
    async with serving(folder, MutualTLS(), card="authenticated") as clients:
        status, card = await clients.http("mia", "GET", "/.well-known/agent-card.json")
        assert (status, card["name"]) == (200, "HR")
        with pytest.raises(aiohttp.ClientError):
            await clients.http("", "GET", "/.well-known/agent-card.json")


async def test_a_certificate_or_a_key(folder):
    """Alternatives: who has no certificate is asked for a key."""
    keys = ApiKeys(keys={KEY["X-API-Key"]: "ci"})
    async with serving(folder, MutualTLS() | keys) as clients:
        assert text(await clients.http("mia")) == "mia [] by mutualTLS"
        assert text(await clients.http("", headers=KEY)) == "ci [] by apiKey"
        assert await clients.grpc("", headers=KEY) == "ci [] by apiKey"
        assert (await clients.http(""))[0] == 401


async def test_a_certificate_and_a_key(folder):
    """Both are needed; the first names the caller (AUT-6)."""
    keys = ApiKeys(keys={KEY["X-API-Key"]: Caller("ci", scopes=frozenset(["x"]))})
    async with serving(folder, MutualTLS() & keys) as clients:
        assert text(await clients.http("mia", headers=KEY)) == "mia ['x'] by mutualTLS"
        assert await clients.grpc("mia", headers=KEY) == "mia ['x'] by mutualTLS"
        assert (await clients.http("mia"))[0] == 401
        assert (await clients.http("", headers=KEY))[0] == 401


async def test_a_function_may_say_who_a_certificate_stands_for(folder):
    def who(certificate):
        name = dict(pair for part in certificate["subject"] for pair in part)["commonName"]
        return Caller(f"{name}@corp", scopes=frozenset(["x"])) if name == "mia" else None

    async with serving(folder, MutualTLS(caller=who)) as clients:
        assert text(await clients.http("mia")) == "mia@corp ['x'] by mutualTLS"
        assert (await clients.http("bob"))[0] == 401


def test_mutual_tls_without_an_authority_does_not_start(folder):
    """What is declared and could not be enforced."""
    with pytest.raises(ValueError, match="--tls-client-ca"):
        hr(MutualTLS()).app()
    with pytest.raises(ValueError, match="--tls-client-ca"):
        hr(MutualTLS() | ApiKeys()).app(tls=Tls(folder / "server.pem", folder / "server.key"))
