"""One life of the server in test_model.py: `life.py FOLDER CALLS`. It takes calls from the socket
CALLS, and dies when told to.

The app is called on its own loop, so that a death can be put between two turns of it: without HTTP,
and over gRPC by a client that lives here too. The death is a real one: SIGKILL, with the store's
writer in the middle of whatever it does.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from accord import Agent, Context
from accord.engine.runs import recovery
from tests.reliability.clients import GrpcClient
from tests.reliability.inside import Inside, pass_turns
from tests.reliability.line import Line
from tests.reliability.ways import WAYS, Refused


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
    recovery.PAUSE_S = 0.0  # most of its deaths are nobody's fault
    app = make(folder).app(store=f"sqlite:///{folder / 'accord.db'}", grpc_port=0)
    await app.open()
    assert app.grpc_port is not None
    line = Line(app.grpc_port)
    clients = {
        name: GrpcClient(line, way) if way.is_grpc else Inside(app, name)
        for name, way in WAYS.items()
    }
    reader, writer = await asyncio.open_unix_connection(calls)
    while request := await reader.readline():
        asked = json.loads(request)
        if "turns" in asked and WAYS[asked["way"]].is_grpc:
            await clients["grpc"].call(
                "ListTasks", {"pageSize": 1}
            )  # connected: the call takes no more turns than it must
        call = asyncio.create_task(
            attempt(clients[asked["way"]].call(asked["method"], asked["params"]))
        )
        if "turns" in asked:  # left to live
            await pass_turns(asked["turns"])
            if call.done():
                writer.write(call.result())
            os.kill(os.getpid(), signal.SIGKILL)
        writer.write(await call)
    await app.close()
    os._exit(
        0
    )  # all is said and stored; taking the interpreter apart takes longer than the life did


async def attempt(work: Any) -> bytes:
    """What a call gives: an answer, or the reason it is refused."""
    try:
        answer = await work
    except Refused as error:
        answer = error.reason
    return json.dumps(answer).encode() + b"\n"


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2]))
