"""An agent with one skill for each way a task can go."""

import asyncio
import os
import threading

from accord import Agent, Ask, Context, Reply

agent = Agent("Busy", description="Does a little of everything.")


@agent.skill
async def who(text: str) -> Reply:
    """Say which process answers; no task is made."""
    return Reply(str(os.getpid()))


@agent.skill
async def echo(text: str) -> str:
    """Repeat the text at once."""
    return text


@agent.skill
async def chunks(text: str):
    """Say as many chunks as the text says, with a pause of some milliseconds between them:
    `200 5`.
    """
    count, pause_ms = (int(word) for word in text.split())
    for i in range(count):
        yield f"{i} "
        if pause_ms:
            await asyncio.sleep(pause_ms / 1000)


@agent.skill
async def talk(text: str, ctx: Context):
    """Ask again and again, saying what was heard last, until told to stop."""
    heard = text
    while heard != "stop":
        heard = await ctx.ask(f"heard {heard}")
    return "stopped"


@agent.skill
async def turns(text: str):
    """Like `talk`, but every message calls the function afresh."""
    return "stopped" if text == "stop" else Ask(f"heard {text}", takes_waiting=True)


@agent.skill
async def wait(text: str, ctx: Context):
    """Say one thing, then do nothing until cancelled."""
    await ctx.status("waiting")
    await asyncio.Event().wait()


@agent.skill
async def stubborn(text: str):
    """Answer a cancellation by finishing the work."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "finished all the same"


@agent.skill
def blocked(text: str) -> None:
    """Hold a thread for ever."""
    threading.Event().wait()


@agent.skill
async def deaf(text: str) -> None:
    """Hear no cancellation at all."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
