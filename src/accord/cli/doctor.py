"""accord doctor: what is installed and set up here, and whether it works."""

import asyncio
import os
import platform
import socket
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from ..client import NO_RETRY, AgentFault, connect
from ..extras import install_command
from ..model import A2AError
from ..store import HUB, open_store
from ..store.sqlite import SqliteStore, file_stats, parts_of, size_of
from .console import missing_page
from .db import database_url, elsewhere_words, files_words
from .login import login_at
from .settings import SETTINGS, look_up
from .table import OUTPUT, is_json, print_json
from .terminal import echo

__all__ = ["doctor"]

_OK, _NOTE, _BAD = "ok", "note", "bad"
_CONNECTIONS = 7  # that a replica uses under load: writer, heartbeat, listener, four readers
_HUB_CONNECTIONS = _CONNECTIONS + 5  # for the hub's tables
_EXTRAS = {"grpcio": "grpc", "asyncpg": "postgres", "obstore": "files"}


@click.command()
@click.argument("url", required=False)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535),
              help="Port to listen on: whether it is free.")  # fmt: skip
@click.option(
    "--store", metavar="URL", help="A store to look at, as given to accord serve or accord hub."
)
@OUTPUT
def doctor(url: str | None, port: int, store: str | None, output: str) -> None:
    """Look for problems of this installation, of an agent (URL) or of a database (--store).

    Exits with 1 if something is bad.

    \b
    accord doctor
    accord doctor http://localhost:8000
    accord doctor --store postgresql://accord@db.example.com/accord
    """
    found = [*_here(port), *(_agent(url) if url else ()), *(_store(store) if store else ())]
    if is_json(output):
        print_json([{"verdict": how, "said": what} for how, what in found])
    for how, what in found if not is_json(output) else ():
        echo(f"{how:<5} {what}")
    if any(how == _BAD for how, _ in found):
        raise click.exceptions.Exit(1)


def _here(port: int) -> Iterator[tuple[str, str]]:
    yield _OK, f"accord {version('accord')}, Python {platform.python_version()}, {sys.platform}"
    for package, extra in _EXTRAS.items():
        try:
            yield _OK, f"{package} {version(package)}"
        except PackageNotFoundError:
            yield _NOTE, f"no {package}; if you need it: {install_command(extra)}"
    yield _OK, f"SQLite {sqlite3.sqlite_version}"
    why = missing_page()
    yield (_NOTE, f"the web console is {why}") if why else (_OK, "the web console is built")
    for path in sorted(Path(".accord").glob("*.db")):
        yield from _file(path)
    if not os.access(".", os.W_OK):
        yield _BAD, f"{Path.cwd()} can't be written; tasks are kept in ./.accord/"
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            yield _OK, f"port {port} is free"
        except OSError as error:
            yield _NOTE, f"port {port}: {error.strerror}; serve another one with --port"
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        if os.environ.get(name) or os.environ.get(name.lower()):
            yield _NOTE, f"{name} is set: agents are called through it"
    for name in SETTINGS:
        found = look_up(name)
        if found is not None:
            yield _NOTE, f"--{name} is set by {found.path}"


def _file(path: Path) -> Iterator[tuple[str, str]]:
    """Check a SQLite file."""
    try:
        parts = parts_of(path)
        if not parts:
            yield _NOTE, f"{path}: nothing is there yet; accord serve and accord hub make it"
            return
        whose = " of a hub" if HUB in parts else ""
        files = file_stats(path)
        size = size_of(path) >> 10
        yield _OK, f"{path}, the database{whose}, {size:,} KiB; it names {files_words(files)}"
        if files.elsewhere:
            yield _NOTE, elsewhere_words(files)
    except (RuntimeError, OSError) as error:
        yield _BAD, f"{path}: {error}"


def _store(url: str) -> Iterator[tuple[str, str]]:
    """Check a database as a replica would use it."""
    try:
        found_store = open_store(url)  # raises if a package is missing
        if isinstance(found_store, SqliteStore):
            yield from _file(found_store.path)
            return
        if not database_url(url):
            yield _NOTE, f"{url} ends with its process: there is nothing to check"
            return
        from ..store import postgres

        options = postgres.parse(url)
        found = asyncio.run(postgres.health(options))
        files = asyncio.run(postgres.file_stats(options)) if found.is_ours else None
    except (RuntimeError, ValueError) as error:
        yield _BAD, str(error)
        return
    yield _OK, f"{options.place}, PostgreSQL {found.server}"
    if found.is_pooled:
        yield _NOTE, "a pooler is in between, so settings of a session come from its role"
    for statement in found.missing:
        yield _BAD, f"the role lacks a setting: {statement}"
    if not found.is_notified:
        yield _NOTE, "LISTEN does not work through the pooler: give listen= an address past it"
    how = _OK if found.free >= _CONNECTIONS else _NOTE
    uses = f"a replica needs 2 and uses up to {_CONNECTIONS}, a hub up to {_HUB_CONNECTIONS}"
    yield how, f"{found.free} connections are free; {uses}"
    if files is not None:
        yield _OK, f"the database names {files_words(files)}"
        if files.elsewhere:
            yield _NOTE, elsewhere_words(files)


def _agent(url: str) -> list[tuple[str, str]]:
    async def look() -> list[tuple[str, str]]:
        async with connect(url, auth=login_at(url), retry=NO_RETRY) as client:
            card = client.card
            found = [(_OK, f"{card.name} {card.version} at {client.url}")]
            found.append((_OK, f"{client.binding}, A2A {client.version}"))
            found += [(_NOTE, note) for note in client.notes]
            if card.security_requirements and login_at(url) is None:
                found.append((_NOTE, f"it asks who you are: accord auth login {url}"))
            return found

    try:
        return asyncio.run(look())
    except (A2AError, AgentFault) as error:
        return [(_BAD, str(error))]
