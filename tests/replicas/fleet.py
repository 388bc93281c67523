"""Real replicas: processes on one PostgreSQL, and clients that talk to any of them."""

import asyncio
import contextlib
import functools
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from accord.engine.log.entries import Ids, MessageAdded, StepEnded, entries_of
from accord.engine.ownership.audit import AUDIT_S
from accord.store.contract import Row
from accord.store.rules import ENDED, INPUT_REQUIRED
from tests.postgres import execute
from tests.processes import Forked, fork, free_port, until
from tests.reliability.clients import BROKEN, RESUME, HttpClient
from tests.reliability.harness import message
from tests.reliability.ways import WAYS, Refused
from tests.replicas.clients import Again, Clients, Ended, NotCancelable, Violation

__all__ = ["Fleet", "Replica", "check_stored", "fleet"]

SERVE = Path(__file__).with_name("serve.py")
PATIENCE_S = 60.0  # of a client with one request
_AGAIN = {"UNAVAILABLE", "TOO_MANY_REQUESTS"}

T = TypeVar("T")


class Replica:
    """A process, started and killed as often as wanted."""

    def __init__(
        self,
        number: int,
        store: str,
        folder: Path,
        *,
        grace_s: float = 5.0,
        audit_s: float = AUDIT_S,
    ) -> None:
        self.number = number
        self.store = store
        self.port = free_port()
        self.log = folder / f"replica-{number}.log"
        self.is_up = False
        self.refusals = 0  # starts without a connection to the database
        self._bookings = folder / "bookings"
        self._bookings.mkdir(exist_ok=True)
        self._grace_s = grace_s
        self._audit_s = audit_s
        self._process: Forked | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, session: aiohttp.ClientSession) -> None:
        settings = (self.port, self.store, self._bookings, self._grace_s, self._audit_s)
        begin = functools.partial(fork, SERVE, *map(str, settings), log=self.log)
        self._process = begin()
        client = HttpClient(session, self.url, WAYS["jsonrpc"])

        async def answers() -> bool:
            assert self._process is not None
            if self._process.returncode is not None:
                log = self.log.read_text()
                assert "does not start without them" in log, f"a replica ended:\n{log}"
                self._process = begin()  # there was no connection for it
                self.refusals += 1
            try:
                said = await client.call("SendMessage", message("?", "who"))
            except (*BROKEN, Refused):
                return False
            return bool(said["message"]["parts"][0]["text"] == str(self.pid))

        while not await answers():  # noqa: ASYNC110  a client that tries again
            await asyncio.sleep(0.02)
        self.is_up = True

    async def is_ready(self, session: aiohttp.ClientSession, seconds: float) -> bool:
        """Whether it says that it takes work, now or soon."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    with contextlib.suppress(*BROKEN):
                        async with session.get(self.url + "/readyz") as answer:
                            if answer.status == 200:
                                return True
                    await asyncio.sleep(0.05)
        return False

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        return await self._end(signal.SIGTERM)

    async def _end(self, number: int) -> int:
        assert self._process is not None
        self.is_up = False
        self._process.send_signal(number)
        return await self._process.wait()

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()


class Fleet:
    """Replicas, and the transport of clients to any of them."""

    def __init__(self, stores: list[str], folder: Path, seed: int, **settings: float) -> None:
        self.random = random.Random(seed)
        self.replicas = [Replica(n, store, folder, **settings) for n, store in enumerate(stores)]
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_read=PATIENCE_S),
        )
        self.clients = Clients(self)
        self.clients.booked = self._booked
        self._folder = folder

    async def start(self) -> None:
        await asyncio.gather(*(replica.start(self.session) for replica in self.replicas))

    async def close(self) -> None:
        """Let nothing run on, and see that no replica had a fault of its own."""
        for replica in self.replicas:
            replica.close()
        await self.session.close()
        for replica in self.replicas:
            log = replica.log.read_text() if replica.log.exists() else ""
            assert "Traceback" not in log, log[-6000:]

    async def _booked(self, name: str, what: str) -> list[str]:
        path = self._folder / "bookings" / f"{name}-{what}"
        return path.read_text().split() if path.exists() else []

    async def load(
        self, name: str, seconds: float, width: int, enough: asyncio.Event | None = None
    ) -> None:
        """Have as many clients at once do something again and again, for some seconds or until
        there was enough of it.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds

        async def client(n: int) -> None:
            i = 0
            while loop.time() < until_s and not (enough is not None and enough.is_set()):
                await self.clients.anything(f"{name}-{n}-{i}")
                i += 1

        try:
            async with asyncio.timeout(seconds + 120), asyncio.TaskGroup() as group:
                for n in range(width):
                    group.create_task(client(n))
        except TimeoutError:
            raise Violation(f"not ended two minutes later: {self.clients.begun}") from None

    # The transport

    def client(self) -> HttpClient:
        up = [replica for replica in self.replicas if replica.is_up]
        if not up:
            raise Again
        way = self.random.choice(("jsonrpc", "rest"))
        return HttpClient(self.session, self.random.choice(up).url, WAYS[way])

    async def _try(self, work: Callable[[HttpClient], Coroutine[Any, Any, T]]) -> T:
        client = self.client()
        try:
            return await work(client)
        except BROKEN as error:
            raise Again from error
        except Refused as error:
            if error.reason in _AGAIN:
                raise Again from error
            if error.reason == "UNSUPPORTED_OPERATION":
                raise Ended from error
            if error.reason == "TASK_NOT_CANCELABLE":
                raise NotCancelable from error
            raise Violation(f"{error.reason}: {error}") from error

    async def send(
        self, text: str, skill: str, task_id: str, *, is_quick: bool, has_key: bool = True
    ) -> dict[str, Any]:
        params = message(text, skill, task_id=task_id, returnImmediately=is_quick)
        params["message"]["messageId"] = text
        headers = {"idempotency-key": text} if has_key else {}
        return await self._try(lambda client: client.send(params, headers))

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self._try(lambda client: client.get(task_id))

    async def cancel(self, task_id: str) -> dict[str, Any]:
        return await self._try(lambda client: client.cancel(task_id))

    async def page(self) -> tuple[set[str], int]:
        async def read(client: HttpClient) -> tuple[set[str], int]:
            ids = {task["id"] async for task in client.every_task()}
            # The newest come first. A task that changed while the pages were read has moved from a
            # page not read yet to the first one: who wants all of them reads that one again.
            newest = await client.call("ListTasks", {"pageSize": 100})
            ids.update(task["id"] for task in newest["tasks"])
            return ids, await client.total()

        return await self._try(read)

    async def follow(
        self, task_id: str, after: int | None, take: Callable[[int, bool], None]
    ) -> None:
        until_s = asyncio.get_running_loop().time() + self.random.random() * 2

        async def read(client: HttpClient) -> None:
            headers = RESUME if after is None else RESUME | {"last-event-id": str(after)}
            stream = client.stream("SubscribeToTask", {"id": task_id}, headers)
            async with contextlib.aclosing(stream):
                async for frame in stream:
                    take(frame.id, "task" in frame.event)
                    if asyncio.get_running_loop().time() > until_s:
                        raise Again  # the connection is cut

        await self._try(read)


