"""A client of good manners in a process of its own: `neighbour.py HTTP_PORT GRPC_PORT [raw]`. It
sends and reads without a pause. With `raw`, it talks to `bench/servers/raw_server.py`.

For every line on its input it says how long its calls took since the last one, as JSON: how many,
the median, the 99th of a hundred, the longest.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import aiohttp

from tests.reliability.clients import Client, GrpcClient, HttpClient
from tests.reliability.line import Line
from tests.reliability.ways import WAYS, Refused

HELLO = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}


class RawHttp:
    """Asks a bare uvicorn, which knows no A2A."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{port}/get"

    async def send(self, params: dict[str, Any]) -> dict[str, Any]:
        async with self._session.post(self._url, json=params) as answer:
            return {"id": str(len(await answer.read()))}

    async def get(self, task_id: str) -> None:
        await self.send({})


async def call(client: Client | RawHttp, took_s: list[float]) -> None:
    started = time.perf_counter()
    task = await client.send(HELLO)
    sent = time.perf_counter()
    await client.get(task["id"])
    took_s += [sent - started, time.perf_counter() - sent]


def summary(took_s: list[float]) -> dict[str, Any]:
    ms = [took * 1000 for took in sorted(took_s)]
    if not ms:
        return {"calls": 0, "p50": 0.0, "p99": 0.0, "most": 0.0}
    return {
        "calls": len(ms),
        "p50": ms[len(ms) // 2],
        "p99": ms[len(ms) * 99 // 100],
        "most": ms[-1],
    }


async def main(http_port: int, grpc_port: int, *, is_raw: bool) -> None:
    took_s: list[float] = []
    failed = 0  # of others' servers: with ours, none may
    asked: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, lambda: asked.put_nowait(sys.stdin.buffer.raw.read(100)))  # type: ignore[attr-defined]
    async with aiohttp.ClientSession() as session:
        clients = [
            HttpClient(session, f"http://127.0.0.1:{http_port}", WAYS[name])
            for name in ("jsonrpc", "rest")
        ]
        http: list[Client | RawHttp] = [RawHttp(session, http_port)] if is_raw else [*clients]
        ways = [*http, GrpcClient(Line(grpc_port), WAYS["grpc"])]
        while True:
            for way in ways:
                try:
                    await call(way, took_s)
                except (Refused, OSError, aiohttp.ClientError):
                    if not is_raw:
                        raise
                    failed += 1
            await asyncio.sleep(0.002)
            if not asked.empty():
                if not asked.get_nowait():
                    return
                print(json.dumps(summary(took_s) | {"failed": failed}), flush=True)
                took_s.clear()
                failed = 0


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), is_raw="raw" in sys.argv))
