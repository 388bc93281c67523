"""The server process of these tests: `serve.py DATABASE LIMITS`, with the limits as JSON. Says its
address, then serves.
"""

import asyncio
import sys
from pathlib import Path

import msgspec

from accord import Agent, Context, Reply
from accord.model import Limits

agent = Agent("Limited")
made = asyncio.Event()


@agent.skill(default=True)
async def echo(request: str) -> str:
    """Repeat the text."""
    return request


@agent.skill
async def size(request: str) -> Reply:
    """Say how much was sent; nothing is kept of it."""
    return Reply(str(len(request)))


@agent.skill
async def talk(request: str, ctx: Context):
    """Say as many chunks of as many bytes as the text says, once told to go on: `5000 2000`."""
    count, length = (int(word) for word in request.split())
    await ctx.ask("shall I?")
    for _ in range(count):
        yield "x" * length


@agent.skill
async def make(request: str, ctx: Context):
    """Make as many artifacts of as many bytes as the text says, as fast as can be or with a pause
    after each: `250 2000 0.002`.
    """
    count, length, pause_s = request.split()
    for i in range(int(count)):
        await ctx.artifact("x" * int(length), id=f"a{i}")
        if float(pause_s):
            await asyncio.sleep(float(pause_s))
    made.set()


@agent.skill
async def wait(request: str) -> Reply:
    """Say when the artifacts are made, without showing them."""
    await made.wait()
    return Reply("made")


def written() -> int:
    """The bytes this process has given to write calls; what it sends over sockets goes other
    ways.
    """
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def main(database: str, limits: str) -> None:
    agent.run(
        port=0,
        store=f"sqlite:///{database}",
        limits=msgspec.json.decode(limits, type=Limits),
        on_start=lambda address: print(address, written(), flush=True),
        grace_s=0.2,
    )
    print(written(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
