"""What a request may hold: at the limit it is served, past it refused by name, and nothing is left
of it.
"""

import json
from typing import Any, cast

import pytest

from accord import Message
from accord.model import Limits
from tests.drive import refusal_of, say, state_of

FAR = 100


async def echo(request: str):
    return request


async def take(request: Message):
    return "taken"


def request_of(client, params, **envelope):
    """The path and the body of a send, as this binding writes it."""
    if client.binding == "HTTP+JSON":
        return "/message:send", params
    return "/", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params} | envelope


async def refused(client, path, body):
    """Return the status, and the code and the message of the error; the task list must be as empty
    as before.
    """
    status, answer = await client.post(path, body, A2A_Version="1.0")
    assert (await client.list())["totalSize"] == 0
    return status, answer["error"]["code"], answer["error"]["message"]


async def served(client, path, body):
    status, answer = await client.post(path, body, A2A_Version="1.0")
    assert status == 200
    return answer.get("result", answer)["task"]


def of_length(client, length):
    """A request of exactly so many bytes."""
    path, body = request_of(client, say("HERE"))
    raw = json.dumps(body).encode()
    raw = raw.replace(b"HERE", b"x" * (length - len(raw) + 4))
    assert len(raw) == length
    return path, raw


async def test_body(connect_http):
    """413 on both bindings, and the server says what is allowed."""
    async with connect_http(echo, limits=Limits(body=5_000)) as client:
        for length in (5_001, 5_000 * FAR):
            status, code, message = await refused(client, *of_length(client, length))
            assert (status, code) == (413, -32600 if client.binding == "JSONRPC" else 413)
            assert "5000 bytes" in message
        assert state_of(await served(client, *of_length(client, 5_000))) == "completed"


async def test_body_over_grpc(connect_grpc):
    """The same limit, as gRPC says it."""
    async with connect_grpc(echo, limits=Limits(body=5_000)) as client:
        for length in (5_001, 5_000 * FAR):
            assert (await refusal_of(client.send("x" * length))).error[
                "status"
            ] == "RESOURCE_EXHAUSTED"
        assert (await client.list())["totalSize"] == 0
        assert state_of((await client.send("x" * 4_900))["task"]) == "completed"


def nested(client, levels):
    """A request nested exactly so deep: its own levels, and arrays in a data part."""
    own = 4 if client.binding == "HTTP+JSON" else 5
    path, body = request_of(client, say([{"data": "HERE"}]))
    arrays = levels - own
    return path, json.dumps(body).replace('"HERE"', "[" * arrays + "]" * arrays).encode()


@pytest.mark.parametrize("limit", [64, 10])
async def test_json_depth(connect_http, limit):
    """A parse error that names the depth; msgspec and Python would go far deeper (reliability,
    section 5).
    """
    async with connect_http(take, limits=Limits(json_depth=limit)) as client:
        for levels in (limit + 1, limit * FAR):
            _, code, message = await refused(client, *nested(client, levels))
            assert (code, f"deeper than {limit} levels" in message) == (
                -32700 if client.binding == "JSONRPC" else 400,
                True,
            )
        assert state_of(await served(client, *nested(client, limit))) == "completed"


def with_members(client, count):
    """A request of exactly so many members in all."""
    own = 5 if client.binding == "HTTP+JSON" else 9
    path, body = request_of(client, say([{"data": {}}]))
    text = json.dumps(body)
    return path, text.replace(
        '{"data": {}}', '{"data": {%s}}' % ",".join(['"":1'] * (count - own))
    ).encode()


@pytest.mark.parametrize("limit", [1_000, 100])
async def test_json_members(connect_http, limit):
    """Of all objects together, those with the same name too: each of them costs far more than its
    bytes.
    """
    async with connect_http(take, limits=Limits(json_members=limit, body=64 << 20)) as client:
        for count in (limit + 1, limit * FAR):
            _, code, message = await refused(client, *with_members(client, count))
            assert (code, f"more than {limit} members" in message) == (
                -32700 if client.binding == "JSONRPC" else 400,
                True,
            )
        assert state_of(await served(client, *with_members(client, limit))) == "completed"


async def test_members_in_texts_are_text(connect_http):
    """Colons and brackets in strings are no members and no levels."""
    async with connect_http(echo, limits=Limits(json_members=20, json_depth=8)) as client:
        text = '": [{' * 100
        assert state_of((await client.send(text))["task"]) == "completed"


