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
from ..store.sqlite import check_file
from .login import login_at
from .settings import SETTINGS, look_up
from .table import OUTPUT, is_json, print_json
from .terminal import echo

__all__ = ["doctor"]

_OK, _NOTE, _BAD = "ok", "note", "bad"
_EXTRAS = {"grpcio": "grpc", "asyncpg": "postgres"}


@click.command()
@click.argument("url", required=False)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535),
              help="The port you want to serve.")  # fmt: skip
@OUTPUT
def doctor(url: str | None, port: int, output: str) -> None:
    """Look for what keeps Accord from working here; with URL, also at that agent.

    Exits with 1 if something is bad.

    \b
    accord doctor
    accord doctor http://localhost:8000
    """
    found = [*_here(port), *(_agent(url) if url else ())]
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
