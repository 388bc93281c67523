"""The server process of the tests that kill it. It delivers in a hurry.

`serve.py AGENT PORT GRPC_PORT DATABASE KEEP_ALIVE_S GRACE_S`
"""

import asyncio
import os
import sys

from accord import Agent, Context, Reply
from accord.push import PushSettings

agent = Agent("Pushing")


@agent.skill
async def work(request: str, ctx: Context):
    """Say where it stands a few times, then end."""
    for n in range(3):
        await ctx.status(f"{request} {n}")
    yield request


@agent.skill
async def echo(request: str):
    """Say it again, at once."""
    return request


@agent.skill
async def stream(request: str):
    """Say it in pieces."""
    for n in range(50):
        yield f"{n} "
        await asyncio.sleep(0.002)


@agent.skill
async def ask(request: str, ctx: Context):
    return await ctx.ask("What?")


@agent.skill
async def who(request: str) -> Reply:
    return Reply(str(os.getpid()))


def main(
    name: str, port: str, grpc_port: str, database: str, keep_alive_s: str, grace_s: str
) -> None:
    agent.run(
        port=int(port),
        store=f"sqlite:///{database}",
        grace_s=float(grace_s),
        allow_hosts=["127.0.0.1"],
        push=PushSettings(schedule_s=(0.0, *(0.05,) * 60), breaker_s=0.1),
        log_level="debug",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
