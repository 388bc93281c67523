"""One commit: a batch as one statement, with an outcome for each item.

The statement is one transaction and one round trip. It is made of the parts a batch has (creates,
appends, posts, idempotency keys), so that a commit of appends alone is not planned and run with the
rest. Each part's condition stands in the statement that changes the row: PostgreSQL evaluates it
again on the newest version of the row if another transaction was faster.

An idempotency key is the one condition that can't be: it is a second row. It is looked for first,
and stored only with an item that was. If another replica used the key in between, the statement
fails as a whole (a division by zero) and is sent again: then it finds the key.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from ..contract import MAX_POSTS, Append, Create, Idempotency, Item, Leaves, Post, StateWrite
from ..rules import ENDED
from .clock import NOW_MS
from .namespaces import number

__all__ = ["Group", "groups_of", "statement"]

MAX_ITEMS = 1_000
MAX_BYTES = 4 << 20

_KEYS = {
    "item": "int",
    "namespace": "bigint",
    "key": "text",
    "digest": "bytea",
    "kept_ms": "bigint",
    "task": "text",
    "turn": "int",
    "post": "bigint",
    "reply": "bytea",
    "is_alone": "bool",
}
_CREATES = {
    "item": "int",
    "key": "bigint",
    "namespace": "bigint",
    "at_ms": "bigint",
    "is_owned": "bool",
    "pos": "int",
    "seq": "int",
    "snap": "int",
    "state": "smallint",
    "format": "smallint",
    "id": "text",
    "context": "text",
    "skill": "text",
    "about": "bytea",
    "head": "bytea",
    "artifacts": "bytea",
    "data": "bytea",
    "pushed": "int",
}
_APPENDS = {
    "item": "int",
    "key": "bigint",
    "before": "int",
    "pos": "int",
    "seq": "int",
    "was": "smallint",
    "state": "smallint",
    "at_ms": "bigint",
    "format": "smallint",
    "posts_read": "int",
    "leaves": "smallint",
    "head": "bytea",
    "artifacts": "bytea",
    "data": "bytea",
    "last_status": "int",
    "pushed": "int",
}
# Of appends and creates that change when their task is due: few do.
_DUE = {"key": "bigint", "due_ms": "bigint"}
_PUSHES = {
    "item": "int",
    "task": "bigint",
    "id": "text",
    "namespace": "bigint",
    "is_open": "bool",
    "artifacts": "bool",
    "upto": "int",
    "sent": "int",
    "grown": "int",  # events of its item that it wants
    "endpoint": "text",
    "version": "text",
    "data": "bytea",
}
_STATES = {
    "item": "int",
    "namespace": "bigint",
    "context": "text",
    "task": "bigint",
    "read": "int",
    "data": "bytea",
}
_FILES = {
    "item": "int",
    "task": "bigint",
    "file": "text",
    "length": "bigint",
    "sha256": "bytea",
    "agent": "text",
    "tenant": "text",
    "caller": "text",
}
_POSTS = {"item": "int", "task": "bigint", "id": "bigint", "kind": "smallint", "body": "bytea"}

_GATE = """
me AS MATERIALIZED (
  -- A death certificate waits for this lock, and this lock for a certificate. The batch before must
  -- be there: a failover that lost it has lost what clients were shown.
  SELECT id FROM {s}.replicas WHERE id = $1 AND nonce = $2 AND died IS NULL
    AND ($3 = 1 OR EXISTS (SELECT FROM {s}.batches WHERE replica = $1 AND n = $3 - 1))
  FOR SHARE
)"""

_TAKEN = """
k AS MATERIALIZED ({keys}),
taken AS MATERIALIZED (
  SELECT k.item FROM k JOIN {s}.keys o ON o.namespace = k.namespace AND o.key = k.key
  WHERE o.at_ms >= {now} - k.kept_ms
)"""

_CREATE = """
c AS MATERIALIZED ({creates}),
made AS (
  INSERT INTO {s}.tasks (key, namespace, at_ms, created_ms, committed_ms, owner, pos, seq, snap,
    state, format, id, context, skill, about, head, artifacts, pushed{due_ms})
  SELECT c.key, c.namespace, c.at_ms, c.at_ms, {now}, CASE WHEN c.is_owned THEN me.id END,
    c.pos, c.seq, c.snap, c.state, c.format, c.id, c.context, c.skill, c.about, c.head, c.artifacts,
    c.pushed{due_c}
  FROM c, me WHERE {free_c}
  ORDER BY c.namespace, c.id
  ON CONFLICT (namespace, id) DO NOTHING RETURNING key
),
created AS (SELECT * FROM c WHERE (key IN (SELECT key FROM made)) IS TRUE),
log1 AS (
  INSERT INTO {s}.events (task, pos, seq, at_ms, data) SELECT key, 1, seq, {now}, data FROM created
)"""

# The owner is compared in a form no index serves: a plan made while the table is empty would read
# all the tasks we own for each commit.
_APPEND = """
a AS MATERIALIZED (SELECT u.*, $1::bigint AS owner FROM ({appends}) u),
appended AS (
  UPDATE {s}.tasks t SET pos = a.pos, seq = a.seq, state = a.state, at_ms = a.at_ms,
    committed_ms = {now}, folded = false, format = greatest(t.format, a.format),
    posts_read = CASE WHEN a.leaves = 2 THEN t.posts
      ELSE least(greatest(t.posts_read, a.posts_read), t.posts) END,
    owner = CASE WHEN a.leaves = 2
      OR (a.leaves = 1 AND t.posts = least(greatest(t.posts_read, a.posts_read), t.posts))
      THEN NULL ELSE t.owner END,
    snap = CASE WHEN a.head IS NULL THEN t.snap ELSE a.pos END,
    head = coalesce(a.head, t.head), artifacts = coalesce(a.artifacts, t.artifacts),
    pushed = t.pushed + a.pushed{due_a}
  FROM a, me
  WHERE t.key = a.key AND t.owner IS NOT DISTINCT FROM a.owner AND t.pos = a.before AND {free_a}
  RETURNING t.key, t.namespace, t.posts, t.posts_read, t.watchers, a.item, a.before, a.seq, a.was,
    a.state, a.data, a.last_status, t.pushed, a.pushed AS newly_pushed
),
log2 AS (
  INSERT INTO {s}.events (task, pos, seq, at_ms, data)
  SELECT key, before + 1, seq, {now}, data FROM appended
),
gone AS (
  DELETE FROM {s}.posts p USING appended
  WHERE appended.posts > 0 AND p.task = appended.key AND p.n <= appended.posts_read
),
grown AS (
  UPDATE {s}.pushes p SET is_open = x.state NOT IN (3, 4, 5, 7),
    upto = greatest(p.upto, CASE WHEN p.artifacts THEN x.seq ELSE x.last_status END),
    due_ms = CASE WHEN p.disabled = ''
      AND greatest(p.upto, CASE WHEN p.artifacts THEN x.seq ELSE x.last_status END) > p.sent
      THEN coalesce(p.due_ms, {now}) ELSE p.due_ms END
  FROM appended x WHERE x.pushed > x.newly_pushed AND p.task = x.key {not_put}
  RETURNING p.due_ms
)"""
_DUE_OF_CREATE = "SELECT d.due_ms FROM d WHERE d.key = c.key"
_DUE_OF_APPEND = (
    "CASE WHEN a.key IN (SELECT key FROM d) "
    "THEN (SELECT d.due_ms FROM d WHERE d.key = a.key) ELSE t.due_ms END"
)
# A webhook that another replica registered since this statement began is in the task's row, which
# was read again, and not yet among those that were moved.
_ALL_GROWN = (
    "NOT EXISTS (SELECT FROM appended x WHERE x.pushed > x.newly_pushed AND x.pushed - "
    "x.newly_pushed <> (SELECT t.pushed FROM {s}.tasks t WHERE t.key = x.key))"
)

# One of the same id keeps its cursors: what was not delivered yet goes to the new address.
_PUT = """
put AS (
  INSERT INTO {s}.pushes AS o (task, id, n, namespace, is_open, artifacts, upto, sent, due_ms,
    at_ms, endpoint, version, data)
  SELECT w.task, w.id, coalesce(b.n, row_number() OVER (PARTITION BY w.task, b.n IS NULL
      ORDER BY w.place) + (SELECT coalesce(max(n), 0) FROM {s}.pushes m WHERE m.task = w.task)),
    w.namespace, w.is_open, w.artifacts, greatest(coalesce(b.upto, w.upto), w.grown),
    coalesce(b.sent, w.sent),
    CASE WHEN greatest(coalesce(b.upto, w.upto), w.grown) > coalesce(b.sent, w.sent) THEN {now} END,
    {now}, w.endpoint, w.version, w.data
  FROM w LEFT JOIN {s}.pushes b ON b.task = w.task AND b.id = w.id
  WHERE w.item IN (SELECT item FROM fine)
  ON CONFLICT (task, id) DO UPDATE SET is_open = excluded.is_open, artifacts = excluded.artifacts,
    at_ms = excluded.at_ms, endpoint = excluded.endpoint, version = excluded.version,
    data = excluded.data, error = '', disabled = '', tries = 0, failing_ms = 0,
    claim = o.claim + 1, upto = greatest(o.upto, excluded.upto),
    due_ms = CASE WHEN greatest(o.upto, excluded.upto) > o.sent THEN {now} END
  RETURNING o.due_ms
)"""

_POST = """
p AS MATERIALIZED (
  SELECT u.*, row_number() OVER (PARTITION BY task ORDER BY item) AS place FROM ({posts}) u
  WHERE {free_p}
),
target AS MATERIALIZED (
  SELECT t.key, t.owner, t.posts, t.posts_read FROM {s}.tasks t, me
  WHERE t.key = ANY ({tasks})
    AND (SELECT r.died IS NULL FROM {s}.replicas r WHERE r.id = t.owner) IS TRUE
  ORDER BY t.key FOR UPDATE OF t
),
posted AS MATERIALIZED (
  SELECT p.*, target.owner, target.posts + p.place AS n FROM p JOIN target ON target.key = p.task
  WHERE target.posts + p.place - target.posts_read <= {most}
),
counted AS (
  UPDATE {s}.tasks t SET posts = last.n
  FROM (SELECT task, max(n) AS n FROM posted GROUP BY task) last WHERE t.key = last.task
),
mailed AS (
  INSERT INTO {s}.posts (task, n, id, kind, body) SELECT task, n, id, kind, body FROM posted
)"""

_KEEP = """
kept AS (
  INSERT INTO {s}.keys AS o (namespace, key, digest, at_ms, expired_ms, task, turn, post, reply)
  SELECT k.namespace, k.key, k.digest, {now}, {now} - k.kept_ms, k.task, k.turn, k.post, k.reply
  FROM k, me WHERE k.item IN (SELECT item FROM fine)
  ORDER BY k.namespace, k.key
  ON CONFLICT (namespace, key) DO UPDATE SET digest = excluded.digest, at_ms = excluded.at_ms,
    expired_ms = excluded.expired_ms, task = excluded.task, turn = excluded.turn,
    post = excluded.post, reply = excluded.reply
  WHERE o.at_ms < excluded.expired_ms
  RETURNING 1
)"""
# What is overwritten is looked up before it is: RETURNING has only what is new.
_REMEMBER = """
v AS MATERIALIZED ({states}),
overwritten AS MATERIALIZED (
  SELECT v.context FROM v JOIN {s}.states b ON b.namespace = v.namespace AND b.context = v.context
  WHERE b.n <> v.read AND b.task <> v.task AND v.item IN (SELECT item FROM fine)
),
remembered AS (
  INSERT INTO {s}.states AS b (namespace, context, n, task, data)
  SELECT v.namespace, v.context, 1, v.task, v.data FROM v, me
  WHERE v.item IN (SELECT item FROM fine)
  ORDER BY v.namespace, v.context
  ON CONFLICT (namespace, context) DO UPDATE SET n = b.n + 1, task = excluded.task,
    data = excluded.data
)"""
# The row of each file is written to, so that who deletes it (`PostgresFileIndex.doom`) waits. Only
# files of the task's own caller count: the rule of `may_refer`.
_REFER = """
f AS MATERIALIZED (
  SELECT u.* FROM ({files}) u JOIN {s}.files o ON o.id = u.file AND o.agent = u.agent
    AND o.caller = u.caller AND (u.tenant = '' OR u.tenant = o.tenant)
  WHERE u.item IN (SELECT item FROM fine)
),
referred AS (
  UPDATE {s}.files o SET length = greatest(o.length, f.length),
    used_ms = greatest(o.used_ms, {now}),
    sha256 = CASE WHEN f.sha256 = '' THEN o.sha256 ELSE f.sha256 END
  FROM f, me WHERE o.id = f.file
),
unheld AS (
  DELETE FROM {s}.file_uses u USING f, me WHERE u.file = f.file AND u.task < 0
),
file_used AS (
  INSERT INTO {s}.file_uses (file, task) SELECT f.file, f.task FROM f, me ON CONFLICT DO NOTHING
)"""
_NOT_PUT = "AND NOT EXISTS (SELECT FROM w WHERE w.task = p.task AND w.id = p.id)"
_ALL_KEPT = (
    "(SELECT count(*) FROM kept) "
    "= (SELECT count(*) FROM k, me WHERE k.item IN (SELECT item FROM fine))"
)

_DONE = """
done AS (
  -- A plain insert: the second of two batches with one number fails as a whole.
  INSERT INTO {s}.batches (replica, n, refused)
  SELECT me.id, $3, ARRAY(SELECT i FROM generate_series(0, $4 - 1) i
    WHERE i NOT IN (SELECT item FROM fine) ORDER BY i)
  FROM me WHERE {sure} RETURNING refused
)"""


class Group:
    """Items that one statement can store as if one after the other: no two of them depend on each
    other.
    """

    def __init__(self) -> None:
        self.items: list[tuple[int, Item]] = []  # with their place in the batch
        self.size = 0
        self._ids: set[tuple[Any, str]] = set()
        self._keys: set[tuple[Any, str]] = set()
        self._written: set[int] = set()
        self._posted: set[int] = set()
        self._contexts: set[tuple[Any, str]] = set()

    def add(self, place: int, item: Item) -> bool:
        """Take an item in; False if it does not fit with those that are here."""
        key = item if isinstance(item, Idempotency) else item.idempotency
        size = _size(item)
        if self.items and (len(self.items) == MAX_ITEMS or self.size + size > MAX_BYTES):
            return False
        if key is not None and (key.namespace, key.key) in self._keys:
            return False
        if isinstance(item, Create | Append):
            if item.key in self._written or item.key in self._posted:
                return False
            if isinstance(item, Create):
                if (item.namespace, item.id) in self._ids:
                    return False
                self._ids.add((item.namespace, item.id))
            if item.conversation is not None:
                conversation = (item.namespace, item.conversation.context_id)
                if conversation in self._contexts:
                    return False
                self._contexts.add(conversation)
            self._written.add(item.key)
        elif isinstance(item, Post):
            if item.task in self._written:
                return False
            self._posted.add(item.task)
        if key is not None:
            self._keys.add((key.namespace, key.key))
        self.items.append((place, item))
        self.size += size
        return True

    def halves(self) -> "list[Group]":
        """Return the same in two groups: to find the item that can't be stored."""
        middle = len(self.items) // 2
        halves = [Group(), Group()]
        for i, (place, item) in enumerate(self.items):
            halves[i >= middle].add(place, item)
        return halves

    def query(self, schema: str) -> tuple[str, list[Any]]:
        """Return the statement, and what it is called with after replica, nonce and number of the
        batch: from $4 on.
        """
        creates: list[tuple[int, Create]] = []
        appends: list[tuple[int, Append]] = []
        posts: list[tuple[int, Post]] = []
        keys: list[tuple[Any, ...]] = []
        pushes: list[tuple[Any, ...]] = []
        states: list[tuple[Any, ...]] = []
        due: list[tuple[Any, ...]] = []
        files: list[tuple[Any, ...]] = []
        for i, (_, item) in enumerate(self.items):
            if isinstance(item, Create):
                creates.append((i, item))
                pushes += _push_rows(i, item)
            elif isinstance(item, Append):
                appends.append((i, item))
                pushes += _push_rows(i, item)
            elif isinstance(item, Post):
                posts.append((i, item))
            else:
                keys.append((*_key_row(i, item), True))
            if not isinstance(item, Idempotency) and item.idempotency is not None:
                keys.append((*_key_row(i, item.idempotency), False))
            if isinstance(item, Create | Append):
                if item.conversation is not None:
                    states.append(_state_row(i, item, item.conversation))
                if item.due_ms is not None:
                    due.append((item.key, item.due_ms or None))
                files += [
                    (i, item.key, use.id, use.length, use.sha256, *item.namespace)
                    for use in item.files
                ]
        # In one order in all replicas: two that lock the same rows don't wait for each other in a
        # circle.
        appends.sort(key=lambda one: one[1].key)
        sql = statement(
            schema,
            bool(keys),
            bool(creates),
            bool(appends),
            bool(posts),
            bool(pushes),
            bool(states),
            bool(due),
            bool(files),
        )
        values: list[Any] = [len(self.items)]
        for columns, rows in (
            (_KEYS, keys),
            (_CREATES, [_create_row(i, item) for i, item in creates]),
            (_APPENDS, [_append_row(i, item) for i, item in appends]),
            (_POSTS, [(i, p.task, p.id, int(p.kind), p.body) for i, p in posts]),
            (_PUSHES, pushes),
            (_STATES, states),
            (_DUE, due),
            (_FILES, files),
        ):
            if rows:
                assert len(rows[0]) == len(columns)  # the tables above name them all
                values += [list(column) for column in zip(*rows, strict=True)]
        return sql, values


