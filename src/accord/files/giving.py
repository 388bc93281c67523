"""How files go out: a reference in the JSON of an answer becomes bytes or an address.

What is stored of a task is sent as text, without being decoded. So references are found in the
text: a part's `url` member in our scheme. No text of a user's can look like one, because quotes in
it are escaped; a JSON value of a user's can, so each file is looked up as the caller's own.
"""

import re
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec.structs import replace

from ..model import (
    FILE_SCHEME,
    FILES,
    A2AError,
    FileReference,
    Message,
    TimelineEntry,
    Unavailable,
)
from ..protocol import Snapshot, TaskPage
from ..protocol.v1 import codec as v1
from ..store import Namespace
from .files import Files
from .spilling import has_references

__all__ = ["MARK", "Address", "Given", "Giver", "Sealer"]

INLINE_TOTAL = 4 << 20  # bytes of files in one answer; the others go by address
SIGNED_S = 60 * 60.0  # that a signed address works

MARK = f'"url":"{FILE_SCHEME}'.encode()
_FOUND = re.compile(MARK + rb'([A-Za-z0-9_-]{22})/([0-9]{1,15})/([0-9]{1,15})"')
_CONTEXT = "file address"
_FILES = FILES.encode()


class Sealer(Protocol):
    """A keyring, as far as signed addresses need it."""

    def seal(self, data: bytes, *, context: str) -> bytes: ...
    def unseal(self, data: bytes, *, context: str) -> bytes: ...


class Address(msgspec.Struct, frozen=True):
    """Where the files of an agent are for somebody who gets an answer."""

    base: str  # the agent's own address
    is_signed: bool = False  # whoever has the address may read the file, for a while
    inline: int | None = None  # bytes of a file that is sent as bytes; None: the limit
    inline_total: int = INLINE_TOTAL


class Given(msgspec.Struct):
    """One answer on its way out: whose it is, where its files are, how many bytes it may hold."""

    namespace: Namespace
    address: Address
    left: int


class Giver:
    """Writes files into answers, and checks signed addresses."""

    def __init__(self, files: Files, sealer: Callable[[], Sealer]) -> None:
        self._files = files
        self._sealer = sealer

    def given(self, namespace: Namespace, address: Address) -> Given:
        return Given(namespace, address, address.inline_total)

    async def text(self, data: bytes, to: Given) -> bytes:
        """Return JSON of A2A 1.0 with its references as bytes or addresses."""
        if MARK not in data:
            return data
        pieces: list[bytes | memoryview] = []
        view, last = memoryview(data), 0
        for found in _FOUND.finditer(data):
            reference = FileReference(found[1].decode(), int(found[2]), int(found[3]))
            if not await self._files.is_own(to.namespace, reference.id):
                continue
            pieces += (view[last : found.start()], await self._written(reference, to))
            if reference.start:  # a chunk says where it belongs, so that a file stays one
                pieces.append(b',"metadata":{"%b":{"offset":%d}}' % (_FILES, reference.start))
            last = found.end()
        pieces.append(view[last:])
        return b"".join(pieces)

    async def _written(self, reference: FileReference, to: Given) -> bytes:
        inline = self._files.limits.inline if to.address.inline is None else to.address.inline
        if reference.length <= min(inline, to.left):
            try:
                data = await self._files.load(reference)
            except Unavailable:
                raise
            except A2AError:
                data = None  # bytes that are not there: JSON of a user's can say so
            if data is not None:
                to.left -= reference.length
                return b'"raw":"%b"' % b64encode(data)
        is_whole = await self._files.is_whole(reference)
        return b'"url":"%b"' % self.url(reference, to.address, is_whole=is_whole).encode()

    @property
    def can_sign(self) -> bool:
        """Whether there is a key to sign with. If not, addresses are only hard to guess."""
        try:
            self._sealer()
        except RuntimeError:  # KeyringError is one
            return False
        return True

    def url(self, reference: FileReference, address: Address, *, is_whole: bool) -> str:
        """Return the address of a file, or of a piece of one."""
        options = []
        if not is_whole:
            options.append(f"range={reference.start}-{reference.start + reference.length}")
        if address.is_signed and self.can_sign:
            options.append(f"key={self.sign(reference.id)}")
        query = "?" + "&".join(options) if options else ""
        return f"{address.base}/files/{reference.id}{query}"

    def anew(self, to: Given) -> Given:
        """Return the same for the next event of a stream: each may hold as much as an answer."""
        return Given(to.namespace, to.address, to.address.inline_total)

    def has_files(self, found: object) -> bool:
        """Whether there is a reference in what an operation found."""
        if isinstance(found, Snapshot):
            return MARK in found.head or MARK in found.artifacts
        if isinstance(found, Message):
            return has_references(found)
        # One search of them all costs less than half of one in each.
        return isinstance(found, TaskPage) and MARK in b",".join(found.tasks)

    async def answer(self, found: object, to: Given) -> object:
        """Return what an operation found with its references written out."""
        if isinstance(found, Snapshot):
            artifacts = await self.text(found.artifacts, to)  # first: they are what was made
            head = await self.text(found.head, to)
            timeline = found.timeline
            if timeline is not None:
                entries = [await self._timeline_entry(entry, to) for entry in timeline.entries]
                timeline = replace(timeline, entries=entries)
            return replace(found, head=head, artifacts=artifacts, timeline=timeline)
        if isinstance(found, Message):
            return await self._message(found, to)
        if isinstance(found, TaskPage):
            tasks = [await self.text(task, to) for task in found.tasks]
            return replace(found, tasks=tasks)
        return found

    async def _timeline_entry(self, entry: TimelineEntry, to: Given) -> TimelineEntry:
        message, status = entry.message, entry.status
        if message is not None and has_references(message):
            return replace(entry, message=await self._message(message, to))
        if status is not None and status.message is not None and has_references(status.message):
            status = replace(status, message=await self._message(status.message, to))
            return replace(entry, status=status)
        return entry

    async def _message(self, message: Message, to: Given) -> Message:
        """Return a message with its references written out."""
        return v1.decode_message(await self.text(v1.encode(message), to))

    # Signed addresses

    def sign(self, id: str, for_s: float = SIGNED_S) -> str:
        """Return the key of an address that works for a while, for whoever has it."""
        until = b"%d %b" % (int(time.time() + for_s), id.encode())
        sealed = self._sealer().seal(until, context=_CONTEXT)
        return urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def is_signed(self, id: str, key: str) -> bool:
        """Whether a key is of this file and has not expired."""
        try:
            sealed = urlsafe_b64decode(key + "=" * (-len(key) % 4))
            until, _, named = self._sealer().unseal(sealed, context=_CONTEXT).partition(b" ")
            return named.decode() == id and int(until) >= time.time()
        except (ValueError, RuntimeError):  # KeyringError is the latter
            return False
