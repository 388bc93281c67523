"""What may be sent, and when: windows in both directions, and readers of every pace."""

import asyncio
import contextlib
import os
import socket

import grpc
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceStub

from accord.model import Limits
from accord.server.grpc.connection import CONNECTION_WINDOW
from tests.drive import PATIENCE_S, say, state_of
from tests.grpc import frames as f
from tests.grpc.frames import Code, Setting, frame, settings
from tests.grpc.raw import call, connected, grow, message, request

GET = pb.GetTaskRequest(id="nobody").SerializeToString()


async def echo(request: str):
    return request


def a_send(text="hi"):
    return pb.SendMessageRequest(
        message=pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    )


def texts_of(data):
    """The texts of all chunks in a stream of messages."""
    found = []
    while data:
        size = int.from_bytes(data[1:5], "big")
        event = pb.StreamResponse.FromString(data[5 : size + 5])
        found += [part.text for part in event.artifact_update.artifact.parts]
        data = data[size + 5 :]
    return found


# To the client


async def test_an_answer_leaves_byte_by_byte_if_need_be(connect_grpc):
    """A window of one byte is a window."""
    async with (
        connect_grpc(echo) as client,
        connected(client.address, {Setting.INITIAL_WINDOW_SIZE: 1}) as peer,
    ):
        peer.send(call(1, a_send().SerializeToString(), b"SendMessage"))
        data = b""
        while len(data) < 5 or len(data) < int.from_bytes(data[1:5], "big") + 5:
            piece = await peer.until(f.DATA, 1)
            assert len(piece.payload) == 1
            data += piece.payload
            peer.send(grow(1, 1))
        assert (await peer.answer(1)).status == "0"
        assert (
            pb.SendMessageResponse.FromString(data[5:]).task.status.state == pb.TASK_STATE_COMPLETED
        )


async def test_a_window_that_shrinks_below_nothing_opens_again(connect_grpc):
    """Data on the way can't be taken back: the window is negative for a while (RFC 9113, 6.9.2)."""
    text = "x" * 1_000
    async with (
        connect_grpc(echo) as client,
        connected(client.address, {Setting.INITIAL_WINDOW_SIZE: 500}) as peer,
    ):
        peer.send(call(1, a_send(text).SerializeToString(), b"SendMessage"))
        begin = (await peer.until(f.DATA, 1)).payload
        assert len(begin) == 500
        peer.send(
            settings({Setting.INITIAL_WINDOW_SIZE: 100}),
            grow(1, 400),
            frame(f.PING, 0, 0, b"\0" * 8),
        )
        held = await peer.read()
        while held is not None and held.kind != f.PING:
            assert held.kind == f.SETTINGS  # the window is 0 now: no data may come
            held = await peer.read()
        peer.send(settings({Setting.INITIAL_WINDOW_SIZE: 100_000}))
        answer = await peer.answer(1)
        assert answer.status == "0"
        assert text.encode() in begin + answer.data


async def test_the_window_of_the_connection_is_shared(connect_grpc):
    """All streams wait for it, and each gets its turn when it opens."""
    text = "x" * 40_000
    async with (
        connect_grpc(echo) as client,
        connected(client.address, {Setting.INITIAL_WINDOW_SIZE: 1 << 20}) as peer,
    ):
        peer.send(*(call(n, a_send(text).SerializeToString(), b"SendMessage") for n in (1, 3, 5)))
        taken: dict[int, bytes] = {1: b"", 3: b"", 5: b""}
        while sum(map(len, taken.values())) < f.WINDOW:
            found = await peer.read()
            assert found is not None
            if found.kind == f.DATA:
                taken[found.id] += found.payload
        assert sum(map(len, taken.values())) == f.WINDOW
        peer.send(grow(0, 1 << 20))
        ended = set()
        while ended != {1, 3, 5}:
            found = await peer.read()
            assert found is not None
            if found.kind == f.DATA:
                taken[found.id] += found.payload
            elif found.kind == f.HEADERS and found.flags & f.END_STREAM:
                ended.add(found.id)
        assert [len(data) == int.from_bytes(data[1:5], "big") + 5 for data in taken.values()] == [
            True
        ] * 3


