"""Mend answers that can't be read as they are: for clients, in every version.

Agents forget the ids of messages, and send members that this version does not know. A forgotten id
is made up. A member that can't be read is left out, so that it does not cost the whole answer.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from ..model import A2AError, new_id

__all__ = ["MessageIds", "Note", "ObjectReaders", "has_empty_id", "mend", "read_mended"]

T = TypeVar("T")

Note: TypeAlias = Callable[[str], None]

_MAX_WHY = 200
_UNREADABLE = (
    A2AError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
_WRAPPERS = ("task", "statusUpdate", "status_update", "artifactUpdate", "artifact_update")
_EMPTY_ID = re.compile(rb'"message(?:Id|_id)": ?""')

_json = msgspec.json.Decoder()
_encode = msgspec.json.Encoder(order="deterministic").encode


class ObjectReaders(NamedTuple):
    """How a version reads one object of its JSON. Each raises if it can't."""

    part: Callable[[Any], object]
    message: Callable[[Any], object]
    artifact: Callable[[Any], object]
    task: Callable[[Any], object]


class MessageIds:
    """Makes up ids for messages that came without one.

    A message has the same id when its task is read again, and two messages of a task have
    different ones, also if they say the same. `salt` tells apart what is not read in order.
    """

    def __init__(self, salt: str = "") -> None:
        self._salt = salt
        self._counts: Counter[bytes] = Counter()

    def begin_task(self) -> None:
        """Count from the start: a whole task follows, with its history."""
        self._counts.clear()

    def make(self, task_id: str, message: dict[str, Any]) -> str:
        if not task_id:
            return new_id()  # an answer without a task is never read again
        said = [
            self._salt,
            task_id,
            message.get("role"),
            message.get("parts") or message.get("content"),
        ]
        digest = hashlib.sha256(_encode(said)).digest()
        self._counts[digest] += 1
        return hashlib.sha256(b"%b %d" % (digest, self._counts[digest])).hexdigest()[:32]


def has_empty_id(raw: bytes) -> bool:
    """Return whether this JSON may hold a message with an empty id, which is as good as none."""
    return _EMPTY_ID.search(raw) is not None


def read_mended(
    raw: bytes, read: Callable[[Any], T], readers: ObjectReaders, ids: MessageIds, note: Note
) -> T:
    """Return what `read` makes of the JSON in `raw`: as it stands if that can be read, else mended.

    Raises what `read` raises, if mending does not help.
    """
    value = _json.decode(raw)
    if not has_empty_id(raw):
        try:
            return read(value)
        except _UNREADABLE:
            value = _json.decode(raw)  # readers may have changed it
    mend(value, readers, ids, note)
    return read(value)


def mend(value: Any, readers: ObjectReaders, ids: MessageIds, note: Note) -> None:
    """Mend an answer in place: a task, an event, a message, or a page of tasks."""
    if not isinstance(value, dict):
        return
    for name in _WRAPPERS:
        mend(value.get(name), readers, ids, note)
    mender = _Mender(_task_id(value), readers, ids, note)
    if isinstance(value.get("tasks"), list):
        for task in _dicts(value["tasks"]):
            mend(task, readers, ids, note)
        value["tasks"] = mender.kept(value["tasks"], readers.task, "a task")
    if isinstance(value.get("status"), dict):
        if "id" in value:
            ids.begin_task()
        mender.keep_messages(value, "history")
        for name in ("message", "update"):
            mender.keep_message(value["status"], name)
    mender.keep_artifacts(value)
    for answer in _dicts([value.get("message"), value.get("msg")]):
        mender.mend_answer(answer)
    if "role" in value or value.get("kind") == "message":
        mender.mend_answer(value)


class _Mender:
    """Mends what belongs to one task."""

    def __init__(self, task_id: str, readers: ObjectReaders, ids: MessageIds, note: Note) -> None:
        self._task_id = task_id
        self._readers = readers
        self._ids = ids
        self._note = note

    def keep_messages(self, holder: dict[str, Any], name: str) -> None:
        if isinstance(holder.get(name), list):
            for message in _dicts(holder[name]):
                self.mend_message(message)
            holder[name] = self.kept(holder[name], self._readers.message, "a message")

    def keep_message(self, holder: dict[str, Any], name: str) -> None:
        if isinstance(holder.get(name), dict):
            self.mend_message(holder[name])
            if not self.kept([holder[name]], self._readers.message, "a message"):
                del holder[name]

    def keep_artifacts(self, holder: dict[str, Any]) -> None:
        if isinstance(holder.get("artifacts"), list):
            for artifact in _dicts(holder["artifacts"]):
                self._keep_parts(artifact)
            holder["artifacts"] = self.kept(
                holder["artifacts"], self._readers.artifact, "an artifact"
            )
        if isinstance(holder.get("artifact"), dict):
            self._keep_parts(holder["artifact"])

    def mend_answer(self, message: dict[str, Any]) -> None:
        """Mend a message that is the whole answer. One without a part that can be read stays as it
        is: that is a fault, not an empty answer.
        """
        name = "content" if "content" in message else "parts"
        before = message.get(name)
        self.mend_message(message)
        if before and not message[name]:
            message[name] = before

    def mend_message(self, message: dict[str, Any]) -> None:
        self._keep_parts(message)
        if not message.get("messageId") and not message.get("message_id"):
            message["messageId"] = self._ids.make(self._task_id or _task_id(message), message)
            self._note("messages of the agent come without messageId; ids are made up")

    def _keep_parts(self, holder: dict[str, Any]) -> None:
        for name in ("parts", "content"):
            if isinstance(holder.get(name), list):
                holder[name] = self.kept(holder[name], self._readers.part, "a part")

    def kept(self, items: list[Any], read: Callable[[Any], object], what: str) -> list[Any]:
        """Return the items that `read` can read, and note the others."""
        kept = []
        for item in items:
            try:
                read(item)
            except _UNREADABLE as error:
                self._note(f"{what} can't be read ({str(error)[:_MAX_WHY]}); it is left out")
            else:
                kept.append(item)
        return kept


def _dicts(values: Any) -> Iterable[dict[str, Any]]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else ()
    )


def _task_id(value: dict[str, Any]) -> str:
    """Return the id of the task that an object is, or belongs to; empty if it has none."""
    names = ("taskId", "task_id", *(("id",) if "status" in value else ()))
    found = next((value[name] for name in names if value.get(name)), "")
    return found if isinstance(found, str) else ""
