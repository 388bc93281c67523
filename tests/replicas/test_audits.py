"""Audits under load: a server that compares what it owns with the store's list takes nothing away
from itself.
"""

import asyncio
from pathlib import Path

from tests.postgres import schema_url
from tests.reliability.harness import report, seed, size
from tests.replicas.clients import _said
from tests.replicas.fleet import Fleet, check_stored, fleet, settled

LOAD_S = size(8, 60)
AUDIT_S = 1.0
CLIENTS = 20
PATIENCE_S = 20.0  # of a client with one request: longer, it hangs


class Talkers:
    """Clients that send, wait and answer; every other one uses no idempotency keys."""

    def __init__(self, replicas: Fleet) -> None:
        self._replicas = replicas
        self.tasks = self.answers = 0

    async def talk(self, n: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until_s, i = loop.time() + seconds, 0
        while loop.time() < until_s:
            await self._converse(f"{n}-{i}", ("talk", "flow", "chat")[i % 3], has_key=n % 2 == 0)
            i += 1

    async def _converse(self, name: str, skill: str, *, has_key: bool) -> None:
        self.tasks += 1
        task_id = ""
        for word in range(4):
            text = f"{name}-{word}"
            async with asyncio.timeout(PATIENCE_S):
                task = await self._replicas.send(
                    text, skill if not task_id else "", task_id, is_quick=False, has_key=has_key
                )
            assert _said(task) == f"heard {text}"
            task_id = task["id"]
            self._replicas.clients.accepted[text] = task_id
            self.answers += 1


async def test_audits_under_load_take_no_task_from_its_owner(tmp_path: Path) -> None:
    """A task that is made or answered while the list is on its way is in no list, or in one that
    says too little. Nobody's answer is lost for that, and nobody hangs.
    """
    with schema_url(lease_s=15, beat_s=1) as url:
        schema = url.partition("schema=")[2].partition("&")[0]
        async with fleet([url] * 2, tmp_path, seed(), audit_s=AUDIT_S) as replicas:
            talkers = Talkers(replicas)
            async with asyncio.TaskGroup() as group:
                for n in range(CLIENTS):
                    group.create_task(talkers.talk(n, LOAD_S))
            await settled(schema)
            check_stored(schema, replicas.clients)
        report("audits under load", tasks=talkers.tasks, answers=talkers.answers, lost=0, hung=0)
        assert talkers.answers == 4 * talkers.tasks > 100
