"""A file on its way in or out, as a user holds it."""

import io
import mimetypes
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, TypeAlias

from .task import Part

__all__ = ["MAX_FETCHED", "File", "OpenUrl"]

MAX_FETCHED = 25 << 20  # bytes of a file at a URL, unless more are asked for

OpenUrl: TypeAlias = Callable[[str, int], Awaitable[IO[bytes]]]


class File:
    """A file sent or received: its bytes (`data`), or the URL where they are (`url`).

    `await file.read()` gives the bytes of either.
    """

    __slots__ = ("_open_url", "data", "media_type", "name", "url")

    def __init__(
        self,
        data: bytes | str | None = None,
        *,
        name: str = "",
        media_type: str = "",
        url: str = "",
    ) -> None:
        if (data is None) == (not url):
            raise ValueError("a File has either data or url")
        self.data = data.encode() if isinstance(data, str) else data
        self.url = url
        self.name = name
        self.media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
        self._open_url: OpenUrl | None = None

    def opened_by(self, open_url: OpenUrl | None) -> "File":
        """Have its URL opened by this function. For what receives files."""
        self._open_url = open_url
        return self

    async def read(self, limit: int = MAX_FETCHED) -> bytes:
        """Return the content, fetched if it is at a URL: each time, and from public addresses only.

        Raises:
            InvalidParams: In a skill: it can't be fetched, or is larger than `limit` bytes.
            AgentFault: The same for a file of an answer.
        """
        if self.data is not None:
            return self.data
        with await self.open(limit) as file:
            return file.read()

    async def open(self, limit: int = MAX_FETCHED) -> IO[bytes]:
        """Return the content as an open file, for what is too large for the memory: from 1 MiB on
        it is on the disk. It is deleted when it is closed. Raises as `read` does.
        """
        if self.data is not None:
            return io.BytesIO(self.data)
        if self._open_url is None:
            raise ValueError(
                f"only a file that was received can be fetched; {self.url} is one to be sent"
            )
        return await self._open_url(self.url, limit)

    @classmethod
    def from_path(cls, path: str | Path) -> "File":
        """Return the file at `path`, named as it is on the disk."""
        path = Path(path)
        return cls(path.read_bytes(), name=path.name)

    @property
    def text(self) -> str:
        """The content as UTF-8 text."""
        if self.data is None:
            raise ValueError(
                f"the content of {self.name or self.url} is at {self.url}; fetch it with "
                "await file.read()"
            )
        return self.data.decode()

    def part(self) -> Part:
        if self.data is None:
            return Part(url=self.url, filename=self.name, media_type=self.media_type)
        return Part(raw=self.data, filename=self.name, media_type=self.media_type)

    def __repr__(self) -> str:
        size = f"{len(self.data)} bytes" if self.data is not None else self.url
        return f"File({self.name!r}, {size}, {self.media_type})"
