"""Where tasks outlive their process."""

from pathlib import Path

import pytest

from tests.engine.processes import Disk, Memory, Twice


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "tasks.db")


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Disk | Memory:
    return Disk(tmp_path / "tasks.db") if request.param == "disk" else Memory()


@pytest.fixture
def twice(place: Disk | Memory) -> Twice:
    return Twice(place)
