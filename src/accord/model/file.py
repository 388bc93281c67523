"""A file on its way in or out, as a user holds it."""

import io
import mimetypes
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

from .reference import FILE_SCHEME, FileReference
from .task import Part

__all__ = ["MAX_FETCHED", "File", "OpenPart", "OpenUrl", "OpeningFile", "PathPart", "fitted_name"]

T = TypeVar("T")

MAX_FETCHED = 25 << 20  # bytes of a file at a URL, unless more are asked for
CHUNK = 256 << 10

# Opens a URL, up to so many bytes; None: as many as there may be.
OpenUrl: TypeAlias = Callable[[str, int | None], Awaitable[IO[bytes]]]


class PathPart(Part):
    """A part that is a file on this disk. It becomes bytes or an address before it is sent.

    It is a type, not a form of URL: what a stranger wrote can never become one.
    """

    path: str = ""

    def read(self) -> Part:
        """Return the part with the bytes of the file."""
        return Part(
            raw=Path(self.path).read_bytes(),
            metadata=self.metadata,
            filename=self.filename,
            media_type=self.media_type,
        )


class OpenPart(Part):
    """A part that is an open file, which is closed when it is stored. For what is passed on of
    another agent. As with `PathPart`, what a stranger wrote can never become one.
    """

    file: Any = None  # a binary file


