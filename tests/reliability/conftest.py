"""Servers that are gone when their test is over."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.reliability.harness import Server, running


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server of the busy agent on an empty database, running."""
    async with running(tmp_path) as server:
        yield server


@pytest.fixture
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for open tasks between two messages, as on a server with very many: each is loaded
    for its next one.
    """
    monkeypatch.setattr("accord.engine.ownership.directory.IDLE", 0)
