"""Files over HTTP: `GET …/files/ID` with ranges, `POST …/files` and the rest of a resumable upload.

Uploads follow draft-ietf-httpbis-resumable-upload-05 (interop version 6), which tus clients speak:
POST begins one, HEAD says how much has come, PATCH goes on, DELETE cancels it.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Coroutine
from typing import Any
from urllib.parse import quote, unquote

from ...auth import Caller
from ...files import FileInUse, Files, UploadConflict
from ...model import (
    A2AError,
    InvalidParams,
    InvalidRequest,
    MethodNotAllowed,
    MethodNotFound,
    whole_number,
)
from ...operations import Call, Service
from ...protocol.v1 import codec as v1
from ...store import Namespace, StoredFile
from ..request import (
    JSON,
    HttpRequest,
    HttpResponse,
    Pairs,
    SizedResponse,
    error_headers,
    opaque,
    query_of,
)

__all__ = ["FilesEndpoint", "is_file_path"]

PATH = re.compile(r"/files(?:/([A-Za-z0-9_-]{22}))?")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,80}/[a-z0-9!#$&^_.+-]{1,80}", re.IGNORECASE)
_RANGE = re.compile(r"bytes=([0-9]*)-([0-9]*)", re.IGNORECASE)
_PIECE = re.compile(r"([0-9]+)-([0-9]+)")
_BEYOND = 1 << 62  # a position behind the end of any file
_FILENAME = re.compile(r"filename=\"((?:[^\"\\]|\\.)*)\"|filename=([^;\s]+)", re.IGNORECASE)
_FILENAME_CODED = re.compile(r"filename\*=UTF-8''([^;\s]+)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([\"\\])")
_PLAIN = "application/octet-stream"
_VERSION = (b"upload-draft-interop-version", b"6")
# What a file says must never run with the rights of this server's pages.
_SAFE: Pairs = (
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"accept-ranges", b"bytes"),
    (b"cache-control", b"private, no-cache"),
    (b"x-frame-options", b"DENY"),
)


def is_file_path(path: str) -> bool:
    return PATH.fullmatch(path) is not None


class FilesEndpoint:
    """The files of one agent."""

    def __init__(self, service: Service, files: Files) -> None:
        self._service = service
        self._files = files

    def is_signed(self, request: HttpRequest) -> bool:
        """Whether a request shows the key of a signed address: then nobody asks who calls."""
        if request.target.verb not in ("GET", "HEAD"):
            return False
        found = PATH.fullmatch(request.target.path)
        if found is None or found[1] is None:
            return False
        key = query_of(request.target).get("key", [""])[0]
        giver = self._service.giver
        return bool(key) and giver is not None and giver.is_signed(found[1], key)

    async def __call__(self, request: HttpRequest) -> HttpResponse | SizedResponse:
        """Answer a request. Errors are answers too."""
        try:
            return await self._answer(request)
        except A2AError as error:
            return _failed(error)
        except ConnectionError:
            return _failed(InvalidRequest("the request ended before its body did"))
        except Exception:
            return _failed(opaque())

    async def _answer(self, request: HttpRequest) -> HttpResponse | SizedResponse:
        found = PATH.fullmatch(request.target.path)
        verb, id_ = request.target.verb, found[1] if found is not None else None
        if id_ is None:
            if verb == "POST":
                return await self._create(request)
            raise MethodNotFound("files are uploaded here with POST")
        if verb in ("GET", "HEAD"):
            return await self._get(request, id_)
        if verb not in ("PATCH", "DELETE"):
            raise MethodNotFound("a file takes GET, HEAD, PATCH and DELETE")
        file = await self._files.find(self._namespace(request.caller), id_)
        if file is None:
            raise _not_found()
        if not file.is_upload and not file.is_finished:
            error = MethodNotAllowed("an agent is writing this file; it can only be read")
            return _failed(error, (b"allow", b"GET, HEAD"))
        if verb == "PATCH":
            return await self._patch(request, file)
        if not await self._files.cancel(file):
            raise FileInUse(
                "the file is used by a task; it is deleted with the last task that refers to it",
                reason="FILE_IN_USE",
            )
        return HttpResponse(204)

    def _namespace(self, caller: Caller) -> Namespace:
        return self._service.namespace("", Call(caller))

    # Giving

    async def _get(self, request: HttpRequest, id_: str) -> HttpResponse | SizedResponse:
        file = await self._readable(request, id_)
        if file is None:
            raise _not_found()
        is_head = request.target.verb == "HEAD"
        if not file.is_finished and is_head:
            return HttpResponse(204, headers=self._state_of(file))
        piece = _piece_of(request)
        first, last = piece if piece is not None else (0, file.length)
        if not first <= last <= file.length:
            return _no_such_range(file.length)
        headers = (*_SAFE, *_described(file))
        etag = ""
        if piece is not None:  # its bytes never change, and the digest is not of them
            etag = f'"{id_}-{first}-{last}"'
        elif file.is_finished:
            etag = f'"{file.sha256.hex()}"'
            headers = (*headers, (b"repr-digest", b"sha-256=:%b:" % b64encode(file.sha256)))
            if is_head:  # who uploaded it may not have heard that it is finished
                headers = (*headers, *self._state_of(file)[:3])
        if etag:
            headers = (*headers, (b"etag", etag.encode()))
        if etag and etag in request.headers.get(b"if-none-match", b"").decode("latin-1"):
            return HttpResponse(304, headers=headers)
        size = last - first
        start, stop, status = _wanted(request, size, etag)
        if stop < 0:
            return _no_such_range(size)
        if status == 206:
            place = b"bytes %d-%d/%d" % (start, stop - 1, size)
            headers = (*headers, (b"content-range", place))
        pieces = None if is_head else self._files.give(id_, first + start, first + stop)
        return SizedResponse(status, stop - start, headers, pieces)

    async def _readable(self, request: HttpRequest, id_: str) -> StoredFile | None:
        """The file, if the caller may read it; somebody else's is as good as none."""
        if self.is_signed(request):
            file = await self._files.index.find(id_)
            return file if file is not None and self._is_ours(file) else None
        giver = self._service.giver
        is_anonymous = not request.caller.name and request.target.verb == "GET"
        if is_anonymous and giver is not None and giver.can_sign:
            return None  # callers without a name are all one: only a signed address tells them
        return await self._files.find(self._namespace(request.caller), id_)

    def _is_ours(self, file: StoredFile) -> bool:
        return file.namespace.agent == self._service.agent.name

    # Taking

    async def _create(self, request: HttpRequest) -> HttpResponse:
        headers = request.headers
        if self._service.admit_upload is not None:
            self._service.admit_upload(request.caller)
        size = _length_of(request)
        name = _name_of(headers.get(b"content-disposition", b"").decode("latin-1"))
        query = query_of(request.target).get("name", [""])[0]
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()
        file = await self._files.create(
            self._namespace(request.caller),
            name or _last_segment(query),
            kind if _MEDIA_TYPE.fullmatch(kind) else _PLAIN,
            size,
        )
        is_complete = headers.get(b"upload-complete", b"?1").strip() != b"?0"
        pieces = _pieces_of(request)
        file = await _to_the_end(self._files.begin(file, pieces, is_complete=is_complete))
        return self._accepted(request, file, 201)

    async def _patch(self, request: HttpRequest, file: StoredFile) -> HttpResponse:
        headers = request.headers
        offset = whole_number(headers.get(b"upload-offset", b"").strip())
        if offset is None:
            raise InvalidParams("PATCH needs Upload-Offset, the number of bytes that have come")
        if offset != file.length or file.is_finished:
            return self._mismatch(file, offset)
        is_complete = headers.get(b"upload-complete", b"").strip() == b"?1"
        try:
            pieces = _pieces_of(request)
            file = await _to_the_end(self._files.append(file, pieces, is_complete=is_complete))
        except UploadConflict:
            found = await self._files.find(self._namespace(request.caller), file.id)
            if found is None:
                raise _not_found() from None
            return self._mismatch(found, offset)
        return self._accepted(request, file, 201 if file.is_finished else 204)

    def _mismatch(self, file: StoredFile, offset: int) -> HttpResponse:
        body = v1.encode(
            {
                "type": "https://iana.org/assignments/http-problem-types#mismatching-upload-offset",
                "title": "the offset is not the number of bytes that have come, or another request "
                "is adding to them",
                "expected-offset": file.length,
                "provided-offset": offset,
            }
        )
        return HttpResponse(409, body, b"application/problem+json", self._state_of(file))

    def _accepted(self, request: HttpRequest, file: StoredFile, status: int) -> HttpResponse:
        base = self._service.base_url(Call(request.caller, base_url=request.base_url))
        url = f"{base}/files/{file.id}"
        headers = ((b"location", url.encode()), *self._state_of(file))
        if not file.is_finished:
            return HttpResponse(status, headers=headers)
        digest = b"sha-256=:%b:" % b64encode(file.sha256)
        headers = (*headers, (b"repr-digest", digest))
        part = {"url": url, "filename": file.name, "mediaType": file.media_type}
        return HttpResponse(status, v1.encode(part), JSON, headers)

    def _state_of(self, file: StoredFile) -> Pairs:
        limit = self._files.limits.file_size
        return (
            _VERSION,
            (b"upload-offset", b"%d" % file.length),
            (b"upload-complete", b"?1" if file.is_finished else b"?0"),
            (b"upload-limit", b"max-size=%d" % limit),
            (b"cache-control", b"no-store"),
        )


