"""V3: more than a server can take is refused at once, harms nobody for long, and leaves no
trace.
"""

import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from tests.processes import PATIENCE_S, run
from tests.reliability.harness import message, report, size, state_of
from tests.survive.host import Host, hosting
from tests.survive.memory import Growth

pytestmark = pytest.mark.alone

CROWD = Path(__file__).parent / "crowd.py"
CAPACITY = 100  # tasks at once
GROWTH = 64 << 20
ROUND = 20  # sends, to see how long one takes
PATIENCE = 100  # rounds
STUCK = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")


async def crowd(host: Host, clients: int, seconds: float) -> Counter[str]:
    """So many clients who send without a pause for so long, over HTTP and gRPC: how their calls
    ended.
    """
    command = [sys.executable, CROWD, host.url.rpartition(":")[2], host.grpc_port, clients, seconds]
    done = await run(*map(str, command), seconds=seconds + PATIENCE_S)
    assert done.code == 0, done.err
    return Counter(json.loads(done.out))


class Health:
    """Asks how a server is, again and again; the answer must be that it lives."""

    def __init__(self, host: Host) -> None:
        self.took_s: list[float] = []
        self._asking = asyncio.create_task(self._ask(host.url + "/healthz"))

    async def _ask(self, url: str) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                started = time.monotonic()
                async with session.get(url) as answer:
                    assert answer.status == 200
                self.took_s.append(time.monotonic() - started)
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        self._asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._asking


async def sends(host: Host, count: int) -> float:
    """Send one message after the other; the seconds each took, in the median."""
    took_s = []
    for _ in range(count):
        started = time.monotonic()
        assert (
            state_of(await host.client().send(message("hello", "echo"))) == "TASK_STATE_COMPLETED"
        )
        took_s.append(time.monotonic() - started)
    return statistics.median(took_s)


async def test_overload_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    """V3: five times what the server takes at once, without a pause: what is too much gets 429 and
    Retry-After, RESOURCE_EXHAUSTED on gRPC, before it costs anything; health answers meanwhile,
    memory stays bounded, and afterwards all is as before.
    """
    seconds = size(4, 60)
    async with hosting(tmp_path, limits={"tasks": CAPACITY}, has_grpc=True) as host:
        usual = await crowd(host, CAPACITY, 1)
        assert set(usual) == {"rest 200", "grpc OK"}
        usual_s = await sends(host, ROUND)
        growth, health = Growth(host.pid), Health(host)
        ends = await crowd(host, 5 * CAPACITY, seconds)
        over, rounds = time.monotonic(), 1
        while await sends(host, ROUND) > 3 * usual_s and rounds < PATIENCE:
            rounds += 1
        normal_s, grown = time.monotonic() - over, growth.most
        await health.stop()
        report(
            "V3",
            seconds=seconds,
            clients=f"{5 * CAPACITY} for {CAPACITY} tasks",
            calls=ends.total(),
            ends=dict(ends),
            grown_by_MiB=f"{grown / (1 << 20):.1f}",
            health=f"asked {len(health.took_s)} times, at most {max(health.took_s) * 1000:.0f} ms",
            normal_after_s=f"{normal_s:.2f}",
        )
        assert set(ends) == {"rest 200", "rest 429", "grpc OK", "grpc RESOURCE_EXHAUSTED"}
        assert grown < GROWTH
        assert [await host.client().total(state) for state in STUCK] == [0, 0]
        done = sum(counts["rest 200"] + counts["grpc OK"] for counts in (usual, ends))
        assert await host.client().total() == done + (rounds + 1) * ROUND
        if size(0, 1):
            assert normal_s < 10
            assert max(health.took_s) < 5
