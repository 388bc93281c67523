"""A blocked event loop is logged once, with what blocks it."""

import asyncio
import json
import sys
import time
from email.message import Message
from urllib.request import Request, urlopen

import pytest

from accord.server.process import watchdog
from accord.server.process.stacks import place_of, stack_of
from accord.server.process.watchdog import Watchdog
from tests.processes import start

pytestmark = pytest.mark.alone

SERVE = """
import asyncio, sys, time
from accord import Agent
agent = Agent("Slow")

async def hold(seconds):
    asyncio.current_task().set_name("skill nap, task 7")
    time.sleep(seconds)

@agent.skill
async def nap(text: str) -> str:
    await hold(float(text))
    return "done"

agent.run(port=0, store="memory://", on_start=lambda address: print(address, flush=True))
"""


def ask(url: str, text: str) -> bytes:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    headers = {"content-type": "application/json", "a2a-version": "1.0"}
    with urlopen(
        Request(url + "/message:send", json.dumps({"message": message}).encode(), headers)
    ) as answer:
        found: bytes = answer.read()
    return found


async def test_a_skill_that_blocks_the_loop_is_named(tmp_path) -> None:
    """Once for each time, with the task and the place; what is short is not worth a word."""
    script = tmp_path / "slow.py"
    script.write_text(SERVE)
    with start(sys.executable, script) as process:
        url = await process.line()
        for text in ("0.1", "2", "0.1", "2"):
            assert b"done" in await asyncio.to_thread(ask, url, text)
        await process.stop()
    lines = [line for line in process.err.text.splitlines() if "by skill nap, task 7" in line]
    assert len(lines) == 2, process.err.text
    for line in lines:
        assert "blocked for " in line
        assert f"{script}:8 in hold" in line


async def test_an_idle_loop_is_not_blocked(monkeypatch, caplog) -> None:
    """It has nothing to do for longer than is allowed to anything."""
    monkeypatch.setattr(watchdog, "BLOCKED_S", 0.7)  # a busy machine may hold it up for a while
    monkeypatch.setattr(watchdog, "BEAT_S", 0.05)
    with Watchdog():
        await asyncio.sleep(0.9)
        assert not caplog.records
        time.sleep(1.2)  # noqa: ASYNC251  that is what is looked for
    assert len(caplog.records) == 1
    assert "test_an_idle_loop_is_not_blocked" in caplog.records[0].getMessage()


def test_the_place_is_that_of_the_users_code() -> None:
    """Not the standard library's, which it has called."""

    class Found(Exception):
        pass

    class Odd(str):
        __slots__ = ()

        def lower(self) -> str:
            raise Found

    with pytest.raises(Found) as raised:
        Message()[Odd("x")]
    trace = raised.value.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    inner = trace.tb_frame
    assert "Odd.lower" in place_of(stack_of(inner))
    assert inner.f_back is not None
    assert "email" in inner.f_back.f_code.co_filename
    assert "test_the_place_is_that_of_the_users_code" in place_of(stack_of(inner.f_back))
