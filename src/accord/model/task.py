"""Tasks, messages, artifacts and the events that change them (spec 1.4)."""

from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType

from .base import Metadata, Model

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
]


class TaskState(StrEnum):
    """Where a task stands. The value is the name on the wire; `number` is the one of the proto."""

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
    """One piece of content: exactly one of `text`, `raw` (bytes), `url` or `data` (any JSON value)."""

    text: str | UnsetType = UNSET
    raw: bytes | UnsetType = UNSET
    url: str | UnsetType = UNSET
    data: Any = UNSET
    metadata: Metadata | None = None
    filename: str = ""
    media_type: str = ""

    def __post_init__(self) -> None:
        if (self.text is UNSET) + (self.raw is UNSET) + (self.url is UNSET) + (self.data is UNSET) != 3:
            raise ValueError("a part holds exactly one of text, raw, url, data")


class Message(Model):
    """What the client or the agent says in one turn: parts of text, files or data."""

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


class TaskStatus(Model):
    state: TaskState
    message: Message | None = None
    timestamp: str = ""


class Task(Model):
    """A unit of work: where it stands, what was said, what was made. It is the fold of its event log."""

    id: str
    status: TaskStatus
    context_id: str = ""
    artifacts: list[Artifact] = []
    history: list[Message] = []
    metadata: Metadata | None = None

    @property
    def state(self) -> TaskState:
        return self.status.state


class StatusUpdate(Model):
    task_id: str
    context_id: str
    status: TaskStatus
    metadata: Metadata | None = None


class ArtifactUpdate(Model):
    """A whole artifact or, with `append`, a further chunk of one."""

    task_id: str
    context_id: str
    artifact: Artifact
    append: bool = False
    last_chunk: bool = False
    metadata: Metadata | None = None


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
            raise ValueError("a stream response holds one of task, message, statusUpdate, artifactUpdate")
        return found
