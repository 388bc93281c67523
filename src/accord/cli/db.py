"""accord db: inspect and maintain the database of an agent."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import click
from msgspec import structs

from ..auth import key_file_of
from ..engine.log import Ids, Raised, entries_of, state_of
from ..files import UNUSED_S, Files, open_files
from ..model import Limits, TaskState
from ..private import private_file
from ..store import (
    TASKS,
    CommitFailed,
    FileStats,
    Stats,
    StoredLog,
    open_store,
    place_of,
    sqlite,
)
from ..store.migrations import newest
from ..store.sqlite import SqliteStore, check_file, inspect, logs_of, parts_of, size_of
from .group import VerbGroup
from .table import OUTPUT, is_json, minute, print_json
from .terminal import echo

__all__ = ["STORE", "database_url", "db", "elsewhere_words", "files_words", "only_store"]

T = TypeVar("T")

STORE = click.option(
    "--store",
    metavar="URL",
    help="The store, as given to accord serve. By default the only one in ./.accord/.",
)

KEY_FILE = click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file with the server's keys. By default the one beside a SQLite file.",
)


@click.group(cls=VerbGroup)
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
    found, files = database.stats(), database.files()
    states = list(TaskState)
    if is_json(output):
        return print_json(
            {
                "tasks": {states[state].word: n for state, n in sorted(found.tasks.items())},
                "log_rows": found.events,
                "idempotency_keys": found.keys,
                "bytes": found.size,
                "files": structs.asdict(files),
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
    echo(files_words(files))
    if files.elsewhere:
        echo(elsewhere_words(files))
    if database.schema < database.newest:
        echo(
            f"schema {database.schema}; the newest is {database.newest}, which "
            f"{database.migrated_by}"
        )


@db.command()
@OUTPUT
@STORE
def vacuum(output: str, store: str | None) -> None:
    """Give the space of deleted tasks back to the disk.

    Files that no task has referred to for a day are deleted too. Files in another place
    (accord serve --files URL) are not touched: the server deletes those itself.
    """
    found = _found(store).vacuum()
    if is_json(output):
        return print_json(
            {
                "bytes_before": found.before,
                "bytes_after": found.after,
                "deleted_files": found.files,
            }
        )
    if found.files:
        echo(f"deleted {_counted(found.files)} that no task referred to")
    echo(f"{found.before:,} bytes before, {found.after:,} after")


@db.command()
@OUTPUT
@STORE
def migrate(output: str, store: str | None) -> None:
    """Bring the database to the newest schema.

    `accord serve` does this by itself when it starts, except for changes of a large PostgreSQL
    database that take long.
    """
    database = _found(store)
    is_old = database.schema < database.newest
    database.migrate()
    if is_json(output):
        return print_json({"schema_before": database.schema, "schema": database.newest})
    echo(
        f"the schema was {database.schema}, and is now the newest, {database.newest}"
        if is_old
        else "the schema is the newest"
    )


@db.command()
@OUTPUT
@STORE
@KEY_FILE
@click.option("--with-keys", is_flag=True, help="Copy the server's keys too, to FILE.keys.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def backup(
    output: str, store: str | None, key_file: Path | None, with_keys: bool, file: Path
) -> None:
    """Copy everything into FILE, as it is at one moment, also while the server runs: tasks, API
    keys, and the entries, rules and audit log of a hub.

    From SQLite it is a database that can be served, with a folder FILE-files if there are
    large files; from PostgreSQL it is an archive, made by pg_dump, that includes the
    files. Files that --files stores elsewhere are counted but not copied. accord db restore
    restores either. Encrypted values in it need the server's keys: --with-keys copies them to
    FILE.keys.
    """
    keys = _key_file(key_file, store)
    files = sqlite.files_folder(file)
    for new in (file, files, *([_keys_beside(file)] if with_keys else [])):
        if new.exists():
            raise click.ClickException(f"{new} exists already; give another name")
    source = _found(store)
    is_elsewhere = bool(os.environ.get("ACCORD_KEY")) or isinstance(source, _Server)
    if with_keys and keys is None and is_elsewhere:
        raise click.ClickException(
            "there is no key file to back up; name it with --key-file, or keep ACCORD_KEY yourself"
        )
    try:
        private_file(file)
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {error.strerror}") from error
    try:
        source.backup(file)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    copied = _keys_beside(file) if with_keys and keys is not None else None
    if keys is not None and copied is not None:
        _copy_keys(keys, copied)
    if is_json(output):
        return print_json(
            {
                "file": str(file),
                "bytes": file.stat().st_size,
                "files": str(files) if files.exists() else None,
                "files_elsewhere": source.files().elsewhere,
                "keys": str(copied) if copied is not None else None,
                "needs_keys": keys is not None or is_elsewhere,
            }
        )
    echo(f"{file}: {file.stat().st_size:,} bytes")
    if files.exists():
        echo(f"{files}: the bytes of large files; they belong to it")
    _say_elsewhere(source, "they are not copied: keep a copy of them too")
    if copied is not None:
        echo(f"{copied}: the keys; whoever has both files can read all secrets")
    elif keys is not None:
        echo(f"its encrypted values need the keys in {keys}: keep a copy, or give --with-keys")
    elif is_elsewhere:
        echo("its encrypted values need the server's keys (ACCORD_KEY, --key-file): keep a copy")
    else:
        echo("there is no key file, so nothing in it is encrypted")


@db.command()
@OUTPUT
@STORE
@KEY_FILE
@click.option("--replace", is_flag=True, help="Overwrite the data that is there. It is lost then.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def restore(
    output: str, store: str | None, key_file: Path | None, replace: bool, file: Path
) -> None:
    """Bring back what accord db backup wrote into FILE. No server may run.

    Everything is as it was: tasks, keys, entries in their states, rules, the audit log. If there
    is a FILE.keys beside it, the server's key file is brought back too.
    """
    url = store or only_store()
    beside = _keys_beside(file)
    keys = key_file or (key_file_of(Path(url[10:])) if url.startswith("sqlite:///") else None)
    if not beside.exists():
        keys = None
    if keys is not None and keys.exists() and not _is_same(keys, beside):
        raise click.ClickException(
            f"{keys} has other keys than {beside}; move one of them away first"
        )
    _restore(url, file, replace=replace)
    if keys is not None and not keys.exists():
        _copy_keys(beside, keys)
    database = _found(url)
    if is_json(output):
        return print_json(
            {
                "store": place_of(url),
                "file": str(file),
                "files_elsewhere": database.files().elsewhere,
                "keys": str(keys) if keys is not None else None,
            }
        )
    echo(f"restored {place_of(url)} from {file}")
    _say_elsewhere(
        database, "bring them back too, or name their place with accord serve --files URL"
    )
    if keys is not None:
        echo(f"its keys are in {keys}")
    else:
        echo("its encrypted values need the keys they were encrypted with")


def _restore(url: str, file: Path, *, replace: bool) -> None:
    try:
        found = open_store(url)
        if isinstance(found, SqliteStore):
            sqlite.restore(file, found.path, replace=replace)
        elif database_url(url):
            from ..store import postgres

            asyncio.run(postgres.restore(postgres.parse(url), file, replace=replace))
        else:
            raise click.ClickException(f"{url} is not stored on a disk; give sqlite:///FILE")
    except (RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _say_elsewhere(database: "Database", advice: str) -> None:
    if (found := database.files()).elsewhere:
        echo(f"{elsewhere_words(found)}; {advice}")


def files_words(found: FileStats) -> str:
    """Say how many files there are, and to how many of them no task refers."""
    free = f"{found.unreferenced:,} of them with {found.unreferenced_size:,} bytes unreferenced"
    return f"{_counted(found.count)} with {found.size:,} bytes" + (
        f", {free}" if found.unreferenced else ""
    )


def elsewhere_words(found: FileStats) -> str:
    """Say how many files are not where they are by default."""
    return (
        f"{_counted(found.elsewhere)} with {found.elsewhere_size:,} bytes not here, but where "
        "accord serve --files keeps them"
    )


def _counted(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


def _keys_beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.keys")


def _key_file(given: Path | None, store: str | None) -> Path | None:
    """Where the keys are that seal what a store holds; None if no file has them."""
    if given is not None:
        return given
    url = store or only_store()
    beside = key_file_of(Path(url[10:])) if url.startswith("sqlite:///") else None
    return beside if beside is not None and beside.exists() else None


def _copy_keys(file: Path, to: Path) -> None:
    try:
        private_file(to)
        to.write_bytes(file.read_bytes())
    except OSError as error:
        raise click.ClickException(f"{file} can't be copied to {to}: {error.strerror}") from error


def _is_same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


@db.command()
@OUTPUT
@STORE
@click.argument("task_id")
def why(output: str, store: str | None, task_id: str) -> None:
    """Say why a task failed: what its function raised, and where.

    Callers see only the reference. May be used while the server runs, for as long as the
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


