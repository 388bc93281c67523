"""What is sent to a gRPC server by mistake or on purpose: a clear status, never a crash."""

import asyncio
import random

import grpc
import pytest
from a2a.types import a2a_pb2 as pb

from accord.model import Limits
from tests.drive import refusal_of, say, state_of
from tests.drive_grpc import refused_by
from tests.reliability.harness import seed

SERVICE = "/lf.a2a.v1.A2AService/"


async def echo(request: str):
    return request


async def raw(client, method, data, *, service=SERVICE, metadata=()):
    """Send any bytes at all; return the answer or the refusal."""
    call = client.channel.unary_unary(service + method)
    try:
        return await call(data, metadata=metadata, timeout=10)
    except grpc.aio.AioRpcError as error:
        return refused_by(error)


def no_number(request):
    request.message.parts[0].data.number_value = float("nan")


def a_send():
    message = pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text="hi")])
    return pb.SendMessageRequest(message=message)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff",
        a_send().SerializeToString()[:-1],
        b"\x12\x04\x0a\x02\xff\xfe",
        b'{"message": {}}',
    ],
)
async def test_a_broken_message_is_refused(connect_grpc, data):
    """Cut short, not UTF-8, or JSON sent to the wrong door."""
    async with connect_grpc(echo) as client:
        refused = await raw(client, "SendMessage", data)
        assert (refused.error["status"], refused.reason) == ("INVALID_ARGUMENT", "PARSE_ERROR")
        assert state_of((await client.send("still here"))["task"]) == "completed"


async def test_a_message_too_large_is_refused(connect_grpc):
    """Before it is read."""
    async with connect_grpc(echo, limits=Limits(body=10_000)) as client:
        refused = await refusal_of(client.send("x" * 20_000))
        assert refused.error["status"] == "RESOURCE_EXHAUSTED"
        assert state_of((await client.send("x" * 5_000))["task"]) == "completed"


async def test_metadata_too_large_is_refused(connect_grpc):
    """Headers have a limit too."""
    async with connect_grpc(echo) as client:
        refused = await refusal_of(client.send("hi", headers={"x-note": "x" * 100_000}))
        assert refused.error["status"] == "RESOURCE_EXHAUSTED"


async def test_unknown_fields_are_ignored(connect_grpc):
    """A later version's client is served as far as we understand it."""
    async with connect_grpc(echo) as client:
        data = await raw(client, "SendMessage", a_send().SerializeToString() + b"\xfa\x7f\x01x")
        assert pb.SendMessageResponse.FromString(data).task.status.state == pb.TASK_STATE_COMPLETED


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda r: r.ClearField("message"), "message"),
        (lambda r: r.message.ClearField("message_id"), "message.messageId"),
        (lambda r: r.message.ClearField("role"), "message.role"),
        (lambda r: setattr(r.message, "role", 99), "message.role"),
        (lambda r: r.message.ClearField("parts"), "message.parts"),
        (lambda r: r.message.parts.add(), "message.parts[1]"),
        (no_number, "message.parts[0].data"),
        (lambda r: setattr(r.configuration, "history_length", -1), "configuration.historyLength"),
    ],
)
async def test_a_wrong_field_is_named(connect_grpc, change, field):
    """INVALID_ARGUMENT with BadRequest details, as on the other bindings."""
    request = a_send()
    change(request)
    async with connect_grpc(echo) as client:
        refused = await raw(client, "SendMessage", request.SerializeToString())
        assert (refused.error["status"], refused.reason, list(refused.violations)) == (
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            [field],
        )
        assert (await client.list())["totalSize"] == 0


async def test_data_nested_without_end_is_refused(connect_grpc):
    """Protobuf's own limit, and JSON's."""
    request = a_send()
    value = request.message.parts[0].data
    for _ in range(60):
        value = value.struct_value.fields["a"]
    value.null_value = 0
    async with connect_grpc(echo) as client:
        refused = await raw(client, "SendMessage", request.SerializeToString())
        assert refused.error["status"] == "INVALID_ARGUMENT"


async def test_what_is_nested_too_deep_for_grpc_is_said_plainly(connect_grpc):
    """An agent may write what JSON can carry and protobuf cannot."""

    async def dig(request: str):
        value: dict = {}
        for _ in range(50):
            value = {"a": value}
        return value

    async with connect_grpc(dig) as client:
        refused = await refusal_of(client.send("go"))
        assert (refused.error["status"], refused.reason) == ("INTERNAL", "INVALID_AGENT_RESPONSE")


