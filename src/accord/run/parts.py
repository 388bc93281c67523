"""Python values as parts of a message or artifact, and back."""

import mimetypes
from pathlib import Path
from typing import Any

from msgspec import UNSET

from ..model import Message, Part, Role, new_id
from .shape import to_builtins

__all__ = ["Ask", "File", "Reply", "files_of", "to_parts"]


class File:
    """A file sent or received: its bytes, or the URL where they are (which is not fetched)."""

    __slots__ = ("data", "media_type", "name", "url")

    def __init__(self, data: bytes | str | None = None, *, name: str = "", media_type: str = "", url: str = "") -> None:
        if (data is None) == (not url):
            raise ValueError("a File has either data or url")
        self.data = data.encode() if isinstance(data, str) else data
        self.url = url
        self.name = name
        self.media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"

    @classmethod
    def read(cls, path: str | Path) -> "File":
        """Return the file at `path`, named as it is on the disk."""
        path = Path(path)
        return cls(path.read_bytes(), name=path.name)

    @property
    def text(self) -> str:
        """The content as UTF-8 text."""
        if self.data is None:
            raise ValueError(f"the content of {self.name or self.url} is at {self.url}; it was not sent along")
        return self.data.decode()

    def part(self) -> Part:
        if self.data is None:
            return Part(url=self.url, filename=self.name, media_type=self.media_type)
        return Part(raw=self.data, filename=self.name, media_type=self.media_type)

    def __repr__(self) -> str:
        size = f"{len(self.data)} bytes" if self.data is not None else self.url
        return f"File({self.name!r}, {size}, {self.media_type})"


class Reply:
    """An answer that is just a message: no task is kept of it.

    A skill annotated `-> Reply` runs without a task. Returned by any other skill, it becomes the message of the
    completing status.
    """

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


class Ask:
    """Returned by a skill: end the turn with a question and leave the task open for the next message."""

    __slots__ = ("question", "type")

    def __init__(self, question: str, type: Any = None) -> None:
        self.question = question
        self.type = type


def to_parts(value: Any) -> list[Part]:
    """Return `value` as parts: text for str, a file for File or bytes, data for everything else."""
    match value:
        case str():
            return [Part(text=value)]
        case Part():
            return [value]
        case File():
            return [value.part()]
        case bytes():
            return [Part(raw=value, media_type="application/octet-stream")]
        case Message():
            return value.parts
        case Reply():
            return value.parts
        case list() | tuple() if value and all(isinstance(item, (Part, File)) for item in value):
            return [part for item in value for part in to_parts(item)]
    return [Part(data=to_builtins(value), media_type="application/json")]


def files_of(message: Message) -> list[File]:
    """Return the files of a message, in order."""
    return [_file(part) for part in message.parts if part.raw is not UNSET or part.url is not UNSET]


def _file(part: Part) -> File:
    if isinstance(part.raw, bytes):
        return File(part.raw, name=part.filename, media_type=part.media_type)
    assert isinstance(part.url, str)  # a part holds exactly one
    return File(url=part.url, name=part.filename, media_type=part.media_type)
