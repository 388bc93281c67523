"""Messages and statuses that an agent sends to its client."""

from typing import Any

import msgspec

from ...model import (
    File,
    InvalidParams,
    Message,
    Metadata,
    Part,
    PathPart,
    Role,
    TaskState,
    new_id,
)
from ...schema import Shape
from ..log import Log
from ..skills import Reply, StatusMessage, file_of, to_parts

__all__ = ["agent_message", "read_answer", "read_file", "set_status", "with_bytes"]


def set_status(
    log: Log, state: TaskState, word: Any = None, metadata: Metadata | None = None
) -> None:
    """Give a task a new status, now."""
    log.set_status(state, None if word is None else agent_message(word, *log.ids), metadata)


def agent_message(word: Any, task_id: str, context_id: str) -> Message:
    """Return what the agent says, as a message of this task."""
    if isinstance(word, Message):
        return msgspec.structs.replace(
            word, role=Role.AGENT, task_id=task_id, context_id=context_id
        )
    if isinstance(word, (Reply, StatusMessage)):
        return word.message(context_id, task_id)
    parts = (
        word if isinstance(word, list) and word and isinstance(word[0], Part) else to_parts(word)
    )
    return Message(
        message_id=new_id(), role=Role.AGENT, parts=parts, context_id=context_id, task_id=task_id
    )


def with_bytes(message: Message) -> Message:
    """Return an answer without a task, with the bytes of its files on the disk."""
    if not any(isinstance(part, PathPart) for part in message.parts):
        return message
    parts = [part.read() if isinstance(part, PathPart) else part for part in message.parts]
    return msgspec.structs.replace(message, parts=parts)


def read_file(answer: Message) -> File:
    """Return the file of an answer.

    Raises:
        InvalidParams: There is none.
    """
    for part in answer.parts:
        if isinstance(part.raw, bytes) or isinstance(part.url, str):
            return file_of(part)
    raise InvalidParams("the answer has no file")


def read_answer(answer: Message, type_: Any) -> Any:
    shape = Shape(type_)
    for part in answer.parts:
        if part.data is not msgspec.UNSET:
            return shape.read(part.data, "answer")
    return shape.read_text(answer.text, "answer")
