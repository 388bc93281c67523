"""accord chat: a conversation with an agent, in a terminal."""

import asyncio
import contextlib
import datetime
import sys

import click

from ..client import AgentFault, Client, Conversation
from ..model import A2AError, Part, TaskState
from .advice import advised, typed
from .countdown import Countdown, deadline_line
from .parts import file_part
from .settings import Setting
from .show import follow, show_reply
from .target import AgentTarget, agent_options, agent_words
from .terminal import echo, secho

__all__ = ["chat"]

_HELP = """\
/file PATH   send this file with your next message
/new         begin a new conversation
/quit        end (Ctrl-D too); Ctrl-C stops the agent's work"""


@click.command()
@click.argument("words", nargs=-1, metavar="URL [TEXT]")
@click.option(
    "--context-id", cls=Setting, default="", metavar="ID", help="Continue this conversation."
)
@click.option(
    "--skill",
    default="",
    metavar="ID",
    help="The skill to use, by its id. By default the agent chooses.",
)
@agent_options
def chat(target: AgentTarget, words: tuple[str, ...], context_id: str, skill: str) -> None:
    """Talk to the agent at URL.

    Your next line answers what it asks. Without a terminal, TEXT is sent and the answer is
    printed.

    \b
    accord chat http://localhost:8000
    """
    rest = agent_words(target, words, 1, "quote a text of several words")
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not is_terminal and not rest:
        raise click.UsageError("there is no terminal to chat in; give a TEXT to send")
    target.output = "answer"
    with asyncio.Runner() as runner:
        try:
            _Chat(target, runner, context_id, skill).run(rest, is_terminal=is_terminal)
        except (A2AError, AgentFault) as error:
            raise advised(
                error, target.url, binding=target.binding, has_credential=target.has_credential
            ) from error


class _Chat:
    """Reads a line, sends it and shows the answer, again and again.

    The loop runs only while an answer is awaited: Python reads the terminal in between, with the
    line editing of the system.
    """

    def __init__(
        self, target: AgentTarget, runner: asyncio.Runner, context_id: str, skill: str
    ) -> None:
        self._target = target
        self._runner = runner
        self._context_id = context_id
        self._skill = skill
        self._files: list[Part] = []
        self._is_asked = False
        self._expires_at: datetime.datetime | None = None  # of what is asked
        self._task_id = ""

    def run(self, first: list[str], *, is_terminal: bool) -> None:
        opened = contextlib.AsyncExitStack()
        try:
            client = self._runner.run(opened.enter_async_context(self._target.connected()))
            self._begin(client)
            if is_terminal:
                secho(f"{client.card.name}: {client.card.description}\n{_HELP}", dim=True)
            for line in first:
                self._turn(client, line, is_alone=not is_terminal)
            while is_terminal and self._line(client):
                pass
        finally:
            self._runner.run(opened.aclose())
        if self._talk.context_id:
            how = typed("chat", *self._target.words, "--context-id", self._talk.context_id)
            secho(f"go on with:  {how}", err=True, dim=True)

    def _begin(self, client: Client) -> None:
        self._talk: Conversation = client.conversation(self._context_id)
        self._context_id, self._is_asked = "", False

    def _line(self, client: Client) -> bool:
        """Read a line and do what it says; return whether there is to be another."""
        try:
            prompt = "? " if self._is_asked else "> "
            with Countdown(self._expires_at if self._is_asked else None, prompt):
                line = input(prompt).strip()
        except EOFError:
            echo()
            return False
        except KeyboardInterrupt:
            echo()
            return True
        word, _, rest = line.partition(" ")
        match word:
            case "/quit" | "/exit":
                return False
            case "/help":
                echo(_HELP)
            case "/new":
                self._begin(client)
            case "/file":
                self._add(rest.strip())
            case _ if word.startswith("/"):
                echo(f"there is no {word}\n{_HELP}", err=True)
            case _ if line or self._files:
                self._turn(client, line)
        return True

    def _add(self, path: str) -> None:
        try:
            self._files.append(file_part(path))
        except click.UsageError as error:
            echo(error.format_message(), err=True)
        else:
            secho(f"{path} will be sent with your next message", dim=True)

    def _turn(self, client: Client, line: str, *, is_alone: bool = False) -> None:
        parts = [*([Part(text=line)] if line else []), *self._files]
        self._task_id = ""
        try:
            self._runner.run(self._ask(parts))
        except KeyboardInterrupt:
            self._runner.run(self._stop(client))
        except (A2AError, AgentFault) as error:
            if is_alone:
                raise
            advised(error, self._target.url).show()
        else:
            self._files = []

    async def _ask(self, parts: list[Part]) -> None:
        stream = self._talk.stream(parts, skill=self._skill, timeout_s=self._target.timeout_s)
        try:
            async with stream:
                is_shown = await follow(stream, self._target, is_live=True)
                reply = stream.reply
        finally:
            self._task_id = stream.task_id
        self._is_asked = reply.state is TaskState.INPUT_REQUIRED
        if self._is_asked:
            said, self._expires_at = reply.question, reply.questions[0].expires_at
            echo(said if not is_shown else f"\n{said}")
            if self._expires_at is not None:
                secho(deadline_line(self._expires_at), dim=True)
        elif reply.task is None or reply.state is not TaskState.COMPLETED or not is_shown:
            show_reply(reply, self._target, is_shown=is_shown)

    async def _stop(self, client: Client) -> None:
        """Have the agent stop what it was doing."""
        echo()
        if not self._task_id:
            secho("no longer waiting", err=True, dim=True)
            return
        try:
            task = await client.cancel(self._task_id)
            secho(f"task {task.id} is {task.status.state.word}", err=True, dim=True)
            self._is_asked = False
            self._begin_again(client)
        except (A2AError, AgentFault) as error:
            advised(error, self._target.url).show()

    def _begin_again(self, client: Client) -> None:
        """Go on in the same context: the task that was stopped takes no more messages."""
        context_id = self._talk.context_id
        self._talk = client.conversation(context_id)
