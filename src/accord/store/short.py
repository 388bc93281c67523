"""Lines of the log as they are stored: without what every one of them would repeat."""

import msgspec

__all__ = ["lengthen"]

_encode = msgspec.json.Encoder().encode


def lengthen(lines: bytes, task_id: str, context_id: str) -> bytes:
    """Return lines as readers know them.

    `w` and `a` are a `v` with a status and with an artifact, without the ids of the task; one that has no letter is a `v` too.
    """
    ids = b'{"taskId":%b,"contextId":%b' % (_encode(task_id), _encode(context_id))
    opening = {b"w": b'v{"statusUpdate":' + ids, b"a": b'v{"artifactUpdate":' + ids, b"{": b"v{"}
    return b"\n".join([opening.get(line[:1], line[:1]) + line[1:] for line in lines.split(b"\n")])
