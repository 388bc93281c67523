"""The files of a server: bytes in a file store, and the index in the store of the tasks.

A row of the index is there before the first byte and until after the last, so nothing in the file
store is ever forgotten. References from tasks come with their commits (`store.FileUse`).
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import IO, Any, NamedTuple

import msgspec

from ..model import (
    FileReference,
    InvalidParams,
    InvalidRequest,
    Limits,
    TooManyRequests,
    Unavailable,
    now_ms,
)
from ..store import (
    MADE,
    CommitFailed,
    FileIndex,
    FileUse,
    Grow,
    Namespace,
    StoredFile,
    may_refer,
)
from .contract import FileStore

__all__ = [
    "SPILL",
    "UNUSED_S",
    "FileInUse",
    "Files",
    "GrowingFile",
    "Hold",
    "UploadConflict",
    "file_too_large",
]

log_ = logging.getLogger("accord")

SPILL = 64 << 10  # bytes of a part: more lie in the file store
UNUSED_S = 24 * 60 * 60.0  # that a file may be without a reference
_RECENT_BYTES = 16 << 20  # of files that were written a moment ago, kept to be sent or given
_COLLECTED = 100  # in one go
_HASHES = 256  # of uploads that are under way
QUOTA_S = 5.0  # that the bytes of a caller are not counted again
_QUOTAS = 1000
_ANY_TIME_MS = 1 << 62  # later than any file was used


class Hold(NamedTuple):
    """What keeps a file from being deleted before the reference to it is stored."""

    file: str
    number: int  # negative


class FileInUse(InvalidRequest):
    """A file can't be deleted: a task refers to it, or is about to."""

    status = 409


class UploadConflict(InvalidRequest):
    """Another request writes the same upload: the file may have grown, or be growing."""

    status = 409


def file_too_large(limit: int) -> InvalidParams:
    return InvalidParams(
        f"the file is larger than {limit} bytes, the most this server takes (limit file_size)",
        reason="FILE_TOO_LARGE",
        limit=str(limit),
    )


class _Quota(msgspec.Struct):
    """How many bytes a caller's files have, and its uploads, when they were last counted."""

    size: int
    unfinished: int
    at_s: float


def _too_many(size: int, more: int, limit: int) -> str:
    return (
        f"the files of this caller have {size} bytes, and {more} more would be beyond {limit} "
        "(limit files_per_caller); a file is deleted when no task refers to it, a day after it "
        "came at the earliest"
    )


