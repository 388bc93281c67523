"""A server in a process of its own, with gRPC if wanted, and what the system knows of it."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from accord.model import Limits
from tests.limits.process import Served, serving
from tests.processes import free_port

__all__ = ["Served", "served"]

SERVE = Path(__file__).parent / "serve.py"


@contextlib.asynccontextmanager
async def served(folder: Path, *, has_grpc: bool = False, **limits: Any) -> AsyncIterator[Served]:
    """Serve `serve.py` with these limits, for as long as the block lasts. Nothing of it may go
    wrong unnoticed.
    """
    grpc_port = free_port() if has_grpc else 0
    settings = json.dumps(msgspec.to_builtins(Limits(**limits)))
    words = (SERVE, folder / "accord.db", str(grpc_port), settings)
    async with serving(folder, *words) as server:
        server.grpc_port = grpc_port
        yield server
