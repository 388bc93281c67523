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
from ..store import open_store
from ..store.sqlite import check_file
from .console import missing_page
from .db import database_url
from .login import login_at
from .settings import SETTINGS, look_up
from .table import OUTPUT, is_json, print_json
from .terminal import echo

__all__ = ["doctor"]

_OK, _NOTE, _BAD = "ok", "note", "bad"
_CONNECTIONS = 7  # that a replica uses under load: writer, heartbeat, listener, four readers
_EXTRAS = {"grpcio": "grpc", "asyncpg": "postgres"}


@click.command()
@click.argument("url", required=False)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535),
              help="The port you want to serve.")  # fmt: skip
@click.option("--store", help="A postgresql:// store to look at, as given to accord serve.")
@OUTPUT
def doctor(url: str | None, port: int, store: str | None, output: str) -> None:
    """Look for what keeps Accord from working here, at an agent (URL) or a database (--store).

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
        try:
            check_file(path)
            yield _OK, f"{path}, {path.stat().st_size >> 10} KiB"
        except (ValueError, RuntimeError, OSError) as error:
            yield _BAD, f"{path}: {error}"
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


def _store(url: str) -> Iterator[tuple[str, str]]:
    """Check a database as a replica would use it."""
    if not database_url(url):
        yield (
            _NOTE,
            f"{url} is not postgresql://; accord doctor checks the files in ./.accord anyway",
        )
        return
    try:
        open_store(url)  # raises if a package is missing
        from ..store import postgres

        options = postgres.parse(url)
        found = asyncio.run(postgres.health(options))
    except (RuntimeError, ValueError) as error:
        yield _BAD, str(error)
        return
    yield _OK, f"{options.place}, PostgreSQL {found.server}"
    if found.is_pooled:
        yield _NOTE, "a pooler is in between, so settings of a session come from its role"
    for statement in found.missing:
        yield _BAD, f"the role lacks a setting: {statement}"
    if not found.is_heard:
        yield _NOTE, "LISTEN does not work through the pooler: give listen= an address past it"
    how = _OK if found.free >= _CONNECTIONS else _NOTE
    yield how, f"{found.free} connections are free; a replica needs 2 and uses up to {_CONNECTIONS}"


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
