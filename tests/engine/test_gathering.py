"""How many commits a stream takes: chunks that come in the next turns of the loop go along."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from accord import Agent
from accord.store.contract import Item
from accord.store.memory import MemoryStore
from tests.engine.processes import Process, message

CHUNKS = 200

agent = Agent("Writer")


class Counting(MemoryStore):
    """Counts the commits of a store in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        self.commits += 1
        return await super().commit(items)


@agent.skill
async def quick(text: str) -> AsyncIterator[str]:
    for n in range(CHUNKS):
        yield f"{n} "
        await asyncio.sleep(0)


@agent.skill
async def slow(text: str) -> AsyncIterator[str]:
    """Holds up the loop with every chunk, as a tokenizer does."""
    for n in range(20):
        time.sleep(0.006)  # noqa: ASYNC251  that is the point
        yield f"{n} "
        await asyncio.sleep(0)


async def commits(skill: str) -> tuple[int, int]:
    """Return how many events a stream of the skill had, and how many commits."""
    store = Counting()
    app = agent.app(store=store)
    await app.open()
    try:
        frames = await Process(app).stream("SendStreamingMessage", message("go", skill))
        return len(frames), store.commits
    finally:
        await app.close()


async def test_chunks_of_several_turns_share_a_commit() -> None:
    events, made = await commits("quick")

    assert events == CHUNKS + 3
    assert made <= events / 4


async def test_a_chunk_does_not_wait_while_the_loop_is_held_up() -> None:
    """Turns of the loop that take long end the gathering: a reader would see the delay."""
    events, made = await commits("slow")

    assert events == 23
    assert made >= 8
