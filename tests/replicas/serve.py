"""One replica: `serve.py PORT STORE BOOKINGS GRACE_S AUDIT_S`. Its agent is the simulator's."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from accord import Agent, Ask, Context, Reply
from accord.engine.ownership import audit
from tests.survive import sleepers

COUNTED = 6

agent = Agent("Replicated")


@agent.skill
async def who(text: str) -> Reply:
    return Reply(str(os.getpid()))


@agent.skill
async def plain(text: str) -> str:
    await asyncio.sleep(0.02)
    return f"plain {text}"


@agent.skill
async def flow(text: str) -> Ask:
    await asyncio.sleep(0.02)
    return Ask(f"heard {text}", takes_waiting=True)


@agent.skill(durable=True)
async def chat(text: str) -> Ask:
    await asyncio.sleep(0.02)
    return Ask(f"heard {text}", takes_waiting=True)


@agent.skill(durable=True)
async def count(text: str) -> AsyncIterator[str]:
    for n in range(COUNTED):
        yield f"{n} "
        await asyncio.sleep(0.1)


@agent.skill(durable=True)
async def echo(text: str) -> str:
    return text


@agent.skill
async def ticks(text: str) -> AsyncIterator[str]:
    """Say what time it is, as often as the text says."""
    for _ in range(int(text)):
        yield f"{time.time_ns()} "
        await asyncio.sleep(0.02)


@agent.skill(durable=True)
async def talk(text: str, ctx: Context) -> str:
    """Ask until told to stop: the function, and its owner, stay."""
    heard = text
    while heard != "stop":
        heard = await ctx.ask(f"heard {heard}")
    return "stopped"


@agent.skill(durable=True)
async def trip(text: str, ctx: Context) -> str:
    hotel = await ctx.step(book, text, "hotel", name="hotel")
    choice = await ctx.ask(f"which of {hotel}")
    train = await ctx.step(book, text, "train", name="train")
    return f"{hotel} {choice} {train}"


for timer in (sleepers.nap, sleepers.ask):
    agent.skill(durable=True)(timer)


async def book(text: str, what: str) -> str:
    """An effect outside: a line in a file."""
    await asyncio.sleep(0.05)
    booked = f"{what}-{os.getpid()}-{os.urandom(4).hex()}"
    note(Path(sys.argv[3], f"{text}-{what}"), booked)
    return booked


def note(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")


def main(port: str, store: str, bookings: str, grace_s: str, audit_s: str) -> None:
    audit.AUDIT_S = float(audit_s)
    agent.run(port=int(port), store=store, grace_s=float(grace_s), push=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
