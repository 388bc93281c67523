"""With the preview, a server gives clients of 1.0 the same bytes as without it."""

import json
from typing import Any

import aiohttp
import grpc
import pytest

from accord import Agent
from accord.protocol.protobuf import kind
from tests.drive import JsonRpc, serving

RESUMED = {"A2A-Extensions": "urn:accord:resume:1", "Last-Event-ID": "0"}


def _agent() -> Agent:
    agent = Agent("Test agent")

    @agent.skill
    async def echo(request: str):
        yield request
        yield request

    return agent


async def _bytes(app: Any, task_id: str, headers: dict[str, str]) -> dict[str, bytes]:
    """What a server says of a task, over every binding, as it stands on the wire."""
    found = {}
    rpc = '{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}'
    one = f'{{"id":"{task_id}"}}'
    calls: dict[str, tuple[str, str, str | None, dict[str, str]]] = {
        "rpc get": ("POST", "/", rpc % ("GetTask", one), {}),
        "rpc list": ("POST", "/", rpc % ("ListTasks", '{"includeArtifacts":true}'), {}),
        "rpc stream": ("POST", "/", rpc % ("SubscribeToTask", one), RESUMED),
        "rest get": ("GET", f"/tasks/{task_id}", None, {}),
        "rest list": ("GET", "/tasks", None, {}),
        "rest stream": ("POST", f"/tasks/{task_id}:subscribe", None, RESUMED),
        "rpc poll": ("POST", "/", rpc % ("GetTask", one[:-1] + ',"currentGeneration":"99"}'), {}),
        "rest poll": ("GET", f"/tasks/{task_id}?currentGeneration=99", None, {}),
        "rpc condition": ("POST", "/", rpc % ("SendMessage", _sent(task_id)), {}),
        "rest condition": ("POST", "/message:send", _sent(task_id), {}),
        "rpc error": ("POST", "/", rpc % ("GetTask", '{"id":"nothing"}'), {}),
        "rest error": ("GET", "/tasks/nothing", None, {}),
        "old get": ("POST", "/", rpc % ("tasks/get", one), {"A2A-Version": "0.3"}),
        "old stream": (
            "POST",
            "/",
            rpc % ("tasks/resubscribe", one),
            RESUMED | {"A2A-Version": "0.3"},
        ),
    }
    async with serving(app, app.close) as url, aiohttp.ClientSession(trust_env=False) as http:
        await app.open()
        for name, (verb, path, body, more) in calls.items():
            sent = headers | {"Content-Type": "application/json"} | more
            async with http.request(verb, url + path, data=body, headers=sent) as answer:
                found[name] = await answer.read()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{app.grpc_port}") as channel:
            found |= await _grpc_bytes(channel, "lf.a2a.v1", task_id, headers)
            found |= await _grpc_bytes(channel, "a2a.v1", task_id, headers)
            found["reflection"] = await _reflected(channel)
    return found


def _sent(task_id: str) -> str:
    """A message with a condition of 1.1, which is none in 1.0."""
    message = {"messageId": "m", "taskId": task_id, "role": "ROLE_USER", "parts": [{"text": "x"}]}
    return json.dumps({"message": message, "configuration": {"ifGenerationMatch": "99"}})


async def _reflected(channel: Any) -> bytes:
    """What a server says of its messages."""
    package = "grpc.reflection.v1"
    ask = channel.stream_stream(f"/{package}.ServerReflection/ServerReflectionInfo")
    asked = {"fileContainingSymbol": "lf.a2a.v1.A2AService"}
    call = ask(iter([kind(f"{package}.ServerReflectionRequest").encode(asked)]))
    return b"".join([answer async for answer in call])


_STREAMS = {"lf.a2a.v1": "SubscribeToTask", "a2a.v1": "TaskSubscription"}


async def _grpc_bytes(
    channel: Any, package: str, task_id: str, headers: dict[str, str]
) -> dict[str, bytes]:
    """The same over gRPC, in 1.0 or 0.3: messages, and what is said beside them."""
    is_old = package == "a2a.v1"
    named = {"name": f"tasks/{task_id}"} if is_old else {"id": task_id}
    if is_old:
        headers = {}
    found = {}

    def metadata_of(more: dict[str, str]) -> tuple[tuple[str, str], ...]:
        return tuple((name.lower(), value) for name, value in (headers | more).items())

    async def keep(name: str, call: Any, *data: bytes) -> None:
        beside = [*(await call.initial_metadata() or ()), *(await call.trailing_metadata() or ())]
        found[f"{package} {name}"] = b"\n".join((*data, repr(sorted(beside)).encode()))

    unary: dict[str, dict[str, Any]] = (
        {"GetTask": named} if is_old else {"GetTask": named, "ListTasks": _LISTED}
    )
    for method, request in unary.items():
        rpc = channel.unary_unary(f"/{package}.A2AService/{method}")
        data = kind(f"{package}.{method}Request").encode(request)
        # A field of 1.1, which is none in 1.0.
        for unknown in (b"", _POLL) if method == "GetTask" else (b"",):
            call = rpc(data + unknown, metadata=metadata_of({}))
            await keep(method + (" poll" if unknown else ""), call, await call)
    method = _STREAMS[package]
    rpc = channel.unary_stream(f"/{package}.A2AService/{method}")
    data = kind(f"{package}.{method}Request").encode(named)
    call = rpc(data, metadata=metadata_of(RESUMED))
    await keep(method, call, *[frame async for frame in call])
    return found


_LISTED = {"includeArtifacts": True, "pageSize": 10}
_POLL = b"\x20\x63"  # field 4, a number: 99


@pytest.mark.parametrize("headers", [{}, {"A2A-Version": "1.0"}], ids=["unnamed", "1.0"])
async def test_10_gets_the_same_bytes(lasting, headers):
    """Whether the task was made in 1.0 or in 1.1."""
    for version in ("1.0", "1.1"):
        app = _agent().app(store=lasting, previews=["1.1"])
        async with serving(app, app.close) as url, aiohttp.ClientSession(trust_env=False) as http:
            made = await JsonRpc(http, url).send("go", headers={"A2A-Version": version})
        task_id = made["task"]["id"]
        with_it = await _bytes(
            _agent().app(store=lasting, previews=["1.1"], grpc_port=0), task_id, headers
        )
        without = await _bytes(_agent().app(store=lasting, grpc_port=0), task_id, headers)
        assert with_it == without
        assert all(
            b"eneration" not in data and b"timeline" not in data for data in with_it.values()
        )
        assert b'"result":{"id"' in with_it["rpc get"]
        assert b"statusUpdate" in with_it["rpc stream"]
        assert {name.partition(" ")[2] for name in with_it if "a2a.v1" in name} == {
            *("GetTask", "GetTask poll", "ListTasks", "SubscribeToTask", "TaskSubscription")
        }
        assert b"UNSUPPORTED_OPERATION" in with_it["rest condition"]  # as the task has ended
        assert b"SendMessageConfiguration" in with_it["reflection"]
        assert with_it["lf.a2a.v1 SubscribeToTask"].count(task_id.encode()) > 4
