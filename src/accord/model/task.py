"""Tasks, messages, artifacts and the events that change them, and how: a task is the
fold of its events.
"""

import functools
import itertools
import os
import time
from enum import StrEnum
from typing import Any, TypeAlias, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from .base import Metadata, Model, brief
from .errors import InvalidAgentResponse
from .limits import Limits
from .progress import Progress
from .reference import FileReference

__all__ = [
    "FINAL",
    "INTERRUPTED",
    "Artifact",
    "ArtifactUpdate",
    "Event",
    "Message",
    "Part",
    "Role",
    "StatusUpdate",
    "StreamResponse",
    "Task",
    "TaskState",
    "TaskStatus",
    "TimelineEntry",
    "join_text",
    "new_id",
    "now_ms",
    "timestamp",
]

_DEFAULT = Limits()

# How far back a status message can lie in the history: behind at most the messages waiting for a
# turn, and one.
_NEAR = 33


class TaskState(StrEnum):
    """The state of a task. The value is the name on the wire; `number` is the one of the proto."""

    UNSPECIFIED = "TASK_STATE_UNSPECIFIED"
    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    REJECTED = "TASK_STATE_REJECTED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"

    # Enum hashes in Python; a state is looked up for every event.
    __hash__ = str.__hash__

    @property
    def word(self) -> str:
        """The state as a person says it: `input-required`."""
        return self.value.removeprefix("TASK_STATE_").lower().replace("_", "-")


FINAL = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})
INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})


class Role(StrEnum):
    UNSPECIFIED = "ROLE_UNSPECIFIED"
    USER = "ROLE_USER"
    AGENT = "ROLE_AGENT"


class Part(Model):
    """One piece of content: exactly one of `text`, `raw` (bytes), `url` or `data` (any JSON)."""

    text: str | UnsetType = UNSET
    raw: bytes | UnsetType = UNSET
    url: str | UnsetType = UNSET
    data: Any = UNSET
    metadata: Metadata | None = None
    filename: str = ""
    media_type: str = ""

    def __post_init__(self) -> None:
        if (self.text is UNSET) + (self.raw is UNSET) + (self.url is UNSET) + (
            self.data is UNSET
        ) != 3:
            raise ValueError("a part must have exactly one of text, raw, url, data")

    def __repr__(self) -> str:
        return f"Part({_shown(self)})"


def _shown(part: Part) -> str:
    """A part in a few words."""
    if isinstance(part.text, str):
        return brief(part.text)
    if part.data is not UNSET:
        return f"data={brief(part.data)}"
    name = f"{part.filename} " if part.filename else ""
    kind = f", {part.media_type}" if part.media_type else ""
    if isinstance(part.url, str):
        return f"file {name}at {part.url}{kind}"
    size = len(part.raw) if isinstance(part.raw, bytes) else 0
    return f"file {name}of {size} byte{'' if size == 1 else 's'}{kind}"


def _all_shown(parts: list[Part]) -> str:
    """Parts in a few words: their text, and what else there is."""
    text = "".join(part.text for part in parts if isinstance(part.text, str))
    others = [part for part in parts if not isinstance(part.text, str)]
    shown = [brief(text)] if text or not others else []
    shown += [_shown(part) for part in others[:3]]
    return ", ".join(shown) + (f", … {len(others)} in all" if len(others) > 3 else "")


def join_text(parts: list[Part]) -> list[Part]:
    """Return `parts` with adjacent plain texts as one.

    The chunks of a stream are cut anywhere, and many clients put a newline between parts: joined,
    the text reads right for all. Plain is a text that says nothing else of itself but its media
    type, which has to be the same. If there is nothing to join, the list that is returned is the
    one given; the parts given are never changed. Every text is copied once.
    """
    joined: list[Part] = []
    for (is_plain, kind), group in itertools.groupby(parts, _plainness):
        run = list(group)
        if is_plain and len(run) > 1:
            joined.append(
                Part(text="".join([cast(str, part.text) for part in run]), media_type=kind)
            )
        else:
            joined += run
    return joined if len(joined) < len(parts) else parts


def _grown(part: Part, chunk: Part) -> Part | None:
    """Return the reference to a file and to what it has grown by as one; None if the second is
    not the rest of the first.
    """
    before, more = FileReference.parse(part.url), FileReference.parse(chunk.url)
    if before is None or more is None or more.id != before.id:
        return None
    if more.start != before.start + before.length:
        return None
    return replace(part, url=before._replace(length=before.length + more.length).url)


def _plainness(part: Part) -> tuple[bool, str]:
    return isinstance(
        part.text, str
    ) and part.metadata is None and not part.filename, part.media_type


