"""The index of files: what a store knows of each file, and which tasks refer to it.

The bytes are elsewhere, in a file store (`accord.files`). A row is added before the first byte is
written, and removed after the last one is deleted, so that no byte is ever without a row.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Protocol, TypeAlias

import msgspec

from .namespace import Namespace

__all__ = [
    "MADE",
    "FileIndex",
    "FileStats",
    "FileUse",
    "Grow",
    "MemoryFileIndex",
    "StoredFile",
    "growing_here",
    "may_refer",
]

MADE = -2  # instead of the size there will be: an agent makes the file, nobody uploads it
_DOOMED = -1  # instead of the time of its last use: its bytes are being deleted


class StoredFile(msgspec.Struct, frozen=True):
    """A file: whose it is, what it is called, and how much of it there is."""

    id: str  # random
    namespace: Namespace
    name: str
    media_type: str
    used_ms: int  # when it was made, grew, or was last about to be referred to
    length: int = 0  # bytes that are there
    size: int = -1  # bytes there will be; -1: not known yet; MADE
    sha256: bytes = b""  # of all of it; empty until it is finished

    @property
    def is_finished(self) -> bool:
        return bool(self.sha256)

    @property
    def is_upload(self) -> bool:
        """Whether a caller sends it, and nobody has all of it yet."""
        return not self.sha256 and self.size != MADE


class FileUse(msgspec.Struct, frozen=True):
    """A reference from a task to a file, stored with an item of the task. `length` is how much of
    the file the task refers to; with the digest the file is finished.
    """

    id: str
    length: int
    sha256: bytes = b""


class FileStats(msgspec.Struct, frozen=True):
    """How many files a store knows, and their bytes."""

    count: int
    size: int
    unreferenced: int  # that no task refers to
    unreferenced_size: int
    elsewhere: int  # whose bytes are neither in the database nor in the folder beside it
    elsewhere_size: int


def may_refer(namespace: Namespace, owner: Namespace) -> bool:
    """Whether what is in a namespace may name a file of `owner`: one of the same agent and caller,
    and of the same tenant unless the namespace has none.
    """
    return (namespace.agent, namespace.caller) == (owner.agent, owner.caller) and (
        not namespace.tenant or namespace.tenant == owner.tenant
    )


Grow: TypeAlias = Callable[[int, bytes, int], Awaitable[bool]]  # length, digest, time


@asynccontextmanager
async def growing_here(index: "FileIndex", id: str, before: int) -> AsyncIterator[Grow | None]:
    """`FileIndex.growing` where one process has the store: that lets in one writer at a time."""
    file = await index.find(id)
    if file is None or file.length != before or file.is_finished:
        yield None
    else:
        yield partial(index.grow, id, before)


class FileIndex(Protocol):
    """What a store knows of files.

    - Tasks refer to files of their own caller. A reference to any other file is not stored, and
      changes nothing (`may_refer`).
    - What reads raises `Unavailable` if the store can't be read now. What writes raises
      `CommitFailed` if nothing was stored.
    """

    async def add(self, file: StoredFile) -> None:
        """Store a new file. Its id is random."""
        ...

    async def find(self, id: str) -> StoredFile | None:
        """Return a file; None also for one that is being deleted."""
        ...

    async def grow(self, id: str, before: int, length: int, sha256: bytes, at_ms: int) -> bool:
        """Note that a file of `before` bytes has `length` bytes now, and with a digest that it is
        finished. Return False if it has another length, is finished, or is gone.
        """
        ...

    def growing(self, id: str, before: int) -> AbstractAsyncContextManager["Grow | None"]:
        """Let one process add to a file of `before` bytes, and nobody else meanwhile. It gets what
        notes that the file has grown, as `grow` does; or None if the file has another length, is
        finished, or is gone.
        """
        ...

    async def hold(self, id: str, hold: int, at_ms: int) -> bool:
        """Keep a file that a task is about to refer to, until `release`, `expire_holds` or the
        commit of a reference. `hold` is a negative number that its holder chose. Return whether the
        file is there: a hold and `doom` are decided one after the other.
        """
        ...

    async def release(self, id: str, hold: int) -> None:
        """End a hold, if there still is one."""
        ...

    async def expire_holds(self, before_ms: int) -> None:
        """End all holds of files that were not used since then: their process has died."""
        ...

    async def total(self, agent: str, caller: str) -> tuple[int, int]:
        """Return how many bytes the files of a caller have, with those that were announced, and
        how many of its uploads are not finished.
        """
        ...

    async def unused(self, before_ms: int, limit: int) -> list[str]:
        """Return files to which no task refers, not used since then, and those whose deletion was
        begun and not completed.
        """
        ...

    async def doom(self, id: str, before_ms: int) -> bool:
        """Begin to delete a file: nobody finds it any more. Return False, and change nothing, if a
        task refers to it, somebody holds it, or it was used since.
        """
        ...

    async def remove(self, id: str) -> None:
        """Forget a file whose bytes are deleted."""
        ...

    async def ids(self, after: str, limit: int) -> list[str]:
        """Return ids of files in order, from the one behind `after` on."""
        ...

    async def sums(self) -> tuple[int, int]:
        """Return how many files there are, and their bytes."""
        ...


class MemoryFileIndex:
    """An index that ends with the process."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}
        self._uses: dict[str, set[int]] = {}  # by file: tasks, and holds, which are negative
        self._used_by: dict[int, set[str]] = {}  # by task: files

    async def add(self, file: StoredFile) -> None:
        self._files[file.id] = file

    async def find(self, id: str) -> StoredFile | None:
        file = self._files.get(id)
        return file if file is not None and file.used_ms != _DOOMED else None

    async def grow(self, id: str, before: int, length: int, sha256: bytes, at_ms: int) -> bool:
        file = await self.find(id)
        if file is None or file.length != before or file.is_finished:
            return False
        self._files[id] = msgspec.structs.replace(file, length=length, sha256=sha256, used_ms=at_ms)
        return True

    def growing(self, id: str, before: int) -> AbstractAsyncContextManager[Grow | None]:
        return growing_here(self, id, before)

    async def hold(self, id: str, hold: int, at_ms: int) -> bool:
        file = await self.find(id)
        if file is None:
            return False
        self._files[id] = msgspec.structs.replace(file, used_ms=at_ms)
        self._uses.setdefault(id, set()).add(hold)
        return True

    async def release(self, id: str, hold: int) -> None:
        self._uses.get(id, set()).discard(hold)

    async def expire_holds(self, before_ms: int) -> None:
        for id_, file in self._files.items():
            if file.used_ms < before_ms:
                self._end_holds(id_)

    def _end_holds(self, id: str) -> None:
        tasks = self._uses.get(id, set())
        tasks -= {task for task in tasks if task < 0}

    async def total(self, agent: str, caller: str) -> tuple[int, int]:
        found = [
            file
            for file in self._files.values()
            if (file.namespace.agent, file.namespace.caller) == (agent, caller)
        ]
        size = sum(max(file.length, file.size) for file in found)
        return size, sum(file.is_upload for file in found)

    async def unused(self, before_ms: int, limit: int) -> list[str]:
        found = (
            file.id
            for file in self._files.values()
            if file.used_ms < before_ms and not self._uses.get(file.id)
        )
        return [id_ for id_, _ in zip(found, range(limit), strict=False)]

    async def doom(self, id: str, before_ms: int) -> bool:
        file = self._files.get(id)
        if file is None or file.used_ms >= before_ms or self._uses.get(id):
            return False
        self._files[id] = msgspec.structs.replace(file, used_ms=_DOOMED)
        return True

    async def remove(self, id: str) -> None:
        self._files.pop(id, None)

    async def ids(self, after: str, limit: int) -> list[str]:
        return sorted(id_ for id_ in self._files if id_ > after)[:limit]

    async def sums(self) -> tuple[int, int]:
        return len(self._files), sum(file.length for file in self._files.values())

    # For the store

    def refer(self, task: int, namespace: Namespace, uses: Sequence[FileUse]) -> None:
        """Store the references that came with an item of a task."""
        for use in uses:
            file = self._files.get(use.id)
            if file is None or not may_refer(namespace, file.namespace):
                continue
            self._end_holds(use.id)
            self._uses.setdefault(use.id, set()).add(task)
            self._used_by.setdefault(task, set()).add(use.id)
            self._files[use.id] = msgspec.structs.replace(
                file, length=max(file.length, use.length), sha256=use.sha256 or file.sha256
            )

    def forget(self, task: int) -> None:
        """A task is gone, and with it what it refers to."""
        for id_ in self._used_by.pop(task, ()):
            self._uses[id_].discard(task)
