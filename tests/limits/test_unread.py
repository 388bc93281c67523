"""Answers that nobody reads hold a bounded amount of memory, whoever asks for them and however;
others are served meanwhile.
"""

import asyncio
import contextlib
import json
import logging
import socket
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from a2a.types import a2a_pb2 as pb

from accord import Agent, Context, Limits
from accord.app import App
from accord.engine.offloading import LARGE
from accord.model import TooManyRequests
from accord.server.transport import unread
from tests.drive import say, serving
from tests.grpc.frames import Setting, settings
from tests.grpc.raw import Peer, call, connected, grow
from tests.limits.process import head, served
from tests.processes import until
from tests.reliability.harness import report

pytestmark = pytest.mark.alone

MIB = 1 << 20
SIZE = 6_000_000  # of an answer: more than the system holds for a client
MOST = 24 * MIB
CLIENTS = 20


@contextlib.asynccontextmanager
async def echoing(**limits: Any) -> AsyncIterator[tuple[App, int]]:
    """An agent with HTTP and gRPC, and the port of HTTP."""
    agent = Agent("Fill")

    @agent.skill
    async def fill(request: str) -> str:
        """As many letters as the text says."""
        return "x" * int(request)

    app = agent.app(grpc_port=0, limits=Limits(**limits))
    async with serving(app, app.close) as url:
        await app.open()
        yield app, urlsplit(url).port or 0


def get(task_id: str) -> bytes:
    return head("GET", f"/tasks/{task_id}")


@contextlib.asynccontextmanager
async def asking(port: int, count: int, request: bytes) -> AsyncIterator[list[socket.socket]]:
    """So many connections that have sent a request and read nothing; their systems take next to
    nothing for them.
    """
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.setblocking(False)
            await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", port))
            one.send(request)
        yield found


async def ask(port: int, request: bytes, pause_s: float = 0.0) -> bytes:
    """Send a request and return the body of the answer, read in some haste."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    writer.write(request)
    lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    left = next(int(line.split()[1]) for line in lines if line.startswith(b"content-length"))
    body = bytearray()
    while left > len(body):
        body += await reader.readexactly(min(left - len(body), left // 12 if pause_s else 1 << 16))
        await asyncio.sleep(pause_s)
    writer.close()
    return bytes(body)


async def make(port: int, size: int) -> str:
    """Have a task made with so many letters, and return its id."""
    body = json.dumps(say(str(size))).encode()
    answer = await ask(
        port, head("POST", "/message:send", b"content-length: %d\r\n" % len(body)) + body
    )
    return str(json.loads(answer)["task"]["id"])


async def filled(app: App, count: int) -> None:
    """Wait until so many bytes are unread."""
    await until(lambda: app.unread.bytes >= count, f"{count} bytes to be unread")


async def is_reset(one: socket.socket) -> bool:
    """Read to the end of a connection, and say whether it was an end by force."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(20):
        try:
            while await loop.sock_recv(one, 1 << 16):
                pass
        except ConnectionResetError:
            return True
    return False


