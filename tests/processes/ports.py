"""Ports for servers."""

import contextlib
import os
import random
import socket

from tests.processes.waiting import until

__all__ = ["free_port", "until_listening"]

_random = random.Random()  # its own: tests seed the shared one, and would all get the same ports
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_FIRST = 10_000 + _WORKER % 4 * 5_500  # tests that run side by side have ports of their own


def free_port() -> int:
    """A free port below those the system gives to clients: one of them could take it while the
    server is dead.
    """
    while True:
        port = _random.randrange(_FIRST, _FIRST + 5_500)
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


async def until_listening(port: int) -> None:
    """Wait until something takes connections at a port of this machine."""
    await until(lambda: _is_listening(port), f"a server at port {port}")


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
