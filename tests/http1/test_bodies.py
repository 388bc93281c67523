"""Bodies that come in part: how much of them there may be, how long they may take, and who makes
room for whom.
"""

import ast
import asyncio
from pathlib import Path

import pytest

from accord.server.http1 import connection as http1
from accord.server.http1 import parser
from accord.server.transport import listener as listen
from accord.server.transport import reading
from tests.http1.raw import post, send, served
from tests.processes import until

HEAD = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n"
)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "rest",
    [
        b"5\r\nhello\r\n5\r\nhelloo\r\n",  # more than it says
        b"5\r\nhello\r\n" + b"1\r\nx\r\n" * 5_000,  # tiny ones
        b"5\r\nhello\r\n3e8\r\n" + b"x" * 1_000 + b"\r\nffff\r\n" + b"x" * 0xFFFF,  # too large
    ],
)
async def test_a_refused_body_leaves_nothing_behind(rest):
    """What all unfinished bodies hold together is counted: what is taken off is what was added,
    however they end.
    """
    async with served(body=20_000) as agent:
        for _ in range(3):
            wire = await agent.dial()
            await wire.say(CHUNKED + b"3\r\nabc\r\n")
            await wire.say(rest)
            assert (await wire.answer()).status in (400, 413)
            await wire.hang_up()
        assert (agent.server._held, agent.server._partial) == (0, {})


async def test_a_body_has_a_total_time(monkeypatch):
    """However regularly the next byte comes."""
    monkeypatch.setattr(http1, "BODY_WAITS", 2)
    async with served(body_idle_s=0.5, stalled_s=0.2) as agent:
        wire = await agent.dial()
        await wire.say(HEAD + b"Content-Length: 10000\r\n\r\n")
        answer = asyncio.create_task(wire.answer())
        while not answer.done():
            await wire.say(b" ")
            await asyncio.wait([answer], timeout=0.05)
        got = answer.result()
        assert (got.status, got.body) == (408, b"the body did not come within 1 s")
        await wire.hang_up()


async def test_who_dribbles_locks_nobody_out(monkeypatch):
    """When there is no room for more, requests that have been coming for long make some."""
    monkeypatch.setattr(listen, "HELD", 1)
    monkeypatch.setattr(listen, "EVICT_S", 0.1)
    async with served(body=10_000) as agent:
        slow = await agent.dial()
        await slow.say(HEAD + b"Content-Length: 9999\r\n\r\n" + b" " * 9_000)
        await until(lambda: agent.server._held)
        body = send("x" * 6_000)
        whole = post(body)
        early = await agent.dial()
        await early.say(whole[:-100])
        assert (await early.answer()).status == 429  # nobody has been coming for long
        await asyncio.sleep(0.15)  # longer than EVICT_S: what comes is late by now
        late = await agent.dial()
        await late.say(whole[:-100])
        assert (await slow.answer()).status == 429
        await late.say(whole[-100:])
        assert (await late.answer()).status == 200
        for wire in (slow, early, late):
            await wire.hang_up()


def test_the_server_knows_nothing_of_the_rest():
    """HTTP/1.1 is spoken by a server that knows requests and answers, and no agent."""
    known = {"parser", "reading", "request", "transport", "sockets"}
    for module in (http1, parser, reading):
        tree = ast.parse(Path(module.__file__).read_text())
        typing_only = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If)
            for inner in ast.walk(node)
        }
        ours = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level and id(node) not in typing_only
        ]
        assert {(node.module or "").partition(".")[0] for node in ours} <= known, module.__name__
