"""A file that a skill writes piece by piece."""

import mimetypes
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ..runs import Run

__all__ = ["FileWriter"]

BATCH = 64 << 10  # bytes that are gathered before clients see them


class FileWriter:
    """An artifact that is a file and grows: `async with ctx.file("report.csv") as f`.

    What is written is sent in pieces of at least 64 KiB, and the rest at the end.
    """

    def __init__(self, run: "Run", name: str, media_type: str, description: str) -> None:
        self._run = run
        self._name = name
        self._media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
        self._description = description
        self._artifact_id: str | None = None  # None: not begun; empty: an earlier attempt sent it
        self._gathered: list[bytes] = []
        self._size = 0
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._is_closed = True
        await self._flush(is_last=True)

    async def write(self, data: bytes | str) -> None:
        """Add to the file. Waits if the disk is slower.

        Raises:
            ValueError: The block has ended.
            InvalidAgentResponse: The file becomes too large.
        """
        if self._is_closed:
            raise ValueError(f"the file {self._name!r} is finished")
        piece = data.encode() if isinstance(data, str) else bytes(data)
        self._gathered.append(piece)
        self._size += len(piece)
        if self._size >= BATCH:
            await self._flush(is_last=False)

    async def _flush(self, *, is_last: bool) -> None:
        data, self._gathered, self._size = b"".join(self._gathered), [], 0
        output = self._run.output
        if self._artifact_id is None:
            self._artifact_id = output.begin_file(
                self._name, self._media_type, self._description, data
            )
            if self._artifact_id and is_last:
                output.grow_file(self._artifact_id, b"", self._media_type, is_last=True)
        elif self._artifact_id:
            output.grow_file(self._artifact_id, data, self._media_type, is_last=is_last)
        await output.drain()
