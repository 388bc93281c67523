"""accord db: inspect the database of an agent, and maintain that of one that is not running."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from ..model import TaskState
from ..store import CommitFailed, open_store
from ..store.sqlite import SqliteStore, check_file, inspect, size_of
from ..store.sqlite.migrations import newest

__all__ = ["db", "only_store"]

_STORE = click.option(
    "--store", help="The store, as given to accord serve. By default the only one in ./.accord/."
)


@click.group()
def db() -> None:
    """Inspect or maintain an agent's database. For all but stats stop its server first: one process
    may use the file.
    """


@db.command()
@_STORE
def stats(store: str | None) -> None:
    """Say how much is in the store. Changes nothing, and may be used while the server runs."""
    path, schema = _found(store)
    try:
        found = inspect(path)
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
    states = list(TaskState)
    for state, count in sorted(found.tasks.items()):
        click.echo(f"  {states[state].word:<16} {count:>12,}")
    counted = {
        "task": sum(found.tasks.values()),
        "log row": found.events,
        "idempotency key": found.keys,
        "byte": found.size,
    }
    click.echo(
        ", ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in counted.items())
    )
    if schema < newest():
        click.echo(
            f"schema {schema}; the newest is {newest()}, which accord serve and accord db "
            "migrate bring it to"
        )


@db.command()
@_STORE
def vacuum(store: str | None) -> None:
    """Give the room of deleted tasks back to the disk."""
    path, _ = _found(store)
    before = size_of(path)

    async def rewrite(opened: SqliteStore) -> None:
        click.echo("rewriting the file ...", err=True)
        await opened.vacuum()

    _with(path, rewrite)
    click.echo(f"{before:,} bytes before, {size_of(path):,} after")


@db.command()
@_STORE
def migrate(store: str | None) -> None:
    """Bring the database to the newest schema. `accord serve` does this by itself when it
    starts.
    """
    path, schema = _found(store)

    async def nothing(opened: SqliteStore) -> None:
        """Opening it has migrated it."""

    _with(path, nothing)
    is_old = schema < newest()
    click.echo(
        f"the schema was {schema}, and is now the newest, {newest()}"
        if is_old
        else "the schema is the newest"
    )


def only_store() -> str:
    found = sorted(Path(".accord").glob("*.db"))
    if len(found) != 1:
        there = (
            f"several databases in ./.accord/: {', '.join(p.name for p in found)}"
            if found
            else "no database in ./.accord/"
        )
        raise click.ClickException(f"{there}; name one with --store sqlite:///FILE")
    return f"sqlite:///{found[0]}"


def _found(url: str | None) -> tuple[Path, int]:
    """The file a store is kept in, which is one of ours, and the number of its schema."""
    try:
        store = open_store(url or only_store())
        if not isinstance(store, SqliteStore):
            raise click.ClickException(f"{url} is not stored on a disk; give sqlite:///FILE")
        schema = check_file(store.path)
    except (RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not schema:
        raise click.ClickException(f"there is no database {store.path}; accord serve makes one")
    return store.path, schema


def _with(path: Path, work: Callable[[SqliteStore], Awaitable[None]]) -> None:
    """Open the store, which migrates it, do something, close it."""

    async def run() -> None:
        store = SqliteStore(path)
        await store.open(lambda tasks: None)
        try:
            await work(store)
        finally:
            await store.close()

    try:
        asyncio.run(run())
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
    except CommitFailed as error:
        raise click.ClickException(
            f"{path} could not be rewritten and is unchanged: {error}"
        ) from error
