"""A server of the agent that works in steps, with every setting a test may need."""

import contextlib
import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.reliability.harness import WAYS, Server

__all__ = ["Host", "hosting"]

SCRIPT = Path(__file__).parent / "serve.py"


class Host(Server):
    """One server on one database, and the world its agent acts on. Over gRPC too, if wanted: that
    costs memory some measure.
    """

    def __init__(self, folder: Path, *, has_grpc: bool = False, **settings: Any) -> None:
        super().__init__(folder)
        self.folder = folder
        self.ways = [name for name, way in WAYS.items() if has_grpc or not way.is_grpc]
        settings = {
            "port": self._port,
            "database": str(self.database),
            "folder": str(folder),
        } | settings
        if has_grpc:
            settings["grpc_port"] = self._grpc_port
        self.command = [sys.executable, str(SCRIPT), json.dumps(settings)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def grpc_port(self) -> int:
        return self._grpc_port

    @property
    def done(self) -> list[str]:
        """What the agent did to the world, in order."""
        path = self.folder / "done"
        return path.read_text().split() if path.exists() else []

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def die_at(self, point: str, n: int = 1) -> None:
        """From its next start on, the server dies when it comes past `point` for the n-th time."""
        self.environment["FAIL_POINT"] = f"{point}:{n}"

    def live_on(self) -> None:
        self.environment.pop("FAIL_POINT", None)

    def check_file(self) -> None:
        """See that the database is whole, and its counters are what they count. No server may run
        on it.
        """
        database = sqlite3.connect(self.database)
        try:
            assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name='tasks'").fetchone():
                return  # it died before it had a schema
            tasks = "SELECT namespace, state, count(*) FROM tasks GROUP BY 1, 2"
            counted = "SELECT namespace, state, n FROM counts WHERE n <> 0"
            assert sorted(database.execute(tasks)) == sorted(database.execute(counted))
        finally:
            database.close()


@contextlib.asynccontextmanager
async def hosting(
    folder: Path, *, is_forked: bool = True, has_grpc: bool = False, **settings: Any
) -> AsyncIterator[Host]:
    """A host on an empty database, running, for as long as the block lasts."""
    host = Host(folder, has_grpc=has_grpc, **settings)
    host.is_forked = is_forked
    try:
        await host.start()
        yield host
    finally:
        await host.close()
