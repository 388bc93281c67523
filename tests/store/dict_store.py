"""A store of dicts, written from the contract and the kit alone: no indexes, nothing shared with
ours. It is slow, and it is all a store has to be.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from accord.model import Unavailable
from accord.store import (
    FOREVER_MS,
    MADE,
    MAX_POSTS,
    Ages,
    Append,
    Can,
    CommitFailed,
    ConversationState,
    Create,
    DeadLetter,
    Ended,
    Fenced,
    Idempotency,
    Item,
    Leaves,
    LogEnd,
    Namespace,
    Outcome,
    Owned,
    Page,
    Post,
    Push,
    Query,
    ReceivedPost,
    Record,
    Row,
    Sample,
    Stats,
    StoredApiKey,
    StoredFile,
    StoredLogin,
    SystemClock,
    may_refer,
)

ENDED, WAITING, INPUT_REQUIRED = (3, 4, 5, 7), (6, 8), 6
ROWS, BYTES = 256, 4 << 20


class DictTask:
    """A task, its log, and the posts its owner has not read."""

    def __init__(self, record: Record) -> None:
        self.record, self.log, self.posts = record, list[Row](), list[ReceivedPost]()
        self.is_purged = False

    def seen(self) -> Record:
        record = replace(self.record)
        record.rows = [row for row in self.log if row.pos > record.snap]
        return record


class Shelf:
    """What the processes share."""

    is_shared = True

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.now_ms = self.clock.now_ms
        self.is_away = False
        self.all_tasks: dict[int, DictTask] = {}
        self.all_used: dict[tuple[Namespace, str], Idempotency] = {}
        self.all_states: dict[tuple[Namespace, str], tuple[ConversationState, int]] = {}
        self.living: dict[int, DictStore] = {}
        self.heard_ms: defaultdict[int, int] = defaultdict(int)
        self.watched: defaultdict[int, set[DictStore]] = defaultdict(set)
        self.all_hooks: dict[tuple[int, str], Push] = {}
        self.letters: dict[int, DeadLetter] = {}
        self.api_keys: dict[str, StoredApiKey] = {}
        self.logins: dict[str, StoredLogin] = {}
        self.samples: dict[tuple[str, int, int], Sample] = {}
        self.files: dict[str, StoredFile] = {}
        self.uses: set[tuple[int, str]] = set()  # task and file
        self.numbers, self.letter_numbers = itertools.count(1), itertools.count(1)

    def make(self) -> Any:
        return DictStore(self)

    async def kill(self, store: Any) -> None:
        self.living.pop(store.replica, None)
        store.is_sure = False

    @asynccontextmanager
    async def outage(self, store: Any) -> AsyncIterator[None]:
        self.is_away = True
        yield
        self.is_away = False

    async def close(self) -> None:
        pass

    def reached(self) -> None:
        if self.is_away:
            raise Unavailable("away")

    def written(self) -> None:
        if self.is_away:
            raise CommitFailed("away")

    @property
    def tasks(self) -> dict[int, DictTask]:
        self.reached()
        return self.all_tasks

    @property
    def used(self) -> dict[tuple[Namespace, str], Idempotency]:
        self.reached()
        return self.all_used

    @property
    def states(self) -> dict[tuple[Namespace, str], tuple[ConversationState, int]]:
        self.reached()
        return self.all_states

    @property
    def hooks(self) -> dict[tuple[int, str], Push]:
        self.reached()
        return self.all_hooks

    def find(self, namespace: Namespace, id: str) -> DictTask | None:
        return next(
            (
                t
                for t in self.tasks.values()
                if (t.record.namespace, t.record.id) == (namespace, id)
            ),
            None,
        )

    def is_used(self, key: Idempotency | None) -> bool:
        there = self.used.get((key.namespace, key.key)) if key is not None else None
        return key is not None and there is not None and there.at_ms >= self.now_ms() - key.kept_ms

    def use(self, key: Idempotency | None) -> None:
        if key is not None:
            self.used[key.namespace, key.key] = replace(key, at_ms=self.now_ms())

    def is_needed(self, task: int) -> bool:
        """Whether webhooks still need the log of a task."""
        return any(
            p.task == task and p.upto > p.sent and not p.disabled for p in self.hooks.values()
        ) or any(letter.task == task for letter in self.letters.values())


class DictStore:
    """One process."""

    outlives_process = True
    is_volatile, is_shared, clock_ahead_s, files_url = True, True, 0.0, ""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.replica, self.is_sure = shelf, 0, True
        self.pushes, self.keys = DictPushes(shelf), DictKeys(shelf)
        self.logins = DictLogins(shelf)
        self.samples = DictSamples(shelf)
        self.files = DictFiles(shelf)
        self.wake: Any = None
        self.clock, self.now_ms = shelf.clock, shelf.now_ms

    @property
    def living(self) -> int:
        return max(len(self.shelf.living), 1)

    async def open(self, wake: Any) -> None:
        self.replica, self.is_sure, self.wake = next(self.shelf.numbers), True, wake
        self.shelf.living[self.replica] = self
        self.shelf.heard_ms[self.replica] = self.now_ms()

    async def close(self) -> None:
        self.shelf.living.pop(self.replica, None)
        await self.unwatch(list(self.shelf.watched))

    async def rejoin(self) -> None:
        await self.close()
        await self.open(self.wake)

    async def beat(self) -> None:
        self.shelf.written()
        if self.replica not in self.shelf.living:
            self.is_sure = False
            raise Fenced("declared dead")
        self.shelf.heard_ms[self.replica] = self.now_ms()

    # Writing

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        await self.beat()
        at_ms, woken = self.now_ms(), defaultdict[DictStore, set[int]](set)
        outcomes, is_due = [], False
        for item in items:
            is_stored = self.store(item, at_ms, woken)
            outcomes.append(is_stored)
            if is_stored and isinstance(item, Create | Append):
                is_due |= self.pushes.grow(item, at_ms)
                self.remember(item)
                self.files.refer(item)
        for other, tasks in woken.items():
            other.wake(tasks)
        if is_due:
            self.pushes.on_due()
        return outcomes

    def store(self, item: Item, at_ms: int, woken: Any) -> bool:
        shelf = self.shelf
        key = item if isinstance(item, Idempotency) else item.idempotency
        if shelf.is_used(key) or not self.is_right(item):
            return False
        shelf.use(key)
        if isinstance(item, Create):
            values = (item.key, item.namespace, item.id, item.context_id, item.skill, item.about)
            record = Record(
                *values, item.state, item.at_ms, 0, 0, 0, self.replica, 0, 0, 0, b"", b""
            )
            record.created_ms = item.at_ms
            shelf.tasks[item.key] = DictTask(record)
        if isinstance(item, Create | Append):
            self.add(shelf.tasks[item.key], item, at_ms)
            for other in shelf.watched[item.key] - {self}:
                woken[other].add(item.key)
        elif isinstance(item, Post):
            task = shelf.tasks[item.task]
            task.record.posts += 1
            n = task.record.posts
            task.posts.append(ReceivedPost(item.task, n, item.id, item.kind, item.body))
            woken[shelf.living[task.record.owner]].add(item.task)
        return True

    def is_right(self, item: Item) -> bool:
        """Whether an item may be stored, whatever its key says."""
        shelf = self.shelf
        if isinstance(item, Create):
            return shelf.find(item.namespace, item.id) is None
        if isinstance(item, Append):
            task = shelf.tasks.get(item.key)
            return task is not None and (task.record.owner, task.record.pos) == (
                self.replica,
                item.before,
            )
        if isinstance(item, Post):
            task = shelf.tasks.get(item.task)
            is_living = task is not None and task.record.owner in shelf.living
            return is_living and len(task.posts) < MAX_POSTS
        return True

    def add(self, task: DictTask, item: Create | Append, at_ms: int) -> None:
        record = task.record
        task.log.append(Row(item.key, record.pos + 1, item.seq, at_ms, item.data))
        task.is_purged = False
        record.pos, record.seq, record.state, record.at_ms = (
            item.pos,
            item.seq,
            item.state,
            item.at_ms,
        )
        record.format, record.committed_ms = max(record.format, item.format), at_ms
        if item.due_ms is not None:
            record.due_ms = item.due_ms
        if item.head is not None:
            record.snap, record.head, record.artifacts = item.pos, item.head, item.artifacts
        if isinstance(item, Append):
            record.posts_read = min(max(record.posts_read, item.posts_read), record.posts)
        if item.leaves is Leaves.END:
            record.posts_read = record.posts
        task.posts = [post for post in task.posts if post.n > record.posts_read]
        if item.leaves is Leaves.END or (item.leaves is Leaves.IDLE and not task.posts):
            record.owner = 0

    def remember(self, item: Create | Append) -> None:
        if item.conversation is not None:
            place = item.namespace, item.conversation.context_id
            number = self.shelf.states[place][0].number if place in self.shelf.states else 0
            state = ConversationState(number + 1, item.conversation.data)
            self.shelf.states[place] = state, item.key

    # Ownership

    async def claim(
        self,
        namespace: Namespace,
        task_id: str,
        *,
        reopen: bool = False,
        known: int = 0,
        format: int = 1 << 15,
        watch: bool = False,
    ) -> Record | None:
        task = self.shelf.find(namespace, task_id)
        if task is None:
            return None
        record, died_ms = task.record, 0
        is_ours = record.format <= format and (reopen or record.state not in ENDED)
        if is_ours and record.owner not in self.shelf.living:
            died_ms, record.owner = self.shelf.heard_ms[record.owner], self.replica
        elif watch and record.owner not in (0, self.replica):
            self.shelf.watched[record.key].add(self)
        return replace(task.seen(), died_ms=died_ms)

    async def unclaim(self, key: int, pos: int) -> None:
        task = self.shelf.tasks.get(key)
        if task and (task.record.owner, task.record.pos) == (self.replica, pos) and not task.posts:
            task.record.owner = 0

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        found: list[Record] = []
        for key in sorted(self.shelf.tasks):
            task = self.shelf.tasks[key]
            record, skills = task.record, can.agents.get(task.record.namespace.agent)
            is_late = record.state in WAITING and record.at_ms < self.now_ms() - can.unanswered_ms
            is_late = is_late and not record.due_ms
            if record.owner in self.shelf.living or skills is None or len(found) == limit:
                continue
            is_left = can.unowned and not record.due_ms and record.state in (1, 2)
            if not record.owner and not is_late and not is_left:
                continue
            if not is_late and record.state in (INPUT_REQUIRED, *ENDED) and not task.posts:
                record.owner = 0
            elif record.skill in skills and record.format <= can.format:
                died_ms, record.owner = self.shelf.heard_ms[record.owner], self.replica
                found.append(replace(task.seen(), died_ms=died_ms))
        return found

    async def due(self, limit: int, can: Can) -> list[Record]:
        found: list[Record] = []
        for task in sorted(self.shelf.tasks.values(), key=lambda task: task.record.due_ms):
            record = task.record
            if record.owner or not 0 < record.due_ms <= self.now_ms() or len(found) == limit:
                continue
            skills = can.agents.get(record.namespace.agent, ())
            if record.skill in skills and record.format <= can.format:
                record.owner = self.replica
                found.append(task.seen())
        return found

    async def owned(self) -> list[Owned]:
        records = [t.record for _, t in sorted(self.shelf.tasks.items())]
        return [Owned(r.key, r.namespace, r.id, r.pos) for r in records if r.owner == self.replica]

    # Reading

    async def load(self, namespace: Namespace, task_id: str, *, watch: bool = False) -> Any:
        task = self.shelf.find(namespace, task_id)
        if task is not None and watch:
            self.shelf.watched[task.record.key].add(self)
        return task.seen() if task is not None else None

    async def unwatch(self, tasks: Collection[int]) -> None:
        for key in tasks:
            self.shelf.watched[key].discard(self)

    async def read(self, after: Any) -> list[Row]:
        found: list[Row] = []
        for key, pos in after.items():
            task, size = self.shelf.tasks.get(key), 0
            rows = task.log if task is not None and pos < task.record.pos else []
            ends = [row.pos for row in rows[1:]] + [1 << 60]
            later = [row for row, end in zip(rows, ends, strict=False) if end > pos + 1]
            for row in later[:ROWS]:
                if size > BYTES:
                    break
                found.append(row)
                size += len(row.data)
        return found

    async def ends(self, tasks: Collection[int]) -> dict[int, LogEnd]:
        found = [task.record for key, task in self.shelf.tasks.items() if key in tasks]
        return {record.key: LogEnd(record.pos, record.committed_ms) for record in found}

    async def locate(self, task: int, seq: int) -> int:
        there = self.shelf.tasks.get(task)
        if there is None or not there.log or min(seq, there.record.seq) <= 0:
            return 0
        row = next(row for row in there.log if row.seq >= min(seq, there.record.seq))
        return row.pos if row is not there.log[0] or row.pos == 1 else 0

    async def unread_posts(self, tasks: Collection[int] | None) -> list[ReceivedPost]:
        return [
            post
            for key, task in sorted(self.shelf.tasks.items())
            if task.record.owner == self.replica and (tasks is None or key in tasks)
            for post in task.posts
        ]

    async def page(self, query: Query) -> Page:
        def matches(r: Record) -> bool:
            return (
                query.namespace in (None, r.namespace)
                and (query.namespace is not None or query.agent in ("", r.namespace.agent))
                and query.context_id in ("", r.context_id)
                and query.state in (0, r.state)
                and (query.since_ms is None or r.at_ms >= query.since_ms)
            )

        all_ = [t.seen() for t in self.shelf.tasks.values() if matches(t.record)]
        all_.sort(key=lambda r: (r.at_ms, r.key), reverse=not query.oldest_first)
        found, size, total = list[Record](), 0, len(all_)
        for record in all_:
            place = (record.at_ms, record.key)
            if query.before is not None and (
                place <= query.before if query.oldest_first else place >= query.before
            ):
                continue
            if not query.has_artifacts:
                record.artifacts = b"[]"
            size += record.size
            if len(found) == query.limit or (found and size > query.size):
                return Page(found, total, (found[-1].at_ms, found[-1].key))
            found.append(record)
        return Page(found, total, None)

    async def idempotency(self, namespace: Namespace, key: str, kept_ms: int = FOREVER_MS) -> Any:
        found = self.shelf.used.get((namespace, key))
        return found if found is not None and found.at_ms >= self.now_ms() - kept_ms else None

    async def conversation_state(self, namespace: Namespace, context_id: str) -> Any:
        return self.shelf.states.get((namespace, context_id), (None, 0))[0]

    # Upkeep

    async def purge(self, ages: Ages, limit: int) -> int:
        self.shelf.written()
        shelf, now_ms = self.shelf, self.now_ms()
        ended = [
            task
            for task in shelf.tasks.values()
            if task.record.state in ENDED
            and not task.record.owner
            and ages.agent in ("", task.record.namespace.agent)
        ]
        logs = [
            task
            for task in ended
            if task.record.at_ms < now_ms - ages.events_ms
            and not task.is_purged
            and not shelf.is_needed(task.record.key)
        ][:limit]
        for task in logs:
            task.is_purged, task.log = True, [] if not task.record.is_stale else task.log
        old = [t for t in ended if t.record.at_ms < now_ms - ages.tasks_ms and t.is_purged][:limit]
        for task in old:
            self.forget(task.record)
        since_ms = now_ms - ages.keys_ms
        used = [place for place, key in shelf.used.items() if key.at_ms < since_ms][:limit]
        since_ms = now_ms - ages.letters_ms
        letters = [n for n, one in shelf.letters.items() if one.at_ms < since_ms][:limit]
        for place in used:
            del shelf.used[place]
        for n in letters:
            del shelf.letters[n]
        return len(logs) + len(old) + len(used) + len(letters)

    def forget(self, record: Record) -> None:
        shelf = self.shelf
        del shelf.tasks[record.key]
        shelf.all_hooks = {k: p for k, p in shelf.hooks.items() if p.task != record.key}
        shelf.letters = {n: one for n, one in shelf.letters.items() if one.task != record.key}
        place = record.namespace, record.context_id
        rest = (t.record for t in shelf.tasks.values())
        if all((r.namespace, r.context_id) != place for r in rest):
            shelf.states.pop(place, None)

    async def stats(self) -> Stats:
        tasks = self.shelf.tasks.values()
        states = dict(Counter(task.record.state for task in tasks))
        return Stats(states, sum(len(t.log) for t in tasks), len(self.shelf.used), 0)

    async def ended(self, agent: str, from_ms: int, to_ms: int) -> list[Ended]:
        groups: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}
        for one in self._ended(agent, from_ms, to_ms):
            took = max(0, one.at_ms - one.created_ms)
            less = max(0, took.bit_length() - 7)
            kind = (one.at_ms // 60_000 * 60_000, one.state, took >> less << less)
            groups.setdefault(kind, []).append((took, one.at_ms, one.key))
        return [Ended(*kind, len(of), *max(of)) for kind, of in groups.items()]

    async def count_ended(self, agent: str, from_ms: int, to_ms: int) -> int:
        return len(self._ended(agent, from_ms, to_ms))

    def _ended(self, agent: str, from_ms: int, to_ms: int) -> list[Record]:
        records = [one.record for one in self.shelf.tasks.values()]
        return [
            one
            for one in records
            if one.state in ENDED
            and from_ms <= one.at_ms < to_ms
            and agent in ("", one.namespace.agent)
        ]

    async def stored(self, agent: str, caller: str) -> int:
        whose = agent, caller
        tasks = [
            t
            for t in self.shelf.tasks.values()
            if (t.record.namespace.agent, t.record.namespace.caller) == whose
        ]
        states = [
            len(state.data)
            for (namespace, _), (state, _) in self.shelf.states.items()
            if (namespace.agent, namespace.caller) == whose
        ]
        return sum(states) + sum(
            len(t.record.head) + len(t.record.artifacts)
            if t.record.snap
            else sum(len(row.data) for row in t.log)
            for t in tasks
        )


class DictPushes:
    """Webhooks."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.on_due = shelf, lambda: None

    def grow(self, item: Create | Append, at_ms: int) -> bool:
        for push in item.pushes:
            self.place(push, at_ms)
        is_due = False
        for push in self.mine(item.key):
            push.upto = max(push.upto, item.seq if push.has_artifacts else item.last_status)
            if push.upto > push.sent and push.due_ms is None and not push.disabled:
                push.due_ms, is_due = at_ms, True
        return is_due

    def mine(self, task: int) -> list[Push]:
        return sorted((p for p in self.shelf.hooks.values() if p.task == task), key=lambda p: p.n)

    def place(self, push: Push, at_ms: int) -> None:
        before = self.shelf.hooks.get((push.task, push.id))
        n = max((p.n for p in self.mine(push.task)), default=0) + 1
        new = replace(push, n=n, at_ms=at_ms)
        if before is not None:
            new = replace(new, n=before.n, sent=before.sent, upto=before.upto)
            new.claim = before.claim + 1
        new.due_ms = at_ms if new.upto > new.sent else None
        self.shelf.hooks[push.task, push.id] = new

    def read(self, push: Push) -> Push:
        record = self.shelf.tasks[push.task].record
        return replace(push, task_id=record.id, context_id=record.context_id)

    def due(self, agents: Collection[str]) -> Iterator[Push]:
        all_ = (p for p in self.shelf.hooks.values() if p.due_ms is not None)
        yield from sorted(
            (p for p in all_ if p.namespace.agent in agents), key=lambda p: (p.due_ms, p.task, p.id)
        )

    async def put(self, push: Push) -> bool:
        self.shelf.written()
        if push.task not in self.shelf.tasks:
            return False
        self.place(push, self.shelf.now_ms())
        self.on_due()
        return True

    async def of(self, task: int) -> list[Push]:
        return [self.read(push) for push in self.mine(task)]

    async def delete(self, task: int, id: str) -> None:
        self.shelf.hooks.pop((task, id), None)

    async def count(self, namespace: Namespace) -> int:
        return sum(
            p.namespace == namespace and self.shelf.tasks[p.task].record.state not in ENDED
            for p in self.shelf.hooks.values()
        )

    async def take(
        self,
        agents: Collection[str],
        limit: int,
        *,
        lease_ms: int,
        skip: Collection[str] = (),
    ) -> list[Push]:
        now_ms = self.shelf.now_ms()
        due = [p for p in self.due(agents) if p.due_ms <= now_ms and p.endpoint not in skip]
        for push in due[:limit]:
            push.claim, push.due_ms = push.claim + 1, now_ms + lease_ms
        return [self.read(push) for push in due[:limit]]

    async def settle(self, outcomes: Sequence[Outcome]) -> None:
        self.shelf.written()
        now_ms = self.shelf.now_ms()
        for one in outcomes:
            push = self.shelf.hooks.get((one.task, one.id))
            if push is None or push.claim != one.claim:
                continue
            push.claim, push.sent, push.tries = push.claim + 1, one.sent, one.tries
            push.failing_ms, push.error, push.disabled = one.failing_ms, one.error, one.disabled
            is_more = push.upto > push.sent and not push.disabled
            push.due_ms = now_ms + one.pause_ms if is_more else None
            if one.letter is not None:
                n = next(self.shelf.letter_numbers)
                self.shelf.letters[n] = replace(
                    one.letter, n=n, at_ms=now_ms, namespace=push.namespace
                )

    async def postpone(self, agents: Collection[str], endpoint: str, pause_ms: int) -> None:
        until_ms = self.shelf.now_ms() + pause_ms
        for push in self.due(agents):
            if push.endpoint == endpoint:
                push.due_ms = max(push.due_ms, until_ms)

    async def next_ms(self, agents: Collection[str]) -> int | None:
        return min((push.due_ms for push in self.due(agents)), default=None)

    async def listed(self, limit: int, *, is_troubled: bool = False) -> list[Push]:
        given_up = {(one.task, one.push) for one in self.shelf.letters.values()}
        found = [
            p
            for key, p in self.shelf.hooks.items()
            if not is_troubled or p.disabled or p.failing_ms or key in given_up
        ]
        found.sort(key=lambda p: (p.at_ms, p.task, p.n), reverse=True)
        return [self.read(push) for push in found[:limit]]

    async def letters(self, limit: int, *, task_id: str = "") -> list[DeadLetter]:
        all_ = [
            replace(one, task_id=self.shelf.tasks[one.task].record.id)
            for one in reversed(self.shelf.letters.values())
        ]
        return [one for one in all_ if task_id in ("", one.task_id)][:limit]

    async def replay(self, letters: Collection[int]) -> int:
        found = [self.shelf.letters.pop(n) for n in letters if n in self.shelf.letters]
        for letter in found:
            push = self.shelf.hooks.get((letter.task, letter.push))
            if push is not None:
                push.sent, push.disabled = min(push.sent, letter.first - 1), ""
                push.tries, push.failing_ms = 0, 0
                push.claim, push.due_ms = push.claim + 1, self.shelf.now_ms()
        self.on_due()
        return len(found)


