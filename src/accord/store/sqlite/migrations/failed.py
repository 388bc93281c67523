"""Tasks of schema 6 that had not ended: their log can't be taken up again, so they fail, with all
they had so far.

A line of that log was a letter and JSON: `v`, or no letter, an event of a stream; `w` a status and
`a` an artifact without the ids of the task; `m` a message of the user; all others are of no
interest to the task itself. A row's id was task key * 2^24 + number.
"""

import functools
import logging
import sqlite3
from typing import Any

import msgspec

from ....model import (
    Artifact,
    InvalidAgentResponse,
    Message,
    Part,
    Role,
    StatusUpdate,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
    new_id,
    now_ms,
    timestamp,
)
from ..large_values import fill

__all__ = ["STEP", "add_functions", "fail_open_tasks"]

STEP = 7
TEXT = "started by an older release; send the message again"

_FAILED = 4
_ROW_BITS = 24
_LAST = (1 << _ROW_BITS) - 1
_CHANGES = b"vwam{"  # what a line that changes the task begins with

log_ = logging.getLogger("accord")

_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode
_decode_artifacts = msgspec.json.Decoder(list[Artifact]).decode
_decode_message = msgspec.json.Decoder(Message).decode
_decode_frame = msgspec.json.Decoder(StreamResponse).decode


def add_functions(db: sqlite3.Connection) -> None:
    """What the SQL of this step calls: the skill of a task had been a member of its private
    data.
    """
    db.create_function(
        "accord_skill", 1, lambda about: _parted(bytes(about))[0], deterministic=True
    )
    db.create_function(
        "accord_about", 1, lambda about: _parted(bytes(about))[1], deterministic=True
    )


@functools.lru_cache(maxsize=256)
def _parted(about: bytes) -> tuple[str, bytes]:
    try:
        members = msgspec.json.decode(about, type=dict[str, Any])
    except ValueError:
        return "", about
    return str(members.pop("skill", "")), _encode(members)


def fail_open_tasks(db: sqlite3.Connection) -> None:
    """Move the tasks that had not ended, failed, and drop the old tables; count all tasks."""
    columns = "key, scope, at_ms, pos, seq, snap_pos, id, context, about, head, artifacts"
    found = db.execute(
        f"SELECT {columns} FROM old_tasks WHERE state NOT IN (3, 4, 5, 7)"
    ).fetchall()
    begun = "key, scope, at_ms, pos, seq, 0, id, context, about, x'', x''"
    found += db.execute(f"SELECT {begun} FROM begun").fetchall()
    for key, namespace, at_ms, pos, seq, snap, id_, context, about, head, artifacts in sorted(
        found
    ):
        now = max(now_ms(), at_ms)
        try:
            task = _folded(
                db, key, head, artifacts, pos - snap if snap > 0 else None, (id_, context)
            )
            _fail(task, now)
            made, task.artifacts = task.artifacts, []
            head, artifacts = _encode(task), _encode(made)
        except (ValueError, InvalidAgentResponse) as error:
            # It could not be read before either: it must not keep the others from being read.
            log_.error("task %s can't be read and is left as it is: %s", id_, error)
        skill, about = _parted(bytes(about))
        db.execute(
            "INSERT INTO tasks VALUES (?,?,?,?,?,?,?,NULL,0,0,?,1,1,?,?,?,?,?,?)",
            (
                key,
                namespace,
                _FAILED,
                now,
                pos + 1,
                seq + 1,
                pos + 1,
                now,
                id_,
                context,
                skill,
                about,
                head,
                artifacts,
            ),
        )
        if b"\0" not in head + artifacts:  # it has been written anew, with all that was in pieces
            db.execute("DELETE FROM pieces WHERE task=?", (key,))
    for table in ("old_tasks", "old_events", "begun"):
        db.execute(f"DROP TABLE {table}")
    db.execute(
        "INSERT INTO counts SELECT namespace, state, count(*) FROM tasks GROUP BY namespace, state"
    )


def _folded(
    db: sqlite3.Connection,
    key: int,
    head: bytes,
    artifacts: bytes,
    missing: int | None,
    ids: tuple[str, str],
) -> Task:
    """The task as its snapshot and the last `missing` lines of its log make it; all of them if that
    number is not known.
    """
    rows = db.execute(
        "SELECT data FROM old_events WHERE id BETWEEN ? AND ? ORDER BY id",
        (key << _ROW_BITS, key << _ROW_BITS | _LAST),
    )

    def whole(text: bytes) -> bytes:
        return fill(
            text,
            lambda n: bytes(
                db.execute("SELECT data FROM pieces WHERE task=? AND n=?", (key, n)).fetchone()[0]
            ),
        )

    lines = [
        line
        for (data,) in rows
        for line in whole(data).split(b"\n")
        if line[:1] and line[:1] in _CHANGES
    ]
    first = lines[0].removeprefix(b"v") if lines else b""
    if missing is None and first.startswith(
        b'{"task":'
    ):  # the whole log, which begins with the task as it was made
        task, lines = _event(first, ids), lines[1:]
        assert isinstance(task, Task)
    else:
        task = _decode_task(whole(head))
        task.artifacts = _decode_artifacts(whole(artifacts))
        lines = lines[len(lines) - missing :] if missing is not None else lines
    for line in lines:
        if line.startswith(b"m"):
            task.add(_decode_message(line[1:]))
        else:
            event = _event(line, ids)
            assert not isinstance(event, Message)
            task.apply(event)
    return task


def _event(line: bytes, ids: tuple[str, str]) -> Any:
    letter = line[:1]
    if letter in (b"w", b"a"):
        kind = b"statusUpdate" if letter == b"w" else b"artifactUpdate"
        line = b'v{"%b":{"taskId":%b,"contextId":%b%b' % (
            kind,
            _encode(ids[0]),
            _encode(ids[1]),
            line[1:],
        )
    return _decode_frame(line.removeprefix(b"v")).event


def _fail(task: Task, at_ms: int) -> None:
    text = Message(
        message_id=new_id(),
        role=Role.AGENT,
        parts=[Part(text=TEXT)],
        task_id=task.id,
        context_id=task.context_id,
    )
    status = TaskStatus(state=TaskState.FAILED, message=text, timestamp=timestamp(at_ms))
    task.apply(StatusUpdate(task_id=task.id, context_id=task.context_id, status=status))
