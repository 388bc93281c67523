"""gRPC on HTTP/2, as its protocol describes it: messages, encodings, deadlines, statuses, the end
of a server.
"""

import asyncio
import gc
import gzip
import sys
import zlib

import grpc
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from grpc_health.v1 import health_pb2, health_pb2_grpc

from accord import Agent
from accord.model import Limits
from accord.server.grpc.call import GrpcCall
from tests.drive import PATIENCE_S, state_of
from tests.drive_grpc import refused_by
from tests.grpc import frames as f
from tests.grpc.frames import Setting, frame
from tests.grpc.raw import call, connected, message, request
from tests.processes import run_sync, until

BOMBS = 16
GET = pb.GetTaskRequest(id="nobody").SerializeToString()
OK, INVALID, LATE, NOT_FOUND, EXHAUSTED, UNIMPLEMENTED, INTERNAL = (
    "0",
    "3",
    "4",
    "5",
    "8",
    "12",
    "13",
)


async def echo(request: str):
    return request


def a_send(text="hi"):
    return pb.SendMessageRequest(
        message=pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    )


def calls():
    """Return the calls there are in memory."""
    return [thing for thing in gc.get_objects() if isinstance(thing, GrpcCall)]


async def asked(client, *pieces, **headers):
    """Return the answer to a call made of pieces of data."""
    async with connected(client.address) as peer:
        peer.send(frame(f.HEADERS, f.END_HEADERS, 1, request(**headers)))
        peer.send(*(frame(f.DATA, 0, 1, piece) for piece in pieces), frame(f.DATA, f.END_STREAM, 1))
        return await peer.answer(1)


# What is no gRPC


@pytest.mark.parametrize(
    "kind",
    [b"", b"application/json", b"application/grpc-web", b"application/grpc+json", b"text/html"],
)
async def test_another_content_type_is_an_error_of_http(connect_grpc, kind):
    """415, without a gRPC status: whoever asks so would not understand one."""
    async with connect_grpc(echo) as client:
        answer = await asked(client, message(GET), content_type=kind)
        assert answer.headers == {":status": "415"}


@pytest.mark.parametrize(
    "kind", [b"application/grpc", b"application/grpc+proto", b"application/grpc; charset=utf-8"]
)
async def test_content_types_of_protobuf_are_taken(connect_grpc, kind):
    """As gRPC's clients write them."""
    async with connect_grpc(echo) as client:
        assert (await asked(client, message(GET), content_type=kind)).status == NOT_FOUND


async def test_another_method_of_http_is_refused(connect_grpc):
    """Calls are POST."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        peer.send(
            frame(f.HEADERS, f.END_HEADERS | f.END_STREAM, 1, request().replace(b"POST", b"HEAD"))
        )
        assert (await peer.answer(1)).headers == {":status": "405"}


# Messages


async def test_one_message_too_many_is_refused(connect_grpc):
    """Before anything is done: the call is not what its method says."""
    send = message(a_send().SerializeToString())
    async with connect_grpc(echo) as client:
        answer = await asked(client, send + send, path=b"/lf.a2a.v1.A2AService/SendMessage")
        assert answer.status == UNIMPLEMENTED
        assert (await client.list())["totalSize"] == 0


@pytest.mark.parametrize(
    ("encoding", "pack"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)]
)
async def test_compressed_messages_are_read(connect_grpc, encoding, pack):
    """In pieces too; and a client that says it can compress need not."""
    async with connect_grpc(echo) as client:
        packed = message(pack(GET), 1)
        assert (
            await asked(client, packed[:7], packed[7:], grpc_encoding=encoding)
        ).status == NOT_FOUND
        assert (await asked(client, message(GET), grpc_encoding=encoding)).status == NOT_FOUND


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_a_client_may_compress(connect_grpc, compression):
    """grpcio's."""
    async with (
        connect_grpc(echo) as client,
        grpc.aio.insecure_channel(client.address, compression=compression) as channel,
    ):
        answer = await A2AServiceStub(channel).SendMessage(a_send("x" * 10_000), timeout=PATIENCE_S)
        assert answer.task.artifacts[0].parts[0].text == "x" * 10_000


@pytest.mark.parametrize(
    "path", [b"/lf.a2a.v1.A2AService/GetTask", b"/lf.a2a.v1.A2AService/Nothing"]
)
async def test_an_encoding_nobody_knows_is_named(connect_grpc, path):
    """With those that could be used."""
    async with connect_grpc(echo) as client:
        answer = await asked(client, message(GET, 1), grpc_encoding=b"snappy", path=path)
        assert (answer.status, answer.headers["grpc-accept-encoding"]) == (
            UNIMPLEMENTED,
            "identity,deflate,gzip",
        )


