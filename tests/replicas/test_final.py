"""An end is final on all replicas: a task that is canceled at one and completed at another ends one
way, and everybody hears the same.
"""

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

from accord.store.rules import ENDED
from tests.postgres import execute, schema_url
from tests.reliability.clients import RESUME, HttpClient
from tests.reliability.harness import Frame, Refused, message, report, seed, size, state_of
from tests.reliability.ways import WAYS
from tests.replicas.fleet import Fleet, fleet, settled
from tests.replicas.test_processes import BEAT_S, LONG_LEASE_S, schema_of

COMPLETED, CANCELED = "TASK_STATE_COMPLETED", "TASK_STATE_CANCELED"
RACES = size(64, 2_000)
MOST_RACES = 10 * RACES  # on a machine that lets one side win for long
AT_ONCE = 8
APART_S = 0.01  # what the racers' starts differ by, at most
PATIENCE_S = 60


class Race:
    """A task that waits for its last message, which comes while others cancel it."""

    def __init__(self, replicas: Fleet) -> None:
        self._replicas = replicas
        self._random = replicas.random

    async def run(self, name: str) -> tuple[str, str]:
        """Complete a task at one replica, cancel it at two others and watch it; return its id and
        how it ended.
        """
        clients = self._clients()
        task_id = (await self._random.choice(clients).send(message(name, "talk")))["id"]
        ending, *canceling = clients
        stop = message("stop", task_id=task_id)
        said, one, two, frames = await asyncio.gather(
            self._soon(ending.send(stop)),
            *(self._soon(_cancelled(client, task_id)) for client in canceling),
            self._soon(_watched(self._random.choice(clients), task_id)),
        )
        ends = {state_of(await client.get(task_id)) for client in clients}
        assert ends in ({COMPLETED}, {CANCELED}), f"the replicas say {ends}"
        end = ends.pop()
        for reply in (one, two):
            told = CANCELED if isinstance(reply, dict) else COMPLETED
            assert told == end, f"a cancel was answered {reply}, the task is {end}"
            assert reply == "TASK_NOT_CANCELABLE" or state_of(reply) == CANCELED
        if isinstance(said, dict):
            assert state_of(said) == end, f"the last message was answered {said}"
        else:
            assert (said, end) == ("UNSUPPORTED_OPERATION", CANCELED)
        assert [frame.state for frame in frames if frame.is_final] == [end]
        return task_id, end

    def _clients(self) -> list[HttpClient]:
        """One for each replica, in any order."""
        urls = [replica.url for replica in self._replicas.replicas]
        self._random.shuffle(urls)
        ways = [WAYS[self._random.choice(("jsonrpc", "rest"))] for _ in urls]
        session = self._replicas.session
        return [HttpClient(session, url, way) for url, way in zip(urls, ways, strict=True)]

    async def _soon(self, work: Any) -> Any:
        """A result, or the reason there is none."""
        await asyncio.sleep(self._random.random() * APART_S)  # so that each is first at times
        try:
            return await work
        except Refused as error:
            return error.reason


async def _cancelled(client: HttpClient, task_id: str) -> Any:
    """Cancel a task, for as long as the answer is to try again: so it is on a busy machine."""
    while True:
        try:
            return await client.cancel(task_id)
        except Refused as error:
            if error.reason != "UNAVAILABLE":
                raise


async def _watched(client: HttpClient, task_id: str) -> list[Frame]:
    stream = client.stream("SubscribeToTask", {"id": task_id}, RESUME | {"last-event-id": "0"})
    async with contextlib.aclosing(stream):
        return [frame async for frame in stream]


async def test_cancel_and_completion_on_different_replicas_never_both_win(tmp_path: Path) -> None:
    """D6: all replies, the stream, every replica and the store say the same."""
    ends: dict[str, str] = {}
    with schema_url(lease_s=LONG_LEASE_S, beat_s=BEAT_S) as url:
        schema = schema_of(url)
        async with fleet([url] * 3, tmp_path, seed()) as replicas:
            race = Race(replicas)
            for n in range(0, MOST_RACES, AT_ONCE):
                if n >= RACES and len(set(ends.values())) == 2:
                    break
                async with asyncio.timeout(PATIENCE_S):
                    ends |= await asyncio.gather(*(race.run(f"r-{n + i}") for i in range(AT_ONCE)))
            await settled(schema)
        stored = dict(execute(f"SELECT id, state FROM {schema}.tasks"))
    completed, _, canceled, _ = ENDED
    states = {COMPLETED: completed, CANCELED: canceled}
    assert stored == {task_id: states[end] for task_id, end in ends.items()}
    counts = Counter(ends.values())
    assert len(counts) == 2, "the race was none: one side always won"
    report(
        "D6 races across replicas",
        races=len(ends),
        completed=counts[COMPLETED],
        canceled=counts[CANCELED],
        contradictions=0,
    )
