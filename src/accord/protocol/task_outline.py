"""Stored tasks, read no further than is needed: what is only passed on stays the text it is.

To make objects of a large task and text of these again takes twenty times as long as to copy it.
"""

from typing import Any, TypedDict

import msgspec
from msgspec import UNSET, Raw, UnsetType

__all__ = ["Outline", "is_object", "outline", "shallow_task", "texts"]


class Outline(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """A task whose messages are not looked at."""

    id: Raw
    status: Raw
    context_id: Raw | UnsetType = UNSET
    artifacts: list[Raw] = []
    history: list[Raw] = []
    metadata: Raw | UnsetType = UNSET


class _Part(TypedDict, total=False):
    text: str
    raw: str
    url: str
    data: Raw
    metadata: Any
    filename: str
    mediaType: str


class _Message(TypedDict, total=False):
    messageId: str
    role: str
    parts: list[_Part]
    contextId: str
    taskId: str
    metadata: Any
    extensions: Any
    referenceTaskIds: Any


class _Artifact(TypedDict, total=False):
    artifactId: str
    parts: list[_Part]
    name: str
    description: str
    metadata: Any
    extensions: Any


class _Status(TypedDict, total=False):
    state: str
    message: _Message
    timestamp: str


class _Task(TypedDict, total=False):
    id: str
    status: _Status
    contextId: str
    artifacts: list[_Artifact]
    history: list[_Message]
    metadata: Any


_BRACE = ord("{")

outline = msgspec.json.Decoder(Outline).decode
texts = msgspec.json.Decoder(list[Raw]).decode
_decode_task = msgspec.json.Decoder(_Task).decode


def shallow_task(data: bytes) -> dict[str, Any]:
    """Return a task as a plain JSON value, but for the data in its parts: each is still text."""
    return _decode_task(data)  # type: ignore[return-value]  # a dictionary, whose members a writer may exchange for others


def is_object(data: Any) -> bool:
    """Whether the data of a part, as a value or as text, is a JSON object."""
    return memoryview(data)[0] == _BRACE if isinstance(data, Raw) else isinstance(data, dict)
