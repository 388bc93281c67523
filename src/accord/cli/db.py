"""accord db: inspect and maintain the database of an agent."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
from msgspec import structs

from ..engine.log import Ids, Raised, entries_of, state_of
from ..model import TaskState
from ..private import private_file
from ..store import CommitFailed, Stats, StoredLog, open_store
from ..store.sqlite import SqliteStore, check_file, inspect, logs_of, size_of
from ..store.sqlite.migrations import newest
from .table import OUTPUT, is_json, minute, print_json
from .terminal import echo

__all__ = ["STORE", "database_url", "db", "only_store"]

T = TypeVar("T")

STORE = click.option(
    "--store", help="The store, as given to accord serve. By default the only one in ./.accord/."
)


@click.group()
def db() -> None:
    """Inspect or maintain an agent's database.

    A SQLite file is used by one process: stop its server first, except for stats, why and backup. A
    PostgreSQL database can be maintained while servers use it.
    """


@db.command()
@OUTPUT
@STORE
def stats(output: str, store: str | None) -> None:
    """Say how much is in the store. Changes nothing, and may be used while the server runs."""
    database = _found(store)
    found = database.stats()
    states = list(TaskState)
    if is_json(output):
        return print_json(
            {
                "tasks": {states[state].word: n for state, n in sorted(found.tasks.items())},
                "log_rows": found.events,
                "idempotency_keys": found.keys,
                "bytes": found.size,
                "schema": database.schema,
                "newest_schema": database.newest,
            }
        )
    for state, count in sorted(found.tasks.items()):
        echo(f"  {states[state].word:<16} {count:>12,}")
    counted = {
        "task": sum(found.tasks.values()),
        "log row": found.events,
        "idempotency key": found.keys,
        "byte": found.size,
    }
    echo(
        ", ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in counted.items())
    )
    if database.schema < database.newest:
        echo(
            f"schema {database.schema}; the newest is {database.newest}, which "
            f"{database.migrated_by}"
        )


@db.command()
@STORE
def vacuum(store: str | None) -> None:
    """Give the room of deleted tasks back."""
    before, after = _found(store).vacuum()
    echo(f"{before:,} bytes before, {after:,} after")


@db.command()
@STORE
def migrate(store: str | None) -> None:
    """Bring the database to the newest schema.

    `accord serve` does this by itself when it starts, except for changes of a large PostgreSQL
    database that take long.
    """
    database = _found(store)
    is_old = database.schema < database.newest
    database.migrate()
    echo(
        f"the schema was {database.schema}, and is now the newest, {database.newest}"
        if is_old
        else "the schema is the newest"
    )


@db.command()
@STORE
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def backup(store: str | None, file: Path) -> None:
    """Copy all tasks into FILE, as they stand at one moment, while the server runs.

    Of SQLite it is a database that can be served; of PostgreSQL an archive for pg_restore, which
    needs pg_dump.
    """
    if file.exists():
        raise click.ClickException(f"{file} is there already; give another name")
    source = _found(store)
    private_file(file)
    try:
        source.backup(file)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    echo(f"{file}: {file.stat().st_size:,} bytes")


@db.command()
@OUTPUT
@STORE
@click.argument("task_id")
def why(output: str, store: str | None, task_id: str) -> None:
    """Say why a task failed: what its function raised, and where.

    Callers are shown the reference alone. May be used while the server runs, for as long as the
    task's log is kept.
    """
    found = _found(store).logs_of(task_id)
    if not found:
        raise click.ClickException(f"the store has no task {task_id}")
    if is_json(output):
        return print_json([_failures(task_id, one) for one in found])
    for one in found:
        failures = _failures(task_id, one)["failures"]
        if not failures:
            echo(f"task {task_id} is {state_of(one.state).word}; {_why_none(one)}")
        for failure in failures:
            what = f"{failure['type']}: {failure['message']}".rstrip(": ")
            echo(f"{minute(failure['at'])}  reference {failure['reference']}  {what}")
            echo(failure["traceback"].rstrip())


def _why_none(log: StoredLog) -> str:
    if not log.rows:
        return "its log has been deleted (accord serve --retention events_s=...)"
    return "its function raised nothing"


def _failures(task_id: str, log: StoredLog) -> dict[str, Any]:
    entries = entries_of(log.rows, Ids(task_id, log.context_id))
    return {
        "task": task_id,
        "agent": log.namespace.agent,
        "state": state_of(log.state).word,
        "failures": [
            {"at": one.at_ms} | structs.asdict(one.entry)
            for one in entries
            if isinstance(one.entry, Raised)
        ],
    }


class Database(Protocol):
    """A store on a disk, as its operator sees it."""

    schema: int  # its number
    newest: int
    migrated_by: str

    def stats(self) -> Stats: ...
    def vacuum(self) -> tuple[int, int]: ...
    def migrate(self) -> None: ...
    def backup(self, file: Path) -> None: ...
    def logs_of(self, task_id: str) -> list[StoredLog]: ...


class _File:
    """A SQLite file."""

    migrated_by = "accord serve and accord db migrate bring it to"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.newest = newest()
        self.schema = check_file(path)
        if not self.schema:
            raise RuntimeError(f"there is no database {path}; accord serve makes one")

    def stats(self) -> Stats:
        return _said(lambda: inspect(self.path))

    def logs_of(self, task_id: str) -> list[StoredLog]:
        if self.schema < self.newest:
            raise click.ClickException(
                f"{self.path} has schema {self.schema}; accord db migrate brings it to the newest"
            )
        return _said(lambda: logs_of(self.path, task_id))

    def vacuum(self) -> tuple[int, int]:
        before = size_of(self.path)

        async def rewrite(opened: SqliteStore) -> None:
            echo("rewriting the file ...", err=True)
            await opened.vacuum()

        self._with(rewrite)
        return before, size_of(self.path)

    def migrate(self) -> None:
        async def nothing(opened: SqliteStore) -> None:
            """Opening it has migrated it."""

        self._with(nothing)

    def backup(self, file: Path) -> None:
        try:
            with (
                contextlib.closing(
                    sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
                ) as now,
                contextlib.closing(sqlite3.connect(file)) as then,
            ):
                now.backup(then)
        except sqlite3.Error as error:
            raise click.ClickException(f"{self.path} could not be copied: {error}") from error

    def _with(self, work: Callable[[SqliteStore], Awaitable[None]]) -> None:
        """Open the store, which migrates it, do something, close it."""

        async def run() -> None:
            store = SqliteStore(self.path)
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
                f"{self.path} could not be rewritten and is unchanged: {error}"
            ) from error


class _Server:
    """A PostgreSQL database."""

    migrated_by = "accord db migrate brings it to"

    def __init__(self, url: str) -> None:
        from ..store import postgres  # who has a file need not have its driver

        self._postgres = postgres
        self._options = postgres.parse(url)
        self.newest = postgres.newest()
        self._stats, self.schema = self._do(postgres.inspect(self._options))

    def stats(self) -> Stats:
        return self._stats

    def logs_of(self, task_id: str) -> list[StoredLog]:
        return self._do(self._postgres.logs_of(self._options, task_id))

    def vacuum(self) -> tuple[int, int]:
        return self._do(self._postgres.vacuum(self._options))

    def migrate(self) -> None:
        self._do(self._postgres.migrate_all(self._options))

    def backup(self, file: Path) -> None:
        self._do(self._postgres.backup(self._options, file))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return _said(lambda: asyncio.run(work))


def _said(work: Callable[[], T]) -> T:
    """Do something whose failure is a message to the operator."""
    try:
        return work()
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error


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


def database_url(url: str) -> bool:
    """Whether a store is a PostgreSQL database."""
    return url.partition("://")[0] in ("postgresql", "postgres")


def _found(url: str | None) -> Database:
    """The database a store is kept in, which is one of ours."""
    url = url or only_store()
    try:
        store = open_store(url)
        if isinstance(store, SqliteStore):
            return _File(store.path)
        if database_url(url):
            return _Server(url)
    except (RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    raise click.ClickException(f"{url} is not stored on a disk; give sqlite:///FILE")
