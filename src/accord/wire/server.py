"""Serving the app with uvicorn: loop, protocol, signals."""

import asyncio
import errno
import gc
import ipaddress
import logging
import signal
import ssl
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..model import Limits
from .memory import Spares
from .tls import Tls

__all__ = ["is_loopback", "serve"]

log_ = logging.getLogger("accord")

CROWD = 200  # connections: when so many have left, and half of all, their memory is given back
HEAD_S = 0.01  # how long a stream's head waits for its first event
LEAVE_S = 0.5  # for what is cancelled at the very end
LINGER_S = 2.0  # for a refusal to be heard by a client that is still sending
LINGER_BYTES = 16 << 20  # what may be under way before a client looks at the answer: the buffers of two systems


class Answer:
    """Sends one answer: the head leaves with the first piece of the body, in one write instead of uvicorn's two."""

    __slots__ = ("_app", "_cycle", "_head", "_protocol")

    given: list[tuple[bytes, bytes]] = []
    block = b""

    def __init__(self, cycle: RequestResponseCycle, protocol: "Protocol", app: Any) -> None:
        self._cycle = cycle
        self._protocol = protocol
        self._app = app
        self._head = b""

    def run(self, scope: Any, receive: Any, send: Any) -> Any:
        """The app, sending through us. (Put in the cycle, where uvicorn has its own, we and it would hold each other for ever.)"""
        return self._app(scope, receive, self.send)

    async def send(self, message: Any) -> None:
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        if message["type"] == "http.response.start":
            self._open(message["status"], message["headers"])
        else:
            self._write(message["body"], message.get("more_body", False))

    def _open(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        cycle = self._cycle
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        lines = [STATUS_LINE[status], self._common()]
        has_length = status in (204, 304)
        for name, value in headers:
            if b"\n" in value or b"\r" in value:
                raise ValueError(f"the header {name!r} would break the answer apart")
            lines.append(b"%b: %b\r\n" % (name, value))
            if name == b"content-length":
                has_length = True
            elif name == b"connection" and value == b"close":
                cycle.keep_alive = False
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        if not has_length:
            cycle.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
            # A stream may have nothing to say yet; most have in a moment, and then the head goes along.
            asyncio.get_running_loop().call_later(HEAD_S, self._flush)
        lines.append(b"\r\n")
        self._head = b"".join(lines)

    def _common(self) -> bytes:
        """The headers all answers have, for as long as uvicorn leaves them as they are: a second, because of the date."""
        given = self._cycle.default_headers
        if given is not Answer.given:
            Answer.given, Answer.block = given, b"".join([b"%b: %b\r\n" % pair for pair in given])
        return Answer.block

    def _flush(self) -> None:
        if self._head and not self._cycle.transport.is_closing():
            self._cycle.transport.write(self._head)
            self._head = b""

    def _write(self, body: bytes, is_more: bool) -> None:
        cycle = self._cycle
        if cycle.scope["method"] == "HEAD":
            body = b""
        elif cycle.chunked_encoding:
            end = b"" if is_more else b"0\r\n\r\n"
            body = b"%x\r\n%b\r\n%b" % (len(body), body, end) if body else end
        if self._head:
            body = self._head + body
            self._head = b""
        if body:
            cycle.transport.write(body)
        if not is_more:
            cycle.response_complete = True
            cycle.message_event.set()
            if not cycle.keep_alive:
                if cycle.more_body:
                    self._protocol.linger()
                else:
                    cycle.transport.close()
            cycle.on_response()


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which does not wait for ever for the rest of a request.

    `Server` looks through all connections once a second: a timer per request would cost more than the request's parsing.
    """

    limits = Limits()
    most = 0  # connections at once, since memory was last given back

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        Protocol.most = max(Protocol.most, len(self.connections))
        self._waiting_since = self.loop.time()  # for the headers, or for more of the body; 0: for nothing
        self._is_in_headers = True
        self._header_bytes = self._packet = 0
        self._idle_since = 0.0  # for the next request; 0: it is not waited for
        self._dropped = -1  # bytes that came after a refusal; -1: there was none
        self._stuck_since, self._stuck_bytes = 0.0, 0  # the client does not take what is sent; 0: it does
        self.on_gone: Callable[[], None] | None = None  # set by a stream that wants to know

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.on_gone is not None:
            self.on_gone()
        # They lead back here, and a circle stays until the collector comes by: with thousands of them that takes a second.
        self.cycle = self.scope = None  # type: ignore[assignment]  # as before the first request

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck_since, self._stuck_bytes = self.loop.time(), self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stuck_since = 0.0

    def data_received(self, data: bytes) -> None:
        if self._dropped >= 0:
            self._drop(data)
            return
        self._packet = len(data)
        super().data_received(data)
        if self._is_in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > self.limits.header_bytes:
                self._refuse(431, f"the headers are larger than {self.limits.header_bytes} bytes", is_sending=True)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._waiting_since = self.loop.time()
        self._idle_since = 0.0
        self._is_in_headers = True
        self._header_bytes = 0
        self.scope["extensions"] = {"accord.connection": self}  # type: ignore[dict-item]  # for our own app

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        # Headers that came in less than the limit can't be larger than it: that is nearly all.
        if self._header_bytes + self._packet > self.limits.header_bytes and self._size_of_headers() > self.limits.header_bytes:
            self._refuse(431, f"the headers are larger than {self.limits.header_bytes} bytes", is_sending=True)
            return
        self._waiting_since = self.loop.time()
        super().on_headers_complete()

    def _size_of_headers(self) -> int:
        return sum(len(name) + len(value) for name, value in self.headers) + len(self.url)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        super()._start_asgi_task(cycle, Answer(cycle, self, app).run)

    def on_body(self, body: bytes) -> None:
        self._waiting_since = self.loop.time()
        if not self._is_leaving():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_leaving():
            self._waiting_since = 0.0
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """As uvicorn has it, but for the timer: setting one for every answer is a good part of what a small answer costs."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()

    def look(self, now: float) -> None:
        """Close the connection if its request has not gone on for too long, or none comes; cut a client that takes nothing."""
        if self._stuck_since:
            self._look_stuck(now)
        if self._idle_since and now - self._idle_since > self.timeout_keep_alive:
            self.transport.close()
        if not self._waiting_since:
            return
        if self._dropped >= 0:
            if now - self._waiting_since > LINGER_S:
                self.transport.abort()
            return
        patience_s = self.limits.header_s if self._is_in_headers else self.limits.body_idle_s
        if now - self._waiting_since > patience_s and not self._is_reading_paused():
            self._refuse(408, f"the rest of the request did not come within {patience_s:g} s")

    def _is_reading_paused(self) -> bool:
        """It is we who don't read, because the body so far has not been taken yet."""
        return bool(self.flow is not None and self.flow.read_paused)

    def _is_leaving(self) -> bool:
        return self._dropped >= 0 or self.transport.is_closing()

    def _refuse(self, status: int, message: str, *, is_sending: bool = False) -> None:
        if self._is_leaving():
            return
        self._waiting_since = 0.0
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = message.encode()
            head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
            if is_sending:
                self.linger()
                return
        self.transport.close()

    def linger(self) -> None:
        """Close when the client has heard us, or a moment later.

        Closing at once, with bytes come that nobody reads, would reset the connection and take the answer with it.
        """
        if not self.transport.can_write_eof():  # over TLS there is no way to say "that was all" and listen on
            self.transport.close()
            return
        self._dropped = 0
        self._waiting_since = self.loop.time()
        self.transport.write_eof()
        if self.flow is not None:
            self.flow.resume_reading()

    def _drop(self, data: bytes) -> None:
        self._dropped += len(data)
        if self._dropped > self.limits.body + LINGER_BYTES:
            self.transport.abort()

    def _look_stuck(self, now: float) -> None:
        waiting = self.transport.get_write_buffer_size()
        if waiting < self._stuck_bytes:
            self._stuck_since, self._stuck_bytes = now, waiting  # slow, but it takes something
        elif now - self._stuck_since > self.limits.stalled_s:
            self._stuck_since = 0.0
            self.transport.abort()  # without the closing chunk: a cut must not look like an end


class Server(uvicorn.Server):
    """uvicorn's server, which ends the agent's work before it waits for open connections: streams then end by themselves."""

    def __init__(
        self,
        config: uvicorn.Config,
        drain: Callable[[float], Awaitable[None]],
        on_start: Callable[[str], None],
        grace_s: float = 0.0,
    ) -> None:
        super().__init__(config)
        self._drain = drain
        self._grace_s = grace_s
        self._on_start = on_start
        self._connections = 0  # a second ago

    async def startup(self, sockets: list[Any] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit as end:  # uvicorn's way to say no; it has logged why
            if isinstance(end.__context__, OSError):
                raise SystemExit(_advice(self.config.host, self.config.port, end.__context__)) from None
            raise
        self._spares = Spares()
        # All that was imported stays: looking through it again at every collection is the larger part of p99.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        if self.started:
            self._on_start(self._address())

    def _address(self) -> str:
        """Where the server really listens: with port 0 the system has chosen."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        scheme = "https" if self.config.is_ssl else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, Protocol):
                    connection.look(now)
            await self._look_for_room()
        return await super().on_tick(counter)

    async def _look_for_room(self) -> None:
        """Give memory back when a crowd has left, and has done with leaving."""
        before, self._connections = self._connections, len(self.server_state.connections)
        if self._connections >= before and Protocol.most - self._connections > max(CROWD, self._connections):
            Protocol.most = self._connections
            await self._spares.give_back()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, at once if told twice. Told to stop, the process ends with code 0: uvicorn would die of the signal afterwards."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        if sig == signal.SIGINT:
            self._grace_s = 0.0  # a person waits
        self.should_exit = True

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        await self._drain(self._grace_s)
        await super().shutdown(sockets)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def serve(
    app: Any,
    drain: Callable[[float], Awaitable[None]],
    *,
    host: str,
    port: int,
    limits: Limits,
    log_level: str = "warning",
    on_start: Callable[[str], None] = lambda address: None,
    tls: Tls | None = None,
    grace_s: float = 0.0,
) -> None:
    """Serve until told to stop."""
    protocol = type("Protocol", (Protocol,), {"limits": limits})
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=protocol,
        loop="uvloop",
        lifespan="on",
        ws="none",
        proxy_headers=False,
        access_log=False,
        log_level=log_level,
        server_header=False,
        ssl_certfile=tls.certificate if tls is not None else None,
        ssl_keyfile=tls.key if tls is not None else None,
        ssl_ca_certs=str(tls.client_authority) if tls is not None and tls.client_authority else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls is not None and tls.client_authority else ssl.CERT_NONE,
        timeout_keep_alive=limits.keep_alive_s,
        timeout_graceful_shutdown=1,
    )
    server = Server(config, drain, on_start, grace_s)
    _run(server)
    if not server.started:
        raise RuntimeError(f"the server could not start on {host}:{port}; the reason is above")


def _advice(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken: stop what listens there, or choose another with --port (0 takes any free one)"
    if error.errno == errno.EACCES:
        return f"port {port} is for administrators; choose one above 1023 with --port"
    return f"{host} is no address of this machine; leave --host out to serve on 127.0.0.1"


def _run(server: Server) -> None:
    """Run the server to its end. What then still runs is cancelled and given a moment; `asyncio.run` would wait for ever."""
    new_loop = server.config.get_loop_factory() or asyncio.new_event_loop
    loop = new_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(server.serve())
        loop.run_until_complete(_cancel_rest())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _cancel_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        _, deaf = await asyncio.wait(rest, timeout=LEAVE_S)
        if deaf:
            log_.warning("%d tasks did not end when they were cancelled; left behind", len(deaf))