class Vacuumed(NamedTuple):
    """What a vacuum did."""

    before: int  # bytes
    after: int
    files: int  # that it deleted


class Database(Protocol):
    """A store on a disk, as its operator sees it."""

    schema: int  # its number
    newest: int
    migrated_by: str

    def stats(self) -> Stats: ...
    def files(self) -> FileStats: ...
    def vacuum(self) -> Vacuumed: ...
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

    def files(self) -> FileStats:
        return _said(lambda: sqlite.file_stats(self.path))

    def logs_of(self, task_id: str) -> list[StoredLog]:
        if self.schema < self.newest:
            raise click.ClickException(
                f"{self.path} has schema {self.schema}; accord db migrate brings it to the newest"
            )
        return _said(lambda: logs_of(self.path, task_id))

    def vacuum(self) -> Vacuumed:
        before, is_here, deleted = size_of(self.path), not self.files().elsewhere, 0

        async def rewrite(opened: SqliteStore) -> None:
            nonlocal deleted
            if is_here:
                files = Files(opened.files, open_files("", opened), Limits(), opened.now_ms)
                deleted = await files.collect()
            echo("rewriting the file ...", err=True)
            await opened.vacuum()

        self._with(rewrite)
        return Vacuumed(before, size_of(self.path), deleted)

    def migrate(self) -> None:
        async def nothing(opened: SqliteStore) -> None:
            """Opening it has migrated it."""

        self._with(nothing)

    def backup(self, file: Path) -> None:
        _said(lambda: sqlite.backup(self.path, file))

    def _with(self, work: Callable[[SqliteStore], Awaitable[None]]) -> None:
        """Open the store, which migrates it, do something, close it."""

        async def run() -> None:
            store = SqliteStore(self.path, parts={TASKS, *parts_of(self.path)})
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
        self.newest = newest()
        self._stats, self.schema = self._do(postgres.inspect(self._options))

    def stats(self) -> Stats:
        return self._stats

    def files(self) -> FileStats:
        return self._do(self._postgres.file_stats(self._options))

    def logs_of(self, task_id: str) -> list[StoredLog]:
        return self._do(self._postgres.logs_of(self._options, task_id))

    def vacuum(self) -> Vacuumed:
        deleted = 0
        if not self.files().elsewhere:
            deleted = self._do(self._postgres.collect_files(self._options, UNUSED_S))
        before, after = self._do(self._postgres.vacuum(self._options))
        return Vacuumed(before, after, deleted)

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
        if not found:
            raise click.UsageError(
                "no database in ./.accord/; name one with --store sqlite:///FILE"
            )
        names = ", ".join(path.name for path in found)
        raise click.UsageError(
            f"several databases in ./.accord/: {names}; name one, like --store sqlite:///{found[0]}"
        )
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