def groups_of(items: Sequence[Item]) -> Iterator[Group]:
    """Put items, in their order, into groups."""
    group = Group()
    for place, item in enumerate(items):
        if not group.add(place, item):
            yield group
            group = Group()
            group.add(place, item)
    if group.items:
        yield group


def _size(item: Item) -> int:
    if isinstance(item, Idempotency):
        return len(item.reply)
    if isinstance(item, Post):
        return len(item.body)
    state = len(item.conversation.data) if item.conversation is not None else 0
    return len(item.data) + len(item.head or b"") + len(item.artifacts) + state


def _key_row(i: int, key: Idempotency) -> tuple[Any, ...]:
    return (
        i,
        number(key.namespace),
        key.key,
        key.digest,
        key.kept_ms,
        key.task_id,
        key.turn,
        key.post,
        key.reply,
    )


def _create_row(i: int, item: Create) -> tuple[Any, ...]:
    has_snapshot = item.head is not None
    return (
        i,
        item.key,
        number(item.namespace),
        item.at_ms,
        item.leaves is Leaves.STAY,
        item.pos,
        item.seq,
        item.pos if has_snapshot else 0,
        item.state,
        item.format,
        item.id,
        item.context_id,
        item.skill,
        item.about,
        item.head,
        item.artifacts if has_snapshot else None,
        item.data,
        len(item.pushes),
    )


