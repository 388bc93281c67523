"""The workloads: one small class each, and the table of rows made of them.

A row measures a cost, and less is better: `measure` returns CPU microseconds per operation, bytes
per thing, or seconds. To add a row, write a class with `measure` (and `prepare`, if servers need
something first) and add a line to `ROWS`.
"""

import asyncio
import contextlib
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from . import wire
from .load import PATIENCE_S, Arrivals, Check, Connection, Failure, Tally, drive, post
from .server import COLUMNS, Server

__all__ = ["NOTICE_S", "ROWS", "SETTLE_S", "Effort", "Load", "Row"]

SERVED = tuple(COLUMNS)  # every column
AGENTS = ("sdk", "memory", "sqlite")  # what a server that does no work can't be compared in

_COMPLETED = wire.check(wire.COMPLETED)
SETTLE_S = 0.05  # what a server does after its answer belongs to the answer
NOTICE_S = 1.5  # long enough for a server to set up what it sets up for a stream that stays


class Effort(NamedTuple):
    """How much is measured: a quick look, or a figure to publish."""

    rounds: int
    seconds: float  # of load, per server and round
    warm_s: float
    is_quick: bool = False

    def of(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full


class Row:
    """One line of the table."""

    unit = "µs"
    columns: tuple[str, ...] = SERVED
    needs_server = True
    needs_grpc = False

    def __init__(
        self,
        id: str,
        title: str,
        *,
        stage: str = "",
        is_slow: bool = False,
        rounds: int | None = None,
    ) -> None:
        self.id = id
        self.title = title
        self.stage = stage or id  # rows of one stage, one after another, share their servers
        self.is_slow = is_slow  # left out of a quick run
        self.rounds = rounds

    def server(self, column: str) -> Server:
        """Return what is measured in a column; it is started and stopped by others."""
        return Server(column, has_grpc=self.needs_grpc)

    async def prepare(self, server: Server, effort: Effort) -> None:
        """Bring a server to where it can be measured, once."""

    async def measure(self, server: Server, effort: Effort) -> float:
        """Return the cost of one operation."""
        raise NotImplementedError


class Load(Row):
    """Operations kept up for some time, by server CPU time."""

    def __init__(
        self,
        id: str,
        title: str,
        *,
        connections: int,
        stage: str = "",
        is_slow: bool = False,
        rounds: int | None = None,
    ) -> None:
        super().__init__(id, title, stage=stage, is_slow=is_slow, rounds=rounds)
        self.connections = connections

    async def measure(self, server: Server, effort: Effort) -> float:
        await self.work(server, effort, effort.warm_s)
        begin = server.cpu_s()
        tally = await self.work(server, effort, effort.seconds)
        await asyncio.sleep(SETTLE_S)
        return (server.cpu_s() - begin) / tally.units * 1e6

    async def work(self, server: Server, effort: Effort, seconds: float) -> Tally:
        request, check = self.request(server), self.check()
        return await drive(
            await server.connections(self.connections), lambda _: request, check, seconds=seconds
        )

    def request(self, server: Server) -> bytes:
        raise NotImplementedError

    def check(self) -> Check:
        return _COMPLETED


class Send(Load):
    def request(self, server: Server) -> bytes:
        return wire.send(server)


class Durable(Load):
    """A durable skill of two steps, each in the log before the next; of a2a-sdk, which has none, a
    plain one.
    """

    columns = AGENTS

    def request(self, server: Server) -> bytes:
        return wire.send(server) if server.column == "sdk" else wire.send(server, skill="steps")


class DurableTimes(Load):
    """How many times a plain skill a durable one of two steps costs, that does the same: both in
    turn on one server, so that what slows the machine slows both, and the ratio formed within each
    round.
    """

    unit = "times"
    columns = ("sqlite",)

    async def measure(self, server: Server, effort: Effort) -> float:
        lines = await server.connections(self.connections)
        requests = {
            "plain": wire.send(server, skill="twice"),
            "durable": wire.send(server, skill="steps"),
        }
        cpu_s, units = dict.fromkeys(requests, 0.0), dict.fromkeys(requests, 0)
        for name in ("plain", "durable", "durable", "plain"):
            begin = server.cpu_s()
            tally = await drive(
                lines, lambda _, name=name: requests[name], _COMPLETED, seconds=effort.seconds
            )  # type: ignore[misc]
            await asyncio.sleep(SETTLE_S)
            cpu_s[name] += server.cpu_s() - begin
            units[name] += tally.units
        return cpu_s["durable"] / units["durable"] / (cpu_s["plain"] / units["plain"])


class AuthTimes(Load):
    """How many times a send costs whose caller authenticates: a server without and one with, in
    turn, and the ratio formed within each round.
    """

    unit = "times"
    columns = ("memory", "sqlite")

    def __init__(self, id: str, title: str, *, auth: str, connections: int, rounds: int) -> None:
        super().__init__(id, title, connections=connections, rounds=rounds)
        self._auth = auth

    async def measure(self, server: Server, effort: Effort) -> float:
        protected = Server(server.column, auth=self._auth)
        try:
            await protected.start()
            cost: dict[str, float] = {}
            for each in (server, protected, protected, server):
                await self.work(each, effort, effort.warm_s)
                begin = each.cpu_s()
                tally = await self.work(each, effort, effort.seconds)
                await asyncio.sleep(SETTLE_S)
                spent = (each.cpu_s() - begin) / tally.units
                cost[each.auth] = cost.get(each.auth, 0.0) + spent
            return cost[self._auth] / cost[""]
        finally:
            await protected.stop()

    def request(self, server: Server) -> bytes:
        return wire.send(server)


class ObservedTimes(Load):
    """How many times a send costs that is observed: a server without and one with, in turn, and the
    ratio of the cheapest turn of each. What else the machine does can only add to a turn.
    """

    unit = "times"
    columns = ("memory", "sqlite")
    needs_server = False

    def __init__(
        self, id: str, title: str, *, variables: dict[str, str], connections: int, rounds: int
    ) -> None:
        super().__init__(id, title, connections=connections, rounds=rounds)
        self._variables = variables

    async def measure(self, server: Server, effort: Effort) -> float:
        # Both are new: one that has served for a while costs more, for all that it holds.
        plain, observed = (
            Server(server.column, variables=variables) for variables in ({}, self._variables)
        )
        try:
            await asyncio.gather(plain.start(), observed.start())
            costs: dict[Server, list[float]] = {plain: [], observed: []}
            for each in (plain, observed, observed, plain) * 3:
                await self.work(each, effort, effort.warm_s)
                begin = each.cpu_s()
                tally = await self.work(each, effort, effort.seconds)
                await asyncio.sleep(SETTLE_S)
                costs[each].append((each.cpu_s() - begin) / tally.units)
            return min(costs[observed]) / min(costs[plain])
        finally:
            await asyncio.gather(plain.stop(), observed.stop())

    def request(self, server: Server) -> bytes:
        return wire.send(server)


class UnobservedTimes(ObservedTimes):
    """How many times a send costs while nothing observes it, against a server from which the code
    that asks for that is cut out.
    """

    async def measure(self, server: Server, effort: Effort) -> float:
        return 1 / await super().measure(server, effort)


class Executor(Load):
    """The same `AgentExecutor` of a2a-sdk, on a2a-sdk and on Accord."""

    columns = ("sdk", "memory")

    async def measure(self, server: Server, effort: Effort) -> float:
        if server.column == "sdk":
            return await super().measure(server, effort)
        wrapped = Server(server.column, variables={"BENCH_EXECUTOR": "1"})
        try:
            await wrapped.start()
            return await super().measure(wrapped, effort)
        finally:
            await wrapped.stop()

    def request(self, server: Server) -> bytes:
        return wire.send(server)


_NO_COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
_SAMPLED_OUT = {"OTEL_TRACES_SAMPLER": "parentbased_always_off", **_NO_COLLECTOR}


class PushTimes(Load):
    """How many times a send costs that comes with a webhook, its three signed deliveries included:
    both in turn on one server, and the ratio formed within each round.
    """

    unit = "times"
    columns = ("sqlite",)

    def __init__(
        self, id: str, title: str, *, text: str, skill: str, connections: int, rounds: int
    ) -> None:
        super().__init__(id, title, connections=connections, rounds=rounds)
        self._text = text
        self._skill = skill

    async def measure(self, server: Server, effort: Effort) -> float:
        taken = _Taken()
        hook = await asyncio.start_server(taken.take_all, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{hook.sockets[0].getsockname()[1]}/"
        lines = await server.connections(self.connections)
        requests = {
            "plain": wire.send(server, self._text, self._skill),
            "pushed": wire.send(server, self._text, self._skill, push=url),
        }
        cpu_s, units = dict.fromkeys(requests, 0.0), dict.fromkeys(requests, 0)

        async def load(name: str, seconds: float) -> None:
            begin = server.cpu_s()
            tally = await drive(lines, lambda _: requests[name], _COMPLETED, seconds=seconds)
            if name == "pushed":
                await taken.more(_DELIVERIES * tally.units)
            await asyncio.sleep(SETTLE_S)
            cpu_s[name] += server.cpu_s() - begin
            units[name] += tally.units

        async with hook:
            await load("pushed", effort.warm_s)  # loads what signs and what connects out
            cpu_s["pushed"], units["pushed"] = 0.0, 0
            for name in ("plain", "pushed", "pushed", "plain"):
                await load(name, effort.seconds)
        return cpu_s["pushed"] / units["pushed"] / (cpu_s["plain"] / units["plain"])


_DELIVERIES = 3  # of a task: submitted, working, completed


class _Taken:
    """A webhook that takes everything, and counts it."""

    def __init__(self) -> None:
        self._count = 0

    async def take_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                self._count += 1

    async def more(self, count: int) -> None:
        """Return when so many more have come: what is late belongs to the cost, too."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self._count < count:  # noqa: ASYNC110  they come from another process
                    await asyncio.sleep(SETTLE_S)
        except TimeoutError:
            raise Failure(f"{count - self._count} of {count} deliveries did not come") from None
        self._count -= count


class EchoStream(Load):
    """The echo agent by SendStreamingMessage; an operation is a whole stream."""

    def request(self, server: Server) -> bytes:
        return wire.stream(server, "hello")

    def check(self) -> Check:
        look = wire.check_stream(4)
        return lambda answer: min(look(answer), 1)


class Chunks(Load):
    """Streams of so many chunks; an operation is one event."""

    def __init__(self, id: str, title: str, *, chunks: int, connections: int) -> None:
        super().__init__(id, title, connections=connections)
        self._chunks = chunks

    def request(self, server: Server) -> bytes:
        return wire.stream(server, str(self._chunks), "count")

    def check(self) -> Check:
        return wire.check_stream(self._chunks + 2)


class ChunkLatency(Row):
    """Milliseconds that pass, median of many: those are what a reader sees, beside the cost."""

    unit = "ms"

    async def measure(self, server: Server, effort: Effort) -> float:
        loop = asyncio.get_running_loop()
        found: list[float] = []
        for _ in range(effort.of(self.streams, 2)):
            _, connection = await loop.create_connection(Arrivals, "127.0.0.1", server.port)
            begin_ns = time.time_ns()
            await post(connection, self.request(server), wire.check(wire.COMPLETED))
            found += self.late_ms(connection, begin_ns)
            connection.close()
        return statistics.median(found)

    streams = 1

    def request(self, server: Server) -> bytes:
        raise NotImplementedError

    def late_ms(self, connection: Arrivals, begin_ns: int) -> list[float]:
        """What passed until each of the events that count arrived."""
        raise NotImplementedError


class FirstChunk(ChunkLatency):
    """From the request to the first of 1,000 chunks that come as fast as they can."""

    streams = 20

    def request(self, server: Server) -> bytes:
        return wire.stream(server, "1000", "count")

    def late_ms(self, connection: Arrivals, begin_ns: int) -> list[float]:
        first = next(ns for ns, data in connection.pieces if b"artifactUpdate" in data)
        return [(first - begin_ns) / 1e6]


class Token(ChunkLatency):
    """From a chunk's making to its arrival, where a chunk is made every 20 ms."""

    columns = ("memory", "sqlite")

    def request(self, server: Server) -> bytes:
        return wire.stream(server, "50", "tokens")

    def late_ms(self, connection: Arrivals, begin_ns: int) -> list[float]:
        return [
            (ns - int(said)) / 1e6 for ns, data in connection.pieces for said in _SAID.findall(data)
        ]


_SAID = re.compile(rb'"at (\d+) "')


class BigFile(Load):
    """A message with a file of 1 MiB. With `has_history` the answer has it too: of a2a-sdk as
    bytes, of Accord as an address.
    """

    def __init__(self, id: str, title: str, *, has_history: bool, connections: int) -> None:
        super().__init__(id, title, connections=connections)
        self._has_history = has_history

    def request(self, server: Server) -> bytes:
        return wire.send_file(server, wire.MB, has_history=self._has_history)

    def check(self) -> Check:
        return wire.check(b"1048576 bytes", wire.COMPLETED)


class FileTimes(Row):
    """How many times a file of 10 MiB one of 80 MiB costs, in and out over HTTP: linear is 8."""

    unit = "times"
    columns = ("memory", "sqlite")

    async def measure(self, server: Server, effort: Effort) -> float:
        cpu_s = dict.fromkeys((10, 80), 0.0)
        for megabytes in (10, 10, 80):
            begin = server.cpu_s()
            await self._there_and_back(server, megabytes << 20)
            await asyncio.sleep(SETTLE_S)
            cpu_s[megabytes] = server.cpu_s() - begin  # of the second one: the first warms
        return cpu_s[80] / cpu_s[10]

    async def _there_and_back(self, server: Server, size: int) -> None:
        lines, places = await server.connections(1), []

        def taken(answer: bytes) -> int:
            places.append(wire.place_of(answer))
            return 1

        def given(answer: bytes) -> int:
            assert answer.startswith(b"HTTP/1.1 200"), answer[:300]
            assert len(answer) > size
            return 1

        await drive(lines, lambda _: wire.upload(server, size), taken, count=1)
        await drive(lines, lambda _: wire.send_address(server, places[0]), taken, count=1)
        await drive(lines, lambda _: wire.download(server, places[1]), given, count=1)


class Get(Load):
    """One of a hundred finished tasks."""

    async def prepare(self, server: Server, effort: Effort) -> None:
        found: list[str] = []

        def keep(answer: bytes) -> int:
            found.append(wire.task_id(answer))
            return _COMPLETED(answer)

        request = wire.send(server)
        await drive(await server.connections(8), lambda _: request, keep, count=100)
        server.notes["get"] = found

    async def work(self, server: Server, effort: Effort, seconds: float) -> Tally:
        requests = [wire.get(server, task_id) for task_id in server.notes["get"]]
        return await drive(
            await server.connections(self.connections),
            lambda i: requests[i % len(requests)],
            _COMPLETED,
            seconds=seconds,
        )


class List(Load):
    """A page of 50 among many tasks: sent for real to ours, put into the store of the a2a-sdk
    server.
    """

    def __init__(self, id: str, title: str, *, tasks: int, is_slow: bool = False) -> None:
        super().__init__(id, title, connections=4, stage="list", is_slow=is_slow)
        self.tasks = tasks

    async def prepare(self, server: Server, effort: Effort) -> None:
        missing, server.tasks = self.tasks - server.tasks, self.tasks
        if server.column == "sdk":
            (connection, *_) = await server.connections(1)
            await post(
                connection, wire.control(server, f"/fill?tasks={missing}"), wire.check(b"filled")
            )
        elif not server.is_raw:
            request = wire.send(server)
            await drive(
                await server.connections(128),
                lambda _: request,
                _COMPLETED,
                count=missing,
                patience_s=180,
            )

    def request(self, server: Server) -> bytes:
        return wire.list_page(server, 50)

    def check(self) -> Check:
        return wire.check_tasks(50)


class FollowUp(Row):
    """A message to each of a few open tasks of 1,000 messages; the answer is the whole task."""

    columns = AGENTS
    dialogues = 4

    async def prepare(self, server: Server, effort: Effort) -> None:
        connections = await server.connections(self.dialogues)
        server.notes["talk"] = await asyncio.gather(
            *(self._dialogue(server, connection) for connection in connections)
        )

    async def _dialogue(self, server: Server, connection: Connection) -> str:
        """Make an open task of 1,000 messages; return its id and its context's."""
        if server.column == "sdk":
            answer = await post(
                connection, wire.control(server, "/converse?messages=1000"), wire.check()
            )
            return answer.rpartition(b"\r\n")[2].decode()
        answer = await post(connection, wire.send(server, skill="talk"), _ASKS)
        task_id, context_id = wire.task_id(answer), wire.context_id(answer)
        request = wire.follow_up(server, task_id, context_id)
        await drive([connection], lambda _: request, _ASKS, count=499)
        return f"{task_id} {context_id}"

    async def measure(self, server: Server, effort: Effort) -> float:
        begin = server.cpu_s()
        each = effort.of(
            6, 1
        )  # as many for every server, however fast: each follow-up makes the next one dearer
        talks = zip(await server.connections(self.dialogues), server.notes["talk"], strict=True)
        await asyncio.gather(
            *(self._go_on(server, connection, ids, each) for connection, ids in talks)
        )
        await asyncio.sleep(SETTLE_S)
        return (server.cpu_s() - begin) / (each * self.dialogues) * 1e6

    async def _go_on(self, server: Server, connection: Connection, ids: str, n: int) -> None:
        request = wire.follow_up(server, *ids.split())
        await drive([connection], lambda _: request, _is_long, count=n, patience_s=120)


def _is_long(answer: bytes) -> int:
    if answer.count(b'"messageId"') < 1000:
        raise Failure(f"expected 1,000 messages, got {answer.count(b'messageId')}")
    return _ASKS(answer)


_ASKS = wire.check(b"TASK_STATE_INPUT_REQUIRED")


class FanOut(Row):
    """One task streaming 50 chunks to 200 readers; an operation is one event at one reader."""

    readers = 200

    async def measure(self, server: Server, effort: Effort) -> float:
        await self._round(server)
        costs = [await self._round(server) for _ in range(effort.of(2, 1))]
        return sum(costs) / len(costs)

    async def _round(self, server: Server) -> float:
        endings, gate = await _subscribe(server, self.readers)
        (connection,) = await server.connections(1)
        begin = server.cpu_s()
        await post(connection, wire.send(server, gate, "go", raw_path=f"/go?{gate}"), _COMPLETED)
        units = await asyncio.gather(*endings)
        await asyncio.sleep(SETTLE_S)
        cost = (server.cpu_s() - begin) / sum(units) * 1e6
        server.close_connections()
        return cost


async def _subscribe(server: Server, n: int) -> tuple[list[asyncio.Future[int]], str]:
    """Start a task that waits for its gate and `n` readers that have had their first event.

    Returns how their streams end, and the gate.
    """
    loop = asyncio.get_running_loop()
    gate = f"gate-{len(server.notes)}"
    server.notes[gate] = []
    (starter, *connections) = await server.connect(n + 1)
    task_id = wire.task_id(
        await post(starter, wire.send(server, gate, "tell", now=True), wire.check(b'"id"'))
    )
    request, check = wire.subscribe(server, task_id, gate), wire.check_stream(51)
    begun = [connection.begun() for connection in connections]
    endings: list[asyncio.Future[int]] = [loop.create_future() for _ in connections]
    for connection, ending in zip(connections, endings, strict=True):
        connection.ask(request, _settle(ending, check), _fail(ending))
    await asyncio.wait_for(asyncio.gather(*begun), 30)
    return endings, gate


def _settle(ending: asyncio.Future[int], check: Check) -> Callable[[bytes], None]:
    def settle(answer: bytes) -> None:
        try:
            ending.set_result(check(answer))
        except Failure as error:
            ending.set_exception(error)

    return settle


def _fail(ending: asyncio.Future[int]) -> Callable[[Exception], None]:
    def fail(error: Exception) -> None:
        ending.set_exception(Failure(f"stream cut: {error}"))

    return fail


class TaskMemory(Row):
    """Memory kept per finished task."""

    unit = "KiB"
    columns = AGENTS

    async def prepare(self, server: Server, effort: Effort) -> None:
        await self._send(server, 500)

    async def _send(self, server: Server, n: int) -> None:
        request = wire.send(server)
        await drive(await server.connections(8), lambda _: request, _COMPLETED, count=n)

    async def measure(self, server: Server, effort: Effort) -> float:
        n = effort.of(3000, 500)
        before = server.rss()
        await self._send(server, n)
        return (server.rss() - before) / n / 1024


class StreamMemory(Row):
    """Memory per reader of a task in which nothing happens; readers of earlier rounds stay."""

    unit = "KiB"

    async def prepare(self, server: Server, effort: Effort) -> None:
        await _subscribe(server, 50)

    async def measure(self, server: Server, effort: Effort) -> float:
        n = effort.of(400, 200)
        before = server.rss()
        await _subscribe(server, n)
        await asyncio.sleep(NOTICE_S)
        return (server.rss() - before) / n / 1024


class Import(Row):
    """Seconds to import what a server needs, by the interpreter's own clock."""

    unit = "s"
    columns = ("sdk", "memory")
    needs_server = False
    statements: ClassVar[dict[str, str]] = {
        "sdk": "from a2a.server.request_handlers import DefaultRequestHandler; from "
        "a2a.server.routes import create_jsonrpc_routes",
        "memory": "from accord import Agent",
    }

    async def measure(self, server: Server, effort: Effort) -> float:
        code = (
            f"import time; t = time.perf_counter(); {self.statements[server.column]}; "
            "print(time.perf_counter() - t)"
        )
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", code], capture_output=True, check=True
        )
        return float(done.stdout)


class Start(Row):
    """Seconds from the start of a process until it has served its card."""

    unit = "s"
    needs_server = False

    async def measure(self, server: Server, effort: Effort) -> float:
        fresh = Server(server.column)
        begin = time.perf_counter()
        try:
            await fresh.start()
            return time.perf_counter() - begin
        finally:
            await fresh.stop()


ROWS: tuple[Row, ...] = (
    Send("send1", "send, 1 connection", connections=1),
    Send("send32", "send, 32 connections", connections=32),
    Send("send128", "send, 128 connections", connections=128),
    Durable(
        "durable32",
        "durable skill of two steps, 32 connections (a2a-sdk: a plain one)",
        connections=32,
        stage="send32",
    ),
    DurableTimes(
        "durabletimes",
        "durable skill of two steps against the same, plain, 32 connections",
        connections=32,
        rounds=21,
    ),
    AuthTimes(
        "authkey",
        "send with an API key against one without, 32 connections",
        auth="key",
        connections=32,
        rounds=5,
    ),
    AuthTimes(
        "authjwt",
        "send with a JWT against one without, 32 connections",
        auth="jwt",
        connections=32,
        rounds=5,
    ),
    Executor("executor", "send to an executor of a2a-sdk, 32 connections", connections=32),
    UnobservedTimes(
        "unobserved",
        "send with telemetry off against one without its code, 32 connections",
        variables={"BENCH_NO_TELEMETRY": "1"},
        connections=32,
        rounds=3,
    ),
    ObservedTimes(
        "tracing",
        "send with traces that are sampled out against one without, 32 connections",
        variables=_SAMPLED_OUT,
        connections=32,
        rounds=3,
    ),
    ObservedTimes(
        "metrics",
        "send with metrics against one without, 32 connections",
        variables={"BENCH_METRICS": "0"},
        connections=32,
        rounds=3,
    ),
    ObservedTimes(
        "console",
        "send with the console, which shows it, against one without, 32 connections",
        variables={"BENCH_CONSOLE": "1"},
        connections=32,
        rounds=3,
    ),
    PushTimes(
        "pushecho",
        "send with a webhook against one without, 32 connections",
        text="hello",
        skill="",
        connections=32,
        rounds=3,
    ),
    PushTimes(
        "pushcount",
        "the same, of a task with 100 chunks",
        text="100",
        skill="count",
        connections=32,
        rounds=3,
    ),
    EchoStream("stream32", "echo by stream, 32 connections", connections=32),
    Get("get32", "get, 32 connections", connections=32),
    Chunks("chunks", "stream of 100 chunks, 16 streams (per event)", chunks=100, connections=16),
    Chunks(
        "chunks1000", "stream of 1,000 chunks, 1 stream (per event)", chunks=1000, connections=1
    ),
    FirstChunk("firstchunk", "first of 1,000 chunks after the request"),
    Token("token", "a chunk's way to its reader, one chunk in 20 ms"),
    FanOut("fanout", "one task to 200 readers (per event)"),
    List("list1k", "list 50 of 1,000", tasks=1_000),
    List("list10k", "list 50 of 10,000", tasks=10_000),
    List("list100k", "list 50 of 100,000", tasks=100_000, is_slow=True),
    FollowUp("followup", "follow-up to a task of 1,000 messages", is_slow=True),
    BigFile("file", "message with a 1 MiB file", has_history=True, connections=4),
    BigFile(
        "filebare",
        "message with a 1 MiB file, no history in the answer",
        has_history=False,
        connections=4,
    ),
    FileTimes("file80", "times the cost of a 10 MiB file, for 80 MiB, in and out", rounds=3),
    TaskMemory("taskmemory", "memory per finished task", rounds=1),
    StreamMemory("streammemory", "memory per idle stream"),
    Import("import", "import", rounds=5),
    Start("start", "start until the card is served", rounds=5),
)
