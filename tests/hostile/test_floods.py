"""One connection never stalls the others: floods of every kind, beside a neighbour who sends small
requests.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.hostile.floods import FLOODS, flood
from tests.hostile.process import served
from tests.hostile.test_neighbours import neighbour
from tests.processes import free_port, start, until_listening
from tests.reliability.harness import report, size

pytestmark = pytest.mark.alone

RAW = Path(__file__).parent.parent.parent / "bench" / "servers" / "raw_server.py"
MOST_MS = 500.0


@contextlib.asynccontextmanager
async def raw_servers() -> AsyncIterator[tuple[int, int]]:
    """uvicorn and grpc.aio with nothing behind them, in one process: their ports."""
    http_port, grpc_port = free_port(), free_port()
    with start(sys.executable, RAW, str(http_port), str(grpc_port)):
        await until_listening(http_port)
        yield http_port, grpc_port


async def floods(name: str, http_port: int, grpc_port: int, *more: str) -> dict[str, float]:
    """Try every flood; return the longest wait of the neighbour during each, in ms."""
    seconds, worst = size(1, 40) / 4, dict[str, float]()
    async with neighbour(http_port, grpc_port, *more) as other:
        await other.since()
        await asyncio.sleep(seconds)
        worst["nothing"] = (await other.since())["most"]
        for kind, make in FLOODS.items():
            what = make()
            await other.since()
            sent = await flood(grpc_port if what.is_grpc else http_port, what, seconds)
            found = await other.since()
            worst[kind] = found["most"]
            shown = {
                "MB": round(sent.bytes / 1e6, 1),
                "connections": sent.connections,
                "calls": found["calls"],
                "failed": found["failed"],
            }
            report(
                f"{name}, {kind}",
                **shown,
                p50_ms=round(found["p50"], 1),
                worst_ms=round(found["most"]),
            )
    return worst


async def test_a_flood_from_one_connection_makes_nobody_wait(tmp_path: Path) -> None:
    """Every call of the neighbour, over any binding, is answered; on a quiet machine (in the soak)
    none waits half a second, and uvicorn and grpc.aio are shown beside it.
    """
    async with served(tmp_path, has_grpc=True) as server:
        worst = await floods("floods", urlsplit(server.url).port or 0, server.grpc_port)
    others = dict[str, float]()
    if size(0, 1):
        async with raw_servers() as (http_port, grpc_port):
            others = await floods("uvicorn and grpc.aio", http_port, grpc_port, "raw")
    for kind, ms in worst.items():
        beside = {"uvicorn_and_grpc_aio_ms": round(others[kind])} if others else {}
        report(f"worst wait, {kind}", ms=round(ms), **beside)
    if size(0, 1):
        assert {kind: ms for kind, ms in worst.items() if ms > MOST_MS} == {}
