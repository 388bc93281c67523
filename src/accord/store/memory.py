"""The store that forgets: `memory://`. For tests and demos, and the reference for every rule of the
contract.

Several handles may share one state, each a replica of its own: so a test, or a simulator, has
several processes in one.
"""

import asyncio
import heapq
import itertools
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from .clock import FOREVER_MS, StoreClock, SystemClock
from .contract import (
    ANY_FORMAT,
    MAX_POSTS,
    Ages,
    Append,
    Can,
    ConversationState,
    Create,
    Ended,
    Fenced,
    Idempotency,
    Item,
    Leaves,
    LogEnd,
    Namespace,
    Owned,
    Page,
    Post,
    Query,
    ReceivedPost,
    Record,
    Row,
    StateWrite,
    Stats,
    Wake,
)
from .file_index import FileIndex, MemoryFileIndex
from .keys import KeyStore, MemoryKeys
from .logins import LoginStore, MemoryLogins
from .memory_push import MemoryPushes, PushTable
from .push import PushStore
from .rules import (
    ENDED,
    INPUT_REQUIRED,
    MINUTE_MS,
    PIECE_BYTES,
    PIECE_ROWS,
    WAITING,
    WORKED_ON,
    is_released,
    log_overwritten,
    rough_ms,
)
from .samples import MemorySamples, SampleStore

__all__ = ["MemoryStore"]

Place: TypeAlias = tuple[int, int]  # (at_ms, key): where a task stands in lists, oldest first


class _Task(msgspec.Struct, gc=False):
    """A task with its log and its unread posts."""

    record: Record
    log: list[Row]
    unread_posts: list[ReceivedPost]
    is_purged: bool = False  # its log may have been deleted: the snapshot says it all

    def seen(self, *, has_artifacts: bool = True) -> Record:
        """A copy as the task stands now: the original changes with the next commit."""
        record = replace(self.record)
        if record.is_stale:
            record.rows = self.log[bisect_right(self.log, record.snap, key=_pos) :]
        if not has_artifacts:
            record.artifacts = b"[]"
        return record


def _is_unowned(record: Record) -> bool:
    """Whether a task is worked on, and by nobody."""
    return not record.owner and not record.due_ms and record.state in WORKED_ON


def _pos(row: Row) -> int:
    return row.pos


def _seq(row: Row) -> int:
    return row.seq


