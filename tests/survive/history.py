"""The durable function of the recorded histories, and how one is recorded.

`python -m tests.survive.history FILE` records two runs with today's Accord: one cut off while it
worked, one that waits for its answer. Record one for every release that changes what a log holds,
under a new name; never change the function.
"""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from accord import Agent, Context
from tests.reliability.harness import message
from tests.reliability.inside import Inside

__all__ = ["make"]


def make(do: Callable[[str], str], gate: asyncio.Event, at_gate: asyncio.Event) -> Agent:
    """An agent whose one skill has all a log can hold: words, chunks, steps (one that fails),
    questions (one asked twice).
    """
    agent = Agent("History")

    def fail() -> None:
        do("fail")
        raise ValueError("no luck")

    @agent.skill(durable=True)
    async def journey(text: str, ctx: Context):
        ctx.status("looking around")
        yield await ctx.step(do, f"{text} 1", name="first") + "\n"
        try:
            await ctx.step(fail)
        except Exception as error:
            yield f"{error}\n"
        days = await ctx.ask("How many days?", int)
        yield await ctx.step(do, f"{text} 2, {days} days", name="second") + "\n"
        await ctx.artifact("a map", name="map")
        at_gate.set()
        await gate.wait()
        yield await ctx.step(do, f"{text} 3", name="third") + "\n"

    return agent


async def record(path: Path) -> None:
    at_gate = asyncio.Event()
    app = make(lambda what: f"did {what}", asyncio.Event(), at_gate).app(store=f"sqlite:///{path}")
    inside = Inside(app)
    await app.open()
    for text in ("Rome", "Oslo"):
        task = await inside.send(message(text))
        await inside.send(message("many", task_id=task["id"]))
    await inside.send(message("3", task_id=task["id"], returnImmediately=True))
    await at_gate.wait()
    await inside.get(task["id"])
    os._exit(0)  # as a kill: nothing is closed


if __name__ == "__main__":
    file = Path(sys.argv[1])
    if os.fork() == 0:
        asyncio.run(record(file.absolute()))
    os.wait()
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode = DELETE")  # one file, with all of it
    database.execute("VACUUM")
    database.close()
    file.with_name(file.name + "-lock").unlink()
