"""A forward proxy as companies have them: absolute URLs, CONNECT, and a password if it likes. Every
name is this machine to it.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.client.network.wire import handled

REFUSED = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: "
    b"Basic\r\ncontent-length: 0\r\n\r\n"
)


class Forward:
    def __init__(self, user: str) -> None:
        self.url = ""
        self.lines: list[str] = []  # what it was asked for
        self.seen = (
            b""  # everything it could read: of what is in a tunnel, nothing that means anything
        )
        self._wanted = b"Basic " + base64.b64encode(user.encode()) if user else b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.seen += head
        first, *lines = head.split(b"\r\n")
        self.lines.append(first.decode())
        given = [
            line.partition(b": ")[2]
            for line in lines
            if line.lower().startswith(b"proxy-authorization:")
        ]
        if self._wanted and given != [self._wanted]:
            writer.write(REFUSED)
            await writer.drain()
            return
        verb, target, version = first.split()
        if verb == b"CONNECT":
            port = int(target.rpartition(b":")[2])
        else:
            url = urlsplit(target.decode())
            port = url.port or 80
            first = b" ".join(
                [verb, f"{url.path}{'?' + url.query if url.query else ''}".encode(), version]
            )
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return
        try:
            if verb == b"CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                kept = [line for line in lines if not line.lower().startswith(b"proxy-")]
                outer.write(b"\r\n".join([first, *kept]))
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, outer))
                both.create_task(self._pump(inner, writer))
        finally:
            outer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                self.seen += data
                # A kept connection asks again in the same manner; the host is the same, so only its
                # line is put right.
                if data.split(b" ", 2)[1:2] and data.split(b" ", 2)[1].startswith(b"http://"):
                    self.lines.append(data.partition(b"\r\n")[0].decode())
                    verb, target, rest = data.split(b" ", 2)
                    data = b" ".join([verb, urlsplit(target).path or b"/", rest])
                writer.write(data)
        finally:
            writer.close()


@asynccontextmanager
async def forward(user: str = "") -> AsyncIterator[Forward]:
    proxy = Forward(user)
    async with handled(proxy.serve) as proxy.url:
        yield proxy
