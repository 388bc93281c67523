"""HTTP/2 under the gRPC door, frame by frame: what a client may not do ends what it concerns, and
nothing else.
"""

import asyncio
import logging
import socket
import struct

import pytest
from a2a.types import a2a_pb2 as pb
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from accord import Agent
from accord.auth import ApiKeys
from accord.model import Limits
from accord.server.grpc.connection import STREAMS
from tests.drive import state_of
from tests.grpc import frames as f
from tests.grpc.frames import Code, Setting, frame, settings
from tests.grpc.raw import Peer, call, connected, grow, header, message, request

OPEN = f.END_HEADERS
WHOLE = f.END_HEADERS | f.END_STREAM
GET = pb.GetTaskRequest(id="nobody").SerializeToString()
NOT_FOUND = "5"


async def echo(request: str):
    return request


def opened(id=1, flags=OPEN):
    return frame(f.HEADERS, flags, id, request())


async def is_well(client) -> bool:
    """Whether others are still served."""
    return state_of((await client.send("still here"))["task"]) == "completed"


# What ends the connection

BROKEN = {
    "settings on a stream": (frame(f.SETTINGS, 0, 1), Code.PROTOCOL_ERROR),
    "half a setting": (frame(f.SETTINGS, 0, 0, b"\0\1\0"), Code.FRAME_SIZE_ERROR),
    "an acknowledgement that says something": (
        frame(f.SETTINGS, f.ACK, 0, b"\0" * 6),
        Code.PROTOCOL_ERROR,
    ),
    "a window beyond all bounds": (
        settings({Setting.INITIAL_WINDOW_SIZE: 2**31}),
        Code.FLOW_CONTROL_ERROR,
    ),
    "frames too small": (settings({Setting.MAX_FRAME_SIZE: 100}), Code.PROTOCOL_ERROR),
    "frames too large": (settings({Setting.MAX_FRAME_SIZE: 1 << 24}), Code.PROTOCOL_ERROR),
    "push, perhaps": (settings({Setting.ENABLE_PUSH: 2}), Code.PROTOCOL_ERROR),
    "a ping on a stream": (frame(f.PING, 0, 1, b"\0" * 8), Code.PROTOCOL_ERROR),
    "a short ping": (frame(f.PING, 0, 0, b"\0" * 7), Code.FRAME_SIZE_ERROR),
    "a frame larger than we take": (frame(f.DATA, 0, 1, b"\0" * 16_385), Code.FRAME_SIZE_ERROR),
    "data on no stream": (frame(f.DATA, 0, 0, b"x"), Code.PROTOCOL_ERROR),
    "data on a stream that is not open": (frame(f.DATA, 0, 5, b"x"), Code.PROTOCOL_ERROR),
    "a reset of a stream that is not open": (
        frame(f.RST_STREAM, 0, 5, b"\0" * 4),
        Code.PROTOCOL_ERROR,
    ),
    "a reset of nothing": (frame(f.RST_STREAM, 0, 0, b"\0" * 4), Code.PROTOCOL_ERROR),
    "a short reset": (opened() + frame(f.RST_STREAM, 0, 1, b"\0" * 3), Code.FRAME_SIZE_ERROR),
    "a window of a stream that is not open": (grow(5, 1), Code.PROTOCOL_ERROR),
    "a window that grows by nothing": (grow(0, 0), Code.PROTOCOL_ERROR),
    "a window of a stream that grows by nothing": (opened() + grow(1, 0), Code.PROTOCOL_ERROR),
    "a short priority": (opened() + frame(f.PRIORITY, 0, 1, b"\0" * 4), Code.FRAME_SIZE_ERROR),
    "a window that overflows": (grow(0, 2**31 - 1), Code.FLOW_CONTROL_ERROR),
    "a short window": (frame(f.WINDOW_UPDATE, 0, 0, b"\0" * 3), Code.FRAME_SIZE_ERROR),
    "headers on no stream": (opened(0), Code.PROTOCOL_ERROR),
    "headers on a stream of ours": (opened(2), Code.PROTOCOL_ERROR),
    "a stream opened after a later one": (opened(3) + opened(1), Code.PROTOCOL_ERROR),
    "nothing but padding": (
        frame(f.HEADERS, OPEN | f.PADDED, 1, b"\xff" + request()[:100]),
        Code.PROTOCOL_ERROR,
    ),
    "data that is all padding": (
        opened() + frame(f.DATA, f.PADDED, 1, b"\x05abc"),
        Code.PROTOCOL_ERROR,
    ),
    "no padding where some should be": (
        opened() + frame(f.DATA, f.PADDED, 1),
        Code.FRAME_SIZE_ERROR,
    ),
    "headers without their priority": (
        frame(f.HEADERS, OPEN | f.PRIORITIZED, 1, b"\0" * 4),
        Code.FRAME_SIZE_ERROR,
    ),
    "a priority of no stream": (frame(f.PRIORITY, 0, 0, b"\0" * 5), Code.PROTOCOL_ERROR),
    "a promise": (frame(f.PUSH_PROMISE, OPEN, 1, b"\0\0\0\2"), Code.PROTOCOL_ERROR),
    "a continuation of nothing": (frame(f.CONTINUATION, OPEN, 1), Code.PROTOCOL_ERROR),
    "headers interrupted": (
        frame(f.HEADERS, 0, 1, request()) + frame(f.PING, 0, 0, b"\0" * 8),
        Code.PROTOCOL_ERROR,
    ),
    "headers interrupted by an unknown frame": (
        frame(f.HEADERS, 0, 1, request()) + frame(99, 0, 1),
        Code.PROTOCOL_ERROR,
    ),
    "headers continued on another stream": (
        frame(f.HEADERS, 0, 1) + frame(f.CONTINUATION, OPEN, 3),
        Code.PROTOCOL_ERROR,
    ),
    "headers that can't be read": (
        frame(f.HEADERS, OPEN, 1, b"\xff\xff\xff\xff\xff\xff"),
        Code.COMPRESSION_ERROR,
    ),
    "trailers that can't be read": (
        opened() + frame(f.HEADERS, WHOLE, 1, b"\x80"),
        Code.COMPRESSION_ERROR,
    ),
    "a goaway of a stream": (frame(f.GOAWAY, 0, 1, b"\0" * 8), Code.PROTOCOL_ERROR),
    "a short goaway": (frame(f.GOAWAY, 0, 0, b"\0" * 7), Code.FRAME_SIZE_ERROR),
    "headers without an end": (
        frame(f.HEADERS, 0, 1, request()) + frame(f.CONTINUATION, 0, 1, b"\0" * 16_384) * 17,
        Code.ENHANCE_YOUR_CALM,
    ),
    "headers in a million pieces": (
        frame(f.HEADERS, 0, 1) + frame(f.CONTINUATION, 0, 1) * 2_500,
        Code.PROTOCOL_ERROR,
    ),
    "settings again and again": (settings({}) * 2_500, Code.ENHANCE_YOUR_CALM),
    "pings again and again": (frame(f.PING, 0, 0, b"\0" * 8) * 2_500, Code.ENHANCE_YOUR_CALM),
    "headers in the middle": (
        opened() + frame(f.HEADERS, OPEN, 1, header(b"x-note", b"1")),
        Code.PROTOCOL_ERROR,
    ),
    "more data than was said": (
        frame(f.HEADERS, OPEN, 1, request(content_length=b"3")) + frame(f.DATA, 0, 1, message(GET)),
        Code.PROTOCOL_ERROR,
    ),
    "two lengths": (
        frame(f.HEADERS, OPEN, 1, request(content_length=b"3") + header(b"content-length", b"4")),
        Code.PROTOCOL_ERROR,
    ),
    "less data than was said": (
        frame(f.HEADERS, OPEN, 1, request(content_length=b"100"))
        + frame(f.DATA, f.END_STREAM, 1, message(GET)),
        Code.PROTOCOL_ERROR,
    ),
    "a length that is none": (
        frame(f.HEADERS, OPEN, 1, request(content_length=b"-1")),
        Code.PROTOCOL_ERROR,
    ),
    "priorities again and again": (
        frame(f.PRIORITY, 0, 1, b"\0" * 5) * 2_500,
        Code.ENHANCE_YOUR_CALM,
    ),
    "nothing again and again": (opened() + frame(f.DATA, 0, 1) * 2_500, Code.ENHANCE_YOUR_CALM),
    "unknown frames again and again": (frame(200, 0, 0, b"x") * 2_500, Code.ENHANCE_YOUR_CALM),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_rule_ends_its_connection_with_its_code(connect_grpc, name):
    """GOAWAY says which (RFC 9113, 5.4.1); another client notices nothing."""
    sent, code = BROKEN[name]
    async with connect_grpc(echo) as client:
        async with connected(client.address) as peer:
            peer.send(sent)
            assert await peer.goaway() is code
        assert await is_well(client)


async def test_opening_and_resetting_without_end_is_stopped(connect_grpc):
    """Each costs the client nothing and us a beginning (CVE-2023-44487)."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        cancel = Code.CANCEL.to_bytes(4, "big")
        peer.send(*(opened(n) + frame(f.RST_STREAM, 0, n, cancel) for n in range(1, 5_001, 2)))
        assert await peer.goaway() is Code.ENHANCE_YOUR_CALM
        assert await is_well(client)


def locked():
    agent = Agent("Locked", auth=ApiKeys())
    agent.skill(echo)
    return agent


REFUSED_EARLY = {
    "nobody says who calls": (locked(), {}),
    "no such method": (echo, {"path": b"/lf.a2a.v1.A2AService/Nothing"}),
}


@pytest.mark.parametrize("name", REFUSED_EARLY)
async def test_opening_what_is_refused_at_once_and_resetting_it_is_stopped(connect_grpc, name):
    """We reset these before the client does: they are as many, and cost as much."""
    agent, headers = REFUSED_EARLY[name]
    async with connect_grpc(agent) as client, connected(client.address) as peer:
        cancel = Code.CANCEL.to_bytes(4, "big")
        block = request(**headers)
        peer.send(
            *(
                frame(f.HEADERS, OPEN, n, block) + frame(f.RST_STREAM, 0, n, cancel)
                for n in range(1, 6_001, 2)
            )
        )
        assert await peer.goaway() is Code.ENHANCE_YOUR_CALM


async def test_a_client_may_give_up_a_thousand_calls_at_once(connect_grpc):
    """That is no attack: their deadline has passed."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        cancel = Code.CANCEL.to_bytes(4, "big")
        peer.send(*(opened(n) for n in range(1, 2 * STREAMS, 2)))
        peer.send(*(frame(f.RST_STREAM, 0, n, cancel) for n in range(1, 2 * STREAMS, 2)))
        peer.send(call(2 * STREAMS + 1, GET))
        assert (await peer.answer(2 * STREAMS + 1)).status == NOT_FOUND


# What ends a stream


MALFORMED = {
    "no headers at all": b"",
    "no method": request(method=b"GetTask").replace(header(b":method", b"POST"), b""),
    "no scheme": request(scheme=b""),
    "no path": request(path=b""),
    "a pseudo-header nobody knows": header(b":colour", b"red") + request(),
    "a method twice": header(b":method", b"POST") + request(),
    "a status": header(b":status", b"200") + request(),
    "a pseudo-header after the others": request(authority=b"")
    + header(b":authority", b"localhost"),
    "a name in capitals": request() + header(b"X-Note", b"1"),
    "a name with a blank": request() + header(b"x note", b"1"),
    "no name": request() + header(b"", b"1"),
    "a value of two lines": request() + header(b"x-note", b"1\r\n2"),
    "a value with a zero": request() + header(b"x-note", b"1\x002"),
    "a header of the connection": request() + header(b"connection", b"close"),
    "a coding of the transfer": request() + header(b"transfer-encoding", b"chunked"),
    "a te that is not trailers": request(te=b"gzip"),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_request_is_reset(connect_grpc, name):
    """RFC 9113, 8.1.1; the connection goes on."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        peer.send(frame(f.HEADERS, OPEN, 1, MALFORMED[name]), call(3, GET))
        assert (await peer.answer(1)).reset is Code.PROTOCOL_ERROR
        assert (await peer.answer(3)).status == NOT_FOUND


STREAM_ERRORS = {
    "a path among the trailers": (
        opened() + frame(f.HEADERS, WHOLE, 1, header(b":path", b"/")),
        Code.PROTOCOL_ERROR,
    ),
    "a window that overflows": (opened() + grow(1, 2**31 - 1), Code.FLOW_CONTROL_ERROR),
    "less data than was said, and trailers": (
        frame(f.HEADERS, OPEN, 1, request(content_length=b"100"))
        + frame(f.DATA, 0, 1, message(GET))
        + frame(f.HEADERS, WHOLE, 1, header(b"x-note", b"1")),
        Code.PROTOCOL_ERROR,
    ),
    "no data at all, though some was said": (
        frame(f.HEADERS, WHOLE, 1, request(content_length=b"100")),
        Code.PROTOCOL_ERROR,
    ),
    "a connection among the trailers": (
        opened() + frame(f.HEADERS, WHOLE, 1, header(b"connection", b"close")),
        Code.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("name", STREAM_ERRORS)
async def test_what_is_wrong_on_a_stream_ends_the_stream(connect_grpc, name):
    """And only that (RFC 9113, 5.4.2)."""
    sent, code = STREAM_ERRORS[name]
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        peer.send(sent, call(3, GET))
        assert (await peer.answer(1)).reset is code
        assert (await peer.answer(3)).status == NOT_FOUND


async def test_data_after_the_end_is_refused(connect_grpc):
    """The stream is closed, whether it has been answered yet or not."""
    gate = asyncio.Event()

    async def wait(request: str):
        await gate.wait()

    send = pb.SendMessageRequest(
        message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="hi")])
    )
    async with connect_grpc(wait) as client, connected(client.address) as peer:
        peer.send(call(1, send.SerializeToString(), b"SendMessage"), frame(f.DATA, 0, 1, b"more"))
        assert (await peer.answer(1)).reset is Code.STREAM_CLOSED
        peer.send(call(3, GET))
        assert (await peer.answer(3)).status == NOT_FOUND
        peer.send(frame(f.DATA, 0, 3, b"more"))
        assert (await peer.answer(3)).reset is Code.STREAM_CLOSED
        gate.set()


async def test_more_streams_than_allowed_are_refused(connect_grpc):
    """REFUSED_STREAM says that nothing was done, and that it may be tried again."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        last = 2 * STREAMS + 1
        peer.send(*(opened(n) for n in range(1, last + 2, 2)))
        assert (await peer.answer(last)).reset is Code.REFUSED_STREAM
        peer.send(frame(f.DATA, f.END_STREAM, 1, message(GET)))
        assert (await peer.answer(1)).status == NOT_FOUND


# What is allowed


async def test_a_call_in_as_many_pieces_as_possible(connect_grpc):
    """Headers continued, padded, with a priority; data padded and cut anywhere; bytes one by one;
    frames nobody knows.
    """
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        block = request()
        pieces = [
            frame(
                f.HEADERS,
                f.PADDED | f.PRIORITIZED,
                1,
                b"\x03" + b"\0\0\0\0\x10" + block[:10] + b"\0\0\0",
            ),
            frame(f.CONTINUATION, 0, 1, block[10:50]),
            frame(f.CONTINUATION, f.END_HEADERS, 1, block[50:]),
            frame(77, 0xFF, 1, b"what?"),
            frame(f.PRIORITY, 0, 1, b"\0\0\0\0\x10"),
            *(
                frame(f.DATA, f.PADDED, 1, b"\x02" + bytes([byte]) + b"\0\0")
                for byte in message(GET)
            ),
            frame(f.DATA, f.END_STREAM, 1),
        ]
        for byte in b"".join(pieces):
            peer.send(bytes([byte]))
            await peer.drain()
        assert (await peer.answer(1)).status == NOT_FOUND


async def test_a_client_may_end_with_trailers(connect_grpc):
    """They say nothing to us but that this was all."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        peer.send(
            opened(),
            frame(f.DATA, 0, 1, message(GET)),
            frame(f.HEADERS, WHOLE, 1, header(b"x-note", b"1")),
        )
        assert (await peer.answer(1)).status == NOT_FOUND


async def test_headers_are_understood_by_what_was_said_before(connect_grpc):
    """A client that adds to its table and refers to it, with and without the same bytes again."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        path = (
            b"\x44"
            + bytes([len(b"/lf.a2a.v1.A2AService/GetTask")])
            + b"/lf.a2a.v1.A2AService/GetTask"
        )
        other = path.replace(b"GetTask", b"NoTask!")
        plain = b"\x83\x86" + header(b"content-type", b"application/grpc")
        found = []
        for id_, block in [
            (1, path),
            (3, b"\xbe"),
            (5, b"\xbe"),
            (7, other),
            (9, b"\xbe"),
            (11, b"\xbf"),
        ]:
            peer.send(
                frame(f.HEADERS, OPEN, id_, b"\x83" + block + plain[1:]),
                frame(f.DATA, f.END_STREAM, id_, message(GET)),
            )
            found.append((await peer.answer(id_)).status)
        assert found == [NOT_FOUND, NOT_FOUND, NOT_FOUND, "12", "12", NOT_FOUND]


async def test_headers_of_a_call_are_never_read_for_another(connect_grpc):
    """The same bytes mean something else when trailers have changed the table in between."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        path = b"/lf.a2a.v1.A2AService/GetTask"
        kept = b"\x44" + bytes([len(path)]) + path
        block = b"\x83\x86\xbe" + header(b"content-type", b"application/grpc")
        peer.send(
            frame(
                f.HEADERS,
                OPEN,
                1,
                kept + b"\x83\x86" + header(b"content-type", b"application/grpc"),
            )
        )
        peer.send(frame(f.DATA, f.END_STREAM, 1, message(GET)))
        assert (await peer.answer(1)).status == NOT_FOUND
        peer.send(frame(f.HEADERS, OPEN, 3, block), frame(f.DATA, 0, 3, message(GET)))
        peer.send(frame(f.HEADERS, WHOLE, 3, b"\x40" + header(b"x-note", b"1")[1:]))
        assert (await peer.answer(3)).status == NOT_FOUND
        peer.send(frame(f.HEADERS, OPEN, 5, block))
        assert (
            await peer.answer(5)
        ).reset is Code.PROTOCOL_ERROR  # the newest entry is no path any more


async def test_pings_are_answered(connect_grpc):
    """With what they said."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        peer.send(frame(f.PING, 0, 0, b"Hello..."))
        answer = await peer.until(f.PING)
        assert (answer.flags, answer.payload) == (f.ACK, b"Hello...")


async def test_a_client_without_a_table_is_told_that_none_is_used(connect_grpc):
    """The first block after its settings begins with the size of ours (RFC 7541, 4.2)."""
    async with (
        connect_grpc(echo) as client,
        connected(client.address, {Setting.HEADER_TABLE_SIZE: 0}) as peer,
    ):
        peer.send(call(1, GET))
        head = await peer.until(f.HEADERS, 1)
        assert head.payload[:2] == b"\x20\x88"


async def test_a_client_that_says_goodbye_gets_its_answer(connect_grpc):
    """And then the end of the connection."""
    async with connect_grpc(echo) as client, connected(client.address) as peer:
        peer.send(
            opened(), frame(f.GOAWAY, 0, 0, b"\0" * 8), frame(f.DATA, f.END_STREAM, 1, message(GET))
        )
        assert (await peer.answer(1)).status == NOT_FOUND
        assert await peer.read() is None


# Beginnings


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /rpc HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/1.0\r\n\r\n",
    ],
)
async def test_http_1_is_told_what_this_port_is(connect_grpc, line):
    """In its own words."""
    async with connect_grpc(echo) as client, connected(client.address, is_polite=False) as peer:
        peer.send(line)
        answer = await peer.rest()
        assert answer.startswith(b"HTTP/1.1 505 ")
        assert b"speaks gRPC" in answer


