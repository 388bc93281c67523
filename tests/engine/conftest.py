"""Where tasks outlive their process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.processes import Database, Disk, Memory, Twice
from tests.postgres import schema_url


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "tasks.db")


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Disk | Memory:
    return Disk(tmp_path / "tasks.db") if request.param == "disk" else Memory()


@pytest.fixture
def database() -> Iterator[Database]:
    with schema_url() as url:
        yield Database(url)


@pytest.fixture(params=["disk", "memory", "database"])
def any_place(request: pytest.FixtureRequest, tmp_path: Path) -> Disk | Memory | Database:
    """Every store."""
    if request.param == "database":
        found: Database = request.getfixturevalue("database")
        return found
    return Disk(tmp_path / "tasks.db") if request.param == "disk" else Memory()


@pytest.fixture(params=["memory", "database"])
def shared_place(request: pytest.FixtureRequest) -> Memory | Database:
    """Every store that several processes can use."""
    if request.param == "database":
        found: Database = request.getfixturevalue("database")
        return found
    return Memory()


@pytest.fixture
def twice(place: Disk | Memory) -> Twice:
    return Twice(place)
