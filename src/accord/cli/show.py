"""How an answer is shown: what the agent made on stdout, everything about it on stderr."""

import sys

import click
import msgspec

from ..client import ClientReply
from ..client.streams import Stream
from ..model import ArtifactUpdate, Part, StatusUpdate, TaskState

__all__ = ["show_reply", "show_stream"]


async def show_stream(stream: Stream) -> None:
    """Print a stream as it comes."""
    async for event in stream:
        if isinstance(event, ArtifactUpdate):
            sys.stdout.write("".join(_shown(part) for part in event.artifact.parts))
            sys.stdout.flush()
        elif isinstance(event, StatusUpdate) and event.status.message is not None:
            click.secho(
                f"\n[{event.status.state.word}] {event.status.message.text}", err=True, dim=True
            )
    click.echo()


def show_reply(reply: ClientReply, url: str, *, is_shown: bool = False) -> None:
    """Print an answer, unless that `is_shown` already; then how the task stands, and what to type
    if it asks something.
    """
    answer = _answer(reply)
    if not is_shown and answer:
        click.echo(answer)
    task = reply.task
    if task is None:
        return
    state, said = task.status.state, task.status.message
    is_said = said is None or is_shown or said.text in answer
    click.secho(
        f"task {task.id} is {state.word}" + ("" if is_said or said is None else f": {said.text}"),
        err=True,
        dim=True,
    )
    if state is TaskState.INPUT_REQUIRED:
        click.secho(f'answer with:  accord send {url} "..." --task-id {task.id}', err=True)


def _answer(reply: ClientReply) -> str:
    """The text of an answer, then its data as JSON and its files by name. The schema of a question
    is for programs.
    """
    others = (
        []
        if reply.question
        else [_shown(part) for part in reply.parts if not isinstance(part.text, str)]
    )
    return "\n".join(filter(None, [reply.text, *others]))


def _shown(part: Part) -> str:
    if isinstance(part.text, str):
        return part.text
    if part.data is not msgspec.UNSET:
        return msgspec.json.format(msgspec.json.encode(part.data), indent=2).decode()
    return f"[{part.media_type or 'file'} {part.filename}]"
