"""A crowd in a process of its own: `crowd.py HTTP_PORT GRPC_PORT CLIENTS SECONDS`. Says how its
calls ended, as JSON.

Half of it speaks HTTP+JSON, half gRPC. Each sends the next message when the last one has been
answered or refused.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.reliability.line import Line
from tests.reliability.ways import WAYS, Refused, Request

WORK = {
    "parts": [{"text": "50"}],
    "role": "ROLE_USER",
    "messageId": "m",
    "metadata": {"skill": "slow"},
}


async def over_http(session: aiohttp.ClientSession, url: str) -> str:
    async with session.post(
        url + "/message:send", json={"message": WORK}, headers={"a2a-version": "1.0"}
    ) as answer:
        await answer.read()
        if answer.status != 200:
            assert int(answer.headers["retry-after"]) >= 1
        return f"rest {answer.status}"


async def over_grpc(line: Line, request: Request) -> str:
    exchange = await line.call(request)
    try:
        while await exchange.next() is not None:
            pass
    except Refused as error:
        return f"grpc {error.reason}"
    return "grpc OK"


async def main(http_port: int, grpc_port: int, clients: int, seconds: float) -> None:
    until, ends = time.monotonic() + seconds, Counter[str]()
    line, request = Line(grpc_port), WAYS["grpc"].request("SendMessage", {"message": WORK}, {})
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def insist(number: int) -> None:
            while time.monotonic() < until:
                work = (
                    over_grpc(line, request)
                    if number % 2
                    else over_http(session, f"http://127.0.0.1:{http_port}")
                )
                ends[await work] += 1

        await asyncio.gather(*(insist(number) for number in range(clients)))
    line.close()
    print(json.dumps(ends))


if __name__ == "__main__":
    http, grpc, count, time_s = sys.argv[1:]
    asyncio.run(main(int(http), int(grpc), int(count), float(time_s)))