class DictKeys:
    """API keys."""

    def __init__(self, shelf: Shelf) -> None:
        self.there, self.now_ms = shelf.api_keys, shelf.now_ms

    async def prepare(self) -> None:
        pass

    async def add(self, key: StoredApiKey, *, within: Any = None) -> None:
        self.there[key.id] = key

    async def find(self, id: str) -> StoredApiKey | None:
        return self.there.get(id)

    async def list(self) -> Any:
        return sorted(self.there.values(), key=lambda key: (key.created_ms, key.id))

    async def revoke(self, id: str, at_ms: int, *, within: Any = None) -> bool:
        key = self.there.get(id)
        if key is None or key.revoked_ms:
            return False
        self.there[id] = replace(key, revoked_ms=at_ms)
        return True

    async def use(self, id: str, at_ms: int) -> None:
        if id in self.there:
            self.there[id] = replace(self.there[id], used_ms=at_ms)


class DictLogins:
    """Logins of browsers."""

    def __init__(self, shelf: Shelf) -> None:
        self.there, self.now_ms = shelf.logins, shelf.now_ms

    async def prepare(self) -> None:
        pass

    async def add(self, login: StoredLogin) -> None:
        self.there[login.id] = login

    async def find(self, id: str) -> StoredLogin | None:
        return self.there.get(id)

    async def list(self) -> Any:
        return sorted(self.there.values(), key=lambda login: (login.created_ms, login.id))

    async def remove(self, id: str) -> bool:
        return self.there.pop(id, None) is not None

    async def use(self, id: str, at_ms: int) -> None:
        if id in self.there:
            self.there[id] = replace(self.there[id], seen_ms=at_ms)