def _append_row(i: int, item: Append) -> tuple[Any, ...]:
    return (
        i,
        item.key,
        item.before,
        item.pos,
        item.seq,
        item.was,
        item.state,
        item.at_ms,
        item.format,
        item.posts_read,
        int(item.leaves),
        item.head,
        item.artifacts if item.head is not None else None,
        item.data,
        item.last_status,
        len(item.pushes),
    )


def _state_row(i: int, item: Create | Append, write: StateWrite) -> tuple[Any, ...]:
    namespace = number(item.namespace)
    return i, namespace, write.context_id, item.key, write.read, write.data


def _push_rows(i: int, item: Create | Append) -> list[tuple[Any, ...]]:
    return [
        (
            i,
            push.task,
            push.id,
            number(push.namespace),
            item.state not in ENDED,
            push.has_artifacts,
            push.upto,
            push.sent,
            item.seq if push.has_artifacts else item.last_status,
            push.endpoint,
            push.version,
            push.data,
        )
        for push in {push.id: push for push in item.pushes}.values()
    ]


@functools.cache
def statement(
    schema: str,
    has_keys: bool,
    has_creates: bool,
    has_appends: bool,
    has_posts: bool,
    has_pushes: bool,
    has_states: bool,
    has_due: bool = False,
    has_files: bool = False,
) -> str:
    """Return the statement for a batch of these parts: $1 replica, $2 its nonce, $3 the number of
    the batch, $4 how many items; then the columns of each part as arrays.

    It gives what was refused (NULL: this replica may not write), whether a webhook may be due,
    tasks with the replicas that watch them, tasks with posts and their owners, and conversations
    whose state another turn had written.
    """
    next_ = 5

    def columns(of: dict[str, str]) -> str:
        nonlocal next_
        arrays = ", ".join(f"${next_ + i}::{type_}[]" for i, type_ in enumerate(of.values()))
        next_ += len(of)
        return f"SELECT * FROM unnest({arrays}) AS u ({', '.join(of)})"

    def is_free(part: str) -> str:
        return f"{part}.item NOT IN (SELECT item FROM taken)" if has_keys else "true"

    parts = [_GATE]
    fine: list[str] = []
    due: list[str] = []
    sure: list[str] = []
    changes: list[str] = []
    watched, mail = "NULL::bigint[], NULL::bigint[]", "NULL::bigint[], NULL::bigint[]"
    if has_keys:
        parts.append(_TAKEN.replace("{keys}", columns(_KEYS)))
        fine.append(
            "SELECT k.item FROM k, me WHERE k.is_alone AND k.item NOT IN (SELECT item FROM taken)"
        )
    if has_creates:
        parts.append(
            _CREATE.replace("{creates}", columns(_CREATES))
            .replace("{free_c}", is_free("c"))
            .replace("{due_ms}", ", due_ms" if has_due else "")
            .replace("{due_c}", f", ({_DUE_OF_CREATE})" if has_due else "")
        )
        fine.append("SELECT item FROM created")
        changes.append("SELECT namespace, state, 1 AS n FROM created")
    if has_appends:
        parts.append(
            _APPEND.replace("{appends}", columns(_APPENDS))
            .replace("{free_a}", is_free("a"))
            .replace("{not_put}", _NOT_PUT if has_pushes else "")
            .replace("{due_a}", f", due_ms = {_DUE_OF_APPEND}" if has_due else "")
        )
        due.append("EXISTS (SELECT FROM grown WHERE due_ms IS NOT NULL)")
        sure.append(_ALL_GROWN)
        fine.append("SELECT item FROM appended")
        changes.append("SELECT namespace, state, 1 AS n FROM appended WHERE state <> was")
        changes.append("SELECT namespace, was, -1 FROM appended WHERE state <> was")
        one = "FROM appended, unnest(watchers) w WHERE w <> $1"
        watched = f"ARRAY(SELECT key {one} ORDER BY key, w), ARRAY(SELECT w {one} ORDER BY key, w)"
    if has_posts:
        tasks = f"${next_ + list(_POSTS).index('task')}::bigint[]"
        parts.append(
            _POST.replace("{posts}", columns(_POSTS))
            .replace("{free_p}", is_free("u"))
            .replace("{tasks}", tasks)
            .replace("{most}", str(MAX_POSTS))
        )
        fine.append("SELECT item FROM posted")
        mail = (
            "ARRAY(SELECT task FROM posted ORDER BY item), "
            "ARRAY(SELECT owner FROM posted ORDER BY item)"
        )
    parts.append(f"\nfine AS MATERIALIZED ({' UNION ALL '.join(fine)})")
    if has_pushes:
        wanted = columns(_PUSHES).replace("SELECT *", "SELECT *, row_number() OVER () AS place")
        parts.insert(1, f"\nw AS MATERIALIZED ({wanted})")
        parts.append(_PUT)
        due.append("EXISTS (SELECT FROM put WHERE due_ms IS NOT NULL)")
    overwritten = "NULL::text[]"
    if has_states:
        parts.append(_REMEMBER.replace("{states}", columns(_STATES)))
        overwritten = "ARRAY(SELECT context FROM overwritten)"
    if has_due:
        parts.insert(1, f"\nd AS MATERIALIZED ({columns(_DUE)})")
    if has_files:
        parts.append(_REFER.replace("{files}", columns(_FILES)))
    if has_keys:
        parts.append(_KEEP)
        sure.append(_ALL_KEPT)
    if changes:
        parts.append(
            "\nsums AS (INSERT INTO {s}.deltas (namespace, state, n) "
            f"SELECT namespace, state, sum(n) FROM ({' UNION ALL '.join(changes)}) c "
            "GROUP BY 1, 2 HAVING sum(n) <> 0)"
        )
    check = f"1 / (CASE WHEN {' AND '.join(sure) or 'true'} THEN 1 ELSE 0 END) = 1"
    parts.append(_DONE.replace("{sure}", check))
    text = (
        f"WITH{','.join(parts)}\nSELECT (SELECT refused FROM done), "
        f"{' OR '.join(due) or 'false'}, {watched}, {mail}, {overwritten}"
    )
    return text.replace("{now}", NOW_MS).replace("{s}", schema)