def _length_of(request: HttpRequest) -> int:
    """How many bytes the whole upload has; -1 if it is not said."""
    headers = request.headers
    said = headers.get(b"upload-length")
    if said is None and headers.get(b"upload-complete", b"?1").strip() != b"?0":
        said = headers.get(b"content-length")
    if said is None:
        return -1
    size = whole_number(said.strip())
    if size is None:
        raise InvalidParams(f"{said[:40].decode('latin-1')!r} is not the length of a file")
    return size


def _pieces_of(request: HttpRequest) -> AsyncIterator[bytes]:
    return request.stream.pieces() if request.stream is not None else _only(request.body)


async def _to_the_end(writing: Coroutine[Any, Any, StoredFile]) -> StoredFile:
    """Write in a task of its own, which goes on if the sender goes away."""
    work = asyncio.ensure_future(writing)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise


async def _only(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


def _piece_of(request: HttpRequest) -> tuple[int, int] | None:
    """The piece of a file that an address names; None if it names all of it."""
    found = _PIECE.fullmatch(query_of(request.target).get("range", [""])[0])
    return (_position(found[1]), _position(found[2])) if found is not None else None


def _position(digits: str) -> int:
    """Return the number that digits are. RFC 9110 does not limit how many there are."""
    number = whole_number(digits.lstrip("0") or "0")
    return _BEYOND if number is None else number


def _no_such_range(length: int) -> HttpResponse:
    return HttpResponse(416, headers=(*_SAFE, (b"content-range", b"bytes */%d" % length)))


def _wanted(request: HttpRequest, length: int, etag: str) -> tuple[int, int, int]:
    """The range a request asks for, and the status of its answer; with no such range it ends
    at -1. What is no range is ignored, and so is any range of a HEAD (RFC 9110, section 14.2).
    """
    found = _RANGE.fullmatch(request.headers.get(b"range", b"").decode("latin-1").strip())
    if_range = request.headers.get(b"if-range", b"").decode("latin-1").strip()
    whole = 0, length, 200
    if found is None or request.target.verb != "GET" or (if_range and if_range != etag):
        return whole
    first, last = found[1], found[2]
    if not first:
        if not last or (_position(last) and not length):  # all of an empty file is no range
            return whole
        start, stop = max(length - _position(last), 0), length
    else:
        start = _position(first)
        stop = min(_position(last) + 1, length) if last else length
        if last and _is_before(last, first):
            return whole
    return (start, stop, 206) if start < stop else (0, -1, 416)


def _is_before(last: str, first: str) -> bool:
    """Whether a range ends before it begins, however many digits the two have."""
    ends, begins = last.lstrip("0"), first.lstrip("0")
    return (len(ends), ends) < (len(begins), begins)


def _described(file: StoredFile) -> Pairs:
    kind = file.media_type if _MEDIA_TYPE.fullmatch(file.media_type) else _PLAIN
    name = "".join(c for c in file.name if c.isprintable() and c not in '/\\"')[:200]
    disposition = "attachment"
    if name:
        disposition += f"; filename*=UTF-8''{quote(name, safe='')}"
    return ((b"content-type", kind.encode()), (b"content-disposition", disposition.encode()))


def _name_of(disposition: str) -> str:
    """The file's name in a Content-Disposition header."""
    coded = _FILENAME_CODED.search(disposition)
    plain = _FILENAME.search(disposition)
    if coded:
        return _last_segment(unquote(coded[1]))
    if plain is None:
        return ""
    return _last_segment(plain[2] or _ESCAPED.sub(r"\1", plain[1]))


def _last_segment(name: str) -> str:
    """A name without the folders before it, and without what hides."""
    name = name.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in name if c.isprintable())[:255]


def _not_found() -> A2AError:
    return MethodNotFound("there is no such file here")


def _failed(error: A2AError, *more: tuple[bytes, bytes]) -> HttpResponse:
    headers = (*error_headers(error), *more)
    return HttpResponse(error.status, v1.CODEC.failure(error)[1], JSON, headers)
