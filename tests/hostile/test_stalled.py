"""S3: readers that stop reading cost little, hold nobody up, and are cut so that it can't look like
an end.
"""

import asyncio
import contextlib
import json
import socket
import time
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest

from accord.protocol.protobuf.messages import kind
from tests.drive import say, state_of
from tests.grpc.frames import (
    DATA,
    END_STREAM,
    HEADERS,
    PREFACE,
    RST_STREAM,
    WINDOW_MOST,
    Decoder,
    Setting,
    settings,
)
from tests.grpc.raw import call, grow
from tests.hostile.process import Served, served
from tests.limits.process import head
from tests.reliability.harness import report, size

pytestmark = pytest.mark.alone

READERS = size(30, 50)
STALLED_S = 5.0  # on a loaded machine even a reader that reads is late by a second or two
EVENTS = 5_000  # more than the system itself would hold for a reader
LENGTH = 2_000
MIB = 1 << 20
ARTIFACT_UPDATE = 4 << 3 | 2  # its field in a StreamResponse
WIDE = settings({Setting.INITIAL_WINDOW_SIZE: WINDOW_MOST}) + grow(0, WINDOW_MOST - (1 << 16))


class Kind(Protocol):
    """A binding: how a reader asks, and what it makes of what comes."""

    staying: (
        int  # stalled readers whose stream is ended with a word, and their connection not closed
    )

    def port(self, server: Served) -> int: ...

    def request(self, task_id: str, number: int) -> bytes: ...

    def heard(self) -> "Heard": ...


class Heard(Protocol):
    """What has come to one reader, counted and not kept."""

    events: int
    has_begun: bool
    is_over: bool  # whatever the end was
    is_clean: bool  # an end as it should be
    is_final: bool  # the task's own end was told

    def take(self, data: bytes) -> None: ...


class Sse:
    staying = 0

    def port(self, server: Served) -> int:
        return urlsplit(server.url).port or 0

    def request(self, task_id: str, number: int) -> bytes:
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task_id}}
        ).encode()
        return head("POST", "/", b"content-length: %d\r\n" % len(body)) + body

    def heard(self) -> Heard:
        return SseHeard()


class SseHeard:
    def __init__(self) -> None:
        self.events = 0
        self.has_begun = self.is_over = self.is_clean = self.is_final = False
        self._kept = b""

    def take(self, data: bytes) -> None:
        seen, found = self._kept.count(b'"artifactUpdate"'), self._kept + data
        self.events += found.count(b'"artifactUpdate"') - seen
        self._kept = found[-400:]
        self.has_begun = self.has_begun or b"\n\n" in found
        self.is_clean = self.is_over = found.endswith(b"0\r\n\r\n")  # the closing chunk
        self.is_final = b"TASK_STATE_COMPLETED" in self._kept


class Grpc:
    """Of the readers that stall, half keep their windows shut and half leave everything to the
    system's buffers.
    """

    staying = READERS // 2

    def port(self, server: Served) -> int:
        return server.grpc_port

    def request(self, task_id: str, number: int) -> bytes:
        wanted = kind("lf.a2a.v1.SubscribeToTaskRequest").encode({"id": task_id})
        return (
            PREFACE + (WIDE if number % 2 else settings({})) + call(1, wanted, b"SubscribeToTask")
        )

    def heard(self) -> Heard:
        return GrpcHeard()


class GrpcHeard:
    def __init__(self) -> None:
        self.events = 0
        self.has_begun = self.is_over = self.is_clean = self.is_final = False
        self.status = ""
        self._rest = b""
        self._body = self._last = b""
        self._decoder = Decoder()

    def take(self, data: bytes) -> None:
        rest, at = self._rest + data, 0
        while len(rest) - at >= 9 and len(rest) - at >= 9 + (
            size := int.from_bytes(rest[at : at + 3], "big")
        ):
            self._frame(rest[at + 3], rest[at + 4], rest[at + 9 : at + 9 + size])
            at += 9 + size
        self._rest = rest[at:]

    def _frame(self, kind_: int, flags: int, payload: bytes) -> None:
        if kind_ == DATA:
            body, at = self._body + payload, 0
            while len(body) - at >= 5 and len(body) - at >= 5 + (
                size := int.from_bytes(body[at + 1 : at + 5], "big")
            ):
                self.has_begun = True
                self._last = body[at + 5 : at + 5 + size]
                self.events += self._last[0] == ARTIFACT_UPDATE
                at += 5 + size
            self._body = body[at:]
        elif kind_ == HEADERS:
            pairs = dict(self._decoder.decode(payload))
            if flags & END_STREAM:
                self.status = pairs[b"grpc-status"].decode()
                self.is_clean = self.status == "0"
                self.is_final = "TASK_STATE_COMPLETED" in repr(
                    kind("lf.a2a.v1.StreamResponse").decode(self._last)
                )
                self.is_over = True
        elif kind_ == RST_STREAM:
            self.is_over = True