class DictSamples:
    """What was open at a time, by agent, time and process."""

    def __init__(self, shelf: Shelf) -> None:
        self.there = shelf.samples

    async def add(self, agent: str, replica: int, sample: Sample, kept_ms: int) -> None:
        self.there[agent, sample.at_ms, replica] = sample
        for key in [k for k in self.there if k[0] == agent and k[1] < sample.at_ms - kept_ms]:
            del self.there[key]

    async def since(self, agent: str, at_ms: int) -> list[Sample]:
        times = sorted({at for name, at, _ in self.there if name == agent})
        first = max((at for at in times if at < at_ms), default=at_ms)
        found = []
        for at in times:
            if at >= first:
                of = [s for (name, a, _), s in self.there.items() if (name, a) == (agent, at)]
                found.append(Sample(at, sum(s.streams for s in of), max(s.waiting for s in of)))
        return found


class DictFiles:
    """The index of files. A negative time: it is being deleted."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.there = shelf, shelf.files

    def refer(self, item: Create | Append) -> None:
        for use in item.files:
            file = self.there.get(use.id)
            if file is None or not may_refer(item.namespace, file.namespace):
                continue
            self.shelf.uses -= {one for one in self.shelf.uses if one[0] < 0 and one[1] == use.id}
            self.shelf.uses.add((item.key, use.id))
            length, sha256 = max(file.length, use.length), use.sha256 or file.sha256
            self.there[use.id] = replace(file, length=length, sha256=sha256)

    def is_free(self, id: str, before_ms: int) -> bool:
        file = self.there.get(id)
        return (
            file is not None
            and file.used_ms < before_ms
            and not any(
                task < 0 or task in self.shelf.tasks for task, used in self.shelf.uses if used == id
            )
        )

    async def add(self, file: StoredFile) -> None:
        self.there[file.id] = file

    async def find(self, id: str) -> StoredFile | None:
        file = self.there.get(id)
        return file if file is not None and file.used_ms >= 0 else None

    async def grow(self, id: str, before: int, length: int, sha256: bytes, at_ms: int) -> bool:
        file = await self.find(id)
        if file is None or file.length != before or file.sha256:
            return False
        self.there[id] = replace(file, length=length, sha256=sha256, used_ms=at_ms)
        return True

    @asynccontextmanager
    async def growing(self, id: str, before: int) -> AsyncIterator[Any]:
        file = await self.find(id)
        is_right = file is not None and file.length == before and not file.sha256
        yield (lambda *values: self.grow(id, before, *values)) if is_right else None

    async def hold(self, id: str, hold: int, at_ms: int) -> bool:
        file = await self.find(id)
        if file is not None:
            self.there[id] = replace(file, used_ms=at_ms)
            self.shelf.uses.add((hold, id))
        return file is not None

    async def release(self, id: str, hold: int) -> None:
        self.shelf.uses.discard((hold, id))

    async def expire_holds(self, before_ms: int) -> None:
        old = {id_ for id_, file in self.there.items() if file.used_ms < before_ms}
        self.shelf.uses -= {use for use in self.shelf.uses if use[0] < 0 and use[1] in old}

    async def total(self, agent: str, caller: str) -> tuple[int, int]:
        own = [
            file
            for file in self.there.values()
            if file.namespace.agent == agent and file.namespace.caller == caller
        ]
        size = sum(max(file.length, file.size) for file in own)
        return size, sum(not file.sha256 and file.size != MADE for file in own)

    async def unused(self, before_ms: int, limit: int) -> list[str]:
        return [one for one in self.there if self.is_free(one, before_ms)][:limit]

    async def doom(self, id: str, before_ms: int) -> bool:
        if not self.is_free(id, before_ms):
            return False
        self.there[id] = replace(self.there[id], used_ms=-1)
        return True

    async def remove(self, id: str) -> None:
        self.there.pop(id, None)

    async def ids(self, after: str, limit: int) -> list[str]:
        return sorted(one for one in self.there if one > after)[:limit]

    async def sums(self) -> tuple[int, int]:
        return len(self.there), sum(file.length for file in self.there.values())
