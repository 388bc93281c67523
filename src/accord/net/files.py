"""Files at URLs that others give: fetched whole, up to a limit, on the disk if they are large."""

import tempfile
from typing import IO
from urllib.parse import urljoin

from ..model import whole_number
from .errors import BadAnswer
from .http import Http, Request

__all__ = ["fetch_file"]

SPILL_BYTES = 1 << 20  # a file beyond that is on the disk while it comes
MAX_REDIRECTS = 3
HEAD_S, IDLE_S = 30.0, 30.0

_MOVED = (301, 302, 303, 307, 308)


async def fetch_file(http: Http, url: str, limit: int) -> IO[bytes]:
    """Return the content of a URL as an open temporary file, at its beginning.

    Every address, also one it is redirected to, goes through `http`, whose guard decides.

    Raises:
        AgentFault: It can't be had: not reached, refused, or larger than `limit` bytes.
    """
    for _ in range(MAX_REDIRECTS + 1):
        answer = await http.open(Request("GET", url, HEAD_S), idle_s=IDLE_S)
        try:
            if answer.status in _MOVED and (place := answer.headers.get("location")):
                url = urljoin(url, place)
                continue
            if answer.status != 200:
                raise BadAnswer(url, f"the answer is HTTP status {answer.status}", answer.status)
            length = answer.headers.get("content-length")
            if length is not None and whole_number(length, limit) is None:
                raise _too_large(url, limit)
            file = tempfile.SpooledTemporaryFile(SPILL_BYTES)  # noqa: SIM115  the caller closes it
            try:
                size = 0
                async for chunk in answer.chunks():
                    size += len(chunk)
                    if size > limit:
                        raise _too_large(url, limit)
                    file.write(chunk)
                file.seek(0)
            except BaseException:
                file.close()
                raise
            return file
        finally:
            await answer.close()
    raise BadAnswer(url, f"more than {MAX_REDIRECTS} redirects")


def _too_large(url: str, limit: int) -> BadAnswer:
    return BadAnswer(url, f"the file is larger than {limit} bytes, the most that is fetched")
