"""Serving the app with uvicorn: loop, protocol, signals."""

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .limits import Limits

__all__ = ["serve"]


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with a way to cut a client that takes nothing any more."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"accord.abort": self._abort}  # type: ignore[dict-item]  # a callable, for our own app

    def _abort(self) -> None:
        self.transport.abort()


class Server(uvicorn.Server):
    """uvicorn's server, which ends the agent's work before it waits for open connections: streams then end by themselves."""

    def __init__(self, config: uvicorn.Config, drain: Callable[[], Awaitable[None]], on_start: Callable[[str], None]) -> None:
        super().__init__(config)
        self._drain = drain
        self._on_start = on_start

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        # All that was imported stays: looking through it again at every collection is the larger part of p99.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        if self.started:
            self._on_start(self._address())

    def _address(self) -> str:
        """Where the server really listens: with port 0 the system has chosen."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        await self._drain()
        await super().shutdown(sockets)


def serve(
    app: Any,
    drain: Callable[[], Awaitable[None]],
    *,
    host: str,
    port: int,
    limits: Limits,
    log_level: str = "warning",
    on_start: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until told to stop."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Protocol,
        loop="uvloop",
        lifespan="on",
        ws="none",
        access_log=False,
        log_level=log_level,
        server_header=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=1,
    )
    server = Server(config, drain, on_start)
    server.run()
    if not server.started:
        raise RuntimeError(f"the server could not start on {host}:{port}; the reason is above")
