"""Files at URLs that others give: fetched whole, up to a limit, on the disk if they are large.

What breaks off is gone on with, if the server says what it has: with a range, if the file is still
the same (RFC 9110, If-Range). A digest the server states is checked (RFC 9530).
"""

import asyncio
import base64
import hashlib
import re
import tempfile
from collections.abc import Callable
from typing import IO, TypeAlias
from urllib.parse import urljoin

from ..model import whole_number
from .errors import BadAnswer, ConnectionLost, FileTooLarge, TooSlow
from .http import Http, Request, ResponseBody

__all__ = ["OnFetched", "fetch_file"]

SPILL_BYTES = 1 << 20  # a file beyond that is on the disk while it comes
MAX_REDIRECTS = 3
MAX_CUTS = 10  # in a row, without a byte in between
PAUSE_S = 0.5
HEAD_S, IDLE_S = 30.0, 30.0

_MOVED = (301, 302, 303, 307, 308)
_DIGEST = re.compile(r"sha-256=:([A-Za-z0-9+/=]{1,88}):")


OnFetched: TypeAlias = Callable[[int, int], None]  # bytes that have come, bytes in all


async def fetch_file(
    http: Http, url: str, limit: int | None, on_fetched: OnFetched | None = None
) -> IO[bytes]:
    """Return the content of a URL as an open temporary file, at its beginning. Without a limit it
    may have any size. `on_fetched` is called while it comes, if the server says how much there is.

    Every address, also one it is redirected to, goes through `http`, whose guard decides.

    Raises:
        AgentFault: It can't be had: not reached, refused, or larger than `limit` bytes.
    """
    fetched = _Fetched(http, url, limit, on_fetched)
    try:
        await fetched.fetch()
    except BaseException:
        fetched.file.close()
        raise
    fetched.file.seek(0)
    return fetched.file


class _Fetched:
    """A file as far as it has come."""

    def __init__(
        self, http: Http, url: str, limit: int | None, on_fetched: OnFetched | None
    ) -> None:
        self._http = http
        self._url = url
        self._limit = limit
        self._on_fetched = on_fetched
        self._whole: int | None = None  # bytes there are, if the server says so
        self._etag = ""
        self._digest = b""
        self._hash = hashlib.sha256()
        self.size = 0
        self.file: IO[bytes] = tempfile.SpooledTemporaryFile(SPILL_BYTES)  # noqa: SIM115  its user closes it

    async def fetch(self) -> None:
        cuts = 0
        while True:
            before = self.size
            try:
                await self._take()
                break
            except (ConnectionLost, TooSlow):
                cuts = 0 if self.size > before else cuts + 1
                if not self._etag or cuts > MAX_CUTS:
                    raise
                await asyncio.sleep(PAUSE_S)
        if self._digest and self._hash.digest() != self._digest:
            raise BadAnswer(self._url, "the file does not match its digest")

    async def _take(self) -> None:
        """One try: all of it, or what is missing."""
        for _ in range(MAX_REDIRECTS + 1):
            headers = {}
            if self.size:
                headers = {"range": f"bytes={self.size}-", "if-range": self._etag}
            request = Request("GET", self._url, HEAD_S, headers)
            answer = await self._http.open(request, idle_s=IDLE_S)
            try:
                if answer.status in _MOVED and (place := answer.headers.get("location")):
                    self._url = urljoin(self._url, place)
                    continue
                self._check(answer)
                async for chunk in answer.chunks():
                    self._add(chunk)
                return
            finally:
                await answer.close()
        raise BadAnswer(self._url, f"more than {MAX_REDIRECTS} redirects")

    def _check(self, answer: ResponseBody) -> None:
        is_rest = bool(self.size) and answer.status == 206
        if answer.status != 200 and not is_rest:
            text = f"the answer is HTTP status {answer.status}"
            raise BadAnswer(self._url, text, answer.status)
        if not is_rest and self.size:  # it is another file now
            self.file.seek(0)
            self.file.truncate()
            self.size, self._hash = 0, hashlib.sha256()
        etag = answer.headers.get("etag", "")
        self._etag = etag if not etag.startswith("W/") else ""
        found = _DIGEST.search(answer.headers.get("repr-digest", ""))
        self._digest = base64.b64decode(found[1]) if found is not None else b""
        length = answer.headers.get("content-length")
        most = self._limit - self.size if self._limit is not None else None
        if most is not None and length is not None and whole_number(length, most) is None:
            raise self._too_large()
        rest = whole_number(length) if length is not None else None
        self._whole = self.size + rest if rest is not None else None

    def _add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self._limit is not None and self.size > self._limit:
            raise self._too_large()
        self._hash.update(chunk)
        self.file.write(chunk)
        if self._on_fetched is not None and self._whole is not None:
            self._on_fetched(self.size, self._whole)

    def _too_large(self) -> FileTooLarge:
        return FileTooLarge(
            self._url, f"the file is larger than {self._limit} bytes, the most that is fetched"
        )
