"""PgBouncer in transaction mode, between a test and its database."""

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.processes import free_port, start, until_listening
from tests.proxy import proxied

__all__ = ["needs_pgbouncer", "pooled"]

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
USER = "postgres"

needs_pgbouncer = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")


@contextlib.asynccontextmanager
async def pooled(url: str, user: str = USER) -> AsyncIterator[str]:
    """The URL of a database through PgBouncer, which connects as `user`."""
    assert PGBOUNCER is not None
    with tempfile.TemporaryDirectory(prefix="pgbouncer-", dir="/tmp") as folder:
        async with proxied(url) as proxy:  # our own server has Unix sockets alone
            port, behind = free_port(), urlsplit(proxy.url).port
            config = _write_config(Path(folder), port, behind, user)
            with start(PGBOUNCER, "-u", "nobody", config):
                await until_listening(port)
                place = f"{user}@127.0.0.1:{port}"
                yield urlunsplit(urlsplit(proxy.url)._replace(netloc=place))


def _write_config(folder: Path, port: int, behind: int | None, user: str) -> Path:
    """It gives up being root, and must read its settings then."""
    folder.chmod(0o755)
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host=127.0.0.1 port={behind} user={user}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 5\n"
        "server_reset_query =\n"
    )
    config.chmod(0o644)
    return config