async def test_a_client_with_the_smallest_windows_reads_a_long_stream(connect_grpc):
    """grpcio's own client, which gives back as it reads."""

    async def flood(request: str):
        for n in range(100):
            yield str(n) * 2_000

    async with connect_grpc(flood) as client:
        options = [
            ("grpc.http2.lookahead_bytes", 1024),
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.max_frame_size", 16_384),
        ]
        async with grpc.aio.insecure_channel(client.address, options=options) as channel:
            events = [
                event
                async for event in A2AServiceStub(channel).SendStreamingMessage(
                    a_send(), timeout=PATIENCE_S
                )
            ]
        texts = [part.text for event in events for part in event.artifact_update.artifact.parts]
        assert "".join(texts) == "".join(str(n) * 2_000 for n in range(100))


async def test_a_large_answer_arrives_whole(connect_grpc):
    """20 MB, in both directions, where the limits allow it."""
    text = "x" * 20_000_000
    async with connect_grpc(echo, limits=Limits(body=32 << 20, task_size=64 << 20)) as client:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(client.address, options=options) as channel:
            answer = await A2AServiceStub(channel).SendMessage(a_send(text), timeout=60)
        assert answer.task.artifacts[0].parts[0].text == text


async def test_events_that_are_ready_leave_together(connect_grpc):
    """A late reader of a long log gets it in few frames, and every event of it."""

    async def count(request: str):
        for n in range(500):
            yield f"{n} "

    async with connect_grpc(count) as client, connected(client.address) as peer:
        task = (await client.send("go"))["task"]
        assert state_of(task) == "completed"
        ask = pb.SubscribeToTaskRequest(id=task["id"]).SerializeToString()
        resume = {"a2a_extensions": b"urn:accord:resume:1", "last_event_id": b"2"}
        peer.send(call(1, ask, b"SubscribeToTask", **resume))
        frames = []
        while not frames or not frames[-1].flags & f.END_STREAM:
            found = await peer.read()
            assert found is not None
            if found.id == 1:
                frames.append(found)
        data = [found.payload for found in frames if found.kind == f.DATA]
        assert texts_of(b"".join(data)) == [f"{n} " for n in range(500)]
        assert len(data) < 20


async def test_an_answer_nobody_takes_is_given_up(connect_grpc):
    """Not only streams: whatever waits for its client does not wait for ever."""
    limits, closed = Limits(stalled_s=0.2), {Setting.INITIAL_WINDOW_SIZE: 0}
    async with (
        connect_grpc(echo, limits=limits) as client,
        connected(client.address, closed) as peer,
    ):
        peer.send(call(1, a_send().SerializeToString(), b"SendMessage"))
        answer = await peer.answer(1)
        assert (answer.status, answer.data) == ("8", b"")
        assert ":status" not in answer.trailers  # it came with the headers, and must not come again


async def test_a_client_that_reads_nothing_at_all_is_cut(connect_grpc):
    """Its windows are wide open, and its socket is full: not even a status can be sent."""
    gate = asyncio.Event()

    async def flood(request: str):
        await gate.wait()
        for _ in range(400):
            yield "x" * 50_000

    async with connect_grpc(flood, limits=Limits(stalled_s=2)) as client:
        windows = {Setting.INITIAL_WINDOW_SIZE: 2**31 - 1}
        async with connected(client.address, windows) as peer:
            peer.send(
                grow(0, 2**30), call(1, a_send().SerializeToString(), b"SendStreamingMessage")
            )
            first = await peer.until(f.DATA, 1)
            task_id = pb.StreamResponse.FromString(
                first.payload[5 : int.from_bytes(first.payload[1:5], "big") + 5]
            ).task.id
            peer.pause()
            healthy = await client.subscribe(task_id)
            gate.set()
            assert state_of((await healthy.rest())[-1]["statusUpdate"]) == "completed"
            assert await peer.is_cut()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the server's socket is found there")
async def test_small_answers_do_not_wait_for_those_on_the_way(connect_grpc):
    """Nagle's algorithm would hold one back until the client has acknowledged the last: up to 40
    ms, doing nothing.
    """
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        peer.send(call(1, GET))
        await peer.answer(1)
        port = int(client.address.rpartition(":")[2])
        delays = [
            one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
            for one in connections_to(port)
        ]
        assert delays
        assert not any(delays)


