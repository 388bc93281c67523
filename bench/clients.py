"""CPU of the client, per call and per event: ours against a2a-sdk's, each talking to the same server.

    python -m bench.clients [SENDS [EVENTS]]

The server is ours, in a process of its own, on loopback and in memory; only the client's own processor time is counted. Each
figure is the best of nine short rounds taken in turns, so that a busy neighbour hits both alike.
"""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageConfiguration, SendMessageRequest

from accord.client import connect

SERVER = """
import sys
from accord import Agent
agent = Agent("Echo")
@agent.skill
async def echo(text: str):
    if text.isdigit():
        for i in range(int(text)):
            yield f"chunk {i} "
    else:
        yield text
agent.run(port=int(sys.argv[1]), store="memory://")
"""
ROUNDS = 9

Work = Callable[[], Awaitable[int]]


async def cpu_us(work: Work) -> float:
    """Processor time of this process per thing `work` did, in microseconds."""
    begun = time.process_time()
    count = await work()
    return (time.process_time() - begun) * 1e6 / count


def main(sends: int, events: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], stdout=subprocess.DEVNULL)
    try:
        asyncio.run(_compare(f"http://127.0.0.1:{port}", sends, events))
    finally:
        server.terminate()
        server.wait()


async def _wait(url: str) -> None:
    async with httpx.AsyncClient() as http:
        for _ in range(200):
            try:
                await http.get(url + "/.well-known/agent-card.json")
                return
            except httpx.HTTPError:
                await asyncio.sleep(0.05)
    raise RuntimeError("the server did not start")


async def _compare(url: str, sends: int, events: int) -> None:
    await _wait(url)
    async with connect(url, binding="JSONRPC") as ours, httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        sdk = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        sdk_stream = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)

        def request(text: str) -> SendMessageRequest:
            return SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER), configuration=SendMessageConfiguration())

        async def our_sends() -> int:
            for _ in range(sends):
                await ours.send("hello")
            return sends

        async def sdk_sends() -> int:
            for _ in range(sends):
                async for _ in sdk.send_message(request("hello")):
                    pass
            return sends

        async def our_events() -> int:
            return sum([1 async for _ in ours.stream(str(events))])

        async def sdk_events() -> int:
            return sum([1 async for _ in sdk_stream.send_message(request(str(events)))])

        rows = {"send": (our_sends, sdk_sends), "stream event": (our_events, sdk_events)}
        for name, (mine, theirs) in rows.items():
            await mine(), await theirs()
            figures = [(await cpu_us(mine), await cpu_us(theirs)) for _ in range(ROUNDS)]
            best, other = min(a for a, _ in figures), min(b for _, b in figures)
            print(f"{name:13} accord {best:8.1f} us   a2a-sdk {other:8.1f} us   {other / best:5.1f}x")


if __name__ == "__main__":
    counts = [int(text) for text in sys.argv[1:3]]
    main(*[*counts, *(100, 1000)[len(counts) :]])