class File:
    """A file sent or received: bytes (`data`), a file on the disk, or a link (`url`).

    `File.path("film.mp4")` is a file on your disk, which is read when it is sent.
    `await file.read()` gives the bytes of a small one. One of any size is opened as a binary file
    with `async with file.open() as f`, stored with `await file.save("film.mp4")`, and gone through
    with `async for chunk in file`.
    """

    __slots__ = ("_open_url", "_path", "data", "media_type", "name", "url")

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
        self._path: Path | None = None

    @classmethod
    def path(cls, path: str | Path, *, name: str = "", media_type: str = "") -> "File":
        """Return the file at `path`, named as it is on the disk. It is read when it is sent or
        opened, and never as a whole.

        Raises:
            OSError: There is no such file, or it can't be read.
        """
        path = Path(path)
        with path.open("rb"):
            pass  # that it can be read is better known now
        file = cls(b"", name=name or path.name, media_type=media_type)
        file.data, file._path = None, path
        return file

    @classmethod
    def from_path(cls, path: str | Path) -> "File":
        """Return the file at `path` with all its bytes. Use `File.path`, which reads it later."""
        warnings.warn(
            "File.from_path reads the whole file at once; use File.path (from_path goes in 1.0)",
            DeprecationWarning,
            stacklevel=2,
        )
        path = Path(path)
        return cls(path.read_bytes(), name=path.name)

    def opened_by(self, open_url: OpenUrl | None) -> "File":
        """Use this function to open the file's URL. For code that receives files."""
        self._open_url = open_url
        return self

    @property
    def is_stored(self) -> bool:
        """Return whether the bytes are in the file store of this server."""
        return self.url.startswith(FILE_SCHEME)

    @property
    def on_disk(self) -> Path | None:
        """The path of a file made with `File.path`; None for any other."""
        return self._path

    @property
    def size(self) -> int | None:
        """The size in bytes; None if it is not known before the file is fetched."""
        if self.data is not None:
            return len(self.data)
        if self._path is not None:
            return self._path.stat().st_size
        reference = FileReference.parse(self.url)
        return reference.length if reference is not None else None

    async def read(self, limit: int = MAX_FETCHED) -> bytes:
        """Return the content, fetched if it is at a URL: each time, and from public addresses only.

        Raises:
            InvalidParams: In a skill: it can't be fetched, or is larger than `limit` bytes.
            AgentFault: The same for a file of an answer.
            ValueError: It is on the disk, and larger than `limit` bytes.
        """
        if self.data is not None:
            return self.data
        async with self.open(limit) as file:
            return await _in_thread(file.read)

    def open(self, limit: int | None = None) -> "OpeningFile":
        """Open the content as a binary file: `async with file.open() as f`. From 1 MiB on it is on
        the disk, and deleted when it is closed. Raises as `read` does.

        By default the limit is 25 MiB for a file that is fetched from a URL. A file in a file store
        may have any size.
        """
        return OpeningFile(self, limit)

    async def _opened(self, limit: int | None) -> IO[bytes]:
        if self.data is not None:
            return io.BytesIO(self.data)
        if self._path is not None:
            size = self._path.stat().st_size
            if limit is not None and size > limit:
                raise ValueError(f"{self._path} has {size} bytes, more than {limit}")
            return await _in_thread(self._path.open, "rb")
        if self._open_url is None:
            raise ValueError(
                f"only a file that was received can be fetched; {self.url} is one to be sent"
            )
        return await self._open_url(self.url, limit)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Go through the content, 256 KiB at a time."""
        async with self.open() as file:
            while chunk := await _in_thread(file.read, CHUNK):
                yield chunk

    async def save(self, path: str | Path) -> Path:
        """Store the content at `path`, or under its name in the folder `path`; return where it is.

        Only the last segment of its name counts: it may be a stranger's.
        """
        path = Path(path)
        if path.is_dir():
            path = path / (_base_name(self.name) or "file")
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as out:
            async for chunk in self:
                await _in_thread(out.write, chunk)
        await _in_thread(os.replace, part, path)
        return path

    @property
    def text(self) -> str:
        """The content as UTF-8 text."""
        if self.data is None:
            where = self.name or self.url
            raise ValueError(
                f"the content of {where} is not in memory; get it with await file.read()"
            )
        return self.data.decode()

    def part(self) -> Part:
        """Return the part of a message that this file is. One on the disk is read later."""
        if self._path is not None:
            return PathPart(
                url="file:",
                path=str(self._path.absolute()),
                filename=self.name,
                media_type=self.media_type,
            )
        if self.data is None:
            return Part(url=self.url, filename=self.name, media_type=self.media_type)
        return Part(raw=self.data, filename=self.name, media_type=self.media_type)

    def __repr__(self) -> str:
        where = str(self._path) if self._path is not None else self.url
        size = f"{len(self.data)} bytes" if self.data is not None else where
        return f"File({self.name!r}, {size}, {self.media_type})"


class OpeningFile:
    """A file that is about to be opened: `async with file.open() as f`."""

    __slots__ = ("_file", "_limit", "_opened")

    def __init__(self, file: File, limit: int | None) -> None:
        self._file = file
        self._limit = limit
        self._opened: IO[bytes] | None = None

    async def __aenter__(self) -> IO[bytes]:
        self._opened = await self._file._opened(self._limit)
        return self._opened

    async def __aexit__(self, *error: object) -> None:
        if self._opened is not None:
            self._opened.close()

    def __await__(self) -> Generator[Any, None, IO[bytes]]:
        warnings.warn(
            "with await file.open() is now async with file.open() (the old form goes in 1.0)",
            DeprecationWarning,
            stacklevel=2,
        )
        return self._file._opened(self._limit).__await__()


async def _in_thread(work: Callable[..., T], *args: Any) -> T:
    import asyncio  # slow to import, and most agents have no files

    return await asyncio.to_thread(work, *args)


def _base_name(name: str) -> str:
    """The last segment of a name, whatever separates them; nothing that leads elsewhere."""
    last = name.replace("\\", "/").rpartition("/")[2].replace("\0", "").strip()
    return "" if last in (".", "..") else fitted_name(last, 200)


def fitted_name(name: str, most: int) -> str:
    """Return the name of a file with at most so many bytes, as disks count them. Its
    ending stays: it shows what the file is.
    """
    data = name.encode(errors="replace")  # half a character, as JSON can say it, is none
    if len(data) <= most:
        return data.decode()
    stem, dot, end = data.rpartition(b".")
    end = dot + end if stem and len(end) <= 20 else b""
    return (data[: most - len(end)] + end).decode(errors="ignore")
