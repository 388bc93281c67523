"""A file on its way in or out, as a user holds it."""

import mimetypes
from pathlib import Path

from .task import Part

__all__ = ["File"]


class File:
    """A file sent or received: its bytes, or the URL where they are (which is not fetched)."""

    __slots__ = ("data", "media_type", "name", "url")

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

    @classmethod
    def read(cls, path: str | Path) -> "File":
        """Return the file at `path`, named as it is on the disk."""
        path = Path(path)
        return cls(path.read_bytes(), name=path.name)

    @property
    def text(self) -> str:
        """The content as UTF-8 text."""
        if self.data is None:
            raise ValueError(
                f"the content of {self.name or self.url} is at {self.url}; it was not sent along"
            )
        return self.data.decode()

    def part(self) -> Part:
        if self.data is None:
            return Part(url=self.url, filename=self.name, media_type=self.media_type)
        return Part(raw=self.data, filename=self.name, media_type=self.media_type)

    def __repr__(self) -> str:
        size = f"{len(self.data)} bytes" if self.data is not None else self.url
        return f"File({self.name!r}, {size}, {self.media_type})"
