"""An agent with a skill for every state a task can be in."""

import time
from pathlib import Path

from accord import Agent, Artifact, Context, Message, Part, Reply

agent = Agent("Clerk", description="Does what the tests need.")


@agent.skill(default=True)
async def echo(message: Message) -> str:
    """Say what parts came."""
    names = {"text": "text", "raw": "file", "url": "link", "data": "data"}
    kinds = [
        f"{names[kind]}:{getattr(part, kind)!r}:{part.filename}:{part.media_type}"
        for part in message.parts
        for kind in names
        if isinstance(getattr(part, kind), str | bytes | dict | list)
    ]
    return "\n".join(kinds)


@agent.skill
async def hello(text: str) -> Reply:
    """Answer without a task."""
    return Reply(f"Hello, {text}!")


@agent.skill
async def fail(text: str, ctx: Context) -> str:
    """Fail."""
    ctx.fail("out of paper")


@agent.skill
async def reject(text: str, ctx: Context) -> str:
    """Refuse."""
    ctx.reject("not for me")


@agent.skill
async def ask(text: str, ctx: Context) -> str:
    """Ask something first."""
    answer = await ctx.ask("Which day?")
    return f"{text} on {answer}"


@agent.skill
async def park(text: str, ctx: Context) -> str:
    """Wait until somebody has been authorized."""
    await ctx.require_auth("log in at the till")
    return "authorized"


@agent.skill
def wait(text: str):
    """Work until a file is there."""
    yield "begun\n"
    while not Path(text).exists():
        time.sleep(0.01)
    yield "done\n"


@agent.skill
async def files(text: str):
    """Make one part of each kind."""
    yield Artifact(
        artifact_id="a1",
        name="everything",
        parts=[
            Part(text="a text"),
            Part(data={"crates": 42}, media_type="application/json"),
            Part(raw=b"%PDF", filename="../../list.pdf", media_type="application/pdf"),
            Part(url="https://files.example/big.bin", filename="big.bin"),
        ],
    )


@agent.skill
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b
