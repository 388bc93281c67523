"""Rows for the hub's hop: what a hub spends on a call that it passes on, beside what the agent
itself spends on the same call when it is made directly. Both keep their tasks in SQLite.
"""

import asyncio
import sys
from pathlib import Path

from accord.hub import RestClient

from . import wire
from .load import Check
from .rows import NOTICE_S, SETTLE_S, Effort, Load, Row
from .server import SERVERS, Server

__all__ = ["HUB_ROWS", "HubServer"]


class HubServer(Server):
    """A hub with one agent, to be called as if it were that agent."""

    def __init__(self) -> None:
        super().__init__("hub")
        self.agent = Server("sqlite")

    def _command(self) -> list[str]:
        script = str(SERVERS / "hub_server.py")
        return [sys.executable, script, str(self.port), self._folder.name]

    async def start(self) -> None:
        await asyncio.gather(self.agent.start(), super().start())
        key = (Path(self._folder.name) / "hub.admin").read_text().strip()
        body = {"url": f"http://127.0.0.1:{self.agent.port}", "name": "echo"}
        await RestClient(f"http://127.0.0.1:{self.port}", key).call("POST", "/agents", body)
        self.path = "/agents/echo"

    async def stop(self) -> None:
        await asyncio.gather(self.agent.stop(), super().stop())


class Hop(Load):
    """How many times what the agent spends on a call the hub spends on passing it on: both in turn,
    and the ratio formed within each round.
    """

    unit = "times"
    columns = ("hub",)

    def server(self, column: str) -> Server:
        return HubServer()

    async def measure(self, server: Server, effort: Effort) -> float:
        assert isinstance(server, HubServer)
        cost: dict[Server, float] = {server: 0.0, server.agent: 0.0}
        for each in (server.agent, server, server, server.agent):
            await self.work(each, effort, effort.warm_s)
            begin = each.cpu_s()
            tally = await self.work(each, effort, effort.seconds)
            await asyncio.sleep(SETTLE_S)
            cost[each] += (each.cpu_s() - begin) / tally.units
        return cost[server] / cost[server.agent]


class HopSend(Hop):
    def request(self, server: Server) -> bytes:
        return wire.send(server)


class HopChunks(Hop):
    """Streams of 100 chunks; an operation is one event."""

    def request(self, server: Server) -> bytes:
        return wire.stream(server, "100", "count")

    def check(self) -> Check:
        return wire.check_stream(102)


class HopMemory(Row):
    """Memory of the hub per stream in which nothing happens: each follows a task of its own."""

    unit = "KiB"
    columns = ("hub",)

    def server(self, column: str) -> Server:
        return HubServer()

    async def prepare(self, server: Server, effort: Effort) -> None:
        await self._open(server, 50)

    async def measure(self, server: Server, effort: Effort) -> float:
        n = effort.of(500, 100)
        before = server.rss()
        await self._open(server, n)
        await asyncio.sleep(NOTICE_S)
        return (server.rss() - before) / n / 1024

    async def _open(self, hub: Server, n: int) -> None:
        connections = await hub.connect(n)
        begun = [connection.begun() for connection in connections]
        for connection in connections:
            connection.ask(wire.stream(hub, "never", "tell"), lambda _: None, lambda _: None)
        await asyncio.wait_for(asyncio.gather(*begun), 60)


HUB_ROWS: tuple[Row, ...] = (
    HopSend("hubsend1", "hub's hop: send, 1 connection", connections=1, stage="hub"),
    HopSend("hubsend32", "hub's hop: send, 32 connections", connections=32, stage="hub"),
    HopChunks("hubchunks", "hub's hop: event, 16 streams of 100", connections=16, stage="hub"),
    HopMemory("hubmemory", "hub's hop: memory per idle stream", stage="hub", rounds=1),
)
