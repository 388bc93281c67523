"""A blocking send does no more than it did: Python calls are counted, since they are the same on
every machine.
"""

from pathlib import Path

import pytest

from bench.calls import measure

pytestmark = pytest.mark.alone

# What they were when they were last brought down, and a few more: a new Python may call more of
# its own asyncio. Raise one of these only for something that users get.
MEMORY, SQLITE = 290, 312


async def test_a_blocking_send_in_memory_makes_few_calls() -> None:
    assert (await measure("memory://", rounds=0)).calls <= MEMORY


async def test_a_blocking_send_on_sqlite_makes_few_calls(tmp_path: Path) -> None:
    assert (await measure(f"sqlite:///{tmp_path / 'calls.db'}", rounds=0)).calls <= SQLITE