@contextlib.asynccontextmanager
async def fleet(
    stores: list[str], folder: Path, seed: int, **settings: float
) -> AsyncIterator[Fleet]:
    """Replicas that serve, while the block lasts."""
    made = Fleet(stores, folder, seed, **settings)
    try:
        await made.start()
        yield made
    finally:
        await made.close()


# What is stored

Query = Callable[..., list[Any]]


def stuck(schema: str, query: Query = execute) -> list[str]:
    """Tasks that nobody works on, or that have posts nobody has read."""
    states = ", ".join(str(state) for state in (*ENDED, INPUT_REQUIRED))
    rows = query(
        "SELECT t.id || ' ' || t.skill || ' state ' || t.state || ' owner ' ||"
        " coalesce(t.owner, 0) || ' posts ' || t.posts || '/' || t.posts_read"
        f" FROM {schema}.tasks t LEFT JOIN {schema}.replicas r ON r.id = t.owner"
        f" WHERE t.state NOT IN ({states}) OR t.posts <> t.posts_read"
        " OR (t.owner IS NOT NULL AND (r.id IS NULL OR r.died IS NOT NULL))"
    )
    return [row[0] for row in rows]


async def settled(schema: str, query: Query = execute, seconds: float = 30) -> None:
    """Wait until everything has ended or waits for its client, and nothing is unread."""
    async with asyncio.timeout(seconds + 1):
        try:
            await until(lambda: not stuck(schema, query), seconds=seconds)
        except Exception as error:
            raise Violation(f"stuck: {stuck(schema, query)}") from error


def check_stored(schema: str, clients: Clients, query: Query = execute) -> int:
    """Look at all that is stored: logs without gaps, every message once, counts that are right.
    Return how many tasks there are.
    """
    tasks = query(
        f"SELECT key, id, context, pos, seq, owner, posts, posts_read FROM {schema}.tasks"
    )
    said: dict[str, list[str]] = {}
    logs: dict[int, list[Row]] = {task[0]: [] for task in tasks}
    for task, pos, seq, at_ms, data in query(
        f"SELECT task, pos, seq, at_ms, data FROM {schema}.events ORDER BY task, pos"
    ):
        logs[task].append(Row(task, pos, seq, at_ms, data))
    for key, id_, context, pos, seq, owner, posts, posts_read in tasks:
        if owner is None and posts != posts_read:
            raise Violation(f"task {id_} has unread posts and no owner")
        entries = list(entries_of(logs[key], Ids(id_, context)))
        if [entry.pos for entry in entries] != list(range(1, pos + 1)):
            raise Violation(f"the log of task {id_} has a gap or a double")
        if max(entry.seq for entry in entries) != seq:
            raise Violation(f"task {id_} has {seq} events by its row, another number by its log")
        steps = [
            (numbered.entry.branch, numbered.entry.name, numbered.entry.n)
            for numbered in entries
            if isinstance(numbered.entry, StepEnded)
        ]
        if len(steps) != len(set(steps)):
            raise Violation(f"a step of task {id_} is recorded twice: {steps}")
        first: Any = entries[0].entry
        for text in [first.task.history[0].text] + [
            numbered.entry.message.text
            for numbered in entries
            if isinstance(numbered.entry, MessageAdded)
        ]:
            said.setdefault(text, []).append(id_)
    for text, task_id in clients.accepted.items():
        if said.get(text) != [task_id]:
            raise Violation(f"{text} was acknowledged for {task_id}, and is in {said.get(text)}")
    if doubled := {text: ids for text, ids in said.items() if len(ids) > 1}:
        raise Violation(f"stored twice: {doubled}")
    counted = dict(
        query(
            f"SELECT state, sum(n)::int FROM (SELECT state, n FROM {schema}.counts UNION ALL "
            f"SELECT state, n FROM {schema}.deltas) c GROUP BY state HAVING sum(n) <> 0"
        )
    )
    there = dict(query(f"SELECT state, count(*)::int FROM {schema}.tasks GROUP BY state"))
    if counted != there:
        raise Violation(f"counted {counted}, and there are {there}")
    return len(tasks)