async def test_answers_over_http_that_nobody_reads_are_bounded(monkeypatch, caplog):
    """However many connections ask. Those that read nothing are reset when others need the room;
    small answers need none.
    """
    monkeypatch.setattr(unread, "IDLE_S", 0.5)
    async with echoing(unread=MOST) as (app, port):
        task, small = await make(port, SIZE), await make(port, 1)
        async with asking(port, CLIENTS, get(task)) as silent:
            await filled(app, MOST - SIZE - MIB // 2)
            for _ in range(20):
                assert small.encode() in await ask(port, get(small))
                assert app.unread.bytes <= MOST
            async with asyncio.timeout(20):
                bodies = await asyncio.gather(*(ask(port, get(task)) for _ in range(5)))
            assert {len(body) for body in bodies} == {len(bodies[0])}
            assert len(bodies[0]) > SIZE
            assert app.unread.bytes <= MOST
            assert await is_reset(silent[0])
            told = [
                record.getMessage()
                for record in caplog.records
                if record.levelno == logging.WARNING
            ]
            assert told
            assert all("Limits.unread" in text for text in told)


async def test_who_reads_slowly_is_not_reset(monkeypatch):
    """It has its answer whole, though all the others read nothing and there is too much of what
    waits.
    """
    monkeypatch.setattr(unread, "IDLE_S", 2.0)
    async with echoing(unread=MOST) as (_, port):
        task = await make(port, SIZE)
        slow = asyncio.create_task(ask(port, get(task), pause_s=0.25))
        async with asking(port, CLIENTS, get(task)):
            assert len(await slow) > SIZE


async def test_more_than_may_wait_on_a_grpc_connection_is_not_made():
    """A client that asks for ever more and takes nothing fills no memory; when it takes something,
    it gets the rest.
    """
    async with echoing(unread_per_connection=4 * MIB) as (app, port):
        task = await make(port, SIZE // 8)
        async with connected(
            f"127.0.0.1:{app.grpc_port}", {Setting.INITIAL_WINDOW_SIZE: 0}
        ) as peer:
            wanted = pb.GetTaskRequest(id=task).SerializeToString()
            peer.send(*(call(n, wanted) for n in range(1, 41, 2)))
            await filled(app, 3 * MIB)
            peer.send(call(41, wanted))
            for _ in range(20):
                assert task.encode() in await ask(port, get(task))
                assert app.unread.bytes <= 5 * MIB  # one more while it is asked for over HTTP
            peer.send(settings({Setting.INITIAL_WINDOW_SIZE: 2**31 - 1}), grow(0, 2**30))
            assert await ended(peer, 21) == dict.fromkeys(range(1, 42, 2), "0")


async def ended(peer: Peer, count: int) -> dict[int, str]:
    """Read until so many calls have ended; return the status of each."""
    found: dict[int, str] = {}
    while len(found) < count:
        frame = await peer.read()
        assert frame is not None
        if frame.kind == 1 and frame.flags & 1:  # HEADERS that end the stream
            found[frame.id] = peer.pairs.get("grpc-status", "")
    return found


async def test_calls_over_grpc_that_nobody_reads_are_bounded_in_all(monkeypatch):
    """Many connections with closed windows: they are reset when others need the room."""
    monkeypatch.setattr(unread, "IDLE_S", 0.5)
    async with (
        echoing(unread=MOST, unread_per_connection=4 * MIB) as (app, port),
        contextlib.AsyncExitStack() as stack,
    ):
        task, small = await make(port, SIZE), await make(port, 1)
        address, closed = f"127.0.0.1:{app.grpc_port}", {Setting.INITIAL_WINDOW_SIZE: 0}
        peers = [await stack.enter_async_context(connected(address, closed)) for _ in range(6)]
        wanted = pb.GetTaskRequest(id=task).SerializeToString()
        for peer in peers:
            peer.send(*(call(n, wanted) for n in range(1, 21, 2)))
        await filled(app, MOST - SIZE - MIB // 2)
        for _ in range(20):
            assert small.encode() in await ask(port, get(small))
            assert app.unread.bytes <= MOST
        async with asyncio.timeout(20):
            assert len(await ask(port, get(task))) > SIZE
        assert app.unread.bytes <= MOST


async def test_streams_of_large_events_that_nobody_reads_are_bounded():
    """A subscriber is first sent the task as it is, all of it."""
    agent = Agent("Tell")

    @agent.skill
    async def tell(request: str, ctx: Context) -> str:
        await ctx.artifact("x" * int(request))
        return str(await ctx.ask("and then?"))

    app = agent.app(limits=Limits(unread=MOST))
    async with serving(app, app.close) as url:
        port = urlsplit(url).port or 0
        task = await make(port, SIZE)
        async with asking(
            port,
            CLIENTS,
            head("POST", f"/tasks/{task}:subscribe", b"content-length: 2\r\n") + b"{}",
        ):
            await filled(app, MOST - SIZE - MIB // 2)
            for _ in range(20):
                await ask(port, head("GET", "/healthz"))
                assert app.unread.bytes <= MOST


async def test_the_memory_of_a_server_stays_bounded(tmp_path):
    """In a process of its own, with tasks on the disk: 60 unread answers of 10 MB would be
    600 MB.
    """
    async with served(tmp_path, unread=32 * MIB) as server:
        client = server.door()
        made = await client.send(
            say(
                "10 1000000 0",
                metadata={"skill": "make"},
                configuration={"returnImmediately": True},
            )
        )
        await client.send(say("x", metadata={"skill": "wait"}))
        task, port = made["task"]["id"], urlsplit(server.url).port or 0
        await ask(port, get(task))  # what one costs
        before = server.memory
        server.forget_peak()
        async with asking(port, 60, get(task)):
            end, served_ = time.monotonic() + 3, 0
            while served_ < 20 or time.monotonic() < end:
                async with asyncio.timeout(10):
                    await ask(port, head("GET", "/tasks?pageSize=1&historyLength=0"))
                served_ += 1
                await asyncio.sleep(0.05)  # a client that asks twenty times a second
            grown = server.peak - before
            report(
                "unread",
                clients=60,
                answer_MiB=10,
                limit_MiB=32,
                grown_MiB=grown // MIB,
                neighbour_served=served_,
            )
            assert grown < 100 * MIB


HALVES = [(0, 100, True), (50, 100, True), (51, 100, False), (60, 40, True), (61, 40, False)]


@pytest.mark.parametrize(("held", "size", "has_space"), HALVES)
async def test_an_answer_larger_than_all_that_may_wait_needs_half_of_it(held, size, has_space):
    """Else it would wait for ever, or for the moment when nobody else has anything to read."""
    found = unread.UnreadAnswers(Limits(unread=100))
    found.reserve(held, None)
    assert found.has_space(size) is has_space


async def test_who_waits_for_room_too_long_is_told_to_come_back():
    found = unread.UnreadAnswers(Limits(unread=100, stalled_s=0.05))
    found.reserve(100, None)
    with pytest.raises(TooManyRequests) as refused:
        await found.reserved(LARGE + 1)
    assert refused.value.retry_after_s == 1
