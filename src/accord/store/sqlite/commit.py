"""One commit: what becomes of each item, and the few statements that store those that are fine.

First everything an item's condition depends on is read, then the outcomes are decided, one item
after the other as if each had been stored before the next; then all is written. Nothing written can
fail for what is in it, so no item harms its neighbours.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ..contract import MAX_POSTS, Append, Create, Idempotency, Item, Leaves, Namespace, Post
from ..failpoints import point
from ..rules import is_released, log_overwritten
from .file_index import refer
from .large_values import split
from .pushes import grow
from .rows import blob, insert, select_in

__all__ = ["COUNT", "Batch", "Commit"]

Values = tuple[Any, ...]

COUNT = "INSERT INTO counts VALUES (?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n"

# Joined, each is one look into the index; with `(namespace, id) IN (VALUES ...)` SQLite reads all
# of it.
_TAKEN_IDS = (
    "WITH a(n, i) AS (VALUES (?,?)) SELECT namespace, id FROM a CROSS JOIN tasks ON "
    "namespace=n AND id=i"
)
_TAKEN_KEYS = (
    "WITH a(n, k) AS (VALUES (?,?)) SELECT namespace, key, at_ms FROM a CROSS JOIN keys ON "
    "namespace=n AND key=k"
)
_STANDING = (
    "SELECT key, owner, pos, state, at_ms, format, posts, heard, folded, due_ms FROM tasks "
    "WHERE key IN (VALUES (?))"
)

# An error rolls all of a commit back: with OR FAIL a statement need not be able to undo itself, for
# which SQLite would copy every page it changes, and many of them into a file.
_NEW = (
    "INSERT OR FAIL INTO tasks (key, namespace, state, at_ms, created_ms, pos, seq, snap, owner, "
    "posts, heard, committed_ms, format, due_ms, id,"
    " context, skill, about, head, artifacts) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_LOGGED = "INSERT OR FAIL INTO events VALUES (?,?,?,?,?)"
_POSTED = "INSERT OR FAIL INTO posts VALUES (?,?,?,?,?)"
_STATE = (
    "INSERT INTO states VALUES (?,?,1,?,?) ON CONFLICT DO UPDATE SET n = n + 1, "
    "task = excluded.task, data = excluded.data"
)
_KEY = "INSERT OR REPLACE INTO keys VALUES (?,?,?,?,?,?,?,?)"

# What is set, even to the same, is written to every index it is in: a task is moved only if it has
# another place.
_GROWN = "UPDATE tasks SET pos=?, seq=?, format=?, owner=?, heard=?, committed_ms=?"
_MOVED = ", state=?, at_ms=?, folded=0"
_SNAPSHOT = ", snap=?, head=?, artifacts=?"
_DUE = ", due_ms=?"


class Batch(NamedTuple):
    """What a commit did, for those who have to know once it is on the disk."""

    outcomes: list[bool]
    written: set[int]  # tasks whose row says now who owns them
    posted: set[int]
    namespaces: dict[Namespace, int]  # new ones
    is_due: bool  # a webhook of one of the tasks may have something to deliver

    def joined(self, other: "Batch") -> "Batch":
        """Return what this and another one did."""
        return Batch(
            self.outcomes + other.outcomes,
            self.written | other.written,
            self.posted | other.posted,
            self.namespaces | other.namespaces,
            self.is_due or other.is_due,
        )


class _Standing(msgspec.Struct, gc=False):
    """Where a task stands, in the middle of a batch."""

    owner: int | None
    pos: int
    state: int
    at_ms: int
    format: int
    posts: int
    posts_read: int
    folded: int
    due_ms: int | None


class Commit:
    """Items on their way into the database, within a transaction of the caller."""

    def __init__(
        self,
        db: sqlite3.Connection,
        replica: int,
        claimed: Collection[int],
        namespaces: Mapping[Namespace, int],
        at_ms: int,
        has_pushes: bool = False,
    ) -> None:
        self._db = db
        self._replica = replica
        self._claimed = claimed  # tasks that are ours though the database does not say so yet
        self._known = namespaces
        self._at_ms = at_ms
        self._has_pushes = has_pushes  # there are webhooks
        self._fresh: dict[Namespace, int] = {}
        # to be written
        self._new: list[Values] = []
        self._updates: dict[str, list[Values]] = {}
        self._events: list[Values] = []
        self._posts: list[Values] = []
        self._posts_read: list[Values] = []
        self._keys: list[Values] = []
        self._change: Counter[tuple[int, int]] = Counter()

    def store(self, items: Sequence[Item]) -> Batch:
        self._read(items)
        outcomes = [self._decide(item) for item in items]
        self._write()
        logged = [
            item
            for item, is_stored in zip(items, outcomes, strict=True)
            if is_stored and isinstance(item, Create | Append)
        ]
        self._remember(logged)
        for item in logged:
            if item.files:
                refer(self._db, item.key, item.namespace, item.files)
        is_due = self._push(logged)
        posted = {post[0] for post in self._posts}
        written = {row[-1] for rows in self._updates.values() for row in rows}
        return Batch(outcomes, written | posted, posted, self._fresh, is_due)

    # Reading

    def _read(self, items: Sequence[Item]) -> None:
        ids: list[Values] = []
        tasks: list[Values] = []
        keys: list[Values] = []
        for item in items:
            if isinstance(item, Idempotency):
                key: Idempotency | None = item
            else:
                key = item.idempotency
                if isinstance(item, Create):
                    ids.append((self._number(item.namespace), item.id))
                else:
                    tasks.append((item.key if isinstance(item, Append) else item.task,))
            if key is not None:
                keys.append((self._number(key.namespace), key.key))
        self._ids = set(select_in(self._db, _TAKEN_IDS, ids))
        self._standing = {
            key: _Standing(self._replica if key in self._claimed else owner, *standing)
            for key, owner, *standing in select_in(self._db, _STANDING, tasks)
        }
        self._used = {
            (namespace, key): at_ms
            for namespace, key, at_ms in select_in(self._db, _TAKEN_KEYS, keys)
        }

    def _number(self, namespace: Namespace) -> int:
        number = self._known.get(namespace) or self._fresh.get(namespace)
        if number is None:
            number = self._fresh[namespace] = len(self._known) + len(self._fresh) + 1
        return number

    # Deciding

    def _decide(self, item: Item) -> bool:
        if isinstance(item, Create):
            return self._create(item)
        if isinstance(item, Append):
            return self._append(item)
        if isinstance(item, Post):
            return self._post(item)
        return self._take_key(item)

    def _take_key(self, key: Idempotency | None) -> bool:
        """Use an idempotency key, if one is given: the last condition of an item. Return whether it
        was free.
        """
        if key is None:
            return True
        number = self._number(key.namespace)
        used_ms = self._used.get((number, key.key))
        if used_ms is not None and used_ms >= self._at_ms - key.kept_ms:
            return False
        self._used[number, key.key] = self._at_ms
        self._keys.append(
            (number, key.key, self._at_ms, key.turn, key.post, key.digest, key.task_id, key.reply)
        )
        return True

    def _create(self, item: Create) -> bool:
        namespace = self._number(item.namespace)
        if (namespace, item.id) in self._ids or not self._take_key(item.idempotency):
            return False
        self._ids.add((namespace, item.id))
        owner = None if is_released(item.leaves, 0, 0) else self._replica
        self._standing[item.key] = _Standing(
            owner, item.pos, item.state, item.at_ms, item.format, 0, 0, 0, item.due_ms or None
        )
        data, head, artifacts, snap = item.data, b"", b"", 0
        if item.head is not None:
            snap = item.pos
            data, head, artifacts = split(self._db, item.key, data, item.head, item.artifacts)
        place = (
            item.key,
            namespace,
            item.state,
            item.at_ms,
            item.at_ms,
            item.pos,
            item.seq,
            snap,
            owner,
            0,
            0,
            self._at_ms,
            item.format,
            item.due_ms or None,
        )
        self._new.append(
            (
                *place,
                item.id,
                item.context_id,
                item.skill,
                blob(item.about),
                blob(head),
                blob(artifacts),
            )
        )
        self._events.append((item.key, 1, item.seq, self._at_ms, blob(data)))
        self._change[namespace, item.state] += 1
        return True

    def _append(self, item: Append) -> bool:
        there = self._standing.get(item.key)
        if (
            there is None
            or there.owner != self._replica
            or there.pos != item.before
            or not self._take_key(item.idempotency)
        ):
            return False
        there.pos, there.format = item.pos, max(there.format, item.format)
        posts_read = (
            there.posts
            if item.leaves is Leaves.END
            else min(max(there.posts_read, item.posts_read), there.posts)
        )
        if posts_read > there.posts_read:
            there.posts_read = posts_read
            self._posts_read.append((item.key, posts_read))
        there.owner = (
            None if is_released(item.leaves, there.posts, there.posts_read) else self._replica
        )
        sql = _GROWN
        values: Values = (
            item.pos,
            item.seq,
            there.format,
            there.owner,
            there.posts_read,
            self._at_ms,
        )
        if (there.state, there.at_ms) != (item.state, item.at_ms) or there.folded:
            sql += _MOVED
            values += (item.state, item.at_ms)
            if there.state != item.state:
                namespace = self._number(item.namespace)
                self._change[namespace, there.state] -= 1
                self._change[namespace, item.state] += 1
            there.state, there.at_ms, there.folded = item.state, item.at_ms, 0
        data = item.data
        if item.head is not None:
            data, head, artifacts = split(self._db, item.key, data, item.head, item.artifacts)
            sql += _SNAPSHOT
            values += (item.pos, blob(head), blob(artifacts))
        if item.due_ms is not None and (item.due_ms or None) != there.due_ms:
            there.due_ms = item.due_ms or None
            sql += _DUE
            values += (there.due_ms,)
        self._updates.setdefault(sql, []).append((*values, item.key))
        self._events.append((item.key, item.before + 1, item.seq, self._at_ms, blob(data)))
        return True

    def _post(self, item: Post) -> bool:
        there = self._standing.get(item.task)
        if (
            there is None
            or there.owner != self._replica  # no other process lives
            or there.posts - there.posts_read >= MAX_POSTS
        ):
            return False
        if not self._take_key(item.idempotency):
            return False
        there.posts += 1
        self._posts.append((item.task, there.posts, item.id, int(item.kind), item.body))
        return True

    # Writing

    def _write(self) -> None:
        db = self._db
        insert(db, _NEW, self._new)
        for sql, rows in self._updates.items():
            db.executemany(sql + " WHERE key=?", rows)
        if self._posts:
            insert(db, _POSTED, self._posts)
            # With its owner, which the row may not say yet: what nobody owns has no unread posts.
            posted = {key: self._standing[key] for key, *_ in self._posts}
            rows = [(there.posts, there.owner, key) for key, there in posted.items()]
            db.executemany("UPDATE tasks SET posts=?, owner=? WHERE key=?", rows)
        if self._posts_read:
            db.executemany("DELETE FROM posts WHERE task=? AND n<=?", self._posts_read)
        if counted := [
            (namespace, state, n) for (namespace, state), n in self._change.items() if n
        ]:
            insert(db, COUNT, counted)
        point("commit.counts")
        if self._fresh:
            rows = [(number, *namespace) for namespace, number in self._fresh.items()]
            db.executemany("INSERT OR IGNORE INTO namespaces VALUES (?,?,?,?)", rows)
        point("commit.tasks")
        insert(db, _LOGGED, self._events)
        point("commit.events")
        if self._keys:
            db.executemany(_KEY, self._keys)
            point("commit.keys")

    def _remember(self, logged: list[Create | Append]) -> None:
        """Store the states of conversations that came with items."""
        for item in logged:
            if item.conversation is None:
                continue
            write, namespace = item.conversation, self._number(item.namespace)
            there = self._db.execute(
                "SELECT n, task FROM states WHERE namespace=? AND context=?",
                (namespace, write.context_id),
            ).fetchone()
            if there is not None and there[0] != write.read and there[1] != item.key:
                log_overwritten(write.context_id)
            self._db.execute(_STATE, (namespace, write.context_id, item.key, write.data))

    def _push(self, logged: list[Create | Append]) -> bool:
        """Webhooks: those that came with an item are registered, those of its task have more to
        deliver.
        """
        stored = [
            (item, self._number(item.namespace))
            for item in logged
            if item.pushes or (self._has_pushes and isinstance(item, Append))
        ]
        return bool(stored) and grow(self._db, stored, self._at_ms, are_there=self._has_pushes)
