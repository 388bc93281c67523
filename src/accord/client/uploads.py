"""Files that are too large for a message: uploaded where the agent's card says, piece by piece, and
gone on with after a cut (draft-ietf-httpbis-resumable-upload-05).
"""

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib.parse import quote, urljoin

import msgspec

from ..model import (
    FILES,
    A2AError,
    AgentCard,
    BodyTooLarge,
    InvalidAgentResponse,
    Message,
    Part,
    PathPart,
    PermissionDenied,
    SendMessageRequest,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    whole_number,
)
from ..net import AgentFault, Http, Request, Response

__all__ = [
    "PathPart",
    "Upload",
    "UploadProgress",
    "has_files",
    "upload_parts",
    "upload_place",
]

PIECE = 8 << 20  # bytes in one request
LARGE = 2 << 20  # a file that is uploaded, unless the card says something else
MOST_READ = 16 << 20  # of a file on the disk for an agent that takes no uploads
TIMEOUT_S = 120.0
MAX_CUTS = 10  # in a row, without a byte in between
PAUSE_S = 0.5
_VERSION = {"upload-draft-interop-version": "6"}

_REFUSALS: dict[int, type[A2AError]] = {
    401: Unauthenticated,
    403: PermissionDenied,
    429: TooManyRequests,
    503: Unavailable,
}

UploadProgress: TypeAlias = Callable[[str, int, int], None]  # name, bytes sent, bytes in all


class Upload(msgspec.Struct, frozen=True):
    """Name the address at which an agent takes files."""

    url: str
    limit: int
    inline: int  # bytes of a file that may well go in the message itself


def upload_place(card: AgentCard) -> Upload | None:
    """Return where an agent takes files; None if its card does not say."""
    for extension in card.capabilities.extensions:
        params = extension.params or {}
        url, limit, inline = params.get("url"), params.get("limit"), params.get("inline")
        if extension.uri == FILES and isinstance(url, str) and isinstance(limit, int):
            return Upload(url, limit, inline if isinstance(inline, int) else LARGE)
    return None


def _path_of(part: Part) -> Path | None:
    """Return where a part is on this disk; None if it is elsewhere."""
    return Path(part.path) if isinstance(part, PathPart) else None


def has_files(request: Any) -> bool:
    """Whether a message has a part that may have to be uploaded, or read from this disk."""
    if not isinstance(request, SendMessageRequest):
        return False
    return any(_path_of(part) or _size(part) > LARGE >> 2 for part in request.message.parts)


async def upload_parts(
    http: Http, place: Upload | None, message: Message, on_progress: UploadProgress | None = None
) -> None:
    """Have the large files of a message uploaded: their parts name them then. Small ones on this
    disk are read.

    Raises:
        BodyTooLarge: A file is larger than the agent takes, or too large for a message to an
            agent that takes no uploads.
        A2AError: The agent refuses the upload; says why.
        AgentFault: The upload failed, also when it was tried again.
    """
    parts = list(message.parts)
    for n, part in enumerate(parts):
        path = _path_of(part)
        size = path.stat().st_size if path is not None else _size(part)
        if size > (place.inline if place is not None else LARGE) and place is not None:
            parts[n] = await _Uploading(http, place, part, path, size, on_progress).run()
        elif path is not None:
            assert isinstance(part, PathPart)  # it has a path
            if size > MOST_READ:
                raise _no_uploads(part, size)
            parts[n] = await asyncio.to_thread(part.read)
    message.parts = parts


def _no_uploads(part: Part, size: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"{part.filename or 'the file'} has {size} bytes. This agent takes no uploads (its card "
        f"has no extension {FILES}), and a file of up to {MOST_READ} bytes goes into the message. "
        "Send a link, File(url=...), or the bytes, File(data), if it takes messages of that size",
        limit=str(MOST_READ),
    )


def _size(part: Part) -> int:
    return len(part.raw) if isinstance(part.raw, bytes) else 0


