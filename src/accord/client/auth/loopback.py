"""A port of this machine that a browser comes back to, with the answer of an authorization server
(RFC 8252, 7.3).
"""

import asyncio
import contextlib
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit

__all__ = ["Redirect"]

_PATH = "/callback"
_PAGE = b"<!doctype html><title>Accord</title><p>You can close this window now."
_REQUEST_BYTES = 16 << 10
_REQUEST_S = 10.0


class Redirect:
    """Listens while it is open. `url` is what the authorization server is told."""

    def __init__(self, port: int = 0) -> None:
        self.url = ""
        self._port = port
        self._came: asyncio.Queue[dict[str, str]] = asyncio.Queue(maxsize=16)
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Redirect":
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, limit=_REQUEST_BYTES
        )
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}{_PATH}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()

    async def next(self) -> dict[str, str]:
        """Wait for the next answer a browser brings."""
        return await self._came.get()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            verb, target, _ = lines[0].split(" ", 2)
            hosts = [line[5:].strip() for line in lines if line.lower().startswith("host:")]
            # A page elsewhere may send a browser here under a name of its own.
            is_ours = hosts == [f"127.0.0.1:{self._port}"] and urlsplit(target).path == _PATH
            if verb == "GET" and is_ours and not self._came.full():
                self._came.put_nowait(dict(parse_qsl(urlsplit(target).query)))
                status, page = b"200 OK", _PAGE
            else:
                status, page = b"404 Not Found", b""
            writer.write(
                b"HTTP/1.1 %b\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: %d\r\n"
                b"cache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
                b"connection: close\r\n\r\n%b" % (status, len(page), page)
            )
            await writer.drain()
        writer.close()
