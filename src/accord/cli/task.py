"""accord task: look at tasks, wait for them, fork them, save what they made, stop them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import click
import msgspec

from ..client import AgentFault, Client, ClientReply
from ..model import A2AError, ListTasksResponse, Task, TaskState, UnsupportedOperation
from ..protocol.v1 import codec as v1
from .advice import advised, typed
from .amount import TIME
from .countdown import expires_at_of, time_left
from .files import fetch_files, save_task
from .group import VerbGroup
from .near import did_you_mean
from .progress import ProgressLine
from .push_config import push_config
from .settings import Setting
from .show import follow, show_json, show_outcome, show_reply
from .table import moment, print_table
from .target import METADATA, STREAM, AgentTarget, agent_options, agent_words, parse_object
from .terminal import echo, echo_json

__all__ = ["task"]

T = TypeVar("T")

_ID = click.argument("words", nargs=-1, metavar="URL TASK_ID")
_EXIT_STATUS = click.option(
    "--exit-status", is_flag=True, help="Exit with 1 if the task did not complete, for scripts."
)
_LONGEST = 200  # characters of a message in a table
_STATES = {state.word: state for state in TaskState if state is not TaskState.UNSPECIFIED}
_WIRE_STATES = {state.value.lower(): state for state in TaskState}


class _State(click.ParamType[TaskState]):
    """The state of a task: `working`, or as the protocol writes it, `TASK_STATE_WORKING`."""

    name = "state"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> TaskState:
        if isinstance(value, TaskState):
            return value
        word = value.lower()
        state = _STATES.get(word.replace("_", "-")) or _WIRE_STATES.get(word)
        if state is None:
            near = did_you_mean(word, _STATES)
            self.fail(f"{value} is not one of {', '.join(_STATES)}.{near}", param, ctx)
        return state


@click.group(cls=VerbGroup)
def task() -> None:
    """Look at tasks, wait for them, and stop them.

    \b
    accord task list http://localhost:8000 --status working
    accord task get http://localhost:8000 0192... --wait
    """


@task.command()
@_ID
@click.option("--wait", "waits", cls=Setting, is_flag=True,
              help="Wait until the task has ended or asks a question.")  # fmt: skip
@click.option(
    "--history", type=click.IntRange(0), metavar="N", help="How many of its last messages to show."
)
@_EXIT_STATUS
@agent_options
def get(
    target: AgentTarget, words: tuple[str, ...], waits: bool, history: int | None, exit_status: bool
) -> None:
    """Print the state of task TASK_ID of the agent at URL, and its output.

    \b
    accord task get http://localhost:8000 0192...
    accord task get http://localhost:8000 0192... --wait
    """
    task_id = _task_id(target, words)

    async def fetch(agent: Client) -> ClientReply:
        if waits:
            async with ProgressLine(is_on=target.output == "answer") as progress:
                await agent.wait(
                    task_id,
                    timeout_s=target.timeout_s or 10 * 365 * 86400,
                    on_look=progress.show,
                )
        return ClientReply(agent, await agent.get(task_id, history_length=history))

    reply = _ask(target, fetch)
    _show(reply, target)
    show_outcome(reply, target, exit_status=exit_status)


@task.command(name="list")
@click.argument("words", nargs=-1, metavar="URL")
@click.option("--status", type=_State(),
              help="Only tasks in this state, like working or input-required.")  # fmt: skip
@click.option(
    "--context-id",
    cls=Setting,
    default="",
    metavar="ID",
    help="Only tasks of this conversation.",
)
@click.option(
    "--page-size",
    type=click.IntRange(1, 100),
    metavar="N",
    help="The highest number of tasks per page.",
)
@click.option(
    "--page-token",
    default="",
    help="The page to show, by the token at the end of the page before it.",
)
@click.option(
    "--history",
    type=click.IntRange(0),
    metavar="N",
    help="How many of the last messages of each task to show.",
)
@click.option("--since", type=TIME, metavar="TIME",
              help="Only tasks changed since then: 2h for two hours ago, 2026-03-01, or "
              "2026-03-01T12:00:00Z.")  # fmt: skip
@click.option(
    "--with-artifacts", is_flag=True, help="Include the artifacts, with -o text or -o json."
)
@click.option("--all", "is_all", is_flag=True, help="All tasks, not only one page.")
@click.option("--stream", "is_lines", is_flag=True, help="With -o json: one object per line.")
@agent_options
def list_(
    target: AgentTarget,
    words: tuple[str, ...],
    status: TaskState | None,
    context_id: str,
    page_size: int | None,
    page_token: str,
    history: int | None,
    since: str | None,
    with_artifacts: bool,
    is_all: bool,
    is_lines: bool,
) -> None:
    """List your tasks at the agent at URL, the newest first.

    \b
    accord task list http://localhost:8000 --status input-required
    """
    agent_words(target, words, 0, "one URL is enough")
    is_table = target.output == "answer"

    async def fetch(agent: Client) -> ListTasksResponse:
        async def page(token: str) -> ListTasksResponse:
            try:  # the table shows the first line of an answer
                return await ask(token, with_artifacts or is_table)
            except AgentFault:  # for example, all these answers are too large for one
                if with_artifacts or not is_table:
                    raise
                return await ask(token, False)

        async def ask(token: str, artifacts: bool) -> ListTasksResponse:
            return await agent.page(
                context_id=context_id,
                state=status,
                page_size=page_size,
                history_length=0 if is_table else history,
                since=since or "",
                artifacts=artifacts,
                token=token,
            )

        found = await page(page_token)
        seen = {page_token}
        while is_all and found.next_page_token and found.next_page_token not in seen:
            seen.add(found.next_page_token)
            more = await page(found.next_page_token)
            found.tasks += more.tasks
            found.next_page_token = more.next_page_token
        return found

    found = _ask(target, fetch)
    if target.output == "json" and not is_lines:
        return show_json(found)
    for one in found.tasks:
        if target.output == "json":
            echo_json(v1.encode(one))
        elif target.output == "text":
            from .fields import print_task

            print_task(one, target)
    if target.output == "answer" and not found.tasks:
        echo("no tasks", err=True)
    elif target.output == "answer":
        rows = [_row(one) for one in found.tasks]
        deadline = ["deadline"] if any(row["deadline"] for row in rows) else []
        print_table(rows, "task", "state", "changed", *deadline, "message")
    if found.next_page_token and target.output == "text":
        echo(f"Next page token: {found.next_page_token}")
    elif found.next_page_token:
        echo(f"there are more: --page-token {found.next_page_token}", err=True)


def _row(one: Task) -> dict[str, str]:
    expires_at = expires_at_of(one)
    return {
        "task": one.id,
        "state": one.status.state.word,
        "changed": moment(one.status.timestamp),
        "deadline": time_left(expires_at) if expires_at is not None else "",
        "message": _said(one),
    }


def _said(one: Task) -> str:
    """Return what a task says now: the message of its state, else the first line of its answer.

    What it said in an earlier state is in its history, and not shown: a question that is answered,
    or "thinking" of a task that has ended.
    """
    parts = list(one.status.message.parts) if one.status.message is not None else []
    for part in [*parts, *(part for artifact in one.artifacts for part in artifact.parts)]:
        if isinstance(part.text, str):
            found = next((line for line in part.text.splitlines() if line.strip()), "")
        elif part.data is not msgspec.UNSET:
            found = msgspec.json.encode(part.data).decode()
        else:
            found = part.filename or ""
        if found:
            return found[:_LONGEST]
    return ""


@task.command()
@_ID
@STREAM
@_EXIT_STATUS
@agent_options
def subscribe(
    target: AgentTarget, words: tuple[str, ...], is_stream: bool, exit_status: bool
) -> None:
    """Follow task TASK_ID of the agent at URL until it has ended or asks a question.

    \b
    accord task subscribe http://localhost:8000 0192... --stream
    """
    task_id = _task_id(target, words)

    async def read(agent: Client) -> ClientReply:
        now = await agent.get(task_id)
        if ClientReply(agent, now).is_final:
            raise UnsupportedOperation(
                f"task {task_id} is {now.status.state.word}; nothing more happens to it. See it "
                f"with {typed('task', 'get', *target.words, task_id)}"
            )
        async with asyncio.timeout(target.timeout_s), agent.subscribe(task_id) as stream:
            has_written = await follow(stream, target, is_live=is_stream)
            reply = stream.reply
            if not is_stream:
                reply = ClientReply(agent, await agent.get(task_id))
            if not is_stream or target.output == "answer":
                _show(reply, target, is_shown=has_written)
            return reply

    reply = _ask(target, read)
    show_outcome(reply, target, exit_status=exit_status)


task.add_command(
    click.Command(
        "watch",
        callback=subscribe.callback,
        params=subscribe.params,
        help="Follow a task: another name of accord task subscribe.",
    )
)
task.add_command(push_config)


@task.command()
@_ID
@METADATA
@agent_options
def cancel(target: AgentTarget, words: tuple[str, ...], metadata: str) -> None:
    """Stop the work on task TASK_ID of the agent at URL.

    \b
    accord task cancel http://localhost:8000 0192...
    """
    task_id = _task_id(target, words)
    given = parse_object(metadata, "--metadata") if metadata else None

    async def stop(agent: Client) -> ClientReply:
        return ClientReply(agent, await agent.cancel(task_id, metadata=given))

    _show(_ask(target, stop), target)


@task.command()
@_ID
@click.option("--at", type=int, required=True, metavar="N",
              help="Go on after this event of the task, by its number.")  # fmt: skip
@click.option("--answer", metavar="TEXT", help="Answer the question that was open there.")
@click.option("--message", metavar="TEXT", help="The text to send to the new task instead.")
@click.option("--yes", is_flag=True, help="Don't ask before anything happens again.")
@_EXIT_STATUS
@agent_options
def fork(
    target: AgentTarget,
    words: tuple[str, ...],
    at: int,
    answer: str | None,
    message: str | None,
    yes: bool,
    exit_status: bool,
) -> None:
    """Make a new task that goes on from an event of task TASK_ID of the agent at URL.

    It begins with everything recorded up to there. What the agent did later really happens again;
    the old task stays as it is. Events are numbered, and event 1 is the new task itself. "Fork from
    here" in the console shows the number of an event. For a number that does not exist, the error
    says which do.

    \b
    accord task fork http://localhost:8000 0192... --at 3 --answer no
    """
    task_id = _task_id(target, words)
    if answer is not None and message is not None:
        raise click.UsageError("give --answer or --message, not both")
    if not yes:
        echo(f"A new task goes on after event {at} of task {task_id}.", err=True)
        echo("The agent really repeats what it did after that event: also payments, mails and "
             "everything else outside.", err=True)  # fmt: skip
        click.confirm("Go on?", abort=True, err=True)

    async def begin(agent: Client) -> ClientReply:
        async with ProgressLine(is_on=target.output == "answer"):
            return await agent.fork(
                task_id, at, answer=answer, message=message, timeout_s=target.timeout_s
            )

    reply = _ask(target, begin)
    if target.output == "answer" and reply.task is not None:
        echo(f"task {reply.task.id}", err=True)
    _show(reply, target)
    show_outcome(reply, target, exit_status=exit_status)


@task.command()
@_ID
@click.option("--dir", "folder", default=".", type=click.Path(file_okay=False, path_type=Path),
              help="The folder to save to. [default: here]")  # fmt: skip
@click.option(
    "--artifact", "only", multiple=True, metavar="ID", help="Only this artifact. May be repeated."
)
@click.option("--force", is_flag=True, help="Overwrite files of the same name.")
@agent_options
def download(
    target: AgentTarget, words: tuple[str, ...], folder: Path, only: tuple[str, ...], force: bool
) -> None:
    """Save the output of task TASK_ID of the agent at URL.

    Each part goes into a file of its own, also text and data. Parts that are only links are listed.

    \b
    accord task download http://localhost:8000 0192... --dir results
    """
    task_id = _task_id(target, words)

    async def fetch(agent: Client) -> ClientReply:
        reply = ClientReply(agent, await agent.get(task_id))
        fetched.update(await fetch_files(agent, reply.parts))
        return reply

    fetched: dict[str, IO[bytes]] = {}
    reply = _ask(target, fetch)
    assert reply.task is not None  # that is what was asked for
    try:
        saved, elsewhere = save_task(reply.task, folder, only, fetched, overwrites=force)
    except OSError as error:
        raise click.ClickException(f"{folder}: {error.strerror}") from error
    is_json = target.output == "json"
    if is_json:
        show_json(reply.task)
    for path in saved:
        echo(f"{'saved' if target.output == 'answer' else 'Saved:'} {path}", err=is_json)
    for url in elsewhere:
        echo(f"not saved, it is at {url}", err=True)
    if not saved and not elsewhere:
        echo("it has made nothing to save", err=True)


def _task_id(target: AgentTarget, words: tuple[str, ...]) -> str:
    rest = agent_words(target, words, 1, "give one task")
    if not rest:
        raise click.UsageError("say which task: URL TASK_ID")
    return rest[0]


def _show(reply: ClientReply, target: AgentTarget, **options: Any) -> None:
    if target.output == "json":
        show_json(reply.task)
    else:
        show_reply(reply, target, **options)


def _ask(target: AgentTarget, ask: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        async with target.connected() as agent:
            return await ask(agent)

    try:
        return asyncio.run(run())
    except (A2AError, AgentFault) as error:
        raise advised(
            error, target.url, binding=target.binding, has_credential=target.has_credential
        ) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
