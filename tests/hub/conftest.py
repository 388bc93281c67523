"""Fixtures of the hub's tests: the same on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The settings that say where a hub keeps everything."""
    if request.param == "sqlite":
        yield {"store": f"sqlite:///{tmp_path}/hub.db"}
        return
    with postgres.schema_url() as url:
        yield {"store": url, "key_file": str(tmp_path / "keys")}
