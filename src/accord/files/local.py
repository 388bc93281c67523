"""Files in a folder: one file each, beside the database or wherever the URL says."""

import asyncio
import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

from ..model import A2AError
from ..private import private_folder
from .contract import PIECE_BYTES, lost, no_space, unusable

__all__ = ["LocalFiles"]

T = TypeVar("T")

_FULL = (errno.ENOSPC, errno.EDQUOT)


class LocalFiles:
    """Files below a folder, for the user who runs the server alone. Without a folder they are in a
    temporary one, which ends with the process.
    """

    batch = 2 << 20

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        # More threads that read at once only hold up the loop and each other.
        self._reading = asyncio.Semaphore(2)

    async def open(self) -> None:
        if self.folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="accord-files-")

    async def close(self) -> None:
        if self._temporary is not None:
            await asyncio.to_thread(self._temporary.cleanup)
            self._temporary = None

    async def write(self, id: str, start: int, data: bytes) -> None:
        await self._do(id, lambda path: self._write(path, start, data))

    async def read(self, id: str, start: int, stop: int) -> AsyncIterator[bytes]:
        if start >= stop:
            return
        file = await self._do(id, lambda path: os.open(path, os.O_RDONLY | _BINARY))
        try:
            while start < stop:
                size = min(PIECE_BYTES, stop - start)
                async with self._reading:
                    data = await self._do(id, lambda _, at=start, n=size: _read(file, at, n))  # type: ignore[misc]
                if not data:
                    raise lost(id)
                start += len(data)
                yield data
        finally:
            os.close(file)

    async def delete(self, id: str) -> None:
        def work(path: Path) -> None:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # others are in it
                path.parent.rmdir()

        await self._do(id, work)

    def path(self, id: str) -> Path:
        """Where a file is. Ids are ours, so this is no way out of the folder."""
        folder = self.folder or Path(self._temporary.name if self._temporary is not None else "")
        return folder / id[:2] / id

    def free(self) -> int:
        """Return how many bytes the disk has left."""
        folder = self.folder or Path(tempfile.gettempdir())
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    async def _do(self, id: str, work: Callable[[Path], T]) -> T:
        """In a thread: a disk may be slow."""
        path = self.path(id)
        try:
            return await asyncio.to_thread(work, path)
        except FileNotFoundError as error:
            raise lost(id) from error
        except OSError as error:
            if error.errno in _FULL:
                raise no_space(f"in {path.parent.parent}") from error
            raise unusable(error) from error

    def _write(self, path: Path, start: int, data: bytes) -> None:
        if not start:
            private_folder(path.parent)
        file = os.open(path, os.O_RDWR | _BINARY | (0 if start else os.O_CREAT), 0o600)
        try:
            size = os.fstat(file).st_size
            if size < start:
                raise A2AError(f"file {path.name} has {size} bytes, not {start}")
            if size > start:
                os.ftruncate(file, start)
            os.lseek(file, start, os.SEEK_SET)
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            # A file that came with a message is in memory for those who read it next (`Files`), so
            # its pages are given back at once. New ones for the next file can cost more than all
            # the rest of writing it. For that they have to be on the disk, temporary or not.
            is_from_message = not start and PIECE_BYTES < len(data) < self.batch
            if self._temporary is None or is_from_message:  # else a crash ends it anyway
                os.fsync(file)
            if is_from_message and _DONTNEED is not None:
                os.posix_fadvise(file, 0, 0, _DONTNEED)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, start)
            raise
        finally:
            os.close(file)
        if not start and self._temporary is None:
            _sync_folder(path.parent)


_BINARY = getattr(os, "O_BINARY", 0)
_DONTNEED = getattr(os, "POSIX_FADV_DONTNEED", None)  # not on macOS and Windows


def _read(file: int, start: int, size: int) -> bytes:
    if os.name == "posix":
        # A reader that gave up has closed the file, and its number may be another's by now: the
        # place of that one is left alone.
        return os.pread(file, size, start)
    os.lseek(file, start, os.SEEK_SET)
    return os.read(file, size)


def _sync_folder(path: Path) -> None:
    """Have the name of a new file on the disk too."""
    if os.name != "posix":
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