def connections_to(port):
    """This process's ends of all connections to one of its ports."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as one:
            if one.getpeername() and one.getsockname()[1] == port:
                yield one


# To the server


async def test_more_than_the_window_of_a_stream_ends_the_connection(connect_grpc):
    """Its window is as large as the largest message (RFC 9113, 6.9.1)."""
    async with (
        connect_grpc(echo, limits=Limits(body=100_000)) as client,
        connected(client.address) as peer,
    ):
        peer.send(
            frame(f.HEADERS, f.END_HEADERS, 1, request()),
            frame(f.DATA, 0, 1, b"\0" + (100_000).to_bytes(4, "big")),
            *(frame(f.DATA, 0, 1, b"x" * 10_000) for _ in range(10)),
            frame(f.DATA, 0, 1, b"x"),
        )
        assert await peer.goaway() is Code.FLOW_CONTROL_ERROR


async def test_who_has_not_heard_of_our_windows_yet_may_send_as_usual(connect_grpc):
    """65,535 bytes (RFC 9113, 6.9.2); that the message is too large is said in gRPC's words."""
    async with (
        connect_grpc(echo, limits=Limits(body=1_000)) as client,
        connected(client.address, is_polite=False) as peer,
    ):
        peer.send(f.PREFACE, settings({}), call(1, b"x" * 30_000))
        assert (await peer.answer(1)).status == "8"


async def test_the_window_of_the_connection_is_given_back(connect_grpc):
    """A message larger than it comes through, and one that nobody wants costs the connection
    nothing.
    """
    size = 2 * CONNECTION_WINDOW
    async with (
        connect_grpc(echo, limits=Limits(body=2 * size)) as client,
        connected(client.address) as peer,
    ):
        peer.send(
            frame(f.HEADERS, f.END_HEADERS, 1, request(b"Nothing")),
            frame(f.DATA, 0, 1, b"\0" + size.to_bytes(4, "big")),
        )
        for _ in range(size // 16_384):
            peer.send(frame(f.DATA, 0, 1, b"\0" * 16_384))
            await peer.drain()
        given = 0
        while given < size // 2:
            given += int.from_bytes((await peer.until(f.WINDOW_UPDATE)).payload, "big")
        peer.send(call(3, GET))
        assert (await peer.answer(3)).status == "5"


async def test_a_stream_that_takes_many_messages_opens_its_window_again(connect_grpc):
    """As they are read: reflection, asked more than one window holds."""
    ask = b'"' + bytes([100]) + b"x" * 100  # file_containing_symbol
    async with (
        connect_grpc(echo, limits=Limits(body=200)) as client,
        connected(client.address) as peer,
    ):
        path = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        peer.send(frame(f.HEADERS, f.END_HEADERS, 1, request(path=path)))
        for _ in range(10):
            peer.send(frame(f.DATA, 0, 1, message(ask)))
            await peer.until(f.WINDOW_UPDATE, 1)
        peer.send(frame(f.DATA, f.END_STREAM, 1))
        answer = await peer.answer(1)
        assert answer.status == "0"


async def test_two_thousand_calls_at_once(connect_grpc):
    """More than may be open on one connection: the client waits, and all are answered."""
    async with connect_grpc(echo) as client:
        stub = A2AServiceStub(client.channel)
        answers = await asyncio.gather(
            *(stub.SendMessage(a_send(str(n)), timeout=60) for n in range(2_000))
        )
        assert [answer.task.artifacts[0].parts[0].text for answer in answers] == [
            str(n) for n in range(2_000)
        ]


async def test_calls_may_hang_up_in_every_state(connect_grpc):
    """Before the message, in the middle of it, while it is worked on, while it is answered."""
    gate = asyncio.Event()

    async def wait(request: str):
        await gate.wait()
        return request

    async with (
        connect_grpc(wait) as client,
        connected(client.address, {Setting.INITIAL_WINDOW_SIZE: 10}) as peer,
    ):
        cancel = Code.CANCEL.to_bytes(4, "big")
        head = frame(f.HEADERS, f.END_HEADERS, 1, request(b"SendMessage"))
        peer.send(head, frame(f.RST_STREAM, 0, 1, cancel))
        peer.send(
            frame(f.HEADERS, f.END_HEADERS, 3, request(b"SendMessage")),
            frame(f.DATA, 0, 3, b"\0\0\0\0\x10half"),
        )
        peer.send(frame(f.RST_STREAM, 0, 3, cancel))
        peer.send(
            call(5, a_send().SerializeToString(), b"SendMessage"), frame(f.RST_STREAM, 0, 5, cancel)
        )
        gate.set()
        peer.send(call(7, a_send().SerializeToString(), b"SendMessage"))
        await peer.until(f.DATA, 7)
        peer.send(frame(f.RST_STREAM, 0, 7, cancel))
        peer.send(call(9, GET), grow(9, 1000))
        assert (await peer.answer(9)).status == "5"
        done = await client.send(say("hi"))
        assert state_of(done["task"]) == "completed"
