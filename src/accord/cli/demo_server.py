"""accord demo-server: an agent that shows everything, to try commands and clients with."""

import asyncio

import click

from ..agent import Agent
from ..engine.skills import Context, Reply
from ..model import Artifact, Message, Part
from .serve import greet

__all__ = ["demo_server"]

_agent = Agent("Demo", description="Shows every state a task can be in, and every kind of answer.")


@_agent.skill(default=True, examples=["hello"])
async def echo(message: Message, ctx: Context) -> Artifact:
    """Send your message back."""
    ctx.status("reading")
    return Artifact(artifact_id="echo", name="echo", parts=message.parts)


@_agent.skill(examples=["Ada"])
async def greeting(name: str) -> Reply:
    """Answer at once, without a task."""
    return Reply(f"Hello, {name}!")


@_agent.skill(examples=["a picking list"])
async def ask(what: str, ctx: Context) -> str:
    """Ask a question first."""
    day = await ctx.ask("For which day?")
    return f"{what}, for {day}"


@_agent.skill(examples=["5"])
async def count(to: int, ctx: Context):  # type: ignore[no-untyped-def]  # a generator
    """Count slowly, so that you can watch, leave, come back and cancel."""
    for number in range(1, to + 1):
        ctx.status(f"{number} of {to}")
        yield f"{number}\n"
        await asyncio.sleep(1)


@_agent.skill(examples=["the vault"])
async def authorize(what: str, ctx: Context) -> str:
    """Wait for an authorization; your next message to the task grants it."""
    await ctx.require_auth(f"somebody has to allow this: {what}")
    return f"{what}: allowed"


@_agent.skill(examples=["anything"])
async def fail(why: str, ctx: Context) -> str:
    """Fail."""
    ctx.fail(f"this always fails: {why}")


@_agent.skill(examples=["anything"])
async def reject(why: str, ctx: Context) -> str:
    """Decline the work."""
    ctx.reject(f"not this: {why}")


@_agent.skill(examples=["report"])
async def files(name: str) -> Artifact:
    """Answer with a text, data, a file and a link."""
    table = b"fruit,crates\npear,42\n"
    return Artifact(
        artifact_id="files",
        name=name,
        parts=[
            Part(text="Forty-two crates of pears."),
            Part(data={"fruit": "pear", "crates": 42}, media_type="application/json"),
            Part(raw=table, filename=f"{name}.csv", media_type="text/csv"),
            Part(url="https://files.example/more.csv", filename="more.csv"),
        ],
    )


@_agent.skill
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@click.command("demo-server")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535),
              help="Port to listen on.")  # fmt: skip
@click.option(
    "--grpc-port",
    type=click.IntRange(0, 65535),
    help="Serve gRPC too, on this port. Needs the extra grpc.",
)
def demo_server(host: str, port: int, grpc_port: int | None) -> None:
    """Serve an agent that shows everything, until Ctrl-C. It forgets its tasks.

    \b
    accord demo-server
    accord send http://localhost:8000 --skill ask "a picking list"
    """
    try:
        _agent.run(
            host,
            port,
            store="memory://",
            grpc_port=grpc_port,
            on_start=lambda bound: greet(
                _agent, bound, "memory://", grpc=f"{host}:{grpc_port}" if grpc_port else ""
            ),
        )
    except (ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
