"""A task whose log was purged: its generation stays, and what was read from the log is left out."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord import Retention
from accord.engine.runs import retention
from tests.drive import PATIENCE_S, refusal_of, say
from tests.postgres import schema_url


async def two_chunks(request: str):
    yield "a"
    yield "b"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgresql":
        with schema_url() as url:
            yield url
    else:
        yield "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'tasks.db'}"


async def test_the_generation_stays(connect, any_store, monkeypatch):
    """And counts as before: for a long poll, and for a message that is only for one generation."""
    monkeypatch.setattr(retention, "CHECK_S", 0.01)
    monkeypatch.setattr(retention, "PURGE_S", 0.01)
    keep = Retention(events_s=0)
    async with (
        asyncio.timeout(PATIENCE_S),
        connect(two_chunks, store=any_store, retention=keep, push=False) as client,
    ):
        task = (await client.send("go"))["task"]
        now = task
        while "timeline" in now:
            await asyncio.sleep(0.01)
            now = await client.get(task["id"])
        assert now["generation"] == task["generation"] == "5"
        assert "startGeneration" not in now["artifacts"][0]
        assert now["artifacts"][0]["parts"] == task["artifacts"][0]["parts"]
        assert await client.get(task["id"], currentGeneration="5") == now  # it has ended
        late = say("x", taskId=task["id"], configuration={"ifGenerationMatch": "1"})
        assert (await refusal_of(client.send(late))).detail["currentGeneration"] == "5"
