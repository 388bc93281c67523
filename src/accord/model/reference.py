"""References of parts to files in the file store of a server.

Inside a server such a part has a `url` of our own scheme, which is never sent: when an answer is
written it becomes bytes or an address (`accord.files`), and what a client sends in this scheme is
refused.
"""

import re
from typing import Any, NamedTuple

from .extensions import FILES

__all__ = ["FILE_SCHEME", "FileReference", "chunk_offset"]

FILE_SCHEME = "accord-file:"
_FORM = re.compile(r"accord-file:([A-Za-z0-9_-]{22})/([0-9]{1,15})/([0-9]{1,15})")


class FileReference(NamedTuple):
    """A piece of a stored file: `length` bytes from `start` on."""

    id: str
    start: int
    length: int

    @classmethod
    def parse(cls, url: object) -> "FileReference | None":
        """Return the reference a part's url is; None if it is another address."""
        found = _FORM.fullmatch(url) if isinstance(url, str) else None
        return cls(found[1], int(found[2]), int(found[3])) if found is not None else None

    @property
    def url(self) -> str:
        return f"{FILE_SCHEME}{self.id}/{self.start}/{self.length}"


def chunk_offset(metadata: dict[str, Any] | None) -> int | None:
    """Return where a part belongs in the file that its artifact ends with, as its metadata says;
    None if it is a file of its own.
    """
    mark = (metadata or {}).get(FILES)
    offset = mark.get("offset") if isinstance(mark, dict) else None
    return offset if isinstance(offset, int) and offset > 0 else None