class Message(Model):
    """A message of the client or the agent: parts of text, files or data."""

    message_id: str
    role: Role
    parts: list[Part]
    context_id: str = ""
    task_id: str = ""
    metadata: Metadata | None = None
    extensions: list[str] = []
    reference_task_ids: list[str] = []

    @property
    def text(self) -> str:
        """All text parts, joined with a newline."""
        return "\n".join(part.text for part in self.parts if isinstance(part.text, str))

    def __repr__(self) -> str:
        return f"Message({self.role.value.removeprefix('ROLE_').lower()}, {_all_shown(self.parts)})"


class Artifact(Model):
    """Something the agent made, in one or more parts: the result, or one of several."""

    artifact_id: str
    parts: list[Part]
    name: str = ""
    description: str = ""
    metadata: Metadata | None = None
    extensions: list[str] = []

    @property
    def text(self) -> str:
        """All text parts as one: chunks of a stream are not separated."""
        return "".join(part.text for part in self.parts if isinstance(part.text, str))

    def __repr__(self) -> str:
        return f"Artifact({brief(self.name or self.artifact_id)}, {_all_shown(self.parts)})"

    def extend(self, chunk: "Artifact") -> None:
        """Add a further chunk to this artifact, and take its name and metadata, which are newer."""
        parts = chunk.parts
        if self.parts and parts and (joined := _grown(self.parts[-1], parts[0])) is not None:
            self.parts[-1], parts = joined, parts[1:]
        self.parts.extend(parts)
        self.name = chunk.name or self.name
        self.description = chunk.description or self.description
        if chunk.metadata is not None:
            self.metadata = (self.metadata or {}) | chunk.metadata


class TaskStatus(Model):
    state: TaskState
    message: Message | None = None
    timestamp: str = ""

    def __repr__(self) -> str:
        return f"TaskStatus({self._shown})"

    @property
    def _shown(self) -> str:
        said = f", {_all_shown(self.message.parts)}" if self.message is not None else ""
        return f"{self.state.word}{said}"


class TimelineEntry(Model):
    """One moment of a task: a message of the client, or a status. Only A2A 1.1 has timelines."""

    generation: int = 0
    message: Message | None = None
    status: TaskStatus | None = None


class Task(Model):
    """A unit of work: its state, its messages and its artifacts.

    It is the fold of its log. `apply` and `add` make it, and are the only place that knows which
    state may follow which. No clock, no store, no await.

    `generation` counts the changes of a task, from 1 on. It, `timeline` and `artifact_generations`
    (by artifact: the first and the last generation that wrote it) are read from agents that speak
    A2A 1.1, and never stored: on a server, the codec of that version writes them.
    """

    id: str
    status: TaskStatus
    context_id: str = ""
    artifacts: list[Artifact] = []
    history: list[Message] = []
    metadata: Metadata | None = None
    generation: int = 0
    timeline: list[TimelineEntry] = []
    artifact_generations: dict[str, tuple[int, int]] = {}

    @property
    def state(self) -> TaskState:
        """The state of the task."""
        return self.status.state

    @property
    def progress(self) -> Progress | None:
        """The progress that the agent reported last with `ctx.progress`."""
        return Progress.read(self.metadata)

    def __repr__(self) -> str:
        made = [f"{len(self.artifacts)} artifacts" if len(self.artifacts) > 1 else ""]
        made += [_all_shown(one.parts) for one in self.artifacts[:1]]
        return ", ".join(filter(None, [f"Task({self.id}", self.status._shown, *made])) + ")"

    def apply(self, event: "Event", limits: Limits = _DEFAULT) -> None:
        """Apply an event to this task, which must be the draft of its run.

        Raises:
            InvalidAgentResponse: The agent spoke after the end, appended to an artifact it never
              started, or made more artifacts than a task may hold.
        """
        if isinstance(event, StatusUpdate):
            # Submitted again is the one thing that may follow an end: a version whose tasks can be
            # reopened asked for it.
            if self.status.state in FINAL and event.status.state is not TaskState.SUBMITTED:
                raise self._has_ended()
            if self.status.message is not None:
                self._keep_last_message(limits)
            self.status = event.status
            if event.metadata is not None:
                self.metadata = (self.metadata or {}) | event.metadata
        elif isinstance(event, ArtifactUpdate):
            if self.status.state in FINAL:
                raise self._has_ended()
            self._merge(event, limits)
        else:
            raise InvalidAgentResponse(f"task {self.id} was started twice")

    def add(self, message: Message, limits: Limits = _DEFAULT) -> None:
        """Add a message of the user to the history, after everything said before it."""
        if self.status.state in FINAL:
            raise self._has_ended()
        if self.status.message is not None:
            self._keep_last_message(limits)
        self.history.append(message)

    def _keep_last_message(self, limits: Limits) -> None:
        """Move the status message into the history, once, before something newer takes its
        place.
        """
        last = self.status.message
        if last is None or len(self.history) >= limits.history:
            return  # a full history takes no more of the agent's words
        if not any(m.message_id == last.message_id for m in self.history[: -_NEAR - 1 : -1]):
            self.history.append(last)

    def _merge(self, event: "ArtifactUpdate", limits: Limits) -> None:
        chunk = event.artifact
        for i, known in enumerate(reversed(self.artifacts)):
            if known.artifact_id == chunk.artifact_id:
                if event.append:
                    known.extend(chunk)
                else:
                    self.artifacts[-1 - i] = replace(chunk, parts=list(chunk.parts))
                return
        if event.append:
            raise InvalidAgentResponse(
                f"chunk for artifact {chunk.artifact_id!r} of task {self.id}, "
                "which was never started"
            )
        if len(self.artifacts) >= limits.artifacts:
            raise InvalidAgentResponse(
                f"task {self.id} has {limits.artifacts} artifacts, the most a task may hold"
            )
        # Parts may grow here: the event keeps its own.
        self.artifacts.append(replace(chunk, parts=list(chunk.parts)))

    def _has_ended(self) -> InvalidAgentResponse:
        return InvalidAgentResponse(f"task {self.id} is already {self.status.state.word}")


