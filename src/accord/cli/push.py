"""accord push: what is to be delivered, what was given up, and a test of a webhook."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from ..auth import Keyring, KeyringError, key_file_of
from ..model import Task, TaskState, TaskStatus, Unavailable, new_id
from ..net import Guard, Network, NotPublic
from ..protocol import NEWEST
from ..protocol.v1 import codec as v1
from ..push import Deliverer, Notification, Verdict, Webhook
from ..store import CommitFailed, DeadLetter, Push, open_store
from ..store.sqlite import PushesBeside, SqliteStore, check_file
from .db import only_store
from .group import VerbGroup
from .table import OUTPUT, is_json, minute, print_json, print_table
from .terminal import echo, secho

__all__ = ["push"]

T = TypeVar("T")

_STORE = click.option(
    "--store",
    metavar="URL",
    help="The store, as given to accord serve. By default the only one in ./.accord/.",
)
_MANY = 1_000


class _Pushes(Protocol):
    """What is asked of webhooks here."""

    async def listed(self, limit: int, *, is_troubled: bool = False) -> list[Push]: ...
    async def letters(self, limit: int, *, task_id: str = "") -> list[DeadLetter]: ...
    async def replay(self, letters: list[int]) -> int: ...


@click.group(cls=VerbGroup)
def push() -> None:
    """Show, test and resend push notifications, also while the server runs.

    \b
    accord push list --troubled
    accord push replay 17
    """


@push.command(name="list")
@click.option(
    "--troubled", is_flag=True, help="Only webhooks that fail, are disabled, or have dead letters."
)
@click.option(
    "--limit",
    default=50,
    show_default=True,
    type=click.IntRange(1, _MANY),
    help="The highest number of results.",
)
@OUTPUT
@_STORE
def list_(troubled: bool, limit: int, output: str, store: str | None) -> None:
    """List webhooks, the newest first, and how many events each was sent."""

    async def work(pushes: _Pushes) -> tuple[list[Push], list[DeadLetter]]:
        return await pushes.listed(limit, is_troubled=troubled), await pushes.letters(_MANY)

    found, dead_letters = _with(store, work)
    webhooks = [_row(one, dead_letters) for one in found]
    if is_json(output):
        return print_json({"webhooks": webhooks, "dead_letters": len(dead_letters)})
    if found:
        rows = [row | {"sent": f"{row['sent']}/{row['events']}"} for row in webhooks]
        print_table(rows, "task", "config", "sent", "endpoint", "state")
    echo(
        f"{len(found)} webhook{'' if len(found) == 1 else 's'}, "
        f"{len(dead_letters)} dead letter{'' if len(dead_letters) == 1 else 's'}",
        err=True,
    )


@push.command()
@click.argument("task_id")
@OUTPUT
@_STORE
def show(task_id: str, output: str, store: str | None) -> None:
    """Show the webhooks of a task, and its dead letters: what could not be delivered, and why."""

    async def work(pushes: _Pushes) -> tuple[list[Push], list[DeadLetter]]:
        return await pushes.listed(_MANY * 100), await pushes.letters(_MANY, task_id=task_id)

    every, dead_letters = _with(store, work)
    found = [one for one in every if one.task_id == task_id]
    if not found and not dead_letters:
        raise click.ClickException(f"task {task_id} has no webhooks; see accord push list")
    if is_json(output):
        rows = [_row(one, dead_letters) for one in found]
        listed = [_dead_letter_row(one) for one in dead_letters]
        return print_json({"webhooks": rows, "dead_letters": listed})
    for one in found:
        secho(one.id, bold=True)
        echo(f"  endpoint  {one.endpoint} (A2A {one.version})")
        echo(f"  sent      {one.sent} of {one.upto} events")
        echo(f"  state     {_state(one, dead_letters)}")
    for letter in dead_letters:
        events = f"event {letter.first}"
        if letter.last > letter.first:
            events = f"events {letter.first} to {letter.last}"
        echo(f"dead letter {letter.n}: {events}, {minute(letter.at_ms)}: {letter.error}")


@push.command()
@click.argument("letters", nargs=-1, type=int, metavar="[LETTER]...")
@click.option("--task-id", default="", metavar="ID", help="All dead letters of this task.")
@click.option("--all", "is_all", is_flag=True, help="All dead letters, instead of some by number.")
@OUTPUT
@_STORE
def replay(
    letters: tuple[int, ...], task_id: str, is_all: bool, output: str, store: str | None
) -> None:
    """Send dead letters again, by their numbers (see accord push show).

    A webhook continues from the event of its dead letter: events it got since then are
    sent once more, in order. A disabled webhook is enabled again.
    """
    if not (letters or task_id or is_all):
        raise click.UsageError("say which dead letters: LETTER..., --task-id ID or --all")

    async def work(pushes: _Pushes) -> int:
        chosen = list(letters)
        if task_id or is_all:
            chosen += [one.n for one in await pushes.letters(_MANY, task_id=task_id)]
        return await pushes.replay(chosen)

    count = _with(store, work)
    if not count:
        raise click.ClickException("there is no such dead letter; see accord push list")
    if is_json(output):
        return print_json({"replayed": count})
    echo(
        f"{count} dead letter{'' if count == 1 else 's'}: the server sends them again, at once or "
        "when it is started next",
        err=True,
    )


@push.command()
@click.argument("url")
@click.option(
    "--hook-token",
    "token",
    default="",
    metavar="TOKEN",
    help="The token that the webhook checks, as its push config sets it.",
)
@click.option(
    "--auth-scheme",
    "scheme",
    default="",
    metavar="SCHEME",
    help="The scheme with which to authenticate at the webhook, like Bearer.",
)
@click.option(
    "--auth-credentials",
    "credentials",
    default="",
    metavar="TEXT",
    help="The credentials for that scheme, as the push config sets them.",
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="HOST",
    help="A private host or network that may be called, as given to accord serve. May be repeated.",
)
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file with the keys to sign with, as given to accord serve.",
)
@OUTPUT
@_STORE
def test(
    url: str,
    token: str,
    scheme: str,
    credentials: str,
    allow_hosts: tuple[str, ...],
    key_file: Path | None,
    output: str,
    store: str | None,
) -> None:
    """Send one notification to URL, signed as the server signs, and say what comes back."""
    guard = Guard(allow=allow_hosts)
    try:
        guard.check_url(url)
        keyring = _keyring(key_file, store)
    except NotPublic as error:
        raise click.ClickException(
            f"{error.host} is not a public address: allow it with --allow-host {error.host}, "
            "here and for accord serve"
        ) from error
    except (ValueError, KeyringError) as error:
        raise click.ClickException(str(error)) from error
    status = TaskStatus(state=TaskState.COMPLETED)
    task = Task(id=f"test-{new_id()}", context_id=new_id(), status=status)
    what = Notification(task.id, "test", 1, v1.encode_event(task), "application/a2a+json", NEWEST)

    async def run() -> tuple[Verdict, str]:
        network = Network(connect_s=10.0, lost_s=15.0, guard=guard)
        sender = Deliverer(
            lambda: network, lambda: keyring, lambda: "accord-push-test", timeout_s=15
        )
        try:
            tried = await sender.attempt(Webhook(url, token, scheme, credentials), what)
        finally:
            await network.close()
        return tried.verdict, tried.error

    begun = time.monotonic()
    verdict, why = asyncio.run(run())
    if verdict is not Verdict.DELIVERED:
        raise click.ClickException(f"not taken: {why}")
    took_s = time.monotonic() - begun
    if is_json(output):
        return print_json({"url": url, "seconds": round(took_s, 3)})
    echo(f"taken, in {took_s:.2f} s")


def _with(url: str | None, work: Callable[[_Pushes], Awaitable[T]]) -> T:
    async def run() -> T:
        store = open_store(url or only_store())
        if isinstance(store, SqliteStore):
            if not check_file(store.path):
                raise click.ClickException(
                    f"there is no database {store.path}; accord serve makes one"
                )
            return await work(PushesBeside(store.path))
        if store.is_volatile:
            raise click.ClickException(f"{url} loses its webhooks when the server stops")
        await store.open(lambda tasks: None)
        try:
            return await work(store.pushes)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except (RuntimeError, ValueError, CommitFailed, Unavailable) as error:
        raise click.ClickException(str(error)) from error


def _keyring(key_file: Path | None, store: str | None) -> Keyring:
    """The server's keys if it has any, else some that end with this command."""
    try:
        found = open_store(store or only_store())
    except click.ClickException:
        found = None
    if key_file is None and isinstance(found, SqliteStore):
        beside = key_file_of(found.path)
        key_file = beside if beside.exists() else None
    return Keyring.find(file=key_file, is_volatile=True)


def _row(one: Push, dead_letters: list[DeadLetter]) -> dict[str, Any]:
    return {
        "task": one.task_id,
        "config": one.id,
        "endpoint": one.endpoint,
        "version": one.version,
        "sent": one.sent,
        "events": one.upto,
        "state": _state(one, dead_letters),
    }


def _dead_letter_row(one: DeadLetter) -> dict[str, Any]:
    return {
        "number": one.n,
        "first": one.first,
        "last": one.last,
        "at": minute(one.at_ms),
        "error": one.error,
    }


def _state(one: Push, dead_letters: list[DeadLetter]) -> str:
    if one.disabled:
        return f"disabled: {one.disabled}"
    if one.failing_ms and one.due_ms:
        return f"{one.error}; attempt {one.tries + 1} {minute(one.due_ms)}"
    if one.upto > one.sent:
        return "to be sent"
    given_up = sum(
        letter.last - letter.first + 1
        for letter in dead_letters
        if (letter.task, letter.push) == (one.task, one.id)
    )
    return f"{given_up} given up: accord push show {one.task_id}" if given_up else "all sent"
