"""The agent of these tests: what it does to the world outside, it writes to a file, where doing it
twice is seen.
"""

import asyncio
import os
import signal
from pathlib import Path

from accord import Agent, Context, Reply

__all__ = ["make"]


def make(folder: Path) -> Agent:
    """An agent whose world is `folder`: `done` has a line for everything it did, `go` lets it go
    on.
    """
    agent = Agent("Survivor", description="Works in steps.")

    def do(what: str) -> str:
        with (folder / "done").open("a") as done:
            done.write(what + "\n")
        return what + " done"

    async def gate() -> None:
        while not (folder / "go").exists():  # noqa: ASYNC110  another process lets it go
            await asyncio.sleep(0.01)

    @agent.skill
    async def who(text: str) -> Reply:
        """Say which process answers; no task is made."""
        return Reply(str(os.getpid()))

    @agent.skill
    async def echo(text: str) -> str:
        """Repeat the text at once."""
        return text

    @agent.skill
    async def slow(text: str) -> str:
        """Take some milliseconds: `50`."""
        await asyncio.sleep(int(text) / 1000)
        return text

    @agent.skill
    async def hold(text: str) -> str:
        """Work until let go."""
        await gate()
        return text

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        """Ask once."""
        return await ctx.ask(f"heard {text}")

    @agent.skill(durable=True)
    async def order(text: str, ctx: Context):
        """Three steps, one after the other."""
        for n in "123":
            yield await ctx.step(do, f"{text}-{n}", name="do") + ";"

    @agent.skill(durable=True)
    async def careful(text: str, ctx: Context):
        """A step, work until let go, another step."""
        yield await ctx.step(do, f"{text}-1", name="do") + ";"
        await gate()
        yield await ctx.step(do, f"{text}-2", name="do") + ";"

    @agent.skill(durable=True)
    async def steady(text: str, ctx: Context):
        """A step that takes until let go, and another."""

        async def slowly(what: str) -> str:
            do(what)
            await gate()
            return what + " done"

        yield await ctx.step(slowly, f"{text}-1") + ";"
        yield await ctx.step(do, f"{text}-2", name="do") + ";"

    @agent.skill(durable=True)
    async def deadly(text: str, ctx: Context) -> None:
        """A step, and then the end of the process."""
        await ctx.step(do, text, name="do")
        os.kill(os.getpid(), signal.SIGKILL)

    @agent.skill(run_s=0.2)
    async def endless(text: str) -> None:
        """Work for ever."""
        await asyncio.Event().wait()

    @agent.skill(idle_s=0.2)
    async def silent(text: str) -> None:
        """Say nothing for ever."""
        await asyncio.Event().wait()

    return agent
