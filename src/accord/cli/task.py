"""accord task: look at a task, wait for it, stop it."""

import asyncio
from collections.abc import Awaitable, Callable

import click
import msgspec

from ..client import AgentFault, Client, ClientReply, connect
from ..model import A2AError
from ..protocol.v1 import codec as v1
from .advice import RETRY_MAX_TIME, advised, retry_for
from .amount import SOME_SECONDS
from .login import login_at
from .show import show_reply

__all__ = ["task"]

_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or for programs.",
)


@click.group()
def task() -> None:
    """Look at tasks, and stop them.

    \b
    accord task get http://localhost:8000 0192... --wait
    """


@task.command()
@click.argument("url")
@click.argument("task_id")
@click.option("--wait", "waits", is_flag=True, help="Wait until it has ended or asks a question.")
@click.option("--timeout", type=SOME_SECONDS, help="Seconds to wait for that.  [default: 600]")
@RETRY_MAX_TIME
@_OUTPUT
def get(
    url: str,
    task_id: str,
    waits: bool,
    timeout: float | None,
    retry_max_time: float | None,
    output: str,
) -> None:
    """Print how task TASK_ID of the agent at URL stands, and what it has made.

    \b
    accord task get http://localhost:8000 0192...
    accord task get http://localhost:8000 0192... --wait
    """

    async def fetch(agent: Client) -> ClientReply:
        return (
            await agent.wait(task_id, timeout_s=timeout)
            if waits
            else ClientReply(agent, await agent.get(task_id))
        )

    _ask(url, retry_max_time, output, fetch)


@task.command()
@click.argument("url")
@click.argument("task_id")
@RETRY_MAX_TIME
@_OUTPUT
def cancel(url: str, task_id: str, retry_max_time: float | None, output: str) -> None:
    """Stop the work on task TASK_ID of the agent at URL.

    \b
    accord task cancel http://localhost:8000 0192...
    """

    async def stop(agent: Client) -> ClientReply:
        return ClientReply(agent, await agent.cancel(task_id))

    _ask(url, retry_max_time, output, stop)


def _ask(
    url: str, max_time_s: float | None, output: str, ask: Callable[[Client], Awaitable[ClientReply]]
) -> None:
    async def run() -> None:
        async with connect(url, auth=login_at(url), retry=retry_for(max_time_s)) as agent:
            reply = await ask(agent)
            if output == "json":
                click.echo(msgspec.json.format(v1.encode(reply.task), indent=2))
            else:
                show_reply(reply, url)

    try:
        asyncio.run(run())
    except (A2AError, AgentFault) as error:
        raise advised(error, url) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
