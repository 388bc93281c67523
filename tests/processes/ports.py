"""Ports for servers."""

import contextlib
import itertools
import os
import random
import socket

from tests.processes.waiting import until

__all__ = ["free_port", "until_listening"]

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_FIRST = 10_100 + _WORKER % 4 * 5_500  # tests that run side by side have ports of their own
# None is given a second time soon. Its own chances: tests seed the shared ones. 10080 is not among
# them, which browsers do not connect to.
_PORTS = itertools.cycle(random.Random().sample(range(_FIRST, _FIRST + 5_500), 5_500))


def free_port() -> int:
    """A free port below those the system gives to clients: one of them could take it while the
    server is dead.
    """
    for port in _PORTS:
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("unreachable")


async def until_listening(port: int) -> None:
    """Wait until something takes connections at a port of this machine."""
    await until(lambda: _is_listening(port), f"a server at port {port}")


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