class _Index:
    """The tasks of one namespace, by id and in sorted lists: a page costs the page, not the
    list.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, _Task] = {}
        self.places: list[Place] = []
        self.by_state: defaultdict[int, list[Place]] = defaultdict(list)
        self.by_context: defaultdict[str, list[Place]] = defaultdict(list)

    def put(self, record: Record) -> None:
        # Nearly every change is near the newest end, where inserting into a list moves next to
        # nothing.
        for places in self._lists(record):
            insort(places, (record.at_ms, record.key))

    def remove(self, record: Record) -> None:
        for places in self._lists(record):
            del places[bisect_left(places, (record.at_ms, record.key))]
        if not self.by_context[record.context_id]:
            del self.by_context[record.context_id]

    def _lists(self, record: Record) -> tuple[list[Place], ...]:
        return self.places, self.by_state[record.state], self.by_context[record.context_id]

    def matching(self, query: Query) -> list[Place]:
        """The shortest list that has every match. With a context and a state, the state is still to
        be looked at.
        """
        if query.context_id:
            return self.by_context.get(query.context_id, [])
        return self.by_state.get(query.state, []) if query.state else self.places


class _Remembered(msgspec.Struct, gc=False):
    """The state of a conversation, and the task that wrote it."""

    state: ConversationState
    task: int


class _State:
    """What the handles share."""

    def __init__(self, clock: StoreClock) -> None:
        self.clock = clock
        self.numbers = itertools.count(1)
        self.tasks: dict[int, _Task] = {}
        self.owned: defaultdict[int, set[int]] = defaultdict(set)  # by replica
        self.indexes: defaultdict[Namespace, _Index] = defaultdict(_Index)
        self.keys: dict[tuple[Namespace, str], Idempotency] = {}
        self.conversations: dict[tuple[Namespace, str], _Remembered] = {}
        self.api_keys = MemoryKeys(clock.now_ms)
        self.logins = MemoryLogins(clock.now_ms)
        self.samples = MemorySamples()
        self.files = MemoryFileIndex()
        self.living: dict[int, MemoryStore] = {}
        self.seen_ms: dict[int, int] = {}  # when a replica last beat or committed, dead ones too
        # by task; in the order they came, so that a simulation can be repeated
        self.watchers: defaultdict[int, dict[MemoryStore, None]] = defaultdict(dict)
        self.pushes = PushTable(self._where)
        self.due: list[Place] = []  # a heap; what is not so any more is dropped when it comes up

    def _where(self, key: int) -> tuple[str, str, int] | None:
        task = self.tasks.get(key)
        return (
            (task.record.id, task.record.context_id, task.record.state)
            if task is not None
            else None
        )

    def find(self, namespace: Namespace, task_id: str) -> _Task | None:
        index = self.indexes.get(namespace)
        return index.tasks.get(task_id) if index is not None else None

    def is_taken(self, key: Idempotency | None, now_ms: int) -> bool:
        if key is None:
            return False
        there = self.keys.get((key.namespace, key.key))
        return there is not None and there.at_ms >= now_ms - key.kept_ms

    def put_key(self, key: Idempotency | None, now_ms: int) -> None:
        if key is not None:
            self.keys[key.namespace, key.key] = replace(key, at_ms=now_ms)

    def give(self, record: Record, owner: int) -> None:
        """Make a replica the owner of a task; 0: nobody."""
        self.owned[record.owner].discard(record.key)
        record.owner = owner
        if owner:
            self.owned[owner].add(record.key)

    def put_due(self, record: Record) -> None:
        if record.due_ms:
            heapq.heappush(self.due, (record.due_ms, record.key))

    def orphaned(self) -> list[int]:
        return [
            key
            for replica, keys in self.owned.items()
            if replica not in self.living
            for key in keys
        ]

    def older(
        self, states: Collection[int], before_ms: int, agents: Container[str] | None = None
    ) -> list[_Task]:
        """Tasks in these states since before then."""
        return [
            self.tasks[key]
            for namespace, index in self.indexes.items()
            if agents is None or namespace.agent in agents
            for state in states
            if state in index.by_state
            for _, key in itertools.takewhile(
                lambda place: place[0] < before_ms, index.by_state[state]
            )
        ]


class MemoryStore:
    """A handle on tasks in memory; `another()` gives one more on the same tasks, as another process
    would have.
    """

    is_volatile = True
    clock_ahead_s = 0.0
    files_url = ""

    def __init__(self, shared: _State | None = None, *, clock: StoreClock | None = None) -> None:
        self.replica = 0
        self.is_shared = shared is not None
        self.is_sure = True
        self._state = shared if shared is not None else _State(clock or SystemClock())
        self.clock = self._state.clock
        self.now_ms = self.clock.now_ms
        self.pushes: PushStore = MemoryPushes(self._state.pushes, self.now_ms)
        self.keys: KeyStore = self._state.api_keys
        self.logins: LoginStore = self._state.logins
        self.samples: SampleStore = self._state.samples
        self.files: FileIndex = self._state.files
        self._wake: Wake = lambda tasks: None

    @property
    def living(self) -> int:
        return max(len(self._state.living), 1)

    @property
    def outlives_process(self) -> bool:
        return self.is_shared

    def another(self) -> "MemoryStore":
        """Return a second handle, to be opened: another replica on the same tasks."""
        self.is_shared = True
        return MemoryStore(self._state)

    def kill(self) -> None:
        """Declare this replica dead, as others would after its heartbeat stood still: its tasks are
        orphans, it is fenced.
        """
        self.is_sure = False
        self._state.living.pop(self.replica, None)

    async def open(self, wake: Wake) -> None:
        """Every opening is a new replica, also of a handle that was closed or killed."""
        self._state.living.pop(self.replica, None)
        self.replica, self.is_sure, self._wake = next(self._state.numbers), True, wake
        self._state.living[self.replica] = self
        self._state.seen_ms[self.replica] = self.now_ms()

    async def rejoin(self) -> None:
        for watchers in self._state.watchers.values():
            watchers.pop(self, None)
        await self.open(self._wake)

    async def close(self) -> None:
        self._state.living.pop(self.replica, None)
        for watchers in self._state.watchers.values():
            watchers.pop(self, None)

    # Writing

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        self._check_fence()
        at_ms = self._state.seen_ms[self.replica] = self.now_ms()
        outcomes: list[bool] = []
        woken: defaultdict[MemoryStore, set[int]] = defaultdict(set)
        is_due = False
        for item in items:
            if isinstance(item, Create):
                outcomes.append(self._create(item, at_ms))
            elif isinstance(item, Append):
                outcomes.append(self._append(item, at_ms))
                if outcomes[-1]:
                    for handle in self._state.watchers.get(item.key, ()):
                        if handle is not self:
                            woken[handle].add(item.key)
            elif isinstance(item, Post):
                outcomes.append(self._post(item, at_ms))
                if outcomes[-1]:
                    woken[self._state.living[self._state.tasks[item.task].record.owner]].add(
                        item.task
                    )
            else:
                outcomes.append(not self._state.is_taken(item, at_ms))
                if outcomes[-1]:
                    self._state.put_key(item, at_ms)
            if isinstance(item, Create | Append) and outcomes[-1]:
                is_due |= self._push(item, at_ms)
                if item.conversation is not None:
                    self._remember(item, item.conversation)
                if item.files:
                    self._state.files.refer(item.key, item.namespace, item.files)
        for handle, tasks in woken.items():
            handle._wake(tasks)
        if is_due:
            self.pushes.on_due()
        return outcomes

    def _push(self, item: Create | Append, at_ms: int) -> bool:
        """Register webhooks that came with an item, and move those of its task. Return whether
        something is due.
        """
        pushes = self._state.pushes
        for push in item.pushes:
            pushes.put(push, at_ms)
        return pushes.grow(item.key, item.seq, item.last_status, at_ms)

    def _remember(self, item: Create | Append, write: StateWrite) -> None:
        """Store the state of the conversation that came with an item."""
        place = (item.namespace, write.context_id)
        there = self._state.conversations.get(place)
        number = 1
        if there is not None:
            number = there.state.number + 1
            if there.state.number != write.read and there.task != item.key:
                log_overwritten(write.context_id)
        state = ConversationState(number, write.data)
        self._state.conversations[place] = _Remembered(state, item.key)

    def _check_fence(self) -> None:
        if self.replica not in self._state.living:
            raise Fenced(f"replica {self.replica} was declared dead")

    def _create(self, item: Create, at_ms: int) -> bool:
        state = self._state
        if state.find(item.namespace, item.id) is not None or state.is_taken(
            item.idempotency, at_ms
        ):
            return False
        state.put_key(item.idempotency, at_ms)
        owner = posts = posts_read = 0
        record = Record(
            *(
                item.key,
                item.namespace,
                item.id,
                item.context_id,
                item.skill,
                item.about,
                item.state,
                item.at_ms,
            ),
            *(
                item.pos,
                item.seq,
                item.format,
                owner,
                posts,
                posts_read,
                0 if item.head is None else item.pos,
            ),
            head=item.head or b"",
            artifacts=item.artifacts,
            committed_ms=at_ms,
            due_ms=item.due_ms or 0,
            created_ms=item.at_ms,
        )
        index = state.indexes[item.namespace]
        state.tasks[item.key] = index.tasks[item.id] = _Task(
            record, [Row(item.key, 1, item.seq, at_ms, item.data)], []
        )
        index.put(record)
        if record.due_ms:
            state.put_due(record)
        if not is_released(item.leaves, 0, 0):
            state.give(record, self.replica)
        return True

    def _append(self, item: Append, at_ms: int) -> bool:
        state = self._state
        task = state.tasks.get(item.key)
        if (
            task is None
            or task.record.owner != self.replica
            or task.record.pos != item.before
            or state.is_taken(item.idempotency, at_ms)
        ):
            return False
        state.put_key(item.idempotency, at_ms)
        record = task.record
        task.log.append(Row(item.key, item.before + 1, item.seq, at_ms, item.data))
        if (record.state, record.at_ms) != (item.state, item.at_ms):
            index = state.indexes[record.namespace]
            index.remove(record)
            record.state, record.at_ms = item.state, item.at_ms
            index.put(record)
        task.is_purged = False  # a task that was reopened has a log again
        record.pos, record.seq, record.committed_ms = item.pos, item.seq, at_ms
        record.format = max(record.format, item.format)
        if item.due_ms is not None:
            record.due_ms = item.due_ms
            state.put_due(record)
        if item.head is not None:
            record.snap, record.head, record.artifacts = item.pos, item.head, item.artifacts
        record.posts_read = (
            record.posts
            if item.leaves is Leaves.END
            else min(max(record.posts_read, item.posts_read), record.posts)
        )
        task.unread_posts = [post for post in task.unread_posts if post.n > record.posts_read]
        if is_released(item.leaves, record.posts, record.posts_read):
            state.give(record, 0)
        return True

    def _post(self, item: Post, at_ms: int) -> bool:
        state = self._state
        task = state.tasks.get(item.task)
        if (
            task is None
            or task.record.owner not in state.living
            or len(task.unread_posts) >= MAX_POSTS
            or state.is_taken(item.idempotency, at_ms)
        ):
            return False
        state.put_key(item.idempotency, at_ms)
        task.record.posts += 1
        task.unread_posts.append(
            ReceivedPost(item.task, task.record.posts, item.id, item.kind, item.body)
        )
        return True

    # Ownership

    async def claim(
        self,
        namespace: Namespace,
        task_id: str,
        *,
        reopen: bool = False,
        known: int = 0,
        format: int = ANY_FORMAT,
        watch: bool = False,
    ) -> Record | None:
        task = self._state.find(namespace, task_id)
        if task is None:
            return None
        record = task.record
        may_be_ours = record.format <= format and (reopen or record.state not in ENDED)
        if may_be_ours and record.owner not in self._state.living:
            died_ms = self._state.seen_ms.get(record.owner, 0)
            self._state.give(record, self.replica)
            seen = task.seen()
            seen.died_ms = died_ms
            return seen
        if watch and record.owner not in (0, self.replica):
            self._state.watchers[record.key][self] = None
        return task.seen()

    async def unclaim(self, key: int, pos: int) -> None:
        task = self._state.tasks.get(key)
        if (
            task is not None
            and task.record.owner == self.replica
            and task.record.pos == pos
            and not task.unread_posts
        ):
            self._state.give(task.record, 0)

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        state, found = self._state, list[Record]()
        unanswered_ms = self.now_ms() - can.unanswered_ms
        unanswered = {
            task.record.key
            for task in state.older(WAITING, unanswered_ms, can.agents)
            if not task.record.due_ms
        }
        unowned = {
            task.record.key
            for task in (state.tasks.values() if can.unowned else ())
            if _is_unowned(task.record)
        }
        candidates = sorted({*state.orphaned(), *unanswered, *unowned})
        await asyncio.sleep(0)  # others come in between, as between two statements of a database
        for key in candidates:
            if len(found) == limit:
                break
            task = state.tasks.get(key)
            if task is None or task.record.owner in state.living:
                continue
            record, owner = task.record, task.record.owner
            if not (owner or (can.unowned and _is_unowned(record))) and (
                record.due_ms or record.state not in WAITING or record.at_ms >= unanswered_ms
            ):
                continue  # it was answered, or given up, a moment ago
            skills = can.agents.get(record.namespace.agent)
            if skills is None:
                continue
            if (
                key not in unanswered
                and record.state in (INPUT_REQUIRED, *ENDED)
                and not task.unread_posts
            ):
                state.give(record, 0)
            elif record.skill in skills and record.format <= can.format:
                state.give(record, self.replica)
                found.append(task.seen())
                found[-1].died_ms = state.seen_ms.get(owner, 0)
                found[-1].may_live = self.is_shared
        return found

    async def due(self, limit: int, can: Can) -> list[Record]:
        state, found, left, now = self._state, list[Record](), list[Place](), self.now_ms()
        while state.due and state.due[0][0] <= now and len(found) < limit:
            place = heapq.heappop(state.due)
            task = state.tasks.get(place[1])
            if task is None or task.record.due_ms != place[0]:
                continue  # it has gone on
            record = task.record
            left.append(place)  # until a commit changes it
            skills = can.agents.get(record.namespace.agent, ())
            if not record.owner and record.skill in skills and record.format <= can.format:
                state.give(record, self.replica)
                found.append(task.seen())
        for place in left:
            heapq.heappush(state.due, place)
        return found

    async def owned(self) -> list[Owned]:
        tasks = self._state.tasks
        records = [tasks[key].record for key in sorted(self._state.owned[self.replica])]
        return [Owned(record.key, record.namespace, record.id, record.pos) for record in records]

    async def beat(self) -> None:
        self._check_fence()
        self._state.seen_ms[self.replica] = self.now_ms()

    # Reading

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        task = self._state.find(namespace, task_id)
        if task is None:
            return None
        if watch:
            self._state.watchers[task.record.key][self] = None
        return task.seen()

    async def unwatch(self, tasks: Collection[int]) -> None:
        for key in tasks:
            watchers = self._state.watchers.get(key, {})
            watchers.pop(self, None)
            if not watchers:
                self._state.watchers.pop(key, None)

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        found: list[Row] = []
        for key, pos in after.items():
            task = self._state.tasks.get(key)
            if task is None or pos >= task.record.pos:
                continue
            start = max(bisect_right(task.log, pos + 1, key=_pos) - 1, 0)
            size = 0
            for row in itertools.islice(task.log, start, start + PIECE_ROWS):
                if size > PIECE_BYTES:
                    break
                found.append(row)
                size += len(row.data)
        return found

    async def ends(self, tasks: Collection[int]) -> dict[int, LogEnd]:
        found = [self._state.tasks[key].record for key in tasks if key in self._state.tasks]
        return {record.key: LogEnd(record.pos, record.committed_ms) for record in found}

    async def locate(self, task: int, seq: int) -> int:
        there = self._state.tasks.get(task)
        if there is None or not there.log or min(seq, there.record.seq) <= 0:
            return 0
        # The first row that reaches this number has it, unless rows before it are gone.
        i = bisect_left(there.log, min(seq, there.record.seq), key=_seq)
        return there.log[i].pos if i > 0 or there.log[0].pos == 1 else 0

    async def unread_posts(self, tasks: Collection[int] | None) -> list[ReceivedPost]:
        owned = self._state.owned[self.replica]
        return [
            post
            for key in sorted(owned if tasks is None else owned.intersection(tasks))
            for post in self._state.tasks[key].unread_posts
        ]

    async def page(self, query: Query) -> Page:
        lists = [index.matching(query) for index in self._asked(query)]
        starts = [
            0 if query.since_ms is None else bisect_left(places, (query.since_ms, 0))
            for places in lists
        ]
        parts = [_part(places, start, query) for places, start in zip(lists, starts, strict=True)]
        merged = heapq.merge(*parts, reverse=not query.oldest_first)
        found: list[Record] = []
        size, next_ = 0, None
        for _, key in parts[0] if len(parts) == 1 else merged:
            task = self._state.tasks[key]
            if query.state not in (0, task.record.state):
                continue
            record = task.seen(has_artifacts=query.has_artifacts)
            size += record.size if query.has_artifacts else record.size - len(record.artifacts)
            if len(found) == query.limit or (found and size > query.size):
                next_ = (found[-1].at_ms, found[-1].key)
                break
            found.append(record)
        total = sum(len(places) - start for places, start in zip(lists, starts, strict=True))
        if query.context_id and query.state:
            keys = [
                key
                for places, start in zip(lists, starts, strict=True)
                for _, key in places[start:]
            ]
            total = sum(self._state.tasks[key].record.state == query.state for key in keys)
        return Page(tasks=found, total=total, next=next_)

    async def ended(self, agent: str, from_ms: int, to_ms: int) -> list[Ended]:
        counts: Counter[tuple[int, int, int]] = Counter()
        longest: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        tasks = self._state.tasks
        for state, places in self._ended_between(agent, from_ms, to_ms):
            for at_ms, key in places:
                took = max(0, at_ms - tasks[key].record.created_ms)
                kind = (at_ms - at_ms % MINUTE_MS, state, rough_ms(took))
                counts[kind] += 1
                one = (took, at_ms, key)
                if one > longest.get(kind, (-1, 0, 0)):
                    longest[kind] = one
        return [Ended(*kind, count, *longest[kind]) for kind, count in counts.items()]

    async def count_ended(self, agent: str, from_ms: int, to_ms: int) -> int:
        found = self._ended_between(agent, from_ms, to_ms)
        return sum(len(places) for _, places in found)

    def _ended_between(
        self, agent: str, from_ms: int, to_ms: int
    ) -> Iterator[tuple[int, list[Place]]]:
        for space, index in self._state.indexes.items():
            if agent not in ("", space.agent):
                continue
            for state in ENDED:
                places = index.by_state.get(state, [])
                first = bisect_left(places, (from_ms, -1))
                yield state, places[first : bisect_left(places, (to_ms, -1))]

    def _asked(self, query: Query) -> list[_Index]:
        if query.namespace is None:
            return [
                index
                for space, index in self._state.indexes.items()
                if query.agent in ("", space.agent)
            ]
        index = self._state.indexes.get(query.namespace)
        return [index] if index is not None else []

    async def idempotency(
        self, namespace: Namespace, key: str, kept_ms: int = FOREVER_MS
    ) -> Idempotency | None:
        found = self._state.keys.get((namespace, key))
        return found if found is not None and found.at_ms >= self.now_ms() - kept_ms else None

    async def conversation_state(
        self, namespace: Namespace, context_id: str
    ) -> ConversationState | None:
        there = self._state.conversations.get((namespace, context_id))
        return there.state if there is not None else None

    # Upkeep

    async def purge(self, ages: Ages, limit: int) -> int:
        state, whose = self._state, [ages.agent] if ages.agent else None
        now_ms = self.now_ms()
        purged = [
            t
            for t in state.older(ENDED, now_ms - ages.events_ms, whose)
            if not t.is_purged and not t.record.owner and not state.pushes.is_needed(t.record.key)
        ][:limit]
        for task in purged:
            task.is_purged = True
            if not task.record.is_stale:  # without a snapshot the log is all there is of it
                task.log = []
        old = [
            t
            for t in state.older(ENDED, now_ms - ages.tasks_ms, whose)
            if t.is_purged and not t.record.owner
        ][:limit]
        for task in old:
            index = state.indexes[task.record.namespace]
            index.remove(task.record)
            del index.tasks[task.record.id]
            del state.tasks[task.record.key]
            state.pushes.forget(task.record.key)
            state.files.forget(task.record.key)
            if task.record.context_id not in index.by_context:
                state.conversations.pop((task.record.namespace, task.record.context_id), None)
        before_ms = now_ms - ages.keys_ms
        keys = [k for k, key in state.keys.items() if key.at_ms < before_ms][:limit]
        for k in keys:
            del state.keys[k]
        letters = state.pushes.purge(now_ms - ages.letters_ms, limit)
        return len(purged) + len(old) + len(keys) + letters

    async def stored(self, agent: str, caller: str) -> int:
        return sum(
            len(task.record.head) + len(task.record.artifacts)
            if task.record.snap
            else sum(len(row.data) for row in task.log)
            for namespace, index in self._state.indexes.items()
            if (namespace.agent, namespace.caller) == (agent, caller)
            for task in index.tasks.values()
        ) + sum(
            len(there.state.data)
            for (namespace, _), there in self._state.conversations.items()
            if (namespace.agent, namespace.caller) == (agent, caller)
        )

    async def stats(self) -> Stats:
        tasks = self._state.tasks.values()
        states = dict(Counter(task.record.state for task in tasks))
        return Stats(
            tasks=states,
            events=sum(len(task.log) for task in tasks),
            keys=len(self._state.keys),
            size=0,
        )


def _part(places: list[Place], start: int, query: Query) -> Iterator[Place]:
    """What of an index a page may have, in the query's order, from place `start` on."""
    if query.oldest_first:
        first = start if query.before is None else bisect_right(places, query.before)
        return map(places.__getitem__, range(max(first, start), len(places)))
    end = len(places) if query.before is None else bisect_left(places, query.before)
    return map(places.__getitem__, range(end - 1, start - 1, -1))
