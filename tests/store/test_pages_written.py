"""Which pages of the SQLite file a commit of one chunk writes."""

import asyncio
import sqlite3
import struct
from collections import Counter
from contextlib import closing
from pathlib import Path

from accord import Agent, Artifact, Context, Part, connect
from accord.model import ArtifactUpdate

COUNT = 40


def frames(log: bytes) -> list[tuple[int, bool]]:
    """Return the page of each frame of a write-ahead log, and whether it ends a commit."""
    (page,) = struct.unpack(">I", log[8:12])
    found = []
    for at in range(32, len(log) - page - 23, 24 + page):
        number, is_last = struct.unpack(">II", log[at : at + 8])
        found.append((number, bool(is_last)))
    return found


def objects(path: Path) -> dict[int, str]:
    """Return the table or index that each page belongs to. Page 1 is the file's header."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return dict(db.execute("SELECT pageno, name FROM dbstat")) | {1: "header"}


async def test_a_commit_of_one_chunk_writes_five_pages(tmp_path):
    """A page of 4 kB each for: the chunk, the page above it, its index, the task, and the header,
    because the file has grown. docs/design.md gives what follows for small chunks.
    """
    agent, seen = Agent("Maker"), asyncio.Event()

    @agent.skill
    async def make(text: str, ctx: Context) -> None:
        for n in range(COUNT):
            seen.clear()
            await ctx.artifact(Artifact(artifact_id=f"a{n}", parts=[Part(text="x" * 2000)]))
            await seen.wait()  # so that it is committed by itself

    file = tmp_path / "tasks.db"
    async with agent.app(store=f"sqlite:///{file}").serving() as url, connect(url) as client:
        async for event in client.stream("go"):
            if isinstance(event, ArtifactUpdate):
                seen.set()
        written, names = frames(file.with_name("tasks.db-wal").read_bytes()), objects(file)
    commits: list[Counter[str]] = [Counter()]
    for page, is_last in written:
        commits[-1][names.get(page, "?")] += 1
        if is_last:
            commits.append(Counter())
    usual = {"events": 2, "events_by_pos": 1, "tasks": 1, "header": 1}
    assert sum(commit == usual for commit in commits) > COUNT // 2
    chunks = [commit for commit in commits if commit["events"] and not commit["counts"]]
    assert sum(commit.total() for commit in chunks) < 6 * len(chunks)
