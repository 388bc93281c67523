"""How files come in with a message, and lie outside of the log: a part with many bytes becomes a
reference, and so does a part with an address of ours.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterable
from typing import IO
from urllib.parse import urlsplit

from msgspec import UNSET
from msgspec.structs import replace

from ..model import (
    FILE_SCHEME,
    MAX_FETCHED,
    FileReference,
    InvalidParams,
    Message,
    Part,
    PathPart,
)
from ..store import FileUse, Namespace
from .files import SPILL, Files, Hold

__all__ = [
    "CopiedFiles",
    "file_not_found",
    "has_references",
    "is_large",
    "named_by_content",
    "opened",
    "refer_parts",
    "restored",
    "uses_of",
]

RESTORED = 4 << 20  # bytes of files that a skill gets at once; of larger ones it gets handles
_IN_MEMORY = 1 << 20  # of a file that is opened; the rest is on the disk


def is_large(part: Part) -> bool:
    """Whether the bytes of a part lie in the file store."""
    return isinstance(part.raw, bytes) and len(part.raw) > SPILL


def file_not_found(url: str) -> InvalidParams:
    what = f"no file {url[:200]} here"
    return InvalidParams(what, reason="FILE_NOT_FOUND", violations=(("message.parts", what),))


def id_in(url: str, bases: Callable[[], list[str]]) -> str | None:
    """Return the id in an address of ours; None if it is another one."""
    if "/files/" not in url:
        return None
    parts = urlsplit(url)
    place, _, id_ = f"{parts.scheme}://{parts.netloc}{parts.path}".rpartition("/files/")
    return id_ if place in bases() else None


async def refer_parts(
    files: Files,
    namespace: Namespace,
    parts: list[Part],
    bases: Callable[[], list[str]],
    holds: list[Hold],
) -> list[Part]:
    """Return the parts of a message as they are logged: many bytes and addresses of ours become
    references. If there are none, the list that is returned is the one given. Files that were
    there before are held (`Files.hold`), and `holds` gets what holds them.

    Raises:
        InvalidParams: An address of ours that is no file of this caller's.
        TooManyRequests, Unavailable: A file can't be stored, as `Files.put` says.
    """
    made: list[Part] | None = None
    for n, part in enumerate(parts):
        logged = await _referred(files, namespace, part, bases, holds)
        if logged is not part:
            made = list(parts) if made is None else made
            made[n] = logged
    return parts if made is None else made


async def _referred(
    files: Files,
    namespace: Namespace,
    part: Part,
    bases: Callable[[], list[str]],
    holds: list[Hold],
) -> Part:
    if isinstance(part.raw, bytes):
        if not is_large(part):
            return part
        file = await files.put(namespace, part.raw, name=part.filename, media_type=part.media_type)
        return _with(part, FileReference(file.id, 0, file.length))
    if not isinstance(part.url, str):
        return part
    if part.url.startswith(FILE_SCHEME):
        raise file_not_found(part.url)
    id_ = id_in(part.url, bases)
    if id_ is None:
        return part
    found = await files.find(namespace, id_)
    if found is None or not found.is_finished or (hold := await files.hold(found)) is None:
        raise file_not_found(part.url)
    holds.append(hold)
    return replace(
        _with(part, FileReference(found.id, 0, found.length)),
        filename=part.filename or found.name,
        media_type=part.media_type or found.media_type,
    )


async def named_by_content(
    files: Files, namespace: Namespace, part: Part, bases: Callable[[], list[str]]
) -> Part:
    """Return a part with the digest of its file, if it has an address of ours."""
    id_ = id_in(part.url, bases) if isinstance(part.url, str) else None
    found = await files.find(namespace, id_) if id_ is not None else None
    if found is None:
        return part
    return replace(part, url=f"sha-256:{found.sha256.hex()}")


def _with(part: Part, reference: FileReference) -> Part:
    return Part(
        url=reference.url,
        metadata=part.metadata,
        filename=part.filename,
        media_type=part.media_type,
    )


def uses_of(parts: list[Part]) -> list[FileUse]:
    """Return the files that parts refer to."""
    uses: list[FileUse] = []
    for part in parts:
        if part.url is UNSET or (reference := FileReference.parse(part.url)) is None:
            continue
        # How long a file is, only who writes it says: a part's URL may be a stranger's.
        uses.append(FileUse(reference.id, 0))
    return uses


def has_references(message: Message) -> bool:
    """Whether a part of a message is a file in the file store."""
    for part in message.parts:  # not `any`: a generator costs more than all it does here
        if isinstance(part.url, str) and part.url.startswith(FILE_SCHEME):
            return True
    return False


async def restored(files: Files, message: Message, *, takes_bytes: bool = False) -> Message:
    """Return a message as a skill gets it: with the bytes of files it refers to, up to 4 MiB in
    all, or 25 MiB for a skill that `takes_bytes`; larger ones stay references.
    """
    most = MAX_FETCHED if takes_bytes else RESTORED
    made: list[Part] | None = None
    for n, part in enumerate(message.parts):
        reference = FileReference.parse(part.url)
        if reference is None or reference.length > most:
            continue
        most -= reference.length
        made = list(message.parts) if made is None else made
        made[n] = Part(
            raw=await files.load(reference),
            metadata=part.metadata,
            filename=part.filename,
            media_type=part.media_type,
        )
    return message if made is None else replace(message, parts=made)


class CopiedFiles:
    """Copies of stored files on the disk, for a client that sends them on. They are gone when this
    is closed.
    """

    def __init__(self, files: Files | None, namespace: Namespace) -> None:
        self._files = files
        self._namespace = namespace
        self._temporary: list[IO[bytes]] = []

    async def parts(self, parts: Iterable[Part]) -> list[Part]:
        """Return parts with files on the disk instead of references.

        Raises:
            InvalidParams: A reference to a file that is not this caller's.
        """
        return [await self._copied(part) for part in parts]

    async def _copied(self, part: Part) -> Part:
        reference, files = FileReference.parse(part.url), self._files
        if reference is None or files is None:
            return part
        if not await files.is_own(self._namespace, reference.id):
            raise file_not_found(reference.url)
        # On the disk under a name: the client reads it piece by piece, also again after a cut.
        file = tempfile.NamedTemporaryFile(prefix="accord-copy-")  # noqa: SIM115  see close
        self._temporary.append(file)
        stop = reference.start + reference.length
        async for piece in files.read(reference.id, reference.start, stop):
            await asyncio.to_thread(file.write, piece)
        await asyncio.to_thread(file.flush)
        return PathPart(
            url="file:",
            path=file.name,  # in a folder that is given as a whole
            metadata=part.metadata,
            filename=part.filename,
            media_type=part.media_type,
        )

    def close(self) -> None:
        """Delete the copies."""
        temporary, self._temporary = self._temporary, []
        for file in temporary:
            file.close()


async def opened(files: Files, reference: FileReference, limit: int | None) -> IO[bytes]:
    """Return a piece of a file as an open file; from 1 MiB on it is on the disk.

    Raises:
        InvalidParams: It is larger than `limit`.
    """
    if limit is not None and reference.length > limit:
        raise InvalidParams(f"the file has {reference.length} bytes, more than {limit}")
    file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  the caller closes it
    try:
        stop = reference.start + reference.length
        async for piece in files.read(reference.id, reference.start, stop):
            if reference.length > _IN_MEMORY:
                await asyncio.to_thread(file.write, piece)
            else:
                file.write(piece)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file