@pytest.mark.parametrize("number", ["7" * 64, "-" + "7" * 64, "0." + "7" * 63, "7" * 64 + "e5"])
async def test_json_digits(connect_http, number):
    """A long number is quadratic to read; nobody writes one by hand."""
    async with connect_http(take, limits=Limits(json_digits=64)) as client:
        path, body = request_of(client, say([{"data": "HERE"}]))
        for digits in (number.replace("7", "77", 1), number.replace("7", "7" * 64 * FAR, 1)):
            _, code, message = await refused(
                client, path, json.dumps(body).replace('"HERE"', digits).encode()
            )
            assert (code, "more than 64 digits" in message) == (
                -32700 if client.binding == "JSONRPC" else 400,
                True,
            )
        assert (
            state_of(
                await served(client, path, json.dumps(body).replace('"HERE"', number).encode())
            )
            == "completed"
        )


@pytest.mark.parametrize("limit", [200, 3])
async def test_parts(connect, limit):
    """InvalidParams names the field, on every binding (GEN-2)."""
    async with connect(echo, limits=Limits(parts=limit, json_members=1_000_000)) as client:
        for count in (limit + 1, limit * FAR):
            no = await refusal_of(client.send(say([{"text": "x"}] * count)))
            assert (no.reason, no.violations) == (
                "INVALID_PARAMS",
                {"message.parts": f"has {count} parts; {limit} are allowed"},
            )
        assert (await client.list())["totalSize"] == 0
        assert state_of((await client.send(say([{"text": "x"}] * limit)))["task"]) == "completed"


@pytest.mark.parametrize("field", ["messageId", "contextId", "taskId"])
async def test_id_length_of_a_message(connect, field):
    """Ids are keys of indexes and words of logs."""
    async with connect(echo) as client:
        for length in (257, 256 * FAR):
            no = await refusal_of(client.send(say("hi", **cast(Any, {field: "x" * length}))))
            assert (no.reason, no.violations) == (
                "INVALID_PARAMS",
                {f"message.{field}": "is longer than 256 characters"},
            )
        assert (await client.list())["totalSize"] == 0
        if field == "taskId":
            assert (
                await refusal_of(client.send(say("hi", taskId="x" * 256)))
            ).reason == "TASK_NOT_FOUND"
        else:
            assert (await client.send(say("hi", **cast(Any, {field: "x" * 256}))))["task"][
                "history"
            ][0][field] == "x" * 256


@pytest.mark.parametrize("operation", ["get", "cancel", "subscribe"])
async def test_id_length_of_a_task(connect, operation):
    """The same wherever an id is given; past 100 times the limit an id may be too long for the wire
    itself.
    """
    async with connect(echo, limits=Limits(id_length=40)) as client:
        for length in (41, 40 * FAR):
            no = await refusal_of(getattr(client, operation)("x" * length))
            assert (no.reason, no.violations) == (
                "INVALID_PARAMS",
                {"id": "is longer than 40 characters"},
            )
        assert (await refusal_of(getattr(client, operation)("x" * 40))).reason == "TASK_NOT_FOUND"


async def test_id_length_of_tenant_and_context_in_lists(connect):
    """Also where they only narrow a search."""
    async with connect(echo, limits=Limits(id_length=40)) as client:
        for name in ("tenant", "contextId"):
            for length in (41, 40 * FAR):
                no = await refusal_of(client.list(**{name: "x" * length}))
                assert no.violations == {name: "is longer than 40 characters"}
            assert (await client.list(**{name: "x" * 40}))["totalSize"] == 0


def metadata_of(size):
    """Metadata of exactly so many bytes as JSON."""
    return {"n": "x" * (size - len('{"n":""}'))}


@pytest.mark.parametrize("place", ["message", "part", "request"])
async def test_metadata(connect, place):
    """Kept and shown with every answer, so a small part of a body only."""

    def holding(size):
        value = metadata_of(size)
        if place == "message":
            return say("hi", metadata=value), "message.metadata"
        if place == "part":
            return say([{"text": "hi", "metadata": value}]), "message.parts[0].metadata"
        return say("hi") | {"metadata": value}, "metadata"

    async with connect(echo, limits=Limits(metadata=2_000)) as client:
        for size in (2_001, 2_000 * FAR):
            request, field = holding(size)
            no = await refusal_of(client.send(request))
            assert (no.reason, no.violations) == (
                "INVALID_PARAMS",
                {field: "is larger than 2000 bytes"},
            )
        assert (await client.list())["totalSize"] == 0
        assert state_of((await client.send(holding(2_000)[0]))["task"]) == "completed"
