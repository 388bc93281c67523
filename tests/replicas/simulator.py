"""Several replicas of one agent in one simulated loop, with faults drawn from a seed.

The engines, operations and the memory store are the real ones. Simulated are time, the order in
which processes get to run, the network between a replica and its store, heartbeats, and the
clients. What must always hold is checked after every commit and at the end; `run(seed)` raises
`Violation` where it does not.
"""

import asyncio
import contextlib
import json
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from accord import Agent, Ask, Context
from accord.engine.log.entries import Ids, MessageAdded, StepEnded, entries_of
from accord.engine.ownership import Place, SlotState, TaskSlot, audit
from accord.engine.reading import View
from accord.engine.reading.tail import Tail
from accord.engine.reading.watches import LINGER_S
from accord.model import (
    A2AError,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendConfiguration,
    SendMessageRequest,
    SubscribeRequest,
    TaskNotCancelable,
    TooManyRequests,
    Unavailable,
    UnsupportedOperation,
)
from accord.operations import RESUME, Call
from accord.operations.send import send_message, send_streaming_message
from accord.operations.tasks import cancel_task, get_task, list_tasks, subscribe_to_task
from accord.store import FOREVER_MS, SystemClock
from accord.store.contract import (
    Ages,
    Append,
    Can,
    CommitFailed,
    ConversationState,
    Create,
    Idempotency,
    Item,
    LogEnd,
    Namespace,
    Owned,
    Page,
    Query,
    ReceivedPost,
    Record,
    Row,
    Stats,
    Wake,
)
from accord.store.memory import MemoryStore
from accord.store.rules import ENDED, INPUT_REQUIRED
from tests.replicas.clients import (
    COUNTED,
    Again,
    Clients,
    Ended,
    NotCancelable,
    Violation,
    together,
)
from tests.replicas.loop import Machine, SimulatedLoop

__all__ = ["Report", "Violation", "run"]

LEASE_S, BEAT_S, POLL_S = 3.0, 1.0, 2.0
AUDIT_S = 2.0
FAULTS_S = 30.0  # of simulated time, in which faults happen
SETTLE_S = 600.0  # after which whatever still waits is stuck
PATIENCE_S = 1000.0  # of a client with one request: who lives must answer it
STREAMED = 0.2  # of messages under a key
REPLICAS = 3
CLIENTS = 12

T = TypeVar("T")


class Gone(Exception):
    """The connection to a replica is lost: it died, or did not answer in time."""


class Report(msgspec.Struct):
    """What happened in one run."""

    faults: Counter[str]
    commits: int = 0
    tasks: int = 0
    told: int = 0  # answers that clients got
    events: int = 0  # that readers got
    turns: int = 0
    seconds: float = 0.0  # simulated


class Profile:
    """How often what goes wrong. Some kinds are left out of each run: what never fails shows what
    other faults hide.
    """

    def __init__(self, world: "World") -> None:
        draw = world.loop.random

        def often(most: float) -> float:
            return draw.choice((0.0, draw.random() * most))

        self.slow = often(0.1)  # calls that take long
        self.before = often(0.1)  # that fail, and nothing happened
        self.after = often(0.1)  # that fail or hang, and it did happen
        self.lost_wakes = draw.choice((0.0, 0.3, 1.0))
        self.kills = often(0.4)  # a second
        self.pauses = often(0.4)
        self.partitions = often(0.3)
        self.outages = often(0.1)
        self.stops = often(0.2)
        self.skew_s = draw.choice((0.0, 3600.0))


class DatabaseClock(SystemClock):
    """The database's clock, whatever that of the machine says which asks."""

    def __init__(self, database: Machine) -> None:
        self._database = database

    def now_ms(self) -> int:
        return self._database.context.run(super().now_ms)