class _Uploading:
    """One file on its way."""

    def __init__(
        self,
        http: Http,
        place: Upload,
        part: Part,
        path: Path | None,
        size: int,
        on_progress: UploadProgress | None,
    ) -> None:
        self._http = http
        self._place = place
        self._part = part
        self._path = path
        self._size = size
        self._on_progress = on_progress
        self._url = ""
        self._hash = hashlib.sha256()
        self._hashed = 0

    async def run(self) -> Part:
        if self._size > self._place.limit:
            raise BodyTooLarge(
                f"{self._part.filename or 'the file'} has {self._size} bytes; this agent takes "
                f"files of up to {self._place.limit} bytes (limit file_size)",
                limit=str(self._place.limit),
            )
        await self._begin()
        offset, cuts = 0, 0
        while True:
            if offset == self._size:  # all of it is there, and the answer that says so was lost
                return await self._found()
            try:
                answer = await self._send(offset)
            except AgentFault:
                cuts += 1
                if cuts > MAX_CUTS:
                    raise
                await asyncio.sleep(PAUSE_S)
                offset = await self._offset(offset)
                continue
            done = self._offset_in(answer)
            if answer.status in (201, 204) and done is not None and done > offset:
                offset, cuts = done, 0
            elif answer.status == 201:
                offset = self._size
            elif answer.status in (409, 429, 503) and cuts < MAX_CUTS:
                cuts += 1
                await asyncio.sleep(PAUSE_S)
                offset = await self._offset(offset)
                continue
            else:
                raise self._refused(answer)
            if self._on_progress is not None:
                self._on_progress(self._part.filename, offset, self._size)
            if answer.status == 201:
                return self._finished(answer)

    async def _begin(self) -> None:
        name = quote(self._part.filename or "file", safe="")
        headers = {
            **_VERSION,
            "content-type": self._part.media_type or "application/octet-stream",
            "content-disposition": f"attachment; filename*=UTF-8''{name}",
            "upload-complete": "?0",
            "upload-length": str(self._size),
        }
        answer = await self._call("POST", self._place.url, headers, b"")
        location = answer.headers.get("location", "")
        if answer.status != 201 or not location:
            raise self._refused(answer)
        self._url = urljoin(self._place.url, location)

    async def _send(self, offset: int) -> Response:
        piece = await asyncio.to_thread(self._read, offset)
        is_last = offset + len(piece) >= self._size
        headers = {
            **_VERSION,
            "content-type": "application/partial-upload",
            "upload-offset": str(offset),
            "upload-complete": "?1" if is_last else "?0",
        }
        return await self._call("PATCH", self._url, headers, piece)

    async def _offset(self, before: int) -> int:
        """Ask how much has come."""
        try:
            answer = await self._call("HEAD", self._url, dict(_VERSION), None)
        except AgentFault:
            return before
        found = self._offset_in(answer)
        if found == self._size and answer.headers.get("upload-complete") != "?1":
            return before  # it is not finished: that is said with the last piece
        return found if found is not None and found <= self._size else before

    async def _found(self) -> Part:
        """Return the part of a finished upload whose last answer did not come."""
        answer = await self._call("HEAD", self._url, dict(_VERSION), None)
        if answer.status not in (200, 204):
            raise self._refused(answer)
        self._check_digest(answer)
        part = self._part
        return Part(
            url=self._url,
            filename=part.filename,
            media_type=part.media_type or "application/octet-stream",
            metadata=part.metadata,
        )

    def _offset_in(self, answer: Response) -> int | None:
        return whole_number(answer.headers.get("upload-offset", ""))

    def _read(self, offset: int) -> bytes:
        if self._path is None:
            assert isinstance(self._part.raw, bytes)  # one of the two
            piece = self._part.raw[offset : offset + PIECE]
        else:
            with self._path.open("rb") as file:
                piece = _read_at(file, offset)
        if offset == self._hashed:  # what is sent again is the same
            self._hash.update(piece)
            self._hashed += len(piece)
        elif offset < self._hashed < offset + len(piece):
            self._hash.update(piece[self._hashed - offset :])
            self._hashed = offset + len(piece)
        return piece

    def _finished(self, answer: Response) -> Part:
        self._check_digest(answer)
        try:
            made = msgspec.json.decode(answer.body, type=Part)
        except msgspec.MsgspecError as error:
            raise InvalidAgentResponse(f"the answer to an upload is not a part: {error}") from None
        made.metadata = self._part.metadata
        made.filename = self._part.filename or made.filename
        return made

    def _check_digest(self, answer: Response) -> None:
        stated = answer.headers.get("repr-digest", "")
        if stated and stated != f"sha-256=:{b64encode(self._hash.digest()).decode()}:":
            raise InvalidAgentResponse("the agent has another file than was uploaded")

    async def _call(
        self, verb: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> Response:
        return await self._http.fetch(Request(verb, url, TIMEOUT_S, headers, body), limit=64 << 10)

    def _refused(self, answer: Response) -> A2AError:
        try:
            error: Any = msgspec.json.decode(answer.body)["error"]["message"]
        except (msgspec.MsgspecError, KeyError, TypeError):
            error = f"HTTP status {answer.status}"
        kind = _REFUSALS.get(answer.status, InvalidAgentResponse)
        return kind(f"the file could not be uploaded: {error}")


def _read_at(file: IO[bytes], offset: int) -> bytes:
    file.seek(offset)
    return file.read(PIECE)
