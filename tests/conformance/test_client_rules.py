"""The rules of the protocol for clients, shown by our own client: what it sends, and how it reads
what comes back.
"""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from accord import Agent, Context, connect
from accord.client import Bearer
from accord.client.errors import BadCard
from accord.model import TaskNotCancelable, TaskNotFound, TaskState
from tests.drive import serving

BINDINGS = ["JSONRPC", "HTTP+JSON"]


@pytest.fixture(params=BINDINGS)
def binding(request):
    return request.param


class Wiretap:
    """Lets requests through to an app, and remembers them."""

    def __init__(self, app):
        self.app = app
        self.requests = []

    async def __call__(self, scope, receive, send):
        seen = {
            "path": scope["path"],
            "headers": {k.decode(): v.decode() for k, v in scope["headers"]},
            "body": b"",
        }
        if not scope["path"].startswith("/.well-known/"):
            self.requests.append(seen)

        async def listen():
            event = await receive()
            seen["body"] += event.get("body", b"")
            return event

        await self.app(scope, listen, send)


@asynccontextmanager
async def tapped(*, tenant=""):
    """An echo agent behind a wiretap; every interface of its card names the tenant."""
    agent = Agent("Echo")

    @agent.skill
    async def echo(request: str):
        return request

    @agent.card
    def edit(card):
        for interface in card.supported_interfaces:
            interface.tenant = tenant

    app = agent.app(versions=["1.0"])
    tap = Wiretap(app)
    async with serving(tap, app.close) as url:
        yield tap, url


async def use(client):
    """A bit of everything."""
    reply = await client.send("hi")
    await client.get(reply.task_id)
    [event async for event in client.stream("hi")]
    [task async for task in client.list()]


async def test_every_request_names_the_version(binding):
    """Major and minor, in the header (VER-1, VER-2)."""
    async with tapped() as (tap, url), connect(url, binding=binding) as client:
        await use(client)
        assert {request["headers"].get("a2a-version") for request in tap.requests} == {"1.0"}


async def test_every_request_carries_the_tenant_of_its_interface(binding):
    """Copied from the card as it is (TEN-1, CRD-3)."""
    async with tapped(tenant="acme/7") as (tap, url), connect(url, binding=binding) as client:
        await use(client)
        assert len(tap.requests) == 4
        for request in tap.requests:
            body = json.loads(request["body"] or b"{}")
            assert (
                request["path"].startswith("/acme/7/")
                or body.get("params", {}).get("tenant") == "acme/7"
            )


async def test_no_tenant_is_sent_where_the_card_has_none(binding):
    """Left out, not empty (TEN-1)."""
    async with tapped() as (tap, url), connect(url, binding=binding) as client:
        await use(client)
        assert not any(b'"tenant"' in request["body"] for request in tap.requests)


async def test_the_client_invents_no_context(binding):
    """The server's ids are taken as they come, and sent back as they came (CTX-3, CTX-9)."""
    async with tapped() as (tap, url), connect(url, binding=binding) as client:
        reply = await client.send("hi")
        assert b'"contextId"' not in tap.requests[0]["body"]
        await client.send("again", context_id=reply.context_id)
        assert reply.context_id.encode() in tap.requests[1]["body"]


async def test_credentials_travel_in_headers_alone(binding):
    """With every request, and never in the payload (AUT-3)."""
    async with (
        tapped() as (tap, url),
        connect(url, binding=binding, auth=Bearer("s3cret")) as client,
    ):
        await use(client)
        assert {request["headers"].get("authorization") for request in tap.requests} == {
            "Bearer s3cret"
        }
        assert not any(b"s3cret" in request["body"] for request in tap.requests)


def info(reason):
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "a2a-protocol.org",
    }


RPC_ERRORS = [
    ({"code": -32000, "message": "odd code", "data": [info("TASK_NOT_FOUND")]}, TaskNotFound),
    ({"code": -32001, "message": "no details"}, TaskNotFound),
    ({"code": -32001, "message": "old details", "data": {"any": "thing"}}, TaskNotFound),
    ({"code": -32002, "message": "code alone", "data": None}, TaskNotCancelable),
]


