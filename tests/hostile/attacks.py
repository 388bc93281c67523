"""Ways to be a bad neighbour: one shot each, to be repeated for as long as wanted. Its bytes are
made before.
"""

import asyncio
import contextlib
import zlib
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from accord.protocol.protobuf.messages import kind
from tests.drive import say
from tests.grpc.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    settings,
)
from tests.grpc.raw import header, message, request
from tests.hostile.process import Served
from tests.limits.process import head

__all__ = ["ATTACKS", "prepare"]

MIB = 1 << 20
PATIENCE_S = 60.0
PARTS = '{"message": {"messageId": "m", "role": "ROLE_USER", "parts": [%s]}}'
OLD = '{"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [%s]}}'
OLDEST = '{"id": "t", "message": {"role": "user", "parts": [%s]}}'
LOOSE = '{"message": {"message_id": "m", "role": "ROLE_USER", "parts": [%s]}}'

Attack = Callable[[Served, dict[str, str]], Awaitable[None]]


async def shoot(port: int, data: bytes, *more: bytes, hear: int = 1 << 30) -> None:
    """Say all of it, unless the server has had enough before; then listen, until it closes or has
    said so much.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            for piece in (data, *more):
                writer.write(piece)
                await writer.drain()
                if reader.at_eof():
                    break
            while hear > 0 and (came := await reader.read(1 << 16)):
                hear -= len(came)
    writer.transport.abort()  # type: ignore[attr-defined]  # a transport that writes


def http(body: str | bytes, path: str = "/message:send", headers: bytes = b"") -> Attack:
    """A request over HTTP+JSON."""
    raw = body.encode() if isinstance(body, str) else body
    whole = (
        head("POST", path, b"connection: close\r\ncontent-length: %d\r\n" % len(raw) + headers)
        + raw
    )

    async def attack(server: Served, known: dict[str, str]) -> None:
        await shoot(urlsplit(server.url).port or 0, whole)

    return attack


def rpc(method: str, params: str) -> Attack:
    """A request over JSON-RPC, of any version."""
    body = '{"jsonrpc": "2.0", "id": 1, "method": "%s", "params": %%s}' % method

    async def attack(server: Served, known: dict[str, str]) -> None:
        raw = (body % (params % known if "%(" in params else params)).encode()
        version = b"" if "/" in method else b"a2a-version: 1.0\r\n"
        first = (
            b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: "
            b"application/json\r\nconnection: close\r\n" + version
        )
        await shoot(
            urlsplit(server.url).port or 0, first + b"content-length: %d\r\n\r\n" % len(raw) + raw
        )

    return attack


def unsized(first: bytes, piece: bytes, count: int) -> Attack:
    """A body that goes on and on."""

    async def attack(server: Served, known: dict[str, str]) -> None:
        await shoot(
            urlsplit(server.url).port or 0, head("POST", "/message:send", first), *[piece] * count
        )

    return attack


def grpc(*frames: bytes, hear: int = 4_096) -> Attack:
    """HTTP/2, as it is."""

    async def attack(server: Served, known: dict[str, str]) -> None:
        await shoot(server.grpc_port, PREFACE + settings({}), *frames, hear=hear)

    return attack


def grpc_send(params: Any, *, is_packed: bool = False, **headers: bytes) -> Attack:
    """One call, with a message of any size."""
    data = (
        params if isinstance(params, bytes) else kind("lf.a2a.v1.SendMessageRequest").encode(params)
    )
    whole = message(data, int(is_packed))
    pieces = [frame(DATA, 0, 1, whole[at : at + 16_384]) for at in range(0, len(whole), 16_384)]
    return grpc(
        frame(HEADERS, END_HEADERS, 1, request(b"SendMessage", **headers)),
        *pieces,
        frame(DATA, END_STREAM, 1),
        hear=100,
    )


async def half_open(server: Served, known: dict[str, str]) -> None:
    """Many who begin and do not go on."""
    port = urlsplit(server.url).port or 0
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
    for _, writer in lines:
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\n")
    await asyncio.sleep(0.1)  # they go on no more for a while
    for _, writer in lines:
        writer.transport.abort()  # type: ignore[attr-defined]  # a transport that writes


async def come_and_go(server: Served, known: dict[str, str]) -> None:
    """Many who subscribe and leave."""
    port = urlsplit(server.url).port or 0
    path = f"/tasks/{known['open']}:subscribe"
    await asyncio.gather(
        *(shoot(port, head("POST", path, b"content-length: 0\r\n"), hear=100) for _ in range(50))
    )


async def pipelined(server: Served, known: dict[str, str]) -> None:
    """A thousand requests in one breath."""
    await shoot(
        urlsplit(server.url).port or 0, head("GET", f"/tasks/{known['done']}") * 1_000, hear=100_000
    )


async def read_a_long_log(server: Served, known: dict[str, str]) -> None:
    """All events of a long task from the first on."""
    resume = (
        b"a2a-extensions: urn:accord:resume:1\r\nlast-event-id: 0\r\ncontent-length: "
        b"0\r\nconnection: close\r\n"
    )
    await shoot(
        urlsplit(server.url).port or 0, head("POST", f"/tasks/{known['long']}:subscribe", resume)
    )


def _nested_struct(depth: int) -> bytes:
    """A message of protobuf nested as deep as wanted."""
    inside = b""
    for _ in range(depth):
        size = len(inside)
        length = bytearray()
        while size > 0x7F:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        inside = b"\x32" + bytes([*length, size]) + inside  # a list in a list
    return inside


def _bomb() -> bytes:
    """64 MiB of nothing, packed."""
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(pack.compress(b"\0" * MIB) for _ in range(64)), pack.flush()])


def _resets() -> bytes:
    """Calls that are taken back as soon as they are made."""
    call, reset = request(b"GetTask"), b"\0\0\0\x08"
    ids = range(1, 8_000, 2)
    return b"".join(
        [frame(HEADERS, END_HEADERS, id_, call) + frame(RST_STREAM, 0, id_, reset) for id_ in ids]
    )


def _repeats() -> bytes:
    """A large header that is kept, and named again and again."""
    return b"\x40" + header(b"x", b"y" * 4_000)[1:] + b"\xbe" * 12_000 + request(b"GetTask")


_ZEROS = '{"x": [' + "0," * (19 * MIB // 10) + "0]}"
_TEXT = PARTS % ('{"text": "%s"}' % ("x" * (4 * MIB - 250)))

# By what is sent, how it is made.
ATTACKS: dict[str, Callable[[], Attack]] = {
    "100 MB with their length": lambda: unsized(
        b"content-length: 104857600\r\n", b"x" * 65_536, 1_600
    ),
    "100 MB in chunks": lambda: unsized(
        b"transfer-encoding: chunked\r\n", b"10000\r\n" + b"x" * 65_536 + b"\r\n", 1_600
    ),
    "100,000 parts": lambda: http(PARTS % ",".join(['{"text": "x"}'] * 100_000)),
    "1,000,000 levels": lambda: http(PARTS % ('{"data": %s}' % ("[" * 1_000_000))),
    "500,000 objects in each other": lambda: http(PARTS % ('{"data": %s}' % ('{"":' * 500_000))),
    "200,000 members": lambda: http(
        PARTS % ('{"data": {%s}}' % ",".join(f'"{n}":0' for n in range(200_000)))
    ),
    "a number of 4 MB": lambda: http(PARTS % ('{"data": %s}' % ("9" * (4 * MIB - 200)))),
    "bad UTF-8 after 4 MB": lambda: http(_TEXT.encode().replace(b'x"', b'\xff"')),
    "4 MB of escapes": lambda: http(
        PARTS % ('{"text": "%s"}' % (r"\ud83d\ude00" * (MIB // 3 - 100)))
    ),
    "bad base64 of 4 MB": lambda: http(PARTS % ('{"raw": "%s!"}' % ("AAAA" * (MIB - 100)))),
    "2,000,000 numbers": lambda: http(PARTS % ('{"data": %s}' % _ZEROS)),
    "2,000,000 numbers, loosely": lambda: http(LOOSE % ('{"data": %s}' % _ZEROS)),
    "2,000,000 numbers, 0.3": lambda: rpc(
        "message/send", OLD % ('{"kind": "data", "data": %s}' % _ZEROS)
    ),
    "2,000,000 numbers, 0.1": lambda: rpc(
        "tasks/send", OLDEST % ('{"type": "data", "data": %s}' % _ZEROS)
    ),
    "1,000 parts, 0.3": lambda: rpc(
        "message/send", OLD % ", ".join(['{"kind": "text", "text": "x"}'] * 1_000)
    ),
    "4 MB of text": lambda: http(_TEXT),
    "a list of large tasks": lambda: rpc("ListTasks", '{"contextId": "large"}'),
    "a list of large tasks with all they have": lambda: rpc(
        "ListTasks", '{"contextId": "large", "includeArtifacts": true}'
    ),
    "a long task": lambda: rpc("GetTask", '{"id": "%(long)s"}'),
    "a long task, 0.3": lambda: rpc("tasks/get", '{"id": "%(long)s"}'),
    "a long log": lambda: read_a_long_log,
    "200 half open": lambda: half_open,
    "subscribers who come and go": lambda: come_and_go,
    "1,000 in one breath": lambda: pipelined,
    "pings": lambda: grpc(frame(PING, 0, 0, b"\0" * 8) * 20_000),
    "settings": lambda: grpc(frame(SETTINGS, 0, 0, b"") * 20_000),
    "calls that are reset": lambda: grpc(_resets()),
    "metadata that is repeated": lambda: grpc(frame(HEADERS, END_HEADERS, 1, _repeats())),
    "a packed message of 64 MB": lambda: grpc_send(_bomb(), is_packed=True, grpc_encoding=b"gzip"),
    "lists in lists": lambda: grpc_send(b"\x0a\x00" + _nested_struct(10_000)),
    "4 MB over gRPC": lambda: grpc_send(say("x" * (4 * MIB - 200))),
    "200,000 numbers over gRPC": lambda: grpc_send(say([{"data": [0] * 200_000}])),
}


async def prepare(server: Served, *, large: int, events: int) -> dict[str, str]:
    """Make the tasks that are asked for: one done, one open, large ones, and one with a long
    log.
    """
    client, fill = (
        server.door("rest"),
        http(_TEXT.replace('"messageId"', '"contextId": "large", "messageId"')),
    )
    for _ in range(large):
        await fill(server, {})
    long = (await client.send(say(f"{events} 2000", metadata={"skill": "talk"})))["task"]["id"]
    stream = await client.stream(say("yes", taskId=long))
    await stream.rest()
    done = (await client.send("hello"))["task"]["id"]
    waiting = (await client.send(say("1 1", metadata={"skill": "talk"})))["task"]["id"]
    return {"done": done, "open": waiting, "long": long}