async def test_a_number_too_large_for_grpc_is_said_plainly(connect_grpc):
    """JSON has whole numbers of any length, protobuf's values are doubles."""

    async def count(request: str):
        return {"n": 10**400}

    async with connect_grpc(count) as client:
        refused = await refusal_of(client.send("go"))
        assert (refused.error["status"], refused.reason) == ("INTERNAL", "INVALID_AGENT_RESPONSE")


async def test_unknown_methods_and_services_are_unimplemented(connect_grpc):
    """The native answer of gRPC."""
    async with connect_grpc(echo) as client:
        for service, method in ((SERVICE, "Nothing"), ("/lf.a2a.v2.A2AService/", "GetTask")):
            assert (await raw(client, method, b"", service=service)).error[
                "status"
            ] == "UNIMPLEMENTED"


@pytest.mark.parametrize("cursor", ["x", "-1", "1" * 40, ""])
async def test_a_cursor_that_is_none_is_no_cursor(connect_grpc, cursor):
    """As with Last-Event-ID over HTTP."""
    gate = asyncio.Event()

    async def wait(request: str):
        await gate.wait()

    async with connect_grpc(wait) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        frames = await client.subscribe(
            task["id"], headers={"a2a-extensions": "urn:accord:resume:1", "last-event-id": cursor}
        )
        assert list(await frames.next()) == ["task"]
        gate.set()


# Below gRPC: HTTP/2 by hand

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS = 0, 1, 3, 4
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def header(name, value):
    """A header without any compression."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def opening(path):
    """All that comes before the message of a call."""
    pairs = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"localhost"),
    ]
    pairs += [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
    head = b"".join(header(name, value) for name, value in pairs)
    return PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, head)


async def answered(address, sent):
    """Send bytes on a connection of their own; return the kinds of frames that come back about the
    call, until its end.
    """
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    kinds = []
    try:
        async with asyncio.timeout(10):
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                if int.from_bytes(head[5:9], "big") == 1:
                    kinds.append(head[3])
                    if head[3] == RST_STREAM or head[4] & END_STREAM:
                        return kinds
    except (asyncio.IncompleteReadError, ConnectionError):
        return kinds
    finally:
        writer.close()


@pytest.mark.parametrize(
    "message",
    [
        b"\x00\x00\x00\x00\x10short",  # says 16 bytes, has 5
        b"\x00\x00",  # not even a length
        b"\x00\xff\xff\xff\xff",  # says 4 GiB
        b"\x09\x00\x00\x00\x01x",  # a flag that does not exist
        b"",
    ],
)
async def test_a_broken_frame_ends_its_call_and_nothing_else(connect_grpc, message):
    """Truncated or oversized by its own account: the call ends with a status or a reset."""
    async with connect_grpc(echo) as client:
        kinds = await answered(
            client.address,
            opening(SERVICE.encode() + b"GetTask") + frame(DATA, END_STREAM, 1, message),
        )
        assert kinds
        assert kinds[-1] in (HEADERS, RST_STREAM)
        assert state_of((await client.send("still here"))["task"]) == "completed"


@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", PREFACE + b"\xff" * 64, b"\x00" * 1024],
)
async def test_what_is_no_http_2_is_hung_up_on(connect_grpc, noise):
    """A browser, a TLS client, a broken one, nothing that can be named."""
    async with connect_grpc(echo) as client:
        assert await answered(client.address, noise) == []
        assert state_of((await client.send("still here"))["task"]) == "completed"


# Anything at all


async def test_random_bytes_never_break_the_server(connect_grpc):
    """A thousand frames of noise and of almost-right messages, then business as usual."""
    rng = random.Random(seed())
    good = [
        a_send().SerializeToString(),
        pb.GetTaskRequest(id="t").SerializeToString(),
        pb.ListTasksRequest(page_size=1).SerializeToString(),
    ]
    methods = [
        m.name
        for m in pb.DESCRIPTOR.services_by_name["A2AService"].methods
        if not m.server_streaming
    ]
    async with connect_grpc(echo) as client:
        for _ in range(1_000):
            data = bytearray(
                rng.choice(good) if rng.random() < 0.7 else rng.randbytes(rng.randrange(60))
            )
            for _ in range(rng.randrange(4)):
                if data:
                    data[rng.randrange(len(data))] = rng.randrange(256)
            answer = await raw(client, rng.choice(methods), bytes(data))
            assert isinstance(answer, bytes) or answer.error["status"] not in (
                "UNKNOWN",
                "INTERNAL",
            ), bytes(data).hex()
        assert state_of((await client.send("still here"))["task"]) == "completed"
