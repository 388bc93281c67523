"""How an answer is shown: what the agent made on stdout, everything about it on stderr."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

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
    chunk_offset,
)
from ..protocol.v1 import codec as v1
from .advice import typed
from .countdown import deadline_line
from .markdown import Markdown, is_markdown_shown
from .progress import ProgressLine
from .terminal import clean, echo, echo_json, echo_markdown, secho

if TYPE_CHECKING:
    from .target import AgentTarget

__all__ = ["Printer", "follow", "show_json", "show_outcome", "show_reply"]

_COLORS = {
    TaskState.FAILED: "red",
    TaskState.REJECTED: "red",
    TaskState.INPUT_REQUIRED: "yellow",
    TaskState.AUTH_REQUIRED: "yellow",
}

_BREAK = "\0"  # a new line, unless there is one; no text of an agent has it


def show_json(value: object) -> None:
    """Print one JSON document."""
    echo_json(msgspec.json.format(v1.encode(value), indent=2))


async def follow(stream: Stream, target: "AgentTarget", *, is_live: bool) -> bool:
    """Read a stream to its end, or to where it waits for someone; `is_live` shows it meanwhile.
    Return whether there was anything on stdout.
    """
    printer = Printer()
    async with ProgressLine(is_on=not is_live and target.output == "answer") as progress:
        async for event in stream:
            if is_live and target.output == "answer":
                printer.take(event)
            elif is_live:
                _show_event(event, stream.task, target)
            if isinstance(event, Task | StatusUpdate):
                progress.show(event)
                if event.status.state is TaskState.AUTH_REQUIRED:
                    break  # the stream stays open; whoever reads it has to do something
    printer.end()
    return printer.has_written


def _show_event(event: StreamEvent, task: Task | None, target: "AgentTarget") -> None:
    if target.output == "json":
        echo_json(v1.encode_event(event.task if isinstance(event, Gap) else event))
    else:
        from .fields import print_event

        print_event(event, task, target)


class Printer:
    """Prints what an agent makes as it comes, each piece once: an artifact that is sent again as a
    whole, or inside a task, goes on where it was.
    """

    def __init__(self) -> None:
        self.has_written = False
        self._texts: dict[str, str] = {}  # of artifacts, as printed
        self._last = "\n"  # the last character printed
        self._markdown = Markdown() if is_markdown_shown() else None

    def take(self, event: StreamEvent) -> None:
        if isinstance(event, ArtifactUpdate):
            self._artifact(event.artifact, is_more=bool(event.append))
        elif isinstance(event, StatusUpdate):
            said, state = event.status.message, event.status.state
            if said is not None and state not in FINAL | INTERRUPTED:
                secho(f"[{state.word}] {said.text}", err=True, dim=True)
        elif isinstance(event, Task | Gap):
            # A task that was quicker than its stream comes with what it has made.
            for artifact in (event.task if isinstance(event, Gap) else event).artifacts:
                self._artifact(artifact, is_more=False)

    def end(self) -> None:
        if self._markdown is not None:
            sys.stdout.write(self._markdown.end())
        if self.has_written:
            echo()

    def _artifact(self, artifact: Artifact, *, is_more: bool) -> None:
        # A file that grows is shown when it begins.
        shown = [part for part in artifact.parts if chunk_offset(part.metadata) is None]
        text = "".join(_piece(part) for part in shown)
        before = self._texts.get(artifact.artifact_id)
        if before is None or is_more:
            fresh, self._texts[artifact.artifact_id] = text, (before or "") + text
        else:
            self._texts[artifact.artifact_id] = text
            fresh = text[len(before) :] if text.startswith(before) else f"\n{text}"
        if fresh:
            self.has_written = True
            fresh = fresh if before is not None else f"{_BREAK}{fresh}"
            self._write(fresh, self._markdown if _is_prose(artifact.parts) else None)

    def _write(self, text: str, markdown: Markdown | None) -> None:
        for i, piece in enumerate(text.split(_BREAK)):
            if i and self._last != "\n":
                self._last = ""  # a line end, once something comes behind it
            if piece:
                line = piece if self._last else f"\n{piece}"
                sys.stdout.write(line if markdown is None else markdown.feed(line))
                self._last = piece[-1]
        sys.stdout.flush()


def show_reply(reply: ClientReply, target: "AgentTarget", *, is_shown: bool = False) -> None:
    """Print an answer, unless that `is_shown` already; then how the task stands, and what to type
    if it asks something.
    """
    found = reply.task or reply.message
    assert found is not None  # it is one or the other
    if target.output == "json":
        return echo_json(msgspec.json.format(v1.encode_event(found), indent=2))
    if target.output == "text":
        from .fields import print_task

        return print_task(found, target)
    answer = clean(_answer(reply))
    if not is_shown and answer and is_markdown_shown() and _is_prose(reply.parts):
        echo_markdown(answer)
    elif not is_shown and answer:
        echo(answer)
    task = reply.task
    if task is None:
        return
    state, said = task.status.state, task.status.message
    words = clean(said.text) if said is not None else ""
    beside = f": {words}" if words not in answer else ""
    color = _COLORS.get(state)
    line = f"task {task.id} is {state.word}{beside}"
    secho(line, err=True, fg=color, dim=color is None)
    if task.context_id:
        secho(f"context {task.context_id}", err=True, dim=True)
    if state is TaskState.INPUT_REQUIRED:
        if (expires_at := reply.questions[0].expires_at) is not None:
            secho(f"answer {deadline_line(expires_at)}", err=True, fg=color)
        how = typed("send", *target.words, "...", "--task-id", task.id).replace("'...'", "...")
        secho("answer with:  " + how.replace(" ... ", ' "..." '), err=True)
    elif state is TaskState.AUTH_REQUIRED:
        how = typed("task", "get", *target.words, task.id, "--wait")
        secho(f"authorize it, then:  {how}", err=True)
    elif state not in FINAL:
        how = typed("task", "get", *target.words, task.id, "--wait")
        secho(f"wait for it with:  {how}", err=True)


def show_outcome(
    reply: ClientReply, target: "AgentTarget", *, exit_status: bool = False, is_async: bool = False
) -> None:
    """Say on stderr, where the output is for programs, that a task has not completed; and with
    --exit-status in the exit code.
    """
    state = reply.state
    is_done = state is TaskState.COMPLETED
    if target.output != "answer" and not is_done and state in FINAL | INTERRUPTED:
        how = "ended" if state in FINAL else "is waiting"
        echo(f"Warning: task {how} in {state.value}", err=True)
    if exit_status and not is_done and not is_async:
        raise click.exceptions.Exit(1)


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


def _is_prose(parts: Sequence[Part]) -> bool:
    """Return whether this is text that may be Markdown: models write it unasked."""
    return all(
        isinstance(part.text, str) and part.media_type in ("", "text/plain", "text/markdown")
        for part in parts
    )


def _piece(part: Part) -> str:
    """A part as a stream shows it: text goes on where it was, everything else has its own line."""
    shown = clean(_shown(part))
    return shown if isinstance(part.text, str) else f"{_BREAK}{shown}{_BREAK}"


def _shown(part: Part) -> str:
    if isinstance(part.text, str):
        return part.text
    if part.data is not msgspec.UNSET:
        return msgspec.json.format(msgspec.json.encode(part.data), indent=2).decode()
    if isinstance(part.url, str):
        return f"[{part.media_type or 'file'} {part.filename} at {part.url}]"
    size = len(part.raw) if isinstance(part.raw, bytes) else 0
    return f"[{part.media_type or 'file'} {part.filename or 'file'}, {size} bytes]"
