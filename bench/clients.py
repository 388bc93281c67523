"""CPU of the client, per call and per event: ours against a2a-sdk's, each talking to the same
server.

    python -m bench.clients send|event memory|sdk

The server is ours, in a process of its own, on loopback and in memory; only the client's own
processor time is counted.
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

from .load import Failure
from .rows import Effort, Row
from .server import Server

__all__ = ["CLIENT_ROWS", "Client"]

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
ROUNDS = 5
SENDS = 100
EVENTS = 1_000

Work = Callable[[], Awaitable[int]]


async def cpu_us(work: Work) -> float:
    """Processor time of this process per thing `work` did, in microseconds."""
    begun = time.process_time()
    count = await work()
    return (time.process_time() - begun) * 1e6 / count


def main(row: str, column: str) -> None:
    """Print the cost of one thing of a row for one client: the best of a few short rounds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], stdout=subprocess.DEVNULL)
    try:
        print(asyncio.run(_measured(f"http://127.0.0.1:{port}", row, column)))
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


async def _measured(url: str, row: str, column: str) -> float:
    await _wait(url)
    async with connect(url, binding="JSONRPC") as ours, httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        sdk = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        sdk_stream = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)

        def request(text: str) -> SendMessageRequest:
            return SendMessageRequest(
                message=new_text_message(text, role=Role.ROLE_USER),
                configuration=SendMessageConfiguration(),
            )

        async def our_sends() -> int:
            for _ in range(SENDS):
                await ours.send("hello")
            return SENDS

        async def sdk_sends() -> int:
            for _ in range(SENDS):
                async for _ in sdk.send_message(request("hello")):
                    pass
            return SENDS

        async def our_events() -> int:
            return sum([1 async for _ in ours.stream(str(EVENTS))])

        async def sdk_events() -> int:
            return sum([1 async for _ in sdk_stream.send_message(request(str(EVENTS)))])

        work = {
            ("send", "memory"): our_sends,
            ("send", "sdk"): sdk_sends,
            ("event", "memory"): our_events,
            ("event", "sdk"): sdk_events,
        }[row, column]
        await work()
        return min([await cpu_us(work) for _ in range(ROUNDS)])


class Client(Row):
    """What a client spends on one thing it does, in a process of its own."""

    columns = ("sdk", "memory")
    needs_server = False

    def __init__(self, id: str, title: str, row: str) -> None:
        super().__init__(id, title)
        self._row = row

    async def measure(self, server: Server, effort: Effort) -> float:
        command = [sys.executable, "-m", "bench.clients", self._row, server.column]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        told, wrong = await process.communicate()
        if process.returncode != 0:
            raise Failure(wrong.decode()[-400:])
        return float(told)


CLIENT_ROWS: tuple[Row, ...] = (
    Client("clientsend", "client: send (CPU of the client)", "send"),
    Client("clientevent", "client: event of a stream (CPU of the client)", "event"),
)


if __name__ == "__main__":
    main(*sys.argv[1:3])
