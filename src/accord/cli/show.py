"""How an answer is shown: what the agent made on stdout, everything about it on stderr."""

import sys

import click
import msgspec

from ..client import ClientReply, Gap
from ..client.streams import Stream, StreamEvent
from ..model import (
    FINAL,
    INTERRUPTED,
    Artifact,
    ArtifactUpdate,
    Part,
    StatusUpdate,
    Task,
    TaskState,
)

__all__ = ["clean", "show_reply", "show_stream"]

# Agents are strangers: what they write must not move the cursor or colour the terminal.
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(13, 32), *range(127, 160)])


def clean(text: str) -> str:
    """Return a text without control characters, except tabs and line ends."""
    return text.translate(_CONTROLS)


async def show_stream(stream: Stream) -> bool:
    """Print a stream as it comes; return whether there was anything for stdout."""
    printer = Printer()
    async for event in stream:
        printer.take(event)
        if stream.task is not None and stream.task.status.state is TaskState.AUTH_REQUIRED:
            break  # the stream stays open meanwhile; whoever reads it has to do something
    printer.end()
    return printer.has_written


class Printer:
    """Prints what an agent makes as it comes, each piece once: an artifact that is sent again as a
    whole, or inside a task, goes on where it was.
    """

    def __init__(self) -> None:
        self.has_written = False
        self._texts: dict[str, str] = {}  # of artifacts, as printed

    def take(self, event: StreamEvent) -> None:
        if isinstance(event, ArtifactUpdate):
            self._artifact(event.artifact, is_more=bool(event.append))
        elif isinstance(event, StatusUpdate):
            said, state = event.status.message, event.status.state
            if said is not None and state not in FINAL | INTERRUPTED:
                click.secho(f"[{state.word}] {clean(said.text)}", err=True, dim=True)
        elif isinstance(event, Task | Gap):
            # A task that was quicker than its stream comes with what it has made.
            for artifact in (event.task if isinstance(event, Gap) else event).artifacts:
                self._artifact(artifact, is_more=False)

    def end(self) -> None:
        if self.has_written:
            click.echo()

    def _artifact(self, artifact: Artifact, *, is_more: bool) -> None:
        text = "".join(clean(_shown(part)) for part in artifact.parts)
        before = self._texts.get(artifact.artifact_id)
        if before is None or is_more:
            fresh, self._texts[artifact.artifact_id] = text, (before or "") + text
        else:
            self._texts[artifact.artifact_id] = text
            fresh = text[len(before) :] if text.startswith(before) else f"\n{text}"
        if fresh:
            self.has_written = True
            sys.stdout.write(fresh)
            sys.stdout.flush()


def show_reply(reply: ClientReply, url: str, *, is_shown: bool = False) -> None:
    """Print an answer, unless that `is_shown` already; then how the task stands, and what to type
    if it asks something.
    """
    answer = clean(_answer(reply))
    if not is_shown and answer:
        click.echo(answer)
    task = reply.task
    if task is None:
        return
    state, said = task.status.state, task.status.message
    is_said = said is None or clean(said.text) in answer
    click.secho(
        f"task {task.id} is {state.word}"
        + ("" if is_said or said is None else f": {clean(said.text)}"),
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