def answering(status, body):
    """A server that has one answer, and a card."""

    async def app(scope, receive, send):
        answer = body
        if scope["path"].startswith("/.well-known/"):
            kinds = [
                {
                    "url": "http://%s:%d" % scope["server"],
                    "protocolBinding": b,
                    "protocolVersion": "1.0",
                }
                for b in BINDINGS
            ]
            answer = {
                "name": "Canned",
                "description": "Canned",
                "version": "1",
                "supportedInterfaces": kinds,
                "capabilities": {},
                "defaultInputModes": ["text/plain"],
                "defaultOutputModes": ["text/plain"],
                "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["s"]}],
            }
        elif scope["method"] == "POST":
            request = json.loads((await receive())["body"] or b"{}")
            answer = answer | (
                {"jsonrpc": "2.0", "id": request["id"]}
                if "id" in request and "method" in request
                else {}
            )
        code = 200 if scope["path"].startswith("/.well-known/") else status
        await send(
            {
                "type": "http.response.start",
                "status": code,
                "headers": [(b"content-type", b"application/json")],
            }
        )
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    return app


async def nothing():
    """A server of one function has nothing to close."""


@pytest.mark.parametrize(("error", "expected"), RPC_ERRORS, ids=range(len(RPC_ERRORS)))
async def test_errors_are_told_apart_by_reason_and_then_by_code(error, expected):
    """ErrorInfo first; missing or old details are borne (ERR-8)."""
    app = answering(200, {"error": error})
    async with serving(app, nothing) as url, connect(url, binding="JSONRPC") as client:
        with pytest.raises(expected, match=error["message"]):
            await client.get("t-1")


@pytest.mark.parametrize("status", [400, 409])
async def test_statuses_of_the_first_release_are_understood(status):
    """1.0.0 had 409 for what cannot be cancelled, later 400: the reason says it (ERR-8)."""
    body = {
        "error": {
            "code": status,
            "status": "FAILED_PRECONDITION",
            "message": "too late",
            "details": [info("TASK_NOT_CANCELABLE")],
        }
    }
    app = answering(status, body)
    async with serving(app, nothing) as url, connect(url, binding="HTTP+JSON") as client:
        with pytest.raises(TaskNotCancelable, match="too late"):
            await client.cancel("t-1")


async def test_version_and_binding_are_the_newest_both_speak():
    """Chosen from the card without being told, or as told; never another than the one asked for
    (VER-5).
    """
    agent = Agent("Echo")

    @agent.skill
    async def echo(request: str):
        return request

    app = agent.app()
    async with serving(app, app.close) as url:
        for asked, got in (
            ({}, ("1.0", "JSONRPC")),
            ({"version": "0.3", "binding": "HTTP+JSON"}, ("0.3", "HTTP+JSON")),
        ):
            async with connect(url, **cast(Any, asked)) as client:
                assert (client.version, client.binding) == got
                assert (await client.send("hi")).text == "hi"
        with pytest.raises(BadCard, match="does not offer"):
            async with connect(url, version="0.3", binding="GRPC"):
                pass


async def test_a_client_without_a_stream_can_wait_for_the_grant(binding):
    """Returned to at AUTH_REQUIRED, it subscribes and sees the task go on (ITA-6)."""
    granted = asyncio.Event()
    agent = Agent("Bank")

    @agent.skill
    async def pay(request: str, ctx: Context):
        await ctx.require_auth("Sign in", until=granted.wait())
        return "paid"

    app = agent.app()
    async with serving(app, app.close) as url, connect(url, binding=binding) as client:
        reply = await client.send("pay")
        assert reply.state == TaskState.AUTH_REQUIRED
        stream = client.subscribe(reply.task_id)
        async with asyncio.timeout(10):
            await anext(stream)
            granted.set()
            [event async for event in stream]
        assert (await client.get(reply.task_id)).state == TaskState.COMPLETED