@pytest.mark.parametrize(
    ("encoding", "data", "status"),
    [
        (b"", GET, INTERNAL),  # compressed, and nobody says how
        (b"identity", GET, INTERNAL),
        (b"gzip", GET, INVALID),
        (b"gzip", gzip.compress(GET, mtime=0)[:-4], INVALID),
        (b"gzip", gzip.compress(GET, mtime=0) + b"more", INVALID),
        (
            b"gzip",
            gzip.compress(b"\0" * 1_000_000, mtime=0),
            EXHAUSTED,
        ),  # a thousand times what it seems
        (b"deflate", gzip.compress(GET, mtime=0), INVALID),
    ],
)
async def test_what_cannot_be_unpacked_is_refused(connect_grpc, encoding, data, status):
    """And what would be too large is never made."""
    async with connect_grpc(echo, limits=Limits(body=100_000)) as client:
        assert (await asked(client, message(data, 1), grpc_encoding=encoding)).status == status


async def test_calls_cancelled_before_they_were_unpacked_leave_nothing_in_memory(connect_grpc):
    """Many small messages that would be large, and a client that takes back each call: whoever
    waits to be unpacked holds what came and no more, and is freed with its call. Nobody may have to
    wait for the garbage collector, which comes when it likes.
    """
    packed = message(gzip.compress(b"\0" * 4_000_000, mtime=0), 1)
    head = request(b"SendMessage", grpc_encoding=b"gzip")
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        gc.collect()
        gc.disable()
        try:
            for id_ in range(1, 2 * BOMBS, 2):
                peer.send(
                    frame(f.HEADERS, f.END_HEADERS, id_, head),
                    frame(f.DATA, f.END_STREAM, id_, packed),
                )
            await until(lambda: len(calls()) > BOMBS // 2)
            for id_ in range(1, 2 * BOMBS, 2):
                peer.send(frame(f.RST_STREAM, 0, id_, b"\0\0\0\x08"))
            await until(lambda: not calls())
        finally:
            gc.enable()


async def test_one_connection_has_few_messages_that_wait_to_be_unpacked(connect_grpc, monkeypatch):
    """What is beyond is refused at once: it would hold memory for as long as it waits."""
    monkeypatch.setattr("accord.server.grpc.call.PACKED", 4)
    text = pb.SendMessageRequest(
        message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="x" * 300_000)])
    )
    packed = message(gzip.compress(text.SerializeToString(), mtime=0), 1)
    head = request(b"SendMessage", grpc_encoding=b"gzip")
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        for id_ in range(1, 21, 2):
            peer.send(
                frame(f.HEADERS, f.END_HEADERS, id_, head),
                frame(f.DATA, f.END_STREAM, id_, packed),
            )
        assert (await peer.answer(19)).status == EXHAUSTED


async def test_a_message_too_large_says_how_large_it_may_be(connect_grpc):
    """As soon as it says its size, and in words that tell it from an answer too large."""
    async with connect_grpc(echo, limits=Limits(body=10_000)) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await A2AServiceStub(client.channel).SendMessage(
                a_send("x" * 50_000), timeout=PATIENCE_S
            )
        refused = refused_by(caught.value)
        assert (refused.error["status"], refused.reason) == ("RESOURCE_EXHAUSTED", "BODY_TOO_LARGE")
        assert "10000 bytes" in refused.error["message"]


async def test_messages_on_their_way_have_a_limit_together(connect_grpc):
    """Many that are begun and never ended fill no memory."""
    async with (
        connect_grpc(echo, limits=Limits(body=1_000)) as client,
        connected(client.address) as peer,
    ):
        half = message(b"x" * 1_000)[:800]
        for n in range(1, 201, 2):
            peer.send(frame(f.HEADERS, f.END_HEADERS, n, request()), frame(f.DATA, 0, n, half))
        assert (await peer.answer(199)).status == EXHAUSTED
        peer.send(call(201, GET))
        assert (await peer.answer(201)).status == NOT_FOUND