class Files:
    """Writes, reads and deletes files.

    - What is not the caller's is not found.
    - A digest is made of what was written, never taken from anybody.
    """

    def __init__(
        self,
        index: FileIndex,
        store: FileStore,
        limits: Limits,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self.index = index
        self.clock_ms = clock_ms  # the clock that all processes share
        self.store = store
        self.limits = limits
        self.unused_s = UNUSED_S
        self._recent: OrderedDict[str, bytes] = OrderedDict()
        self._recent_bytes = 0
        self._hashes: OrderedDict[str, tuple[int, Any]] = OrderedDict()
        self._own: OrderedDict[tuple[Namespace, str], None] = OrderedDict()
        self._lengths: OrderedDict[str, int] = OrderedDict()  # of finished files
        self._busy: set[str] = set()  # uploads that are written right now
        self._beginning = asyncio.Lock()
        self._giving = asyncio.Lock()
        self._quotas: OrderedDict[tuple[str, str], _Quota] = OrderedDict()

    async def open(self) -> None:
        await self.store.open()

    async def close(self) -> None:
        await self.store.close()

    # Files that are there as a whole

    async def put(
        self, namespace: Namespace, data: bytes, *, name: str = "", media_type: str = ""
    ) -> StoredFile:
        """Store a file.

        Raises:
            InvalidParams: It is too large.
            TooManyRequests: The caller has as many bytes as it may.
            Unavailable: It can't be stored now: no space, for example.
        """
        if len(data) > self.limits.file_size:
            raise file_too_large(self.limits.file_size)
        await self.check_quota(namespace, len(data))
        hash_ = hashlib.sha256()
        await self.digest(hash_, data)
        file = StoredFile(
            new_id(),
            namespace,
            name,
            media_type,
            self.clock_ms(),
            len(data),
            len(data),
            hash_.digest(),
        )
        await self._add(file)
        batch = self.store.batch
        try:
            for at in range(0, len(data), batch):
                await self.store.write(file.id, at, data[at : at + batch])
        except Unavailable:
            with contextlib.suppress(CommitFailed, Unavailable):
                await self.cancel(file)  # else it is counted as the caller's for a day
            raise
        self._remember(file.id, data)
        return file

    async def digest(self, hash_: Any, data: bytes) -> None:
        """Add data to a digest, in a thread if that takes long."""
        if len(data) <= SPILL << 1:
            hash_.update(data)
        else:
            await asyncio.to_thread(hash_.update, data)

    async def _add(self, file: StoredFile) -> None:
        try:
            await self.index.add(
                msgspec.structs.replace(
                    file,
                    name=file.name.replace("\0", ""),  # PostgreSQL has no text with it
                    media_type=file.media_type.replace("\0", ""),
                )
            )
        except CommitFailed as error:
            raise Unavailable(
                "the server can't store files right now; try again", retry_after_s=5
            ) from error
        self._know(file.namespace, file.id)

    def _remember(self, id: str, data: bytes) -> None:
        if len(data) > _RECENT_BYTES >> 2:
            return
        self._recent[id] = data
        self._recent_bytes += len(data)
        while self._recent_bytes > _RECENT_BYTES:
            self._recent_bytes -= len(self._recent.popitem(last=False)[1])

    def _know(self, namespace: Namespace, id: str) -> None:
        self._own[namespace, id] = None
        if len(self._own) > 10_000:
            self._own.popitem(last=False)

    # Files that grow

    def grow(self, namespace: Namespace, name: str, media_type: str) -> "GrowingFile":
        """Return a new file that an agent writes piece by piece."""
        return GrowingFile(self, namespace, name, media_type)

    # Uploads

    async def create(
        self, namespace: Namespace, name: str, media_type: str, size: int
    ) -> StoredFile:
        """Begin an upload; `size` is -1 if it is not known. Raises as `put` does."""
        if size > self.limits.file_size:
            raise file_too_large(self.limits.file_size)
        file = StoredFile(new_id(), namespace, name, media_type, self.clock_ms(), size=size)
        async with self._beginning:  # one after the other: else all find the same room
            await self.check_quota(namespace, max(size, 0), is_upload=True)
            await self._add(file)
        return file

    async def begin(
        self, file: StoredFile, pieces: AsyncIterator[bytes], *, is_complete: bool
    ) -> StoredFile:
        """Add what comes with the request that began an upload, as `append` does. If that fails or
        is cut short, the upload is deleted: its sender does not know its address yet, and could
        neither go on with it nor cancel it.
        """
        try:
            return await self.append(file, pieces, is_complete=is_complete)
        except BaseException:
            with contextlib.suppress(CommitFailed, Unavailable):  # then it goes after a day
                await self.cancel(file)
            raise

    async def append(
        self, file: StoredFile, pieces: AsyncIterator[bytes], *, is_complete: bool
    ) -> StoredFile:
        """Add to an upload what comes, also if it is cut short; return it as it is then.

        Raises:
            InvalidParams: It is or becomes too large.
            UploadConflict: Somebody writes it at the same time.
            Unavailable: It can't be stored now.
        """
        if file.id in self._busy:
            raise UploadConflict("another request is writing the file")
        self._busy.add(file.id)
        try:
            return await self._append(file, pieces, is_complete)
        finally:
            self._busy.discard(file.id)

    async def _append(
        self, file: StoredFile, pieces: AsyncIterator[bytes], is_complete: bool
    ) -> StoredFile:
        length, hash_ = self._hashes.pop(file.id, (0, hashlib.sha256()))
        if length != file.length:
            hash_ = None  # it was begun by another process: the digest is made at the end
        gathered, size = [], 0
        try:
            async for piece in pieces:
                self._check_size(file, file.length + size + len(piece))
                gathered.append(piece)
                size += len(piece)
                if size >= self.store.batch:
                    data, gathered, size = b"".join(gathered), [], 0
                    file = await self._flush(file, data, hash_)
        finally:
            if gathered:
                file = await self._flush(file, b"".join(gathered), hash_)
            if hash_ is not None:
                self._hashes[file.id] = (file.length, hash_)
                if len(self._hashes) > _HASHES:
                    self._hashes.popitem(last=False)
        # Some tus clients do not say that the last piece is the last; the length says it too.
        is_all = is_complete or file.length == file.size
        return await self._finish(file) if is_all else file

    def _check_size(self, file: StoredFile, length: int) -> None:
        """Raise InvalidParams if an upload is to have more bytes than it may, or than announced."""
        if length > self.limits.file_size:
            raise file_too_large(self.limits.file_size)
        if 0 <= file.size < length:
            raise InvalidParams(f"more bytes have come than the {file.size} that were announced")

    async def _flush(self, file: StoredFile, data: bytes, hash_: Any) -> StoredFile:
        if file.size < 0:  # else it was counted when it began
            await self.check_quota(file.namespace, len(data))
        async with self.index.growing(file.id, file.length) as grow:
            if grow is not None:  # nobody else writes it now
                await self.store.write(file.id, file.length, data)
            grown = await self._grown(file, file.length + len(data), b"", grow)
        if hash_ is not None:  # only now: what was not stored comes again
            await self.digest(hash_, data)
        return grown

    async def _grown(
        self, file: StoredFile, length: int, sha256: bytes, grow: Grow | None
    ) -> StoredFile:
        at_ms = self.clock_ms()
        try:
            is_grown = grow is not None and await grow(length, sha256, at_ms)
        except CommitFailed as error:
            raise Unavailable(
                "the server can't store files right now; try again", retry_after_s=5
            ) from error
        if not is_grown:
            if await self.index.find(file.id) is None:
                await self.store.delete(file.id)  # nothing else knows of what was just written
                raise InvalidParams("the upload was cancelled meanwhile")
            raise UploadConflict("another request has added to the file meanwhile")
        return StoredFile(
            *(file.id, file.namespace, file.name, file.media_type, at_ms),
            *(length, length if sha256 else file.size, sha256),
        )

    async def _finish(self, file: StoredFile) -> StoredFile:
        if 0 <= file.size != file.length:
            raise InvalidParams(
                f"the upload is complete with {file.length} bytes, but {file.size} were announced"
            )
        length, hash_ = self._hashes.pop(file.id, (-1, None))
        if length != file.length:
            hash_ = hashlib.sha256()
            async for piece in self.store.read(file.id, 0, file.length):
                await self.digest(hash_, piece)
        grow = partial(self.index.grow, file.id, file.length)
        return await self._grown(file, file.length, hash_.digest(), grow)

    @property
    def is_busy(self) -> bool:
        """Whether an upload is being written."""
        return bool(self._busy)

    async def cancel(self, file: StoredFile) -> bool:
        """Delete a file now, if no task refers to it or is about to. Return whether it is gone."""
        if not await self.index.doom(file.id, _ANY_TIME_MS):
            return await self.index.find(file.id) is None
        await self._erase(file.id)
        return True

    # Finding and reading

    async def find(self, namespace: Namespace, id: str) -> StoredFile | None:
        """Return a file of this agent and caller; None if it is somebody else's."""
        file = await self.index.find(id) if len(id) == _ID_LENGTH and id.isascii() else None
        return file if file is not None and may_refer(namespace, file.namespace) else None

    async def is_own(self, namespace: Namespace, id: str) -> bool:
        """Whether a file is this caller's. Remembered for what was asked for a moment ago."""
        if (namespace, id) in self._own:
            return True
        if await self.find(namespace, id) is None:
            return False
        self._know(namespace, id)
        return True

    async def is_whole(self, reference: FileReference) -> bool:
        """Whether a reference is to all that its file will ever have. Remembered for finished
        files: they never change.
        """
        if reference.start:
            return False
        length = self._lengths.get(reference.id)
        if length is None:
            file = await self.index.find(reference.id)
            if file is None or not file.is_finished:
                return False
            length = self._lengths[file.id] = file.length
            if len(self._lengths) > 10_000:
                self._lengths.popitem(last=False)
        return reference.length == length

    def read(self, id: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """Yield bytes of a file, in pieces."""
        return self.store.read(id, start, stop)

    async def give(self, id: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """Yield bytes of a file to be sent, one piece of all such files in a turn of the loop: with
        one of each, many downloads would hold up what else is answered.
        """
        async for piece in self.store.read(id, start, stop):
            async with self._giving:
                await asyncio.sleep(0)
            yield piece

    async def load(self, reference: FileReference) -> bytes:
        """Return a small piece of a file."""
        recent = self._recent.get(reference.id)
        stop = reference.start + reference.length
        if recent is not None and stop <= len(recent):
            return recent[reference.start : stop]
        return b"".join([piece async for piece in self.read(reference.id, reference.start, stop)])

    async def hold(self, file: StoredFile) -> Hold | None:
        """Keep a file that a task is about to refer to; None if it is gone. The commit of the
        reference ends the hold. If there will be none, `release` it.
        """
        hold = Hold(file.id, -1 - secrets.randbits(62))
        return hold if await self.index.hold(*hold, self.clock_ms()) else None

    async def release(self, holds: Iterable[Hold]) -> None:
        """End holds of files to which no task will refer."""
        with contextlib.suppress(CommitFailed, Unavailable):  # then they expire after a day
            for hold in holds:
                await self.index.release(*hold)

    # Limits and upkeep

    async def check_quota(
        self, namespace: Namespace, more: int, *, is_upload: bool = False
    ) -> None:
        """Raise TooManyRequests if a caller has as many bytes or uploads as it may. Callers without
        a name are all one. How many bytes there are is looked at every few seconds, and before each
        new upload.
        """
        quota = await self._quota(namespace, is_now=is_upload)
        if quota.size + more > self.limits.files_per_caller:
            raise TooManyRequests(
                _too_many(quota.size, more, self.limits.files_per_caller),
                retry_after_s=60,
                limit="files_per_caller",
            )
        if is_upload and quota.unfinished >= self.limits.uploads_per_caller:
            raise TooManyRequests(
                f"{quota.unfinished} uploads of yours are not finished; finish or cancel one",
                retry_after_s=60,
                limit="uploads_per_caller",
            )
        quota.size += more

    async def _quota(self, namespace: Namespace, *, is_now: bool) -> "_Quota":
        key, now = (namespace.agent, namespace.caller), time.monotonic()
        quota = self._quotas.get(key)
        if quota is None or is_now or now - quota.at_s > QUOTA_S:
            size, unfinished = await self.index.total(*key)
            quota = self._quotas[key] = _Quota(size, unfinished, now)
            self._quotas.move_to_end(key)
            if len(self._quotas) > _QUOTAS:
                self._quotas.popitem(last=False)
        return quota

    def count_made(self, namespace: Namespace, more: int) -> bool:
        """Count what an agent makes for a caller, by what was last known. Return False if nothing
        is: then it is to be looked at when the file is written.

        Raises:
            InvalidParams: The caller has as many bytes as it may.
        """
        quota = self._quotas.get((namespace.agent, namespace.caller))
        if quota is None:
            return False
        if quota.size + more > self.limits.files_per_caller:
            limit = self.limits.files_per_caller
            raise InvalidParams(
                _too_many(quota.size, more, limit), reason="TOO_MANY_FILES", limit=str(limit)
            )
        quota.size += more
        return True

    async def collect(self) -> int:
        """Delete files to which no task has referred for a day; return how many.

        A file that can't be deleted is left for the next time, and keeps no other from going.
        """
        before_ms = self.clock_ms() - int(self.unused_s * 1000)
        deleted = 0
        self._quotas.clear()  # other processes delete files too
        await self.index.expire_holds(before_ms)
        while found := await self.index.unused(before_ms, _COLLECTED):
            done = 0
            for id_ in found:
                if id_ in self._busy or not await self.index.doom(id_, before_ms):
                    continue
                try:
                    await self._erase(id_)
                except Unavailable as error:
                    log_.warning("file %s can't be deleted now: %s", id_, error)
                else:
                    done += 1
            deleted += done
            if not done:
                break
        return deleted

    async def _erase(self, id: str) -> None:
        await self.store.delete(id)
        await self.index.remove(id)


class _Source(msgspec.Struct):
    """An open file that is copied into one of ours."""

    file: IO[bytes]
    size: int  # bytes it had when it was taken: so many are copied
    copied: int = 0

    def read(self, most: int) -> bytes:
        """Return the next bytes. Where it has become shorter than it was, they are zeros: what
        comes behind them has its place already.
        """
        most = min(most, self.size - self.copied)
        self.file.seek(self.copied)
        data = self.file.read(most)
        if not data:
            log_.warning("a file became shorter while it was copied; the rest is filled with zeros")
        return data or bytes(most)


class GrowingFile:
    """A file that is written while tasks refer to what is there of it already.

    `add` says where a piece is going to be; `flush` returns when everything added is in the file
    store. Pieces that come while others are written go together.
    """

    def __init__(self, files: Files, namespace: Namespace, name: str, media_type: str) -> None:
        self.id = new_id()
        self.length = 0  # with what is not written yet
        self.is_finished = False  # nothing will be added
        self._files = files
        at_ms = files.clock_ms()
        self._file = StoredFile(self.id, namespace, name, media_type, at_ms, size=MADE)
        self._hash = hashlib.sha256()
        self._waiting: deque[bytes | _Source] = deque()
        self._written = 0
        self._is_added = False
        self._uncounted = 0  # bytes that no quota knows of yet
        self._lock = asyncio.Lock()

    def add(self, data: bytes) -> FileReference:
        """Take a piece; return where it will be.

        Raises:
            InvalidParams: The file becomes too large.
        """
        reference = self._reference(len(data))
        self._waiting.append(data)
        return reference

    def add_file(self, file: IO[bytes]) -> FileReference:
        """Take the content of an open file, which is closed when it is written; return where it
        will be, or now if it is refused. Raises as `add` does.
        """
        try:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            reference = self._reference(size)
        except BaseException:
            file.close()
            raise
        self._waiting.append(_Source(file, size))
        return reference

    def _reference(self, size: int) -> FileReference:
        if self.length + size > self._files.limits.file_size:
            raise file_too_large(self._files.limits.file_size)
        if not self._files.count_made(self._file.namespace, size):
            self._uncounted += size
        reference = FileReference(self.id, self.length, size)
        self.length += size
        return reference

    def use(self) -> FileUse:
        """Return the reference of a task to what has been written."""
        sha256 = self._hash.digest() if self.is_finished else b""
        return FileUse(self.id, self._written, sha256)

    async def flush(self) -> None:
        """Return when everything added is in the file store. Raises as `Files.put` does."""
        async with self._lock:
            if not self._is_added:
                quota = await self._files._quota(self._file.namespace, is_now=False)
                quota.size += self._uncounted
                self._uncounted = 0
                await self._files._add(self._file)
                self._is_added = True
            while self._waiting:
                first = self._waiting[0]
                if isinstance(first, bytes):
                    await self._flush_bytes()
                    continue
                await self._copy(first)
                self._waiting.popleft()
                first.file.close()

    async def _flush_bytes(self) -> None:
        pieces: list[bytes] = []
        for piece in self._waiting:
            if not isinstance(piece, bytes):
                break
            pieces.append(piece)
        await self._write(b"".join(pieces))
        for _ in pieces:
            self._waiting.popleft()

    async def _copy(self, source: "_Source") -> None:
        """Copy as many bytes as were announced: the source may have changed since."""
        while source.copied < source.size:
            data = await asyncio.to_thread(source.read, self._files.store.batch)
            await self._write(data)
            source.copied += len(data)

    async def _write(self, data: bytes) -> None:
        await self._files.store.write(self.id, self._written, data)
        await self._files.digest(self._hash, data)
        self._written += len(data)


_ID_LENGTH = 22


def new_id() -> str:
    """An id nobody can guess: 128 random bits."""
    return secrets.token_urlsafe(16)
