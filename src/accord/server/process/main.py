"""A process that serves an agent: its loop, its signals, its memory, and its end."""

import asyncio
import contextlib
import errno
import gc
import ipaddress
import signal
import socket
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

from ...after_fork import own_signals
from ...model import Limits
from ..http import Router
from ..http1 import HttpServer
from ..transport import Tls, bind_port
from .shutdown import end_tasks
from .signals import hearing, sigterm_heard
from .watchdog import Watchdog
from .workers import WorkerProcess

__all__ = ["bind", "is_in_loop", "is_local", "serve", "serve_here", "url_of"]

_ERROR = "Error: "  # before what a program says last, as its commands do


class _Stop:
    """Notices that the server is to stop: after its grace, or at once if asked twice. A process
    that was asked to stop ends with code 0.
    """

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()  # asked twice
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self._on, number)
            # Windows; or not in the main thread, where signals are others' matter.
            except (
                NotImplementedError,
                RuntimeError,
            ):
                with contextlib.suppress(ValueError):
                    signal.signal(
                        number, lambda number, frame: loop.call_soon_threadsafe(self._on, number)
                    )

    def ask(self) -> None:
        self.asked.set()

    def _on(self, number: int) -> None:
        if number == signal.SIGINT:
            self.grace_s = 0.0  # a person waits
            if self.asked.is_set():
                self.hurried.set()
        self.asked.set()


def is_in_loop() -> bool:
    """Whether an event loop runs in this thread, so that no other can."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_local(host: str, url: str | None, proxies: Collection[str]) -> bool:
    """Whether only this machine can reach a server: where it listens, and at the address that
    people use. A proxy on this machine brings others to a loopback address.
    """
    is_here = not url or _is_loopback(urlsplit(url).hostname or "")
    return _is_loopback(host) and is_here and not proxies


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> list[socket.socket]:
    """Take a port that several processes will serve.

    Raises:
        SystemExit: It can't be had, and what to do instead.
    """
    try:
        return bind_port(host, port)
    except OSError as error:
        raise SystemExit(_ERROR + _advice(host, port, error)) from None


def url_of(sockets: list[socket.socket], *, is_secure: bool) -> str:
    """Return where sockets that were bound are reached."""
    address, port = sockets[0].getsockname()[:2]
    name = f"[{address}]" if ":" in address else address
    return f"{'https' if is_secure else 'http'}://{name}:{port}"


def serve(
    app: Router,
    *,
    host: str,
    port: int,
    limits: Limits,
    on_start: Callable[[str], None] = lambda address: None,
    tls: Tls | None = None,
    grace_s: float = 0.0,
    sockets: list[socket.socket] | None = None,
    worker: WorkerProcess | None = None,
) -> None:
    """Serve until told to stop, then return. A worker serves the sockets its parent has bound, and
    stops when that is gone.

    Raises:
        RuntimeError: The app did not open; the reason is its text.
        SystemExit: The port can't be had, or the store can't be used, and what to do.
    """
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    try:
        with own_signals(signal.SIGINT, signal.SIGTERM):
            server = _Server(app, host, port, limits, on_start, tls, sockets, worker)
            loop.run_until_complete(server.serve(grace_s))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def serve_here(
    app: Router,
    *,
    host: str,
    port: int,
    limits: Limits,
    on_start: Callable[[str], None] = lambda address: None,
    tls: Tls | None = None,
    grace_s: float = 0.0,
) -> None:
    """Serve in the loop that runs, beside whatever else runs there: until this is cancelled, or the
    process gets SIGTERM and nobody else handles that.

    Raises:
        RuntimeError: The port can't be had, or the app did not open; the reason is its text.
    """
    server = _Server(app, host, port, limits, on_start, tls, None, None)
    asked = asyncio.Event()

    def stop(number: int) -> None:
        if number == signal.SIGTERM:
            asked.set()  # Ctrl-C cancels what the loop was started for, and this with it

    with sigterm_heard(), hearing(stop):
        try:
            listening = await server.start()
        except SystemExit as error:
            raise RuntimeError(str(error).removeprefix(_ERROR)) from None
        except BaseException:
            await app.close()
            raise
        try:
            with Watchdog():
                await asked.wait()
        finally:
            await _end(app, listening, grace_s if asked.is_set() else 0.0)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # not on Windows
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _Server:
    """What is served, and where."""

    def __init__(
        self,
        app: Router,
        host: str,
        port: int,
        limits: Limits,
        on_start: Callable[[str], None],
        tls: Tls | None,
        sockets: list[socket.socket] | None,
        worker: WorkerProcess | None,
    ) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._limits = limits
        self._on_start = on_start
        self._tls = tls
        self._sockets = sockets
        self._worker = worker

    async def serve(self, grace_s: float) -> None:
        stop = _Stop(grace_s)
        try:
            await self._until(stop)
        finally:
            await end_tasks(stop.hurried)

    async def start(self) -> HttpServer:
        app = self._app
        server = HttpServer(
            *(app.answer, self._host, self._port, self._limits),
            *(self._tls, app.unread, app.is_refused),
        )
        if self._sockets:
            server.use(self._sockets)
        try:
            sockets = await server.bind()
        except OSError as error:
            raise SystemExit(_ERROR + _advice(self._host, self._port, error)) from None
        try:
            await app.open()
        except Exception as error:
            for place in sockets:
                place.close()
            if isinstance(error, RuntimeError):  # a store that can't be used: it says what to do
                raise SystemExit(f"{_ERROR}{error}") from None
            raise RuntimeError(str(error) or repr(error)) from error
        await server.start(sockets)
        self._on_start(server.url)
        return server

    async def _until(self, stop: _Stop) -> None:
        server = await self.start()
        _tune_garbage_collector()
        if self._worker is not None:
            asyncio.get_running_loop().add_reader(self._worker.parent, stop.ask)
            self._worker.is_serving()
        with Watchdog():
            await stop.asked.wait()
            if self._worker is not None:
                asyncio.get_running_loop().remove_reader(self._worker.parent)
            await _unless(stop.hurried, _end(self._app, server, stop.grace_s))


async def _end(app: Router, server: HttpServer, grace_s: float) -> None:
    """End the agent's work first: streams then end by themselves, and who comes meanwhile is
    refused.
    """
    server.leave_to_others()
    await app.close(grace_s)
    await server.stop()


async def _unless(event: asyncio.Event, work: Any) -> None:
    """Do the work, until the event."""
    doing, hearing = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    await asyncio.wait([doing, hearing], return_when=asyncio.FIRST_COMPLETED)
    hearing.cancel()
    if doing.done():
        doing.result()


def _tune_garbage_collector() -> None:
    # What was imported stays for good. Going through it at every full collection was the larger
    # part of the p99 latency.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _advice(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is in use: stop the other program, or choose another with --port "
            "(0 takes any free one)"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs administrator rights; choose one above 1023 with --port"
    return f"{host} is not an address of this machine; leave --host out to serve on 127.0.0.1"