class StatusUpdate(Model):
    task_id: str
    context_id: str
    status: TaskStatus
    metadata: Metadata | None = None
    generation: int = 0  # of the task after this change; 0 before A2A 1.1

    @property
    def progress(self) -> Progress | None:
        """The progress, if the agent reports it with `ctx.progress`."""
        return Progress.read(self.metadata)

    def __repr__(self) -> str:
        return f"StatusUpdate({self.status._shown}, task={self.task_id})"


class ArtifactUpdate(Model):
    """A whole artifact or, with `append`, a further chunk of one."""

    task_id: str
    context_id: str
    artifact: Artifact
    append: bool = False
    last_chunk: bool = False
    metadata: Metadata | None = None
    generation: int = 0  # of the task after this change; 0 before A2A 1.1

    def __repr__(self) -> str:
        marks = [name for name in ("append", "last_chunk") if getattr(self, name)]
        what = [brief(self.artifact.name or self.artifact.artifact_id), *marks]
        shown = _all_shown(self.artifact.parts)
        return f"ArtifactUpdate({shown}, artifact={' '.join(what)}, task={self.task_id})"


Event: TypeAlias = Task | StatusUpdate | ArtifactUpdate


class StreamResponse(Model):
    """One frame of a stream: exactly one member is set."""

    task: Task | None = None
    message: Message | None = None
    status_update: StatusUpdate | None = None
    artifact_update: ArtifactUpdate | None = None

    @property
    def event(self) -> Event | Message:
        found = self.task or self.message or self.status_update or self.artifact_update
        if found is None:
            raise ValueError(
                "a stream response holds one of task, message, statusUpdate, artifactUpdate"
            )
        return found


# Ids and times


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def timestamp(ms: int) -> str:
    """Return `ms` since 1970 as the protocol writes time: UTC, milliseconds, Z."""
    global _newest
    if ms != _newest[0]:
        _newest = ms, _TIME % (_second_text(ms // 1000), ms % 1000)
    return _newest[1]


# The newest text: the statuses of a quick run share it, and formatting costs more than the rest of
# a status.
_newest = (-1, "")
_TIME = "%s.%03dZ"


@functools.lru_cache(maxsize=2)
def _second_text(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def new_id() -> str:
    """Return a fresh UUID (version 7): unguessable, and in order of time so that indexes stay
    compact.
    """
    global _id_ms, _id_start
    ms = time.time_ns() // 1_000_000
    if ms != _id_ms:
        _id_ms, _id_start = ms, f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7"
    try:
        rand = _pool.pop()  # in one step: another thread gets another one
    except IndexError:
        rand = _refill()
    return f"{_id_start}{rand[:3]}-{_VARIANT[rand[3]]}{rand[4:7]}-{rand[7:]}"


def _refill() -> str:
    digits = os.urandom(4085).hex()
    _pool.extend([digits[at : at + 19] for at in range(19, len(digits), 19)])
    return digits[:19]


_id_ms, _id_start = -1, ""
_pool: list[str] = []  # random digits of the system, fetched many at a time
_VARIANT = {digit: "89ab"[i & 3] for i, digit in enumerate("0123456789abcdef")}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.clear)  # two processes must not give out the same ids
