"""Python values as parts of a message or artifact, and back."""

from typing import Any

from msgspec import UNSET

from ...model import File, Message, Part, Role, new_id
from ...schema import to_builtins

__all__ = ["Ask", "File", "Reply", "StatusMessage", "file_of", "files_of", "is_file", "to_parts"]


class _Said:
    """Values that an agent says in a message."""

    __slots__ = ("metadata", "parts")

    def __init__(self, *values: Any, metadata: dict[str, Any] | None = None) -> None:
        self.parts = [part for value in values for part in to_parts(value)]
        self.metadata = metadata

    def message(self, context_id: str, task_id: str = "") -> Message:
        return Message(
            message_id=new_id(),
            role=Role.AGENT,
            parts=self.parts,
            context_id=context_id,
            task_id=task_id,
            metadata=self.metadata,
        )


class Reply(_Said):
    """Answer with a message and make no task.

    For skills annotated `-> Reply`, which run without a task, and as the first output of those with
    `first_word=True`. A skill that has a task ends it with `StatusMessage`.
    """

    __slots__ = ()


class StatusMessage(_Said):
    """End the task with a message, beside its artifacts: the message of the last status.

    Return or yield it: `return StatusMessage("Booked", {"seat": "12A"})`. Use it for words about
    the result; the result itself belongs into artifacts.
    """

    __slots__ = ()


class Ask:
    """End the turn with a question. The next message calls the skill again. Return it from a skill.

    A message that arrived while the skill was working was sent before the question, so it is not an
    answer and is refused. In a chat, use `takes_waiting=True` to accept it.

    Args:
        question: The question for the client.
        type: The type or JSON Schema of the answer.
        takes_waiting: Whether to accept messages that arrived before the question.
    """

    __slots__ = ("question", "takes_waiting", "type")

    def __init__(self, question: str, type: Any = None, *, takes_waiting: bool = False) -> None:
        self.question = question
        self.type = type
        self.takes_waiting = takes_waiting


def to_parts(value: Any) -> list[Part]:
    """Return `value` as parts: text for str, a file for File or bytes, data for everything else."""
    if isinstance(value, str):
        return [Part(text=value if type(value) is str else str.__str__(value))]
    match value:
        case Part():
            return [value]
        case File():
            return [value.part()]
        case bytes():
            return [Part(raw=value, media_type="application/octet-stream")]
        case Message():
            return value.parts
        case _Said():
            return value.parts
        case list() | tuple() if value and all(isinstance(item, (Part, File)) for item in value):
            return [part for item in value for part in to_parts(item)]
    return [Part(data=to_builtins(value), media_type="application/json")]


def files_of(message: Message) -> list[File]:
    """Return the files of a message, in order."""
    return [file_of(part) for part in message.parts if is_file(part)]


def is_file(part: Part) -> bool:
    return part.raw is not UNSET or part.url is not UNSET


def file_of(part: Part) -> File:
    """Return the file that a part is."""
    if isinstance(part.raw, bytes):
        return File(part.raw, name=part.filename, media_type=part.media_type)
    assert isinstance(part.url, str)  # a part holds exactly one
    return File(url=part.url, name=part.filename, media_type=part.media_type)