async def test_who_says_something_and_is_gone_is_nothing_to_log(connect_grpc, caplog):
    """Port scanners do that all day."""
    async with connect_grpc(echo) as client:
        host, _, port = client.address.rpartition(":")
        for noise in [b"what?", f.PREFACE + b"\xff" * 30, f.PREFACE + settings({}) + opened()] * 10:
            with socket.create_connection((host, int(port))) as caller:
                caller.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )  # hangs up by a reset
                caller.sendall(noise)
        assert await is_well(client)
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def test_the_first_frame_must_be_settings(connect_grpc):
    """RFC 9113, 3.4."""
    async with connect_grpc(echo) as client, connected(client.address, is_polite=False) as peer:
        peer.send(f.PREFACE, frame(f.PING, 0, 0, b"\0" * 8))
        assert await peer.goaway() is Code.PROTOCOL_ERROR


@pytest.mark.parametrize("beginning", [b"", f.PREFACE[:10], f.PREFACE])
async def test_who_does_not_come_to_the_point_is_hung_up_on(connect_grpc, beginning):
    """A connection that never becomes one costs a moment, not a place."""
    limits = Limits(header_s=0.1, stalled_s=0.2)
    async with (
        connect_grpc(echo, limits=limits) as client,
        connected(client.address, is_polite=False) as peer,
    ):
        peer.send(beginning)
        assert await peer.rest() == b""


