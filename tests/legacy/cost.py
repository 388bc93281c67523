"""What a send costs in each version: `python -m tests.legacy.cost` prints CPU time, in process,
without a network.

An old version may cost at most 1.3 times what 1.0 does. Time is for people to look at, on a quiet
machine; what a test can hold is the number of calls made, which is the same every time.
"""

import asyncio
import json
import statistics
import sys
import time
from typing import Any

from accord import Agent
from tests.legacy.wire import echo, say_0_1, say_0_3, say_1_0

LIMIT = 1.3
ROUNDS, SENDS = 40, 100

SENT = {
    "1.0": ("SendMessage", say_1_0("hello world", messageId="m")),
    "0.3": ("message/send", say_0_3("hello world", messageId="m")),
    "0.1": ("tasks/send", say_0_1("", "hello world")),
}


class Sender:
    """Sends one body to an app, again and again."""

    def __init__(self, app: Any, version: str) -> None:
        method, params = SENT[version]
        params = {name: value for name, value in params.items() if value != ""}
        self._app = app
        self._body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        ).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self._body)),
        ]
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "query_string": b"",
            "headers": headers,
        }

    async def send(self) -> bytes:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": self._body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(dict(self._scope), receive, send)
        body: bytes = sent[-1]["body"]
        return body


def served() -> Any:
    agent = Agent("Cost")
    agent.skill(echo)
    return agent.app()


async def calls() -> dict[str, int]:
    """How many functions one send calls, in our code and below it."""
    app = served()
    counted = {}
    for version in SENT:
        sender = Sender(app, version)
        for _ in range(3):
            await sender.send()
        count = 0

        def tick(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(tick)
        try:
            await sender.send()
        finally:
            sys.setprofile(None)
        counted[version] = count
    await app.close()
    return counted


async def times() -> dict[str, float]:
    """CPU time of one send in microseconds: the median over rounds in which the versions take
    turns.
    """
    app = served()
    senders = {version: Sender(app, version) for version in SENT}
    took: dict[str, list[float]] = {version: [] for version in SENT}
    for _ in range(ROUNDS):
        for version, sender in senders.items():
            began = time.process_time()
            for _ in range(SENDS):
                await sender.send()
            took[version].append((time.process_time() - began) / SENDS * 1e6)
    await app.close()
    return {version: statistics.median(each) for version, each in took.items()}


if __name__ == "__main__":
    measured = asyncio.run(times())
    for version, us in measured.items():
        print(f"{version}: {us:6.1f} µs, {us / measured['1.0']:.2f} of 1.0")
