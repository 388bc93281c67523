"""One life of the server in test_model.py: `life.py FOLDER CALLS`. It takes calls from the socket CALLS, and dies when told to.

The app is called without HTTP, so that a death can be put between two turns of its loop. It is a real one: SIGKILL, with the
store's writer in the middle of whatever it does.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from accord import Agent, Context
from tests.reliability.harness import Refused
from tests.reliability.inside import Inside, pass_turns


def make(folder: Path) -> Agent:
    """The agent. What it does outside of its tasks is a line in the file `done`."""
    agent = Agent("Model")

    async def do(what: str) -> str:
        with (folder / "done").open("a") as done:
            done.write(what + "\n")
        return what

    @agent.skill
    async def echo(text: str) -> str:
        return text

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        heard = text
        while heard != "stop":
            heard = await ctx.ask(f"heard {heard}")
        return text

    @agent.skill(durable=True)
    async def plan(text: str, ctx: Context):
        yield await ctx.step(do, f"{text}/1") + ";"
        while await ctx.ask("Go on?") != "stop":
            pass
        yield await ctx.step(do, f"{text}/2") + ";"

    @agent.skill
    async def hold(text: str) -> None:
        await asyncio.Event().wait()

    @agent.skill(durable=True)
    async def keep(text: str, ctx: Context):
        yield await ctx.step(do, f"{text}/1") + ";"
        await asyncio.Event().wait()

    return agent


async def live(folder: Path, calls: str) -> None:
    app = make(folder).app(store=f"sqlite:///{folder / 'accord.db'}")
    await app.open()
    inside = Inside(app)
    reader, writer = await asyncio.open_unix_connection(calls)
    while request := await reader.readline():
        asked = json.loads(request)
        call = asyncio.create_task(attempt(inside.call(asked["method"], asked["params"])))
        if "turns" in asked:  # left to live
            await pass_turns(asked["turns"])
            if call.done():
                writer.write(call.result())
            os.kill(os.getpid(), signal.SIGKILL)
        writer.write(await call)
    await app.close()


async def attempt(work: Any) -> bytes:
    """What a call gives: an answer, or the reason it is refused."""
    try:
        answer = await work
    except Refused as error:
        answer = error.reason
    return json.dumps(answer).encode() + b"\n"


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2]))
