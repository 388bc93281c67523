"""A question of an agent: which one it is, and until when it may be answered.

Both stand in the metadata of the message of an input-required status, in every version. A message
that answers it may name the id in its own metadata; then it can be no answer to another question.
"""

import datetime
import hashlib
from typing import Any

import msgspec
from msgspec import UNSET

from .base import Metadata
from .extensions import QUESTION
from .task import Message, timestamp

__all__ = ["Question", "naming", "question_id", "question_metadata", "question_named"]

SCHEMA_PART = "application/schema+json"


class Question(msgspec.Struct, frozen=True):
    """A question of an agent, which it needs answered before it goes on.

    Attributes:
        id: Which question it is; empty if the agent gives its questions no ids.
        text: What is asked.
        schema: The JSON Schema of the answer; None if any text will do.
        expires_at: Until when it may be answered; None if there is no deadline.
    """

    id: str = ""
    text: str = ""
    schema: dict[str, Any] | None = None
    expires_at: datetime.datetime | None = None

    @classmethod
    def read(cls, message: Message) -> "Question":
        """Return the question that the message of a status asks."""
        found = _found(message.metadata)
        schemas = [part.data for part in message.parts if part.media_type == SCHEMA_PART]
        schema = next((data for data in schemas if data is not UNSET), None)
        return cls(
            _id(found),
            message.text,
            schema if isinstance(schema, dict) else None,
            _moment(found.get("expiresAt")),
        )

    @property
    def expires_ms(self) -> int:
        """The deadline in milliseconds since 1970; 0 if there is none."""
        return round(self.expires_at.timestamp() * 1000) if self.expires_at is not None else 0


def question_id(*place: str) -> str:
    """Return the id of the question that is asked at a place of a task: the same every time it is
    asked there, and no other's.
    """
    return hashlib.sha256("\0".join(place).encode()).hexdigest()[:16]


def question_metadata(id: str, expires_ms: int = 0) -> dict[str, Any]:
    """Return the metadata of a message that asks a question."""
    deadline = {"expiresAt": timestamp(expires_ms)} if expires_ms else {}
    return {QUESTION: {"id": id, **deadline}}


def naming(id: str, metadata: Metadata | None) -> Metadata | None:
    """Return the metadata of an answer to the question with this id. Without an id, it names no
    question, also if the metadata given did: an agent refuses an answer to one that it does not
    know.
    """
    if id:
        return {**(metadata or {}), QUESTION: {"id": id}}
    if metadata and QUESTION in metadata:
        return {name: value for name, value in metadata.items() if name != QUESTION}
    return metadata


def question_named(message: Message) -> str:
    """Return the id of the question that a message answers; empty if it names none."""
    return _id(_found(message.metadata))


def _found(metadata: Metadata | None) -> dict[str, Any]:
    found = metadata.get(QUESTION) if metadata else None
    return found if isinstance(found, dict) else {}


def _id(found: dict[str, Any]) -> str:
    id_ = found.get("id")
    return id_ if isinstance(id_, str) else ""


def _moment(text: Any) -> datetime.datetime | None:
    """Read a time as the protocol writes it; None if it is none, or so far away that a time zone
    can move it out of the calendar.
    """
    if not isinstance(text, str):
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None and 1970 <= found.year < 9999 else None
