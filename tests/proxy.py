"""A TCP proxy before a database, which cuts or stalls connections when a test says so."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ["Proxy", "proxied"]


class Proxy:
    """Passes bytes on, until told otherwise."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._cut = ""
        self._cut_at = 0
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        self._stall_at = 0  # requests, after which nothing is passed on
        self._stalled = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.count = 0  # connections that were cut

    @property
    def url(self) -> str:
        """The database, through this proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        name = self._parts.netloc.rpartition("@")[0]
        query = [(key, value) for key, value in parse_qsl(self._parts.query) if key != "host"]
        place = f"{name}@127.0.0.1:{port}" if name else f"127.0.0.1:{port}"
        return urlunsplit(self._parts._replace(netloc=place, query=urlencode(query)))

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1")

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.resume()
        await asyncio.sleep(0)  # what was accepted just now is served
        while self._serving:  # one may still be on its way to the database
            self.cut_all()
            await asyncio.wait(self._serving, timeout=0.05)
        await asyncio.sleep(0)

    def cut(self, how: str, size: int = 0) -> None:
        """Cut the connection of the next message of at least `size` bytes: "before" it reaches the
        database, or "after" its answer has come and before that is passed on.
        """
        self._cut, self._cut_at = how, size

    def cut_all(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    def stall(self) -> None:
        """Pass nothing on until `resume`."""
        self._goes_on.clear()

    async def stalled_after(self, count: int) -> None:
        """Return when so many requests were passed on; no answer is from the last one on, until
        `resume`.
        """
        self._stall_at, self._stalled = count, asyncio.Event()
        await self._stalled.wait()

    def resume(self) -> None:
        self._goes_on.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.ensure_future(self._connect(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        await serving

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sockets = dict(parse_qsl(self._parts.query)).get("host")
        port = self._parts.port or 5432
        if sockets:
            there = await asyncio.open_unix_connection(f"{sockets}/.s.PGSQL.{port}")
        else:
            there = await asyncio.open_connection(self._parts.hostname, port)
        state = {"is_marked": False}
        self._open |= {writer, there[1]}
        try:
            await asyncio.wait(
                [
                    asyncio.ensure_future(self._pass(reader, there[1], state, is_request=True)),
                    asyncio.ensure_future(self._pass(there[0], writer, state, is_request=False)),
                ]
            )
        finally:
            self._open -= {writer, there[1]}

    async def _pass(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        state: dict[str, bool],
        *,
        is_request: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                await self._goes_on.wait()
                if is_request and self._cut and len(data) >= self._cut_at:
                    how, self._cut = self._cut, ""
                    if how == "before":
                        self.count += 1
                        break
                    state["is_marked"] = True
                if not is_request and state["is_marked"]:
                    self.count += 1
                    break
                target.write(data)
                await target.drain()
                if is_request and self._stall_at:
                    self._stall_at -= 1
                    if not self._stall_at:
                        self.stall()
                        self._stalled.set()
        target.transport.abort()
        source._transport.abort()  # type: ignore[attr-defined]  # the other half of the connection


@contextlib.asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(url)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
