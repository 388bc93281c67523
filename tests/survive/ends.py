"""A server whose functions hold something in every way there is: `ends.py WAY PORT FOLDER`. Its end
must give all of it back.

WAY is `run`, a process of our own; `asyncio`, the loop of a uvicorn with an app in which the agent
is mounted; or `uvloop`, that of one which serves the agent itself.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from accord import Agent, Context, Reply

_FORK = multiprocessing.get_context("fork")

SHAPES = (
    "plain",
    "manager",
    "group",
    "gathered",
    "background",
    "helper",
    "stream",
    "talk",
    "thread",
    "branches",
    "asks",
)


async def gate(go: str) -> None:
    while not Path(go).exists():  # noqa: ASYNC110, ASYNC240  another process says so
        await asyncio.sleep(0.01)


def make(folder: Path) -> Agent:
    agent = Agent("Seats")

    def note(what: str) -> None:
        with (folder / "world").open("a") as world:
            world.write(what + "\n")

    go = str(folder / "go")

    def may_go() -> bool:
        return Path(go).exists()

    @contextlib.contextmanager
    def held(name: str) -> Iterator[None]:
        note(f"{name} held")
        try:
            yield
        finally:
            note(f"{name} given back")

    @contextlib.asynccontextmanager
    async def seat(name: str) -> AsyncIterator[None]:
        with held(name):
            yield

    @agent.skill
    async def who(text: str) -> Reply:
        return Reply(str(os.getpid()))

    @agent.skill(durable=True)
    async def plain(text: str, ctx: Context) -> str:
        try:
            with held("plain"):
                await ctx.step(gate, go)
        except asyncio.CancelledError:
            if ctx.is_canceled:
                note("plain undone")
            raise
        return "bought"

    @agent.skill(durable=True)
    async def manager(text: str, ctx: Context) -> str:
        async with seat("manager"):
            await ctx.step(gate, go)
        return "bought"

    @agent.skill(durable=True)
    async def group(text: str, ctx: Context) -> str:
        async def one(name: str) -> None:
            with held("group"):
                await ctx.step(gate, go, name=name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one("left"))
            tasks.create_task(one("right"))
        return "bought"

    @agent.skill(durable=True)
    async def gathered(text: str, ctx: Context) -> str:
        async def one() -> None:
            async with seat("gathered"):
                await gate(go)

        await asyncio.gather(one(), one())
        return "bought"

    @agent.skill(durable=True)
    async def background(text: str, ctx: Context) -> str:
        async def beat() -> None:
            with held("background"):
                await asyncio.Event().wait()

        beating = asyncio.create_task(beat())
        await ctx.step(gate, go)
        beating.cancel()
        return "bought"

    @agent.skill(durable=True)
    async def helper(text: str, ctx: Context) -> str:
        async def lines() -> AsyncIterator[str]:
            with held("helper"):
                yield "one"

        async for _ in lines():
            await ctx.step(gate, go)
        return "bought"

    @agent.skill(durable=True)
    async def stream(text: str, ctx: Context) -> AsyncIterator[str]:
        with held("stream"):
            yield "bou"
            await ctx.step(gate, go)
            yield "ght"

    @agent.skill(durable=True)
    async def talk(text: str, ctx: Context) -> AsyncIterator[str]:
        with held("talk"):
            while not may_go():
                yield "."
                await asyncio.sleep(0.01)

    def wait_in_thread() -> None:
        while not may_go():
            time.sleep(0.01)

    @agent.skill(durable=True)
    async def thread(text: str, ctx: Context) -> str:
        with held("thread"):
            await ctx.step(wait_in_thread)
        return "bought"

    @agent.skill(durable=True)
    async def branches(text: str, ctx: Context) -> str:
        async def one() -> None:
            with held("branches"):
                await ctx.step(gate, go)

        await ctx.gather(one(), one())
        return "bought"

    @agent.skill(durable=True)
    async def forks(text: str, ctx: Context) -> str:
        child = _FORK.Process(target=time.sleep, args=(60,), daemon=True)
        child.start()
        note(f"child {child.pid}")
        await asyncio.Event().wait()
        return "never"

    def end_child() -> str:
        child = _FORK.Process(target=time.sleep, args=(60,))
        child.start()
        child.terminate()
        child.join(10)
        child.kill()
        return str(child.exitcode)

    @agent.skill
    async def ends_children(text: str) -> str:
        return f"{end_child()} {await asyncio.to_thread(end_child)}"

    @agent.skill
    async def asks(text: str, ctx: Context) -> str:
        async with seat("asks"):
            return await ctx.ask("Buy it?")

    return agent


def host(app: Any, port: int, loop: str) -> None:
    """A program that goes on when its server has stopped: its loop and its interpreter are taken
    apart as usual.
    """
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    signal.signal(signal.SIGTERM, lambda number, frame: None)  # uvicorn passes it on in the end
    mounted = Starlette(routes=[Mount("/", app)], lifespan=app.lifespan)
    uvicorn.run(mounted if loop == "asyncio" else app, port=port, loop=loop, log_level="error")


if __name__ == "__main__":
    way, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    store = f"sqlite:///{folder / 'accord.db'}"
    if way == "run":
        make(folder).run(port=port, store=store, grace_s=0.2, on_start=lambda address: None)
    else:
        host(make(folder).app(store=store), port, way)
