"""The server process of these tests: `serve.py DATABASE GRPC_PORT LIMITS`, limits as JSON. Says its
address, then serves.
"""

import asyncio
import sys
from pathlib import Path

import msgspec

from accord import Agent, Context, Message, Part, Reply
from accord.model import Limits

agent = Agent("Patient")
made = asyncio.Event()


@agent.skill(default=True)
async def echo(request: Message) -> list[Part]:
    """Repeat what was said."""
    return request.parts


@agent.skill
async def talk(request: str, ctx: Context):
    """Say as many chunks of as many bytes as the text says, once told to go on: `5000 2000`."""
    count, length = (int(word) for word in request.split())
    await ctx.ask("shall I?")
    for _ in range(count):
        yield "x" * length


@agent.skill
async def make(request: str, ctx: Context) -> None:
    """Make as many artifacts of as many bytes as the text says: in a burst, or each committed
    before the next: `250 2000 each`.
    """
    count, length, pace = request.split()
    for i in range(int(count)):
        await ctx.artifact("x" * int(length), id=f"a{i}")
        if pace == "each":
            await ctx.step(nothing)  # returns when it is stored, and with it what was said before
    made.set()


async def nothing() -> None:
    pass


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


def main(database: str, grpc_port: str, limits: str) -> None:
    agent.run(
        port=0,
        grpc_port=int(grpc_port) or None,
        store=f"sqlite:///{database}",
        limits=msgspec.json.decode(limits, type=Limits),
        on_start=lambda address: print(address, written(), flush=True),
        grace_s=0.2,
    )
    print(written(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
