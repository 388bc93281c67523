"""A server in a process of its own, with gRPC if wanted, and what the system knows of it."""

import asyncio
import contextlib
import json
import random
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from accord.model import Limits
from tests.limits.process import PATIENCE_S, Process

__all__ = ["Served", "free_port", "served"]

SERVE = Path(__file__).parent / "serve.py"


class Served(Process):
    """A running server, with the port of its gRPC door; 0 if it has none."""

    grpc_port = 0


@contextlib.asynccontextmanager
async def served(folder: Path, *, has_grpc: bool = False, **limits: Any) -> AsyncIterator[Served]:
    """Serve `serve.py` with these limits, for as long as the block lasts. Nothing of it may go
    wrong unnoticed.
    """
    log, grpc_port = folder / "server.log", free_port() if has_grpc else 0
    words = (
        SERVE,
        folder / "accord.db",
        grpc_port,
        json.dumps(msgspec.to_builtins(Limits(**limits))),
    )
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *map(str, words), stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            said = (await process.stdout.readline()).decode().split()
        assert said, log.read_text()
        async with aiohttp.ClientSession(
            trust_env=False, connector=aiohttp.TCPConnector(limit=0)
        ) as http:
            server = Served(process, said[0], int(said[1]), folder / "accord.db", http)
            server.grpc_port = grpc_port
            yield server
            assert process.returncode in (None, 0), log.read_text()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()[-4000:]


def free_port() -> int:
    """A port below those the system gives to clients."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
