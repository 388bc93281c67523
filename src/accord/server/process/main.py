"""A process that serves an agent: its loop, its signals, its memory, and its end."""

import asyncio
import contextlib
import errno
import gc
import ipaddress
import logging
import signal
from collections.abc import Callable
from typing import Any

from ...forks import own_signals
from ...model import Limits
from ..http import Router
from ..http1 import HttpServer
from ..transport import Tls
from .shutdown import end_tasks
from .watchdog import Watchdog

__all__ = ["is_loopback", "serve"]

log_ = logging.getLogger("accord")


class _Stop:
    """Somebody wants the server to stop: at once, if told twice. Told to stop, the process ends
    with code 0.
    """

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()  # told twice
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self._on, number)
            except (
                NotImplementedError,
                RuntimeError,
            ):  # Windows; or not in the main thread, where signals are others' matter
                with contextlib.suppress(ValueError):
                    signal.signal(
                        number, lambda number, frame: loop.call_soon_threadsafe(self._on, number)
                    )

    def _on(self, number: int) -> None:
        if number == signal.SIGINT:
            self.grace_s = 0.0  # a person waits
            if self.asked.is_set():
                self.hurried.set()
        self.asked.set()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def serve(
    app: Router,
    *,
    host: str,
    port: int,
    limits: Limits,
    log_level: str = "warning",
    on_start: Callable[[str], None] = lambda address: None,
    tls: Tls | None = None,
    grace_s: float = 0.0,
) -> None:
    """Serve until told to stop, then return.

    Raises:
        RuntimeError: The app did not open; the reason is its text.
        SystemExit: The port can't be had, and what to do instead.
    """
    if log_.level == logging.NOTSET:
        log_.setLevel(log_level.upper())
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    try:
        with own_signals(signal.SIGINT, signal.SIGTERM):
            loop.run_until_complete(_serve(app, host, port, limits, on_start, tls, grace_s))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # not on Windows
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _serve(
    app: Router,
    host: str,
    port: int,
    limits: Limits,
    on_start: Callable[[str], None],
    tls: Tls | None,
    grace_s: float,
) -> None:
    stop = _Stop(grace_s)
    try:
        await _serve_until(stop, app, host, port, limits, on_start, tls)
    finally:
        await end_tasks(stop.hurried)


async def _serve_until(
    stop: _Stop,
    app: Router,
    host: str,
    port: int,
    limits: Limits,
    on_start: Callable[[str], None],
    tls: Tls | None,
) -> None:
    server = HttpServer(app.answer, host, port, limits, tls, app.unread, app.is_refused)
    try:
        sockets = await server.bind()
    except OSError as error:
        raise SystemExit(_advice(host, port, error)) from None
    try:
        await app.open()
    except Exception as error:
        for place in sockets:
            place.close()
        raise RuntimeError(str(error) or repr(error)) from error
    await server.start(sockets)
    on_start(server.url)
    _tune_garbage_collector()
    with Watchdog():
        await stop.asked.wait()
        await _unless(stop.hurried, _end(app, server, stop.grace_s))


async def _end(app: Router, server: HttpServer, grace_s: float) -> None:
    """End the agent's work first: streams then end by themselves, and who comes meanwhile is
    told.
    """
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
        return f"port {port} is taken: stop what listens there, or choose another with --port (0 takes any free one)"  # noqa: E501
    if error.errno == errno.EACCES:
        return f"port {port} is for administrators; choose one above 1023 with --port"
    return f"{host} is no address of this machine; leave --host out to serve on 127.0.0.1"