async def test_a_call_whose_message_never_comes_is_ended(connect_grpc):
    """As over HTTP."""
    limits = Limits(body_idle_s=0.1, stalled_s=0.2)
    async with connect_grpc(echo, limits=limits) as client, connected(client.address) as peer:
        peer.send(opened(1), opened(3), frame(f.DATA, 0, 3, b"\0\0\0"))
        assert [(await peer.answer(n)).status for n in (1, 3)] == ["4", "4"]


async def test_an_idle_stream_is_asked_whether_it_still_lives(connect_grpc):
    """And cut, if nobody answers."""
    limits = Limits(keep_alive_comment_s=0.1, stalled_s=0.2)
    async with connect_grpc(echo, limits=limits) as client, connected(client.address) as peer:
        peer.send(frame(f.HEADERS, OPEN, 1, request(path=b"/grpc.health.v1.Health/Watch")))
        peer.send(frame(f.DATA, f.END_STREAM, 1, message(b"")))
        for _ in range(2):
            ping = await peer.until(f.PING)
            peer.send(frame(f.PING, f.ACK, 0, ping.payload))
        await peer.until(f.PING)
        assert await peer.read() is None


# Anything at all

KINDS = st.integers(0, 12)
IDS = st.integers(0, 7)
FRAMES = st.one_of(
    st.builds(frame, KINDS, st.integers(0, 255), IDS, st.binary(max_size=40)),
    st.builds(lambda n, flags: frame(f.HEADERS, flags, n, request()), IDS, st.integers(0, 255)),
    st.builds(lambda n: call(n, GET), st.integers(0, 4).map(lambda n: 2 * n + 1)),
    st.builds(grow, IDS, st.integers(0, 2**31 - 1)),
    st.builds(
        lambda key, value: settings({key: value}),
        st.sampled_from(Setting),
        st.integers(0, 2**32 - 1),
    ),
    st.binary(max_size=30),
)


@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    conversations=st.lists(st.lists(FRAMES, max_size=12), min_size=10, max_size=10),
    chop=st.integers(1, 200),
)
async def test_frames_of_any_shape_never_break_the_server(
    connect_grpc, caplog, conversations, chop
):
    """Each conversation ends somehow, and the log has nothing to tell; then business as usual."""
    async with connect_grpc(echo) as client:
        for conversation in conversations:
            async with connected(client.address, is_polite=False) as peer:
                await _talk(peer, f.PREFACE + settings({}) + b"".join(conversation), chop)
        assert await is_well(client)
    wrong = [r for r in caplog.records if r.name == "accord" and r.levelno >= logging.WARNING]
    assert wrong == []


async def _talk(peer: Peer, sent: bytes, chop: int) -> None:
    for at in range(0, len(sent), chop):
        peer.send(sent[at : at + chop])
        try:
            await peer.drain()
        except ConnectionError:
            return
    await peer.until(f.SETTINGS)
