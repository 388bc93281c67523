"""Lines of the log as they are stored: without what every one of them would repeat."""

import msgspec

__all__ = ["ids_of", "lengthen"]

_encode = msgspec.json.Encoder().encode


class _Ids(msgspec.Struct):
    id: str
    context_id: str = msgspec.field(name="contextId")


class _Made(msgspec.Struct):
    """The first line of a log, as far as it is of interest here."""

    task: _Ids


_decode_made = msgspec.json.Decoder(_Made).decode


def ids_of(lines: bytes) -> tuple[str, str]:
    """Return the ids of a task and its context, which the log begins with."""
    task = _decode_made(lines.partition(b"\n")[0].removeprefix(b"v")).task
    return task.id, task.context_id


def lengthen(lines: bytes, task_id: str, context_id: str) -> bytes:
    """Return lines as readers know them.

    `w` and `a` are a `v` with a status and with an artifact, without the ids of the task; one that has no letter is a `v` too.
    """
    ids = b'{"taskId":%b,"contextId":%b' % (_encode(task_id), _encode(context_id))
    opening = {b"w": b'v{"statusUpdate":' + ids, b"a": b'v{"artifactUpdate":' + ids, b"{": b"v{"}
    return b"\n".join([opening.get(line[:1], line[:1]) + line[1:] for line in lines.split(b"\n")])
