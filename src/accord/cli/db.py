"""accord db: look after the database of an agent that is not running."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from ..model import TaskState
from ..store import open_store
from ..store.sqlite import SqliteStore

__all__ = ["db"]

T = TypeVar("T")

_STORE = click.option("--store", help="The store, as given to accord serve. By default the only one in ./.accord/.")


@click.group()
def db() -> None:
    """Look after an agent's database. Stop its server first: one process at a time may use the file."""


@db.command()
@_STORE
def stats(store: str | None) -> None:
    """Say how much is in the store."""
    found = _with(store, lambda opened: opened.stats())
    states = list(TaskState)
    for state, count in sorted(found.tasks.items()):
        click.echo(f"  {states[state].word:<16} {count:>12,}")
    total = sum(found.tasks.values())
    click.echo(f"{total:,} tasks, {found.events:,} log rows, {found.keys:,} idempotency keys, {found.size:,} bytes")


@db.command()
@_STORE
def vacuum(store: str | None) -> None:
    """Give the room of deleted tasks back to the disk."""
    before = _with(store, lambda opened: opened.stats()).size
    click.echo("rewriting the file ...", err=True)
    _with(store, lambda opened: opened.vacuum())
    after = _with(store, lambda opened: opened.stats()).size
    click.echo(f"{before:,} bytes before, {after:,} after")


@db.command()
@_STORE
def migrate(store: str | None) -> None:
    """Bring the database to the newest schema. `accord serve` does this by itself when it starts."""
    _with(store, lambda opened: opened.stats())
    click.echo("the schema is the newest")


def _only_store() -> str:
    found = sorted(Path(".accord").glob("*.db"))
    if len(found) != 1:
        there = f"several databases in ./.accord/: {', '.join(p.name for p in found)}" if found else "no database in ./.accord/"
        raise click.ClickException(f"{there}; name one with --store sqlite:///FILE")
    return f"sqlite:///{found[0]}"


def _with(url: str | None, work: Callable[[SqliteStore], Awaitable[T]]) -> T:
    """Open the store, which migrates it, do something, close it."""

    async def run() -> T:
        store = open_store(url or _only_store())
        if not isinstance(store, SqliteStore):
            raise click.ClickException(f"{url} keeps nothing on a disk; give sqlite:///FILE")
        if not store.path.exists():
            raise click.ClickException(f"there is no database {store.path}; accord serve makes one")
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except (RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