async def test_whole_messages_whose_calls_never_end_have_one_too(connect_grpc):
    """They wait for their END_STREAM in memory as well."""
    async with (
        connect_grpc(echo, limits=Limits(body=1_000)) as client,
        connected(client.address) as peer,
    ):
        for n in range(1, 201, 2):
            peer.send(
                frame(f.HEADERS, f.END_HEADERS, n, request()),
                frame(f.DATA, 0, n, message(b"x" * 900)),
            )
        assert (await peer.answer(199)).status == EXHAUSTED
        peer.send(frame(f.DATA, f.END_STREAM, 1))
        assert (await peer.answer(1)).status == INVALID  # it was no protobuf; but it was read


@pytest.mark.parametrize(
    "data",
    [b"\x09\0\0\0\0", b"\0\xff\xff\xff\xff", b"\0\0\0\0\x02x", message(b"x", 1), message(b"\xff")],
)
async def test_what_is_wrong_in_a_stream_of_messages_ends_its_work(connect_grpc, data):
    """Reflection, which waits for the next question: there will be none."""
    path = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        before = asyncio.all_tasks()
        peer.send(
            frame(f.HEADERS, f.END_HEADERS, 1, request(path=path)),
            frame(f.DATA, f.END_STREAM, 1, data),
        )
        assert (await peer.answer(1)).status in (INVALID, EXHAUSTED, INTERNAL)
        left = asyncio.all_tasks() - before
        await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), PATIENCE_S)


async def test_the_blocking_client_is_served_too(connect_grpc):
    """grpcio's other one, in its thread: a call, a stream, an error."""

    def talk(address):
        with grpc.insecure_channel(address) as channel:
            stub = A2AServiceStub(channel)
            task = stub.SendMessage(a_send(), timeout=PATIENCE_S).task
            events = list(stub.SendStreamingMessage(a_send(), timeout=PATIENCE_S))
            with pytest.raises(grpc.RpcError) as caught:
                stub.GetTask(pb.GetTaskRequest(id="nobody"), timeout=PATIENCE_S)
            return task.status.state, len(events), caught.value.code()

    async with connect_grpc(echo) as client:
        found = await asyncio.to_thread(talk, client.address)
        assert found == (pb.TASK_STATE_COMPLETED, 4, grpc.StatusCode.NOT_FOUND)


# Deadlines


@pytest.mark.parametrize("timeout", [b"50m", b"50000u", b"50000000n", b"0S", b"0H", b"0M"])
async def test_a_deadline_is_kept_in_every_unit(connect_grpc, timeout):
    """The call ends; what it began goes on."""
    begun = asyncio.Event()

    async def wait(request: str):
        begun.set()
        await asyncio.Event().wait()

    async with connect_grpc(wait) as client:
        data = message(a_send().SerializeToString())
        answer = await asked(
            client, data, path=b"/lf.a2a.v1.A2AService/SendMessage", grpc_timeout=timeout
        )
        assert answer.status == LATE
        if not timeout.startswith(b"0"):
            [task] = (await client.list())["tasks"]
            assert (begun.is_set(), state_of(task)) == (True, "working")


@pytest.mark.parametrize("timeout", [b"1H", b"99999999H", b"10M", b"10S"])
async def test_a_deadline_far_away_is_not_passed(connect_grpc, timeout):
    """However far."""
    async with connect_grpc(echo) as client:
        assert (await asked(client, message(GET), grpc_timeout=timeout)).status == NOT_FOUND


@pytest.mark.parametrize("timeout", [b"123456789S", b"1", b"S", b"-1S", b"1s", b"1.5S", b"1 S"])
async def test_a_deadline_that_is_none_is_refused(connect_grpc, timeout):
    """Eight digits and a unit."""
    async with connect_grpc(echo) as client:
        assert (await asked(client, message(GET), grpc_timeout=timeout)).status == INVALID


async def drained(stream):
    while await stream.read() is not grpc.aio.EOF:
        pass


async def test_a_deadline_ends_a_stream(connect_grpc):
    """Also one that has begun."""

    async def wait(request: str):
        await asyncio.Event().wait()

    async with connect_grpc(wait) as client:
        stream = A2AServiceStub(client.channel).SendStreamingMessage(a_send(), timeout=0.3)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await drained(stream)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


# Statuses


async def test_a_text_of_any_letters_arrives(connect_grpc):
    """Percent-encoded on the way."""
    name = "100 % Größe 名"
    async with connect_grpc(echo) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health_pb2_grpc.HealthStub(client.channel).Check(
                health_pb2.HealthCheckRequest(service=name), timeout=PATIENCE_S
            )
        assert caught.value.details() == f"no service '{name}' here"


