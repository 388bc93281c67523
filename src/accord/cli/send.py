"""accord send: one message to an agent, and its answer."""

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from ..client import AgentFault, Client, ClientReply
from ..client.streams import Stream
from ..model import A2AError, Part, new_id
from .advice import advised, typed
from .files import Fetched, fetch_files, save_files
from .parts import PartsCommand, part_options, read_parts
from .settings import Setting
from .show import follow, show_outcome, show_reply
from .target import METADATA, STREAM, AgentTarget, agent_options, agent_words, parse_object
from .terminal import echo, secho

__all__ = ["send"]

_SECRET_OPTIONS = ("--bearer", "--api-key", "--svc-param", "--header", "-H")


class _Send(PartsCommand):
    """Keeps what was typed, to be typed again."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["accord.typed"] = list(args)
        return super().parse_args(ctx, args)


@click.command(cls=_Send)
@click.argument("words", nargs=-1, metavar="URL [TEXT|-]")
@STREAM
@click.option(
    "--async",
    "--no-wait",
    "--return-immediately",
    "is_async",
    cls=Setting,
    is_flag=True,
    help="Do not wait for the answer: print the task that was started.",
)
@click.option(
    "--wait",
    "waits",
    is_flag=True,
    help="Wait until the task has ended or asks a question, even if A2ACLI_ASYNC is set.",
)
@part_options
@click.option(
    "--skill",
    default="",
    metavar="ID",
    help="The skill to use, by its id. By default the agent chooses.",
)
@click.option(
    "--task-id",
    cls=Setting,
    default="",
    metavar="ID",
    help="Continue this task: answer its question.",
)
@click.option(
    "--context-id",
    cls=Setting,
    default="",
    metavar="ID",
    help="Start a new task in this conversation.",
)
@METADATA
@click.option(
    "--idempotency-key",
    "key",
    default="",
    help="Idempotency key: a message sent again with the same key is not processed twice.",
)
@click.option(
    "--webhook",
    "push",
    default="",
    metavar="URL",
    help="A webhook that gets push notifications about the task.",
)
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Save the files of the answer in this folder.",
)
@click.option(
    "--exit-status", is_flag=True, help="Exit with 1 if the task did not complete, for scripts."
)
@agent_options
def send(
    target: AgentTarget,
    words: tuple[str, ...],
    is_stream: bool,
    is_async: bool,
    waits: bool,
    text_: tuple[str, ...],
    file: tuple[str, ...],
    data: tuple[str, ...],
    media_type: tuple[str, ...],
    skill: str,
    task_id: str,
    context_id: str,
    metadata: str,
    key: str,
    push: str,
    save: Path | None,
    exit_status: bool,
) -> None:
    """Send a message to the agent at URL and print what it answers.

    The answer is on stdout, and the state of the task is on stderr. The exit code says whether the
    call worked; with --exit-status, also whether the task completed.

    \b
    accord send http://localhost:8000 "A weekend in Rome"
    accord send http://localhost:8000 3 --task-id 0192... --stream
    accord send http://localhost:8000 --skill add --data '{"a": 1, "b": 2}'
    cat letter.txt | accord send http://localhost:8000 - --file scan.pdf -o json
    """
    ctx = click.get_current_context()
    is_typed = ctx.get_parameter_source("is_async") is click.core.ParameterSource.COMMANDLINE
    if is_async and is_typed and (is_stream or waits):
        raise click.UsageError("--async can't be used with --stream or --wait")
    rest = agent_words(target, words, 1, "quote a text of several words")
    sending = _Sending(
        target=target,
        parts=read_parts(rest[0] if rest else None, text_, file, data, media_type),
        is_stream=is_stream,
        is_async=is_async and not (waits or is_stream),
        options={
            "skill": skill,
            "task_id": task_id,
            "context_id": context_id,
            "metadata": parse_object(metadata, "--metadata") if metadata else None,
            "push": push or None,
            "timeout_s": target.timeout_s,
        },
        key=key,
        has_key=bool(key),
        saves=save is not None,
        typed=("-" not in (*rest, *data) and ctx.meta["accord.typed"]) or [],
    )
    try:
        reply = asyncio.run(sending.send())
    except (A2AError, AgentFault) as error:
        raise advised(
            error,
            target.url,
            sending.again,
            binding=target.binding,
            has_credential=target.has_credential,
        ) from error
    except KeyboardInterrupt:
        secho(
            f"\nno longer waiting; the agent goes on with its task\n{sending.later}".rstrip(),
            err=True,
        )
        raise click.exceptions.Exit(130) from None
    for path in save_files(reply.parts, save, sending.fetched) if save is not None else ():
        echo(f"saved {path}", err=True)
    show_outcome(reply, target, exit_status=exit_status, is_async=sending.is_async)


class _Sending(msgspec.Struct):
    """Hold what was typed, and what is known of it by now."""

    target: AgentTarget
    parts: list[Part]
    is_stream: bool
    is_async: bool
    options: dict[str, Any]
    key: str
    has_key: bool  # of the user's own
    typed: list[str]  # empty if it can't be typed again
    stream: Stream | None = None
    saves: bool = False  # what the agent made is wanted
    fetched: Fetched = {}

    async def send(self) -> ClientReply:
        async with self.target.connected() as agent:
            if not self.key and agent.deduplicates:
                self.key = new_id()  # so that what is typed again is the same message
            if self.is_async:
                reply = await agent.send(self.parts, key=self.key, wait=False, **self.options)
                show_reply(reply, self.target)
                return reply
            reply = await self._read(agent)
            if self.saves:
                self.fetched = await fetch_files(agent, reply.parts)
            return reply

    async def _read(self, agent: Client) -> ClientReply:
        # A stream also where only the end is shown: the task's id is known at once, and a
        # connection that breaks loses nothing.
        self.stream = agent.stream(self.parts, key=self.key, **self.options)
        async with self.stream:
            has_written = await follow(self.stream, self.target, is_live=self.is_stream)
            if not self.is_stream or self.target.output == "answer":
                show_reply(self.stream.reply, self.target, is_shown=has_written)
            return self.stream.reply

    @property
    def again(self) -> str:
        """Return the command that gets the answer without having the work done twice; empty if the
        agent can't tell.
        """
        if not self.key or not self.typed:
            return ""
        words = iter(self.typed)
        safe = []
        for word in words:
            name, has_value, _ = word.partition("=")
            if name not in _SECRET_OPTIONS:
                safe.append(word)
            elif not has_value:
                next(words, None)
        return typed("send", *safe, *([] if self.has_key else ["--idempotency-key", self.key]))

    @property
    def later(self) -> str:
        """Return the command that shows how it went."""
        task_id = self.stream.task_id if self.stream is not None else str(self.options["task_id"])
        look = (
            typed("task", "get", *self.target.words, task_id, "--wait") if task_id else self.again
        )
        return f"ask for it with:  {look}" if look else ""
