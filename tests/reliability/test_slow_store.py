"""D5, D6 on a store that answers later: a database behind a network gives other calls time to
happen in between.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from accord.store import FOREVER_MS
from accord.store.contract import Idempotency, Namespace, Record, Row
from accord.store.memory import MemoryStore
from tests.reliability.agents.busy import agent
from tests.reliability.harness import RESUME, message, report, seed, size, state_of, told
from tests.reliability.inside import Inside, pass_turns

pytestmark = pytest.mark.usefixtures("no_rest")


class Slow(MemoryStore):
    """A store whose reads arrive some turns of the loop after they were made, as they were then."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    async def claim(self, namespace: Namespace, task_id: str, **how: Any) -> Record | None:
        record = await super().claim(namespace, task_id, **how)
        await pass_turns(self._chance.randrange(100))
        return record

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        record = await super().load(namespace, task_id, watch=watch)
        await pass_turns(self._chance.randrange(100))
        return record

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        rows = await super().read(after)
        await pass_turns(self._chance.randrange(10))
        return rows

    async def idempotency(
        self, namespace: Namespace, key: str, kept_ms: int = FOREVER_MS
    ) -> Idempotency | None:
        record = await super().idempotency(namespace, key, kept_ms)
        await pass_turns(self._chance.randrange(10))
        return record


async def test_messages_that_find_their_task_late_all_get_their_turn() -> None:
    """D5, I2: a task has one owner, however many calls bring it back from the store at once; none
    sees an old one.
    """
    rounds, sends, chance = size(100, 2_000), 10, random.Random(seed())
    app = agent.app(store=Slow(chance))
    inside = Inside(app)

    async def say(task_id: str, word: str) -> Any:
        await pass_turns(chance.randrange(60))
        return await inside.send(message(word, task_id=task_id))

    async with app.lifespan():
        for _ in range(rounds):
            task_id = (await inside.send(message("hello", "turns")))["id"]
            words = [f"word {n}" for n in range(sends)]
            answers = await asyncio.gather(*(say(task_id, word) for word in words))
            assert [told(answer) for answer in answers] == [f"heard {word}" for word in words]
            task = await inside.get(task_id)
            heard = [
                said["parts"][0]["text"] for said in task["history"] if said["role"] == "ROLE_USER"
            ]
            assert sorted(heard) == sorted(["hello", *words])
            await inside.cancel(task_id)
            frames = await inside.stream(
                "SubscribeToTask", {"id": task_id}, RESUME | {"last-event-id": "0"}
            )
            assert [frame.id for frame in frames] == list(range(1, 2 * (sends + 1) + 3))
    report("slow store, messages", rounds=rounds, messages=rounds * sends, lost=0)


async def test_cancel_that_finds_its_task_late_finds_it_as_it_is() -> None:
    """D6: a cancel and an answer both bring the task back; only one of them ends it."""
    rounds, chance = size(300, 5_000), random.Random(seed())
    app = agent.app(store=Slow(chance))
    inside = Inside(app)

    async def later(work: Any) -> Any:
        await pass_turns(chance.randrange(40))
        return await work

    async with app.lifespan():
        for _ in range(rounds):
            task_id = (await inside.send(message("hello", "turns")))["id"]
            stop, cancel = inside.send(message("stop", task_id=task_id)), inside.cancel(task_id)
            outcomes = await asyncio.gather(later(stop), later(cancel), return_exceptions=True)
            ended = [state_of(outcome) for outcome in outcomes if isinstance(outcome, dict)]
            end = state_of(await inside.get(task_id))
            assert set(ended) == {end}
            frames = await inside.stream(
                "SubscribeToTask", {"id": task_id}, RESUME | {"last-event-id": "0"}
            )
            assert [frame.state for frame in frames if frame.is_final] == [end]
    report("slow store, ends", races=rounds, contradictions=0)
