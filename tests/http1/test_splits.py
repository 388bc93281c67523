"""However the bytes of a connection are cut, it says the same: every cut Hypothesis can think of,
without a network.
"""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.model import Limits
from accord.server.http1.connection import Http1Connection
from accord.server.http1.listener import HttpServer
from accord.server.request import HttpResponse
from tests.http1.raw import chunked, post

BODIES = [b"{}", b"x" * 50, b"POST / HTTP/1.1\r\n\r\n", b"\r\n\r\n", b""]
REQUESTS = [
    *(post(body) for body in BODIES),
    *(chunked(body, 1, 7) for body in BODIES),
    post(b"{}", headers=b"Expect: 100-continue\r\n"),
    post(b"{}", headers=b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    b"GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\r\nGET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
]
ENDINGS = [
    b"",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    post(b"x" * 2_000),
    b"GET / HTTP/1.1\r\nX-Long: %b\r\n\r\n" % (b"x" * 2_000),
]


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def said(pieces: list[bytes], *, waits: bool) -> tuple[bytes, list[tuple[str, bytes]], bool]:
    """What a connection answers, what it understood, and whether it closed; with answers that come
    at once or have to wait.
    """
    seen: list[tuple[str, bytes]] = []

    async def answer(request) -> HttpResponse:
        if waits:
            await asyncio.sleep(0)
        seen.append((request.target.verb, request.body if request.problem is None else b"problem"))
        return HttpResponse(200, request.target.raw.encode())

    home = HttpServer(answer, "localhost", 0, Limits(body=1_000, header_bytes=1_000))
    wire = Wire()
    connection = Http1Connection(home)
    connection.connection_made(wire)
    for piece in pieces:
        if not wire.is_closed:
            connection.data_received(piece)
            for _ in range(5 if waits else 0):
                await asyncio.sleep(0)
    for _ in range(400):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    return wire.written.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b""), seen, wire.is_closed


@pytest.mark.parametrize("waits", [False, True])
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(REQUESTS), max_size=5),
    st.sampled_from(ENDINGS),
    st.lists(st.integers(0, 2_500), max_size=15),
)
def test_where_packets_end_makes_no_difference(waits, requests, ending, cuts):
    """The whole in one piece, cut anywhere, and byte by byte: the same answers, the same requests
    understood.
    """
    data = b"".join(requests) + ending
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    pieces = [data[a:b] for a, b in itertools.pairwise(places) if a < b]
    with asyncio.Runner() as runner:
        whole = runner.run(said([data] if data else [], waits=waits))
        assert runner.run(said(pieces, waits=waits)) == whole
        assert runner.run(said([bytes([byte]) for byte in data], waits=waits)) == whole
    assert len(whole[1]) >= len(requests)