class Remote:
    """A memory store as a replica sees it over a network that fails."""

    is_volatile, outlives_process = False, True
    files_url = "file:///nowhere"  # no message here has a large one
    clock_ahead_s = 0.0

    def __init__(self, world: "World", machine: Machine) -> None:
        self._world = world
        self._machine = machine
        self.inner = world.state.another()
        self.clock = DatabaseClock(world.database)
        self.files = self.inner.files
        self.now_ms = self.clock.now_ms
        self.beaten_s = world.loop.time()
        self.cut_until_s = 0.0  # nothing gets through until then
        self._wake: Wake = lambda tasks: None
        self._polling: asyncio.Task[None] | None = None
        self._watched: dict[int, int] = {}  # tasks, with the position they were last seen at
        self.watched_s: dict[int, float] = {}  # when a task was last watched: somebody was to read

    @property
    def replica(self) -> int:
        return self.inner.replica

    @property
    def is_shared(self) -> bool:
        return True

    @property
    def living(self) -> int:
        return self.inner.living

    @property
    def is_sure(self) -> bool:
        return self._world.loop.time() - self.beaten_s < LEASE_S - BEAT_S

    @property
    def is_cut(self) -> bool:
        now_s = self._world.loop.time()
        return now_s < self.cut_until_s or now_s < self._world.out_until_s

    # The network

    async def _travel(self) -> None:
        world = self._world
        draw = world.loop.random
        if draw.random() < world.profile.slow:
            world.report.faults["slow"] += 1
            await asyncio.sleep(draw.random() * 1.5)
        else:
            await asyncio.sleep(draw.random() * 0.004)

    async def _there(self, error: type[Exception]) -> None:
        await self._travel()
        world = self._world
        if self.is_cut or world.fails(world.profile.before, "fails before"):
            raise error("the store can't be reached")

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """What the database does, by its own clock, in one step."""
        return self._world.database.context.run(_step, work)

    async def _do_in_steps(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for what takes the database several statements: others come in between."""
        while True:
            try:
                self._world.database.context.run(work.send, None)
            except StopIteration as done:
                found: T = done.value
                return found
            await self._travel()

    async def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """A read or a claim, which may be done and its answer be lost."""
        await self._there(Unavailable)
        found = await self._do_in_steps(work())
        await self._travel()
        if self._world.fails(self._world.profile.after, "answer lost"):
            raise Unavailable("the answer was lost")
        return found

    # The store

    async def open(self, wake: Wake) -> None:
        self._wake = wake
        await self._travel()
        self._do(self.inner.open(self._woken))
        self.beaten_s = self._world.loop.time()
        if self._polling is None:
            self._polling = asyncio.get_running_loop().create_task(self._poll())

    def _woken(self, tasks: Collection[int] | None) -> None:
        """Another process has written: a hint, which may be lost."""
        world = self._world
        if not world.fails(world.profile.lost_wakes, "lost wake"):
            world.loop.call_later(
                world.loop.random.random() * 0.004,
                self._wake,
                tasks,
                context=self._machine.context.copy(),
            )

    async def _poll(self) -> None:
        """Look for what no wake-up reported. As on PostgreSQL the answer takes its time, and what
        was reported once is not reported again.
        """
        while True:
            await asyncio.sleep(POLL_S)
            asked = list(self._watched)
            await self._travel()
            if self.is_cut:
                continue
            ends = self._do(self.inner.ends(asked))
            posts = self._do(self.inner.unread_posts(None))
            await self._travel()
            known = self._watched
            grown = {key: end.pos for key, end in ends.items() if known.get(key, end.pos) < end.pos}
            self._watched |= grown
            self._wake({*grown, *(post.task for post in posts)})

    async def rejoin(self) -> None:
        await self._call(self.inner.rejoin)
        self._watched.clear()  # the next number watches nothing yet
        self.beaten_s = self._world.loop.time()

    async def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        self._do(self.inner.close())

    async def commit(self, items: Any) -> list[bool]:
        await self._there(CommitFailed)
        world = self._world
        before = world.before(items)
        stored: list[bool] = self._do(self.inner.commit(items))
        world.committed(self, items, stored, before)
        await self._travel()
        if world.fails(world.profile.after, "outcome unknown"):
            # It asks for the outcome by the number of its batch, as soon as it is connected again.
            await asyncio.sleep(world.loop.random.random() * 2)
        while self.is_cut:  # noqa: ASYNC110  a fault ends at its time
            await asyncio.sleep(0.1)
        return stored

    async def claim(self, namespace: Namespace, task_id: str, **how: Any) -> Record | None:
        record = await self._call(lambda: self.inner.claim(namespace, task_id, **how))
        if record is not None and how.get("watch") and record.owner not in (0, self.replica):
            self._watch(record)
        return record

    async def unclaim(self, key: int, pos: int) -> None:
        await self._call(lambda: self.inner.unclaim(key, pos))

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        return await self._call(lambda: self.inner.orphans(limit, can))

    async def due(self, limit: int, can: Can) -> list[Record]:
        return await self._call(lambda: self.inner.due(limit, can))

    async def owned(self) -> list[Owned]:
        return await self._call(self.inner.owned)

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        record = await self._call(lambda: self.inner.load(namespace, task_id, watch=watch))
        if watch and record is not None:
            self._watch(record)
        return record

    def _watch(self, record: Record) -> None:
        self._watched.setdefault(record.key, record.pos)
        self.watched_s[record.key] = self._world.loop.time()

    async def unwatch(self, tasks: Collection[int]) -> None:
        for key in tasks:
            self._watched.pop(key, None)
        await self._call(lambda: self.inner.unwatch(tasks))

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        return await self._call(lambda: self.inner.read(after))

    async def ends(self, tasks: Collection[int]) -> dict[int, LogEnd]:
        return await self._call(lambda: self.inner.ends(tasks))

    async def locate(self, task: int, seq: int) -> int:
        return await self._call(lambda: self.inner.locate(task, seq))

    async def unread_posts(self, tasks: Collection[int] | None) -> list[ReceivedPost]:
        return await self._call(lambda: self.inner.unread_posts(tasks))

    async def page(self, query: Query) -> Page:
        return await self._call(lambda: self.inner.page(query))

    async def idempotency(
        self, namespace: Namespace, key: str, kept_ms: int = FOREVER_MS
    ) -> Idempotency | None:
        return await self._call(lambda: self.inner.idempotency(namespace, key, kept_ms))

    async def conversation_state(
        self, namespace: Namespace, context_id: str
    ) -> ConversationState | None:
        return await self._call(lambda: self.inner.conversation_state(namespace, context_id))

    async def beat(self) -> None:
        await self._there(CommitFailed)
        self._do(self.inner.beat())

    async def purge(self, ages: Ages, limit: int) -> int:
        return await self._call(lambda: self.inner.purge(ages, limit))

    async def stats(self) -> Stats:
        return await self._call(self.inner.stats)


def _step(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise AssertionError("the memory store has waited for something")


class Replica:
    """A process that serves the agent."""

    def __init__(self, world: "World", number: int) -> None:
        skew_s = world.loop.random.uniform(-1, 1) * world.profile.skew_s
        self.machine = world.loop.machine(f"replica {number}", skew_s)
        self.store = Remote(world, self.machine)
        self.app = self.machine.context.run(world.agent.app, store=cast(Any, self.store))
        self.directory = self.app._engine.tasks.directory
        self.directory.on_move = partial(world.moved, self)
        self.app._engine.tasks.views.on_turn = partial(world.viewed, self)
        self.tails: dict[Place, Tail] = {}  # as they were when their slot last moved
        self.unread_since_s: dict[int, float] = {}  # keys that are watched, and nobody reads
        self.is_open = False
        self.is_closing = False
        self.calls: dict[asyncio.Future[Any], None] = {}  # of clients that wait for an answer

    @property
    def is_up(self) -> bool:
        return self.is_open and not self.machine.is_dead


class World:
    """Replicas, clients, faults, and what has to be true of them."""

    def __init__(self, seed: int) -> None:
        self.loop = SimulatedLoop(seed)  # type: ignore[abstract]  # what is left out is not called
        self.random = self.loop.random
        self.clients = Clients(self)
        self.clients.booked = self._booked
        self.database = self.loop.machine("database")
        self.outside = self.loop.machine("clients")
        self.profile = Profile(self)
        self.state = MemoryStore()
        self.report = Report(Counter())
        self.agent = Agent("Simulated")
        self.replicas: list[Replica] = []
        self.out_until_s = 0.0
        self.is_faulty = True
        self.violation: Violation | None = None  # the first
        self.certified: set[int] = set()  # numbers that were declared dead
        self._numbers = 0
        self._ends: dict[int, int] = {}  # position each log has grown to
        self._over: dict[int, int] = {}  # state in which a task ended, by key
        self.effects: defaultdict[str, list[str]] = defaultdict(list)
        for skill in (self.plain, self.flow):
            self.agent.skill(skill)
        for durable in (self.count, self.trip, self.chat):
            self.agent.skill(durable, durable=True)

    # The agent

    async def plain(self, text: str) -> str:
        await asyncio.sleep(0.05)
        return f"plain {text}"

    async def count(self, text: str) -> AsyncIterator[str]:
        for n in range(COUNTED):
            yield f"{n} "
            await asyncio.sleep(0.3)

    async def flow(self, text: str) -> Ask:
        await asyncio.sleep(0.05)
        return Ask(f"heard {text}", takes_waiting=True)

    async def chat(self, text: str) -> Ask:
        await asyncio.sleep(0.1)
        return Ask(f"heard {text}", takes_waiting=True)

    async def trip(self, text: str, ctx: Context) -> str:
        hotel = await ctx.step(self.book, text, "hotel", name="hotel")
        choice = await ctx.ask(f"which of {hotel}")
        train = await ctx.step(self.book, text, "train", name="train")
        return f"{hotel} {choice} {train}"

    async def book(self, text: str, what: str) -> str:
        await asyncio.sleep(0.1)
        booked = self.effects[f"{text} {what}"]
        booked.append(f"{what}-{len(booked)}")
        return booked[-1]

    async def _booked(self, text: str, what: str) -> list[str]:
        return self.effects[f"{text} {what}"]

    # Faults

    def fails(self, probability: float, kind: str) -> bool:
        if not self.is_faulty or self.loop.random.random() >= probability:
            return False
        self.report.faults[kind] += 1
        return True

    async def start(self) -> None:
        """Start one more replica; one that can't open tries again, as a supervisor has it do."""
        self._numbers += 1
        replica = Replica(self, self._numbers)
        self.replicas.append(replica)
        while not replica.machine.is_dead:
            try:
                await self._within(replica, replica.app.open)
                replica.is_open = True
                return
            except Gone:
                return
            except A2AError:
                self.kill(replica)
                await asyncio.sleep(0.5)
                self._numbers += 1
                replica = Replica(self, self._numbers)
                self.replicas.append(replica)

    def kill(self, replica: Replica) -> None:
        """The process ends, now."""
        self.loop.kill(replica.machine)
        self.replicas.remove(replica)
        for call in list(replica.calls):
            if not call.done():
                call.set_exception(Gone())
        self.loop.call_later(
            LEASE_S + BEAT_S,
            self._certify,
            replica,
            replica.store.replica,
            context=self.outside.context,
        )

    def _certify(self, replica: Replica, number: int) -> None:
        """Others have seen its heart stand still for a lease."""
        if replica.store.replica == number and number not in self.certified:
            self.certified.add(number)
            replica.store.inner.kill()

    async def hearts(self) -> None:
        """Beat for every process that can, and certify the death of those that stand still. Nobody
        judges during an outage: nobody's own heart beats then.
        """
        while True:
            await asyncio.sleep(0.25)
            now_s = self.loop.time()
            self.check_watches()
            if now_s < self.out_until_s:
                continue
            for replica in list(self.replicas):
                store = replica.store
                if not replica.machine.is_paused and not store.is_cut:
                    if store.replica not in self.certified:
                        store.beaten_s = now_s
                elif now_s - max(store.beaten_s, self.out_until_s) > LEASE_S and store.replica:
                    self._certify(replica, store.replica)

    async def trouble(self) -> None:
        """Make faults, until it is enough."""
        draw, profile = self.loop.random, self.profile
        while self.loop.time() < FAULTS_S:
            await asyncio.sleep(draw.random() * 0.5)
            up = [replica for replica in self.replicas if replica.is_up]
            if not up:
                continue
            replica = draw.choice(up)
            if self.fails(profile.kills / 4, "kill"):
                self.kill(replica)
                self._later(draw.random() * 5, self.start)
            elif self.fails(profile.pauses / 4, "pause"):
                self.loop.pause(replica.machine)
                self._later(draw.choice((0.5, 2.0, LEASE_S + 2)), partial(self._resume, replica))
            elif self.fails(profile.partitions / 4, "partition"):
                replica.store.cut_until_s = self.loop.time() + draw.choice((0.5, 2.0, LEASE_S + 3))
            elif self.fails(profile.outages / 4, "outage"):
                self.out_until_s = self.loop.time() + draw.choice((1.0, 5.0, 20.0))
            elif self.fails(profile.stops / 4, "stop") and not replica.is_closing:
                self._later(0, partial(self._stop, replica))
        self.is_faulty = False
        for replica in self.replicas:
            self.loop.resume(replica.machine)

    def _later(self, delay_s: float, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        async def do() -> None:
            await asyncio.sleep(delay_s)
            await work()

        self.loop.create_task(do())

    async def _resume(self, replica: Replica) -> None:
        if not replica.machine.is_dead:
            self.loop.resume(replica.machine)

    async def _stop(self, replica: Replica) -> None:
        """SIGTERM, and a new process instead."""
        replica.is_closing = True
        with contextlib.suppress(Gone, A2AError, CommitFailed):
            await self._within(replica, lambda: replica.app.close(1.0), 60)
        if not replica.machine.is_dead:
            self.kill(replica)
        await self.start()

    # Clients

    def _within(
        self,
        replica: Replica,
        work: Callable[[], Coroutine[Any, Any, T]],
        patience_s: float = PATIENCE_S,
    ) -> "asyncio.Future[T]":
        """Have a process do something; who asks for it is elsewhere, and may wait in vain."""
        answer: asyncio.Future[T] = self.loop.create_future()
        if replica.machine.is_dead:
            answer.set_exception(Gone())
            return answer
        replica.calls[answer] = None
        outside = self.outside.context
        delay_s = self.loop.random.random() * 0.002

        async def do() -> None:
            try:
                result = await work()
            except Exception as error:
                self.loop.call_later(delay_s, _settle, answer, None, error, context=outside)
            else:
                self.loop.call_later(delay_s, _settle, answer, result, None, context=outside)

        context = replica.machine.context.copy()
        doing = context.run(self.loop.create_task, do(), context=context)
        timer = self.loop.call_later(patience_s, _settle, answer, None, Gone(), context=outside)

        def over(answer: Any) -> None:
            timer.cancel()
            replica.calls.pop(answer, None)
            if not doing.done():  # the client has hung up
                context.run(self.loop.call_soon, doing.cancel, context=context)

        answer.add_done_callback(over)
        return answer

    def anyone(self) -> Replica:
        up = [replica for replica in self.replicas if replica.is_up]
        if not up:
            raise Again
        return self.random.choice(up)

    async def _try(
        self, operation: Callable[[Replica], Coroutine[Any, Any, T]], patience_s: float = PATIENCE_S
    ) -> T:
        """Call any replica."""
        replica = self.anyone()
        try:
            return await self._within(replica, partial(operation, replica), patience_s)
        except (Gone, Unavailable, TooManyRequests) as error:
            raise Again from error
        except UnsupportedOperation as error:
            raise Ended from error
        except TaskNotCancelable as error:
            raise NotCancelable from error

    async def send(
        self, text: str, skill: str, task_id: str, *, is_quick: bool, has_key: bool = True
    ) -> dict[str, Any]:
        def request() -> SendMessageRequest:
            message = Message(
                message_id=text,
                role=Role.USER,
                parts=[Part(text=text)],
                task_id=task_id,
                metadata={"skill": skill} if skill else None,
            )
            configuration = SendConfiguration(return_immediately=is_quick)
            return SendMessageRequest(message=message, configuration=configuration)

        async def stream(replica: Replica) -> None:
            call = Call(idempotency_key=text)
            view = await send_streaming_message(replica.app._service, call, request())
            assert isinstance(view, View)  # these skills answer with tasks
            try:
                while await view.next(15.0) != []:
                    pass
            finally:
                view.close()

        async def operation(replica: Replica) -> Any:
            call = Call(idempotency_key=text if has_key else "")
            return await send_message(replica.app._service, call, request())

        if has_key and self.random.random() < STREAMED:
            await self._try(stream)  # and what came of it, by the same key
        return _read(await self._try(operation))

    async def get(self, task_id: str) -> dict[str, Any]:
        async def operation(replica: Replica) -> Any:
            return await get_task(replica.app._service, Call(), GetTaskRequest(id=task_id))

        return _read(await self._try(operation))

    async def cancel(self, task_id: str) -> dict[str, Any]:
        async def operation(replica: Replica) -> Any:
            return await cancel_task(replica.app._service, Call(), CancelTaskRequest(id=task_id))

        return _read(await self._try(operation))

    async def page(self) -> tuple[set[str], int]:
        async def operation(replica: Replica) -> Any:
            request = ListTasksRequest(page_size=100)
            return await list_tasks(replica.app._service, Call(), request)

        page = await self._try(operation)
        return {json.loads(task)["id"] for task in page.tasks}, page.total_size

    async def follow(
        self, task_id: str, after: int | None, take: Callable[[int, bool], None]
    ) -> None:
        async def operation(replica: Replica) -> None:
            call = Call(extensions=frozenset({RESUME}), last_event=after)
            view = await subscribe_to_task(replica.app._service, call, SubscribeRequest(id=task_id))
            try:
                while (events := await view.next(15.0)) != []:
                    for event in events or ():
                        take(event.seq, event.data.startswith(b'{"task"'))
            finally:
                view.close()

        await self._try(operation, self.random.random() * 10)

    # What always holds

    def before(self, items: Collection[Item]) -> dict[int, int]:
        """Who owned the tasks of a batch before it."""
        tasks = self.state._state.tasks
        return {
            item.key: tasks[item.key].record.owner
            for item in items
            if isinstance(item, Append) and item.key in tasks
        }

    def committed(
        self, store: Remote, items: Any, stored: list[bool], owners: dict[int, int]
    ) -> None:
        """Look at everything a batch has touched."""
        try:
            self._check_committed(store, items, stored, owners)
        except Violation as error:
            self.violation = self.violation or error  # a writer survives whatever a store raises
            raise

    def _check_committed(
        self, store: Remote, items: Any, stored: list[bool], owners: dict[int, int]
    ) -> None:
        self.report.commits += 1
        if store.replica in self.certified:
            raise Violation(f"replica {store.replica} was declared dead, and its batch is stored")
        tasks = self.state._state.tasks
        for item, is_stored in zip(items, stored, strict=True):
            if not is_stored or not isinstance(item, (Create, Append)):
                continue
            begins = self._ends.get(item.key, 0)
            if isinstance(item, Append) and (
                item.before != begins or owners[item.key] != store.replica
            ):
                raise Violation(
                    f"replica {store.replica} wrote position {item.before + 1} of a log that has "
                    f"{begins} and is owned by {owners[item.key]}"
                )
            if item.data.count(b"\n") + 1 != item.pos - begins:
                raise Violation(f"a log has a gap or a double after position {begins}")
            self._ends[item.key] = item.pos
            if item.key in self._over:
                raise Violation(f"a task that had ended goes on as {item.state}")
            if item.state in ENDED:
                self._over[item.key] = item.state
        for task in tasks.values():
            if not task.record.owner and task.unread_posts:
                raise Violation(f"task {task.record.id} has unread posts and no owner")

    def moved(self, replica: Replica, slot: TaskSlot) -> None:
        """Look at a slot that has changed: what a process thinks of a task, and what is so."""
        if replica.machine.is_dead:
            return
        try:
            self._check_slot(replica, slot)
        except Violation as error:
            self.violation = self.violation or error
            raise

    def viewed(self, replica: Replica, tail: Tail, turn: int) -> None:
        """Look at a view that was opened for a turn: the turn is stored."""
        task = self.state._state.tasks.get(tail.slot.key)
        if not replica.machine.is_dead and (task is None or task.record.pos < turn):
            self.violation = self.violation or Violation(
                f"a view of task {tail.ids.task_id} is for turn {turn}, which is not stored"
            )
            raise self.violation

    def check_watches(self) -> None:
        """Look at what replicas watch: somebody reads it, or did a moment ago. What could not be
        ended for a fault is tried again, so this is looked at when the faults are over.
        """
        now_s, watchers = self.loop.time(), self.state._state.watchers
        for replica in self.replicas:
            # Of a watch whose answer was lost, a replica knows when it is woken.
            known = replica.app._engine.tasks.views.remote
            watched = [
                key
                for key, handles in watchers.items()
                if replica.store.inner in handles and known.is_watched(key)
            ]
            unread = [key for key in watched if not self._is_read(replica, key)]
            if self.is_faulty or not replica.is_up or replica.is_closing:
                unread = []
            # Somebody may have read for less than the time between two looks.
            since, watched_s = replica.unread_since_s, replica.store.watched_s
            replica.unread_since_s = {
                key: max(since.get(key, now_s), watched_s.get(key, 0.0)) for key in unread
            }
            for key, since_s in replica.unread_since_s.items():
                if now_s - since_s > 2 * LINGER_S:
                    self.violation = self.violation or Violation(
                        f"replica {replica.store.replica} watches key {key}, which nobody has read "
                        f"for {now_s - since_s:.1f} s"
                    )

    def _is_read(self, replica: Replica, key: int) -> bool:
        slot = replica.directory.slot(key)
        return slot is not None and slot.tail is not None and slot.tail.is_used

    def _check_receipts(self, replica: Replica, slot: TaskSlot) -> None:
        """A receipt is kept by the tail of its slot: a slot drops no tail that has one."""
        before = replica.tails.pop(slot.place, None)
        if before is not None and before is not slot.tail and before.receipts:
            raise Violation(
                f"{before.receipts} receipts of task {slot.place[1]} outlive their slot"
            )
        if slot.tail is not None:
            replica.tails[slot.place] = slot.tail
            if slot.tail.slot is not slot:
                raise Violation(f"the tail of task {slot.place[1]} is that of another slot")

    def _check_one_owner(self, replica: Replica, slot: TaskSlot) -> None:
        """No other process that lives thinks that it owns the same task, as it is stored."""
        for other in self.replicas:
            if other is replica or other.machine.is_dead:
                continue
            found = other.directory.slot(slot.key)
            if found is None or found.state is not SlotState.OWNED or found.log is None:
                continue
            is_sure = other.store.replica in self.state._state.living
            if is_sure and found.log.commits.is_stored and not found.log.commits.is_pending:
                raise Violation(
                    f"replicas {replica.store.replica} and {other.store.replica} both own task "
                    f"{slot.place[1]}"
                )

    def _check_slot(self, replica: Replica, slot: TaskSlot) -> None:
        self._check_receipts(replica, slot)
        if slot.state in (SlotState.IDLE, SlotState.READING, SlotState.ABSENT) and slot.run:
            raise Violation(f"task {slot.place[1]} is {slot.state.value} and has a run")
        if slot.state is SlotState.ABSENT and (slot.log is not None or slot.tail is not None):
            raise Violation(f"task {slot.place[1]} is absent, and somebody waits for it")
        if slot.state is not SlotState.OWNED or slot.log is None:
            return
        if not slot.key or slot.key != slot.log.key:
            raise Violation(f"task {slot.place[1]} is owned under a key that is not its own")
        task = self.state._state.tasks.get(slot.key)
        store, log = replica.store, slot.log
        is_in_flight = not log.commits.is_stored or log.commits.is_pending
        if store.replica not in self.state._state.living or is_in_flight or task is None:
            return  # it learns soon of its death, or of what became of its commit
        if task.record.owner != store.replica:
            raise Violation(
                f"replica {store.replica} thinks that it owns task {slot.place[1]}, which is "
                f"owned by {task.record.owner}"
            )
        self._check_one_owner(replica, slot)

    async def settled(self) -> None:
        """At the end nothing is lost, doubled or stuck."""
        tasks = self.state._state.tasks
        while True:  # functions that wait have an owner, all other tasks have ended or rest
            open_ = [
                task
                for task in tasks.values()
                if task.unread_posts
                or task.record.state not in (*ENDED, INPUT_REQUIRED)
                or task.record.owner not in (0, *self.state._state.living)
            ]
            if not open_:
                break
            await asyncio.sleep(1)

    def stuck(self) -> str:
        return (
            "; ".join(
                f"task {task.record.id} ({task.record.skill}) state {task.record.state} owner "
                f"{task.record.owner} mail {len(task.unread_posts)}"
                for task in self.state._state.tasks.values()
                if task.unread_posts
                or task.record.state not in (*ENDED, INPUT_REQUIRED)
                or task.record.owner not in (0, *self.state._state.living)
            )
            + f"; living {sorted(self.state._state.living)}"
        )

    def check_all(self) -> None:
        if self.violation is not None:
            raise self.violation
        state = self.state._state
        self.report.tasks = len(state.tasks)
        ids = Counter(task.record.id for task in state.tasks.values())
        if ids and max(ids.values()) > 1:
            raise Violation("two tasks have one id")
        said: Counter[str] = Counter()
        for task in state.tasks.values():
            record = task.record
            entries = list(entries_of(task.log, Ids(record.id, record.context_id)))
            if [entry.pos for entry in entries] != list(range(1, record.pos + 1)):
                raise Violation(f"the log of task {record.id} has a gap or a double")
            steps = Counter(
                (numbered.entry.name, numbered.entry.branch, numbered.entry.n)
                for numbered in entries
                if isinstance(numbered.entry, StepEnded)
            )
            if steps and max(steps.values()) > 1:
                raise Violation(f"a step of task {record.id} is recorded twice: {steps}")
            said.update(
                numbered.entry.message.text
                for numbered in entries
                if isinstance(numbered.entry, MessageAdded)
            )
            first = json.loads(entries[0].entry.task.history[0].text.join('""'))  # type: ignore[union-attr]  # every log begins with its task
            said[first] += 1
        for text, task_id in self.clients.accepted.items():
            if said[text] != 1:
                raise Violation(f"{text} of task {task_id} is stored {said[text]} times")
        if doubled := [text for text, count in said.items() if count > 1]:
            raise Violation(f"stored twice: {doubled}")
        listed = sum(len(index.places) for index in state.indexes.values())
        by_state = sum(
            len(places) for index in state.indexes.values() for places in index.by_state.values()
        )
        if not len(state.tasks) == listed == by_state:
            raise Violation(f"{len(state.tasks)} tasks, {listed} listed, {by_state} by state")

    # The run

    async def main(self) -> None:
        for _ in range(REPLICAS):
            await self.start()

        async def client(n: int) -> None:
            await asyncio.sleep(self.random.random() * FAULTS_S * 0.8)
            await self.clients.anything(f"c{n}")

        hearts = self.loop.create_task(self.hearts())
        await together(self.trouble(), *(client(n) for n in range(CLIENTS)))
        while not any(replica.is_up for replica in self.replicas):  # noqa: ASYNC110  a supervisor starts one
            await asyncio.sleep(1)
        await self.settled()
        await asyncio.sleep(3 * LINGER_S)  # what nobody reads any more is not watched any more
        hearts.cancel()


def _settle(answer: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)


def _read(snapshot: Any) -> dict[str, Any]:
    task: dict[str, Any] = json.loads(snapshot.data)
    return task


def run(seed: int) -> Report:
    """Simulate one seed. Raises Violation, with the seed in it."""
    world = World(seed)
    accord = logging.getLogger("accord")
    was, accord.disabled = accord.disabled, True  # faults are what this is about
    audit_s, audit.AUDIT_S = audit.AUDIT_S, AUDIT_S
    try:
        world.loop.run(world.main(), world.outside, FAULTS_S + SETTLE_S)
        world.check_all()
    except Violation as error:
        raise Violation(f"seed {seed}: {error}") from error
    except TimeoutError as error:
        what = world.violation or f"something is stuck: {world.stuck()}"
        raise Violation(f"seed {seed}: {what}") from error
    finally:
        world.is_faulty = False
        world.loop.end()
        accord.disabled = was
        audit.AUDIT_S = audit_s
    world.report.told, world.report.events = world.clients.answers, world.clients.events
    world.report.turns = world.loop.turns
    world.report.seconds = world.loop.time()
    return world.report
