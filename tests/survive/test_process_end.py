"""A process that served ends in the ordinary way: `run` returns, `atexit` is called, and what does
not end is named and left.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.http1.raw import Wire, post, send
from tests.processes import Process, start

pytestmark = pytest.mark.alone

SERVE = """
import asyncio, atexit, sys, time
if sys.argv[1] == "asyncio":
    sys.modules["uvloop"] = None
from accord import Agent, Reply
from accord.server.process import shutdown
shutdown.LEAVE_S = float(sys.argv[3])
agent = Agent("Ending")
kept = []

@agent.skill
async def echo(text: str) -> str:
    return text

@agent.skill
async def stay(text: str) -> Reply:
    async def stubborn():
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    async def polite():
        try:
            await asyncio.sleep(60)
        finally:
            print("polite ended", flush=True)
    kept.append(asyncio.create_task(stubborn(), name="stubborn"))
    kept.append(asyncio.create_task(polite(), name="polite"))
    await asyncio.sleep(0)
    return Reply("here")

@agent.skill
async def work(text: str) -> str:
    await asyncio.sleep(60)
    return "never"

@agent.skill(durable=True)
async def last(text: str) -> str:
    await asyncio.sleep(60)
    return "never"

atexit.register(print, "atexit", flush=True)
agent.run(port=0, store="sqlite:///" + sys.argv[2], grace_s=0.1, on_start=lambda address: print(address, flush=True))
print("returned", flush=True)
"""  # noqa: E501


@contextlib.asynccontextmanager
async def running(
    folder: Path, loop: str, leave_s: float = 5.0
) -> AsyncIterator[tuple[Process, Wire]]:
    """A server that gives its tasks so long to end when they are cancelled."""
    script = folder / "ending.py"
    script.write_text(SERVE)
    words = (sys.executable, str(script), loop, str(folder / "accord.db"), str(leave_s))
    with start(*words) as process:
        port = int((await process.line()).rpartition(":")[2])
        wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
        with contextlib.closing(wire.writer):
            yield process, wire


async def is_told(wire: Wire) -> bool:
    """Whether the server knows that it has to stop: it is not ready, or does not listen."""
    try:
        _, port, *_ = wire.writer.get_extra_info("peername")
        other = Wire(*await asyncio.open_connection("127.0.0.1", port))
        with contextlib.closing(other.writer):
            await other.say(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            return (await other.answer()).status == 503
    except (OSError, EOFError):
        return True


async def ended(process: Process, wire: Wire, *signals: int) -> tuple[list[str], str]:
    """Send signals; return what the process says until it has ended in order, and its log."""
    for number in signals:
        process.send_signal(number)
        while not await is_told(wire):
            pass
    assert await process.wait() == 0
    return process.out.rest.splitlines(), process.err.text


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("skill", ["echo", "work", "last"])
async def test_run_returns_and_atexit_is_called(tmp_path: Path, loop: str, skill: str) -> None:
    """Also when work was interrupted, or is to go on in the next process."""
    async with running(tmp_path, loop) as (process, wire):
        await wire.say(post(send("hi", skill)))
        if skill == "echo":
            assert (await wire.answer()).status == 200
        said, log = await ended(process, wire, signal.SIGTERM)
        assert said == ["returned", "atexit"]
        assert log == ""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_what_does_not_end_is_named_and_left(tmp_path: Path, loop: str) -> None:
    """What ends when it is cancelled is waited for. The other has its time, and no more."""
    async with running(tmp_path, loop, leave_s=0.5) as (process, wire):
        await wire.say(post(send("hi", "stay")))
        assert b"here" in (await wire.answer()).body
        said, log = await ended(process, wire, signal.SIGTERM)
        assert said == ["polite ended", "returned", "atexit"]
        [line] = log.splitlines()
        assert (
            "stubborn did not end when it was cancelled; the process ends without it; it was at "
        ) in line
        assert line.endswith(f"{tmp_path / 'ending.py'}:20 in stay.<locals>.stubborn")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_told_twice_nobody_waits(tmp_path: Path, loop: str) -> None:
    async with running(tmp_path, loop, leave_s=3600) as (process, wire):
        await wire.say(post(send("hi", "stay")))
        assert b"here" in (await wire.answer()).body
        said, log = await ended(process, wire, signal.SIGINT, signal.SIGINT)
        assert said == ["polite ended", "returned", "atexit"]
        assert len(log.splitlines()) == 1
