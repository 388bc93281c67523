"""accord send: one message to an agent, and its answer."""

import asyncio
import sys

import click
import msgspec

from ..client import connect
from ..client.errors import AgentFault
from ..client.reply import Reply
from ..model import A2AError, ArtifactUpdate, Part, StatusUpdate, Task, TaskState
from .advice import advised

__all__ = ["send"]


@click.command()
@click.argument("url")
@click.argument("text")
@click.option("--stream", "is_stream", is_flag=True, help="Show the answer as it is made.")
@click.option("--task-id", default="", help="Continue this task: answer its question.")
@click.option("--context-id", default="", help="Start a new task in this conversation.")
def send(url: str, text: str, is_stream: bool, task_id: str, context_id: str) -> None:
    """Send TEXT to the agent at URL and print what it answers.

    \b
    accord send http://localhost:8000 "A weekend in Rome"
    accord send http://localhost:8000 3 --task-id 0192... --stream
    """
    try:
        asyncio.run(_send(url, text, is_stream, task_id, context_id))
    except (A2AError, AgentFault) as error:
        raise advised(error) from error
    except KeyboardInterrupt:
        click.secho("\nno longer waiting; what the agent has begun goes on", err=True)
        raise click.exceptions.Exit(130) from None


async def _send(url: str, text: str, is_stream: bool, task_id: str, context_id: str) -> None:
    async with connect(url) as agent:
        if is_stream:
            reply = await _show(agent.stream(text, task_id=task_id, context_id=context_id))
        else:
            reply = await agent.send(text, task_id=task_id, context_id=context_id)
            if shown := _answer(reply):
                click.echo(shown)
        _say_how_it_ended(reply, url)


async def _show(stream: "object") -> Reply:
    """Print a stream as it comes: the agent's output to stdout, its progress to stderr."""
    async for event in stream:  # type: ignore[attr-defined]
        if isinstance(event, ArtifactUpdate):
            sys.stdout.write("".join(_shown(part) for part in event.artifact.parts))
            sys.stdout.flush()
        elif isinstance(event, StatusUpdate) and event.status.message is not None:
            click.secho(f"\n[{event.status.state.word}] {event.status.message.text}", err=True, dim=True)
    click.echo()
    return stream.reply  # type: ignore[attr-defined,no-any-return]


def _answer(reply: Reply) -> str:
    """The text of an answer, then its data as JSON and its files by name. The schema of a question is for programs."""
    others = [] if reply.question else [_shown(part) for part in reply.parts if not isinstance(part.text, str)]
    return "\n".join(filter(None, [reply.text, *others]))


def _shown(part: Part) -> str:
    if isinstance(part.text, str):
        return part.text
    if part.data is not msgspec.UNSET:
        return msgspec.json.format(msgspec.json.encode(part.data), indent=2).decode()
    return f"[{part.media_type or 'file'} {part.filename}]"


def _say_how_it_ended(reply: Reply, url: str) -> None:
    task = reply.task
    if not isinstance(task, Task):
        return
    state = task.status.state
    click.secho(f"task {task.id} is {state.word}", err=True, dim=True)
    if state is TaskState.INPUT_REQUIRED:
        click.secho(f'answer with:  accord send {url} "..." --task-id {task.id}', err=True)