@pytest.mark.parametrize(("most", "has_details"), [(200, False), (1 << 20, True)])
async def test_an_error_too_long_for_the_client_is_shortened(connect_grpc, most, has_details):
    """A client that may not read the trailers would know nothing at all."""
    async with (
        connect_grpc(echo) as client,
        connected(client.address, {Setting.MAX_HEADER_LIST_SIZE: most}) as peer,
    ):
        peer.send(call(1, GET))
        answer = await peer.answer(1)
        assert answer.status == NOT_FOUND
        assert ("grpc-status-details-bin" in answer.headers) == has_details


# The server's end


async def test_a_server_that_stops_lets_calls_end():
    """Who is connected hears it first; what is open is answered; then the connection ends."""
    agent = Agent("Echo")
    agent.skill(echo)
    app = agent.app(grpc_port=0)
    await app.open()
    async with connected(f"127.0.0.1:{app.grpc_port}") as peer:
        peer.send(frame(f.HEADERS, f.END_HEADERS, 1, request(path=b"/grpc.health.v1.Health/Check")))
        peer.send(frame(f.PING, 0, 0, b"\0" * 8))
        await peer.until(f.PING)
        closing = asyncio.create_task(app.close())
        first = await peer.until(f.GOAWAY)
        assert int.from_bytes(first.payload[:4], "big") == 2**31 - 1
        ping = await peer.until(f.PING)
        peer.send(frame(f.PING, f.ACK, 0, ping.payload))
        second = await peer.until(f.GOAWAY)
        assert int.from_bytes(second.payload[:4], "big") == 1
        peer.send(
            frame(f.HEADERS, f.END_HEADERS, 3, request()),
            frame(f.DATA, f.END_STREAM, 3, message(GET)),
        )  # too late
        peer.send(frame(f.DATA, f.END_STREAM, 1, message(b"")))
        assert (await peer.answer(1)).status == OK
        assert await peer.read() is None
        await closing


async def test_calls_that_do_not_end_are_told_that_the_server_stops():
    """UNAVAILABLE: whoever asked may ask another."""
    agent = Agent("Echo")
    agent.skill(echo)
    app = agent.app(grpc_port=0)
    await app.open()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{app.grpc_port}") as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service="nobody")
        )
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        await app.close()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watch.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_server_can_stop_while_a_connection_had_its_last_word():
    """What a client got wrong ended it; that the client has not hung up yet is nothing to fail
    over.
    """
    agent = Agent("Echo")
    agent.skill(echo)
    app = agent.app(grpc_port=0)
    await app.open()
    async with connected(f"127.0.0.1:{app.grpc_port}") as peer:
        peer.send(frame(f.PUSH_PROMISE, 0, 1))
        await peer.until(f.GOAWAY)
        await app.close()
        assert await peer.read() is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "[::1]", "0.0.0.0", "::"])
async def test_every_kind_of_address_is_listened_on(host):
    """By number or by name; a name with two addresses has one port."""
    agent = Agent("Echo")
    agent.skill(echo)
    app = agent.app(grpc_port=0, grpc_host=host)
    try:
        await app.open()
    except RuntimeError:
        if ":" in host:
            pytest.skip("this machine has no IPv6")
        raise
    try:
        address = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(host, host.strip("[]"))
        target = f"[{address}]:{app.grpc_port}" if ":" in address else f"{address}:{app.grpc_port}"
        async with grpc.aio.insecure_channel(target) as channel:
            answer = await A2AServiceStub(channel).SendMessage(a_send(), timeout=PATIENCE_S)
            assert answer.task.status.state == pb.TASK_STATE_COMPLETED
    finally:
        await app.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
async def test_an_address_that_is_not_ours_is_said(host):
    """In one line."""
    agent = Agent("Echo")
    agent.skill(echo)
    with pytest.raises(
        RuntimeError,
        match=f"gRPC cannot listen on {host}:0: the port is in use",
    ):
        await agent.app(grpc_port=0, grpc_host=host).open()


def test_the_server_needs_no_grpcio():
    """It speaks for itself; grpcio is for clients."""
    code = """
import asyncio, sys
from accord import Agent
agent = Agent("Echo")

@agent.skill
async def echo(text: str) -> str:
    return text

async def main():
    app = agent.app(grpc_port=0)
    await app.open()
    await app.close()

asyncio.run(main())
print([name for name in sys.modules if name.split(".")[0] == "grpc"])
"""
    assert run_sync(sys.executable, "-c", code) == (0, "[]\n", "")
