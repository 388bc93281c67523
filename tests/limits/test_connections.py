"""What a connection may cost before it has said anything: a real server, raw sockets, and times
short enough to wait for.

Waited for is always the server's closing, never a time.
"""

import asyncio
import json

import pytest

from tests.drive import say, state_of
from tests.limits.process import head, served

pytestmark = pytest.mark.alone

FAR = 100
MIB = 1 << 20


def rpc(text="hi", skill="echo"):
    params = say(text, metadata={"skill": skill})
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    ).encode()


def rest(text="hi", skill="echo"):
    return json.dumps(say(text, metadata={"skill": skill})).encode()


REQUESTS = {"/": rpc, "/message:send": rest}


async def serves(server):
    """Nothing before has harmed the server: it answers, and has only the tasks it was asked for."""
    client = server.door()
    before = (await client.list())["totalSize"]
    assert state_of((await client.send("still here"))["task"]) == "completed"
    assert (await client.list())["totalSize"] == before + 1


@pytest.mark.parametrize("path", REQUESTS)
async def test_header_bytes(tmp_path, path):
    """431 and the connection is closed; a head of just the limit is served."""
    body = REQUESTS[path]()
    async with served(tmp_path, header_bytes=4_000) as server:

        async def ask(filling):
            line = await server.dial()
            pad = b"x-note: %b\r\n" % (b"x" * filling)
            await line.say(head("POST", path, pad + b"content-length: %d\r\n" % len(body)) + body)
            status, headers, answer = await line.answer()
            await line.hang_up()
            return status, headers.get("connection"), answer

        own = len(head("POST", path, b"x-note: \r\ncontent-length: %d\r\n" % len(body)))
        assert (await ask(4_000 - own))[0] == 200
        for filling in (4_001, 4_000 * FAR):
            status, connection, answer = await ask(filling)
            assert (status, connection) == (431, "close")
            assert b"larger than 4000 bytes" in answer
        await serves(server)


async def test_headers_without_end(tmp_path):
    """A head that never ends is cut at the limit, not collected."""
    async with served(tmp_path, header_bytes=4_000) as server:
        line = await server.dial()
        await line.say(head("POST", "/")[:-2])
        for _ in range(200):
            try:
                await line.say(b"x-note: %b\r\n" % (b"x" * 20))
            except ConnectionError:
                break
        assert b" 431 " in await line.rest()
        await line.hang_up()
        await serves(server)


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_too_large_is_not_read(tmp_path, path, announced):
    """A hundred times the limit is refused before it is buffered: announced or in chunks, the
    client is told at once.
    """
    limit = 2 * MIB
    async with served(tmp_path, body=limit) as server:
        await serves(server)
        memory = server.memory
        server.forget_peak()
        line = await server.dial()
        kind = (
            b"content-length: %d\r\n" % (limit * FAR)
            if announced
            else b"transfer-encoding: chunked\r\n"
        )
        await line.say(head("POST", path, kind))
        answer = asyncio.ensure_future(line.answer())
        piece = b"x" * (64 << 10)
        sent = 0
        while not answer.done() and sent < limit * FAR:
            try:
                await asyncio.wait_for(
                    line.say(piece if announced else b"%x\r\n%b\r\n" % (len(piece), piece)), 0.5
                )
            except (ConnectionError, TimeoutError):
                break  # it is not taken any more
            sent += len(piece)
            # See whether it was answered: since Python 3.12 nobody gets on meanwhile if all of it
            # was taken.
            await asyncio.sleep(0)
        status, headers, body = await answer
        await line.hang_up()
        assert (status, headers["connection"]) == (413, "close")
        assert b"larger than 2097152 bytes" in body
        assert sent < limit * FAR / 2
        assert server.peak - memory < 4 * limit
        await serves(server)


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_request_cut_in_the_middle_does_nothing(tmp_path, path):
    """A client that goes away while it sends has not asked for anything, even if what came looks
    whole.
    """
    body = REQUESTS[path]()
    async with served(tmp_path) as server:
        for _ in range(20):
            line = await server.dial()
            await line.say(
                head("POST", path, b"transfer-encoding: chunked\r\n")
                + b"%x\r\n%b\r\n" % (len(body), body)
            )
            await line.hang_up()
        await serves(server)
        assert (await server.door().list())["totalSize"] == 1


HALVES = {
    "nothing": (b"", b"408"),
    "request line": (b"POST /message:se", b"408"),
    "headers": (head("POST", "/")[:-30], b"408"),
    "body": (head("POST", "/", b"content-length: 400\r\n") + rpc()[:40], b"408"),
    "chunk": (
        head("POST", "/message:send", b"transfer-encoding: chunked\r\n") + b"190\r\n" + rest()[:40],
        b"408",
    ),
}


async def test_half_open_requests_are_not_held(tmp_path):
    """200 connections that say half of something: all are told so and closed; others are served
    (a2a-sdk: 200 held).
    """
    async with served(tmp_path, header_s=1.0, body_idle_s=1.0) as server:
        lines = []
        for i in range(200):
            line = await server.dial()
            await line.say(list(HALVES.values())[i % len(HALVES)][0])
            lines.append(line)
        await serves(server)
        started = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(line.rest() for line in lines))
        print(
            "\nhalf open: 200 connections, all closed "
            f"{asyncio.get_running_loop().time() - started:.1f} s later"
        )
        for i, answer in enumerate(answers):
            assert list(HALVES.values())[i % len(HALVES)][1] in answer.split(b"\r\n")[0]
            assert b"did not come within 1 s" in answer
        for line in lines:
            await line.hang_up()
        assert server.connections <= 2, (
            "the one of this test's own client, and the one being counted"
        )
        await serves(server)
        assert (await server.door().list())["totalSize"] == 2


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_slow_body_is_read_while_it_moves(tmp_path, path):
    """The limit is on idleness: a body that comes in drops for longer than the limit is taken."""
    body = REQUESTS[path]("x" * 100)
    async with served(tmp_path, body_idle_s=1.6) as server:
        line = await server.dial()
        await line.say(head("POST", path, b"content-length: %d\r\n" % len(body)))
        step = len(body) // 8 + 1
        for at in range(0, len(body), step):
            await line.say(body[at : at + step])
            await asyncio.sleep(0.25)  # this is the slow client
        assert (await line.answer())[0] == 200
        await line.hang_up()


async def test_keep_alive(tmp_path):
    """A connection that waits for its next request is closed without a word when it has waited long
    enough.
    """
    async with served(tmp_path, keep_alive_s=1) as server:
        line = await server.dial()
        for _ in range(3):
            assert (await line.post(rpc()))[0] == 200
        assert await line.rest() == b""
        await line.hang_up()
        await serves(server)


async def test_a_second_request_has_its_own_time(tmp_path):
    """On a kept connection half a request is not held either."""
    async with served(tmp_path, header_s=1.0, keep_alive_s=60) as server:
        line = await server.dial()
        assert (await line.post(rpc()))[0] == 200
        await line.say(b"POST / HT")
        assert b" 408 " in (await line.rest()).split(b"\r\n")[0]
        await line.hang_up()