async def dial(
    server: Served, kind_: Kind, task_id: str, number: int, buffer: int = 0
) -> socket.socket:
    """Ask for the stream, and read nothing of it yet."""
    line = socket.socket()
    line.setblocking(False)
    if buffer:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(line, ("127.0.0.1", kind_.port(server)))
    await loop.sock_sendall(line, kind_.request(task_id, number))
    return line


async def begin(server: Served, kind_: Kind, task_id: str) -> tuple[socket.socket, Heard]:
    """Ask for the stream, and read the beginning: the task as it is. From here on every event
    counts.
    """
    line, heard = await dial(server, kind_, task_id, 1), kind_.heard()
    while not heard.has_begun:
        heard.take(await asyncio.get_running_loop().sock_recv(line, 1 << 16))
    return line, heard


async def listen(line: socket.socket, heard: Heard) -> Heard:
    """Read to the end, or to where it was cut."""
    loop = asyncio.get_running_loop()
    with contextlib.closing(line), contextlib.suppress(ConnectionError):
        while not heard.is_over and (data := await loop.sock_recv(line, 1 << 16)):
            heard.take(data)
    return heard


async def ask(client: Any) -> str:
    """Make a task that will say its events when told to go on."""
    task_id: str = (await client.send(say(f"{EVENTS} {LENGTH}", metadata={"skill": "talk"})))[
        "task"
    ]["id"]
    return task_id


async def tell(client: Any, task_id: str) -> None:
    await client.send(say("yes", taskId=task_id, configuration={"returnImmediately": True}))


@pytest.mark.parametrize("kind_", [Sse(), Grpc()], ids=["sse", "grpc"])
async def test_stalled_readers_cost_little_and_are_cut(tmp_path, kind_: Any) -> None:
    """As many of them as of those that read; at most 2 MiB each (a2a-sdk: 2,759 MB for one), and 0
    clean ends without a terminal state; on gRPC a reader that looks up again is told
    RESOURCE_EXHAUSTED.
    """
    async with served(tmp_path, has_grpc=True, stalled_s=STALLED_S) as server:
        client = server.door()
        warm = await ask(client)  # what such a task costs by itself
        reader = await begin(server, kind_, warm)
        await tell(client, warm)
        await listen(*reader)
        task_id = await ask(client)
        silent = [await dial(server, kind_, task_id, number, 4_096) for number in range(READERS)]
        healthy = [await begin(server, kind_, task_id) for _ in range(READERS)]
        reading = [asyncio.create_task(listen(*reader)) for reader in healthy]
        before = server.memory
        server.forget_peak()
        started = time.monotonic()
        await tell(client, task_id)
        async with asyncio.timeout(180):
            readers = await asyncio.gather(*reading)
        took_s = time.monotonic() - started
        async with asyncio.timeout(60):
            while (
                server.connections > 2 + kind_.staying
            ):  # until the server has cut the silent ones
                await client.list(pageSize=1)
        grown = server.peak - before
        async with asyncio.timeout(60):  # a cut is told: who was not told would wait for ever
            heard = [await listen(line, kind_.heard()) for line in silent]
        cut = sum(not reader.is_clean for reader in heard)
        told = sum(getattr(reader, "status", "") == "8" for reader in heard)
        report(
            f"S3 {type(kind_).__name__.lower()}",
            events=EVENTS,
            readers=f"{READERS} healthy, {READERS} stalled",
            grown_by_MiB_each=round(grown / READERS / MIB, 2),
            cut=cut,
            told_resource_exhausted=told,
            clean_ends_without_a_terminal_state=sum(
                reader.is_clean and not reader.is_final for reader in heard
            ),
            healthy_done_after_s=round(took_s, 1),
        )
        assert {reader.events for reader in readers} == {EVENTS}
        assert all(reader.is_clean and reader.is_final for reader in readers)
        assert cut == READERS
        assert told == kind_.staying
        # On a busy machine the healthy ones fall behind as well, and are held just as little for.
        # Fewer readers share what the task itself costs. Held without a limit it would be 300 MB.
        assert grown <= 2 * MIB * size(2 * READERS + 15, READERS)
        assert state_of(await client.get(task_id, historyLength=0)) == "completed"
