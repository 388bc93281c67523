"""One connection never stalls the others: floods of every kind, beside a neighbour who sends small requests."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from tests.hostile.floods import FLOODS, flood
from tests.hostile.process import served
from tests.hostile.test_neighbours import neighbour
from tests.reliability.harness import report, size

MOST_MS = 500.0


async def test_a_flood_from_one_connection_makes_nobody_wait(tmp_path: Path) -> None:
    """Each for 10 s in the soak: no call of the neighbour, over any binding, waits half a second."""
    seconds, worst = size(0.5, 10), dict[str, float]()
    async with served(tmp_path, has_grpc=True) as server, neighbour(server) as other:
        await other.since()
        await asyncio.sleep(seconds)
        alone = await other.since()
        for name, make in FLOODS.items():
            what = make()
            port = server.grpc_port if what.is_grpc else urlsplit(server.url).port or 0
            await other.since()
            sent = await flood(port, what, seconds)
            found = await other.since()
            worst[name] = found["most"]
            report(
                f"flood of {name}",
                MB=round(sent.bytes / 1e6, 1),
                connections=sent.connections,
                calls=found["calls"],
                p50_ms=round(found["p50"], 1),
                worst_ms=round(found["most"]),
            )
        report("floods", kinds=len(FLOODS), alone_ms=round(alone["most"]), worst_ms=round(max(worst.values())))
        assert {name: ms for name, ms in worst.items() if ms > MOST_MS} == {}
