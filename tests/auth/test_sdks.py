"""Clients of others, unchanged, call a protected agent with their own credential services."""

import json
from contextlib import asynccontextmanager

import grpc
import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, InMemoryContextCredentialStore
from a2a.client.client import ClientCallContext
from a2a.types import a2a_pb2 as pb

from accord import Agent, Caller
from accord.auth import ApiKeys, Bearer
from tests.auth.tokens import AUDIENCE, ISSUER, jwks, made, token
from tests.drive import serving
from tests.legacy.test_clients import HERE, JS, PYTHON, needs_node, packages
from tests.processes import run

KEY = "the-key-of-mia-0123456789"

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys"), "ES256", "k1")


@pytest.fixture(params=["apiKey", "bearer"])
def credential(request, key):
    """The name of a scheme in the card, and what to show."""
    return request.param, KEY if request.param == "apiKey" else token(key)


@asynccontextmanager
async def protected(key):
    auth = ApiKeys(keys={KEY: "mia"}) | Bearer(jwks(key), issuer=ISSUER, audience=AUDIENCE)
    agent = Agent("HR", auth=auth)

    @agent.skill
    async def who(text: str, caller: Caller) -> str:
        return f"{caller.name} by {caller.scheme}"

    @agent.extended_card
    def extend(card, caller):
        card.description = f"for {caller.name}"
        return card

    app = agent.app(grpc_port=0)
    async with serving(app, app.close) as url:
        await app.open()
        yield url


@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_the_python_sdk(key, credential, transport):
    """a2a-sdk 1.x: its interceptor reads our card, and its store gives the credential."""
    scheme, secret = credential
    async with (
        protected(key) as url,
        httpx.AsyncClient(timeout=10, trust_env=False) as http,
    ):
        card = await A2ACardResolver(http, url).get_agent_card()
        store = InMemoryContextCredentialStore()
        await store.set_credentials("ours", scheme, secret)
        config = ClientConfig(
            streaming=False,
            httpx_client=http,
            supported_protocol_bindings=[transport],
            use_client_preference=True,
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        client = ClientFactory(config).create(card, [AuthInterceptor(store)])
        message = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="hello")])
        request = pb.SendMessageRequest(message=message)
        context = ClientCallContext(state={"sessionId": "ours"})
        [answer] = [e async for e in client.send_message(request, context=context)]
        assert answer.task.artifacts[0].parts[0].text == f"mia by {scheme}"
        with pytest.raises(Exception, match=r"401|UNAUTHENTICATED|needs credentials"):
            [_ async for _ in client.send_message(request)]
        extended = await client.get_extended_agent_card(
            pb.GetExtendedAgentCardRequest(), context=context
        )
        assert extended.description == "for mia"


@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_the_python_sdk_of_0_3(key, credential, transport):
    """a2a-sdk 0.3 reads the union card's old members, and asks for the extended one."""
    scheme, secret = credential
    async with protected(key) as url:
        place = HERE.parent / "auth" / "sdk03.py"
        done = await run(PYTHON, place, url, transport, scheme, secret)
        assert done.code == 0, done.err
    seen = json.loads(done.out)
    assert seen == {"text": f"mia by {scheme}", "without": 401, "card": "for mia"}


@needs_node
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_the_javascript_sdk(key, credential, transport):
    """@a2a-js/sdk 1.x: refused with a challenge, its handler tries once more."""
    packages()
    scheme, secret = credential
    header, shown = ("X-API-Key", KEY) if scheme == "apiKey" else ("Authorization", secret)
    shown = shown if scheme == "apiKey" else f"Bearer {secret}"
    async with protected(key) as url:
        done = await run("node", "auth_1.mjs", url, transport, header, shown, cwd=JS)
        assert done.code == 0, done.err
    seen = json.loads(done.out)
    assert seen == {"retries": [[401, True]], "text": f"mia by {scheme}"}
