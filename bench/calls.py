"""`python -m bench.calls`: print what a blocking send does, without a network: the Python functions
it calls on the loop, and the CPU time. The last line is the same message through a hub, to an agent
in a process of its own.

Calls are the same on every machine, so that a test can hold them. They are those of our code, of
asyncio and of whoever calls the app here; what a store does in a thread of its own is not counted.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import accord
from accord import Agent

__all__ = ["Cost", "measure", "measure_hop"]

WARM = 20
SENDS = 50
ROUNDS = 30
_OURS = str(Path(accord.__file__).parent)

_BODY = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {
            "message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "hello world"}]}
        },
    }
).encode()
_SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/",
    "query_string": b"",
    "headers": [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(_BODY)),
        (b"host", b"127.0.0.1:1"),
    ],
}


class Cost:
    """Python calls, those of our own functions among them, and CPU microseconds of one send."""

    def __init__(self, calls: float, own: float, us: float) -> None:
        self.calls = calls
        self.own = own
        self.us = us


async def echo(text: str) -> str:
    return text.upper()


async def measure(store: str, *, rounds: int = ROUNDS) -> Cost:
    """Send one message after the other to an echo on this store."""
    agent = Agent("Cost")
    agent.skill(echo)
    app = agent.app(store=store)
    try:
        for _ in range(WARM):
            await _send(app)
        return Cost(*await _calls(app), await _us(app, rounds))
    finally:
        await app.close()


async def measure_hop(folder: str, *, rounds: int = ROUNDS) -> Cost:
    """Send one message after the other through a hub."""
    from accord import Limits
    from accord.hub import Hub, HubSettings
    from accord.hub.access import SYSTEM

    from .server import Server

    settings = HubSettings(
        store=f"sqlite:///{folder}/hub.db", folder=folder, calls_per_minute=0, tick_s=0.0
    )
    hub = Hub(settings, Limits(calls_per_s=1e9, calls_burst=10**9))
    agent = Server("sqlite")
    await agent.start()
    try:
        await hub.app.open()
        hub.app.reached_at("http://127.0.0.1:1")
        await hub.admission.add(SYSTEM, url=f"http://127.0.0.1:{agent.port}", name="echo")
        for _ in range(WARM):
            await _send(hub.app, "/agents/echo/")
        calls = await _calls(hub.app, "/agents/echo/")
        return Cost(*calls, await _us(hub.app, rounds, "/agents/echo/"))
    finally:
        await hub.app.close()
        await agent.stop()


async def _send(app: Any, path: str = "/") -> None:
    answered: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": _BODY, "more_body": False}

    async def send(message: Any) -> None:
        answered.append(message)

    await app(_SCOPE | {"path": path, "raw_path": path.encode()}, receive, send)
    if b"TASK_STATE_COMPLETED" not in answered[-1]["body"]:
        raise RuntimeError(f"no answer: {answered}")


async def _calls(app: Any, path: str = "/") -> tuple[float, float]:
    """Return all calls of Python functions, and those of our own: of most sends. On a busy machine
    something that comes by the clock falls into some of them.
    """
    count = own = 0
    seen: list[tuple[int, int]] = []

    def tick(frame: Any, event: str, argument: Any) -> None:
        nonlocal count, own
        if event == "call":
            count += 1
            own += frame.f_code.co_filename.startswith(_OURS)

    for _ in range(SENDS):
        count = own = 0
        sys.setprofile(tick)
        try:
            await _send(app, path)
        finally:
            sys.setprofile(None)
        seen.append((count, own))
    counts, owns = zip(*seen, strict=True)
    return statistics.median(counts), statistics.median(owns)


async def _us(app: Any, rounds: int, path: str = "/") -> float:
    """Return the median over some rounds."""
    took: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(SENDS):
            await _send(app, path)
        took.append((time.process_time() - began) / SENDS * 1e6)
    return statistics.median(took) if took else 0.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, store in (
            ("memory", "memory://"),
            ("SQLite", f"sqlite:///{Path(folder) / 'calls.db'}"),
        ):
            _print(name, asyncio.run(measure(store)))
        _print("through a hub on SQLite", asyncio.run(measure_hop(folder)))


def _print(name: str, cost: Cost) -> None:
    print(f"{name}: {cost.calls:.0f} calls, {cost.own:.0f} our own, {cost.us:.0f} µs of CPU")


if __name__ == "__main__":
    main()
