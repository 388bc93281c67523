"""What a relay spends, relative to its agent: printed, not judged, since machines differ."""

import asyncio
import os
import time

import pytest

from accord.client import connect
from tests.relay.test_nothing_lost import Server
from tests.reliability.harness import quick_folder, report, size

SENDS, STREAMS, EVENTS = size(50, 2000), size(10, 100), 200


def cpu_s(pid: int) -> float:
    """The processor time a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="/proc tells processor times")
async def test_cost_of_a_relay():
    folder = quick_folder()
    agent = Server(folder, "agent")
    relay = Server(folder, "relay", agent.url)
    try:
        await agent.start()
        await relay.start()
        async with connect(relay.url) as client:
            await client.send("1", skill="plain")  # what is done once is done

            async def measured(count: int, text: str) -> tuple[float, float, float]:
                before, since_s = (cpu_s(relay.pid), cpu_s(agent.pid)), time.monotonic()
                replies = []
                for _ in range(0, count, 10):
                    replies += await asyncio.gather(
                        *(client.send(text, skill="plain") for _ in range(10))
                    )
                assert len({reply.task_id for reply in replies}) == count
                spent = cpu_s(relay.pid) - before[0], cpu_s(agent.pid) - before[1]
                return *spent, time.monotonic() - since_s

            sends = await measured(SENDS, "1")
            streams = await measured(STREAMS, str(EVENTS))
        report(
            "cost of a relay, in processor time of its agent",
            send=f"{sends[0] / max(sends[1], 0.01):.2f}",
            send_ms=f"{sends[0] / SENDS * 1000:.2f}",
            event=f"{streams[0] / max(streams[1], 0.01):.2f}",
            event_us=f"{streams[0] / (STREAMS * EVENTS) * 1e6:.0f}",
        )
    finally:
        relay.close()
        agent.close()
