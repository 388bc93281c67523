"""Clients that say one thing to a server, over any of the ways there are, and see a broken answer
for what it is.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, NamedTuple

import aiohttp

from tests.reliability.line import Line
from tests.reliability.ways import Way

__all__ = ["BROKEN", "FINAL", "RESUME", "Client", "Frame", "GrpcClient", "HttpClient", "state_of"]

RESUME = {"a2a-extensions": "urn:accord:resume:1"}
FINAL = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
BROKEN = (
    aiohttp.ClientError,
    ConnectionError,
    asyncio.TimeoutError,
)  # how a killed server looks from outside


def state_of(task: dict[str, Any]) -> str:
    return task["status"]["state"]


class Frame(NamedTuple):
    """One event of a stream: its number, and the stream response in it."""

    id: int
    event: dict[str, Any]

    @property
    def state(self) -> str:
        """The state it shows; empty for an artifact."""
        shown = self.event.get("task") or self.event.get("statusUpdate")
        return state_of(shown) if shown else ""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def task_id(self) -> str:
        (inside,) = self.event.values()
        return inside.get("taskId") or inside["id"]


class Client(ABC):
    """What can be said, whatever is spoken."""

    way: str

    @abstractmethod
    async def call(
        self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the result. Raises Refused for an A2A error, one of BROKEN if there is no
        answer.
        """

    @abstractmethod
    def stream(
        self,
        method: str,
        params: dict[str, Any],
        headers: dict[str, str] | None = None,
        comments: list[str] | None = None,
    ) -> AsyncGenerator[Frame, None]:
        """Yield the frames of a stream to its proper end; comments are added to `comments`.

        Raises Refused for an error in place of the stream or as its last event, one of BROKEN if it
        was cut.
        """

    async def send(
        self, params: dict[str, Any], headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        return (await self.call("SendMessage", params, headers))["task"]

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.call("GetTask", {"id": task_id})

    async def cancel(self, task_id: str) -> dict[str, Any]:
        return await self.call("CancelTask", {"id": task_id})

    async def total(self, status: str = "") -> int:
        """How many tasks there are, all or in one state."""
        return (
            await self.call("ListTasks", {"pageSize": 1, **({"status": status} if status else {})})
        )["totalSize"]

    async def every_task(self) -> AsyncIterator[dict[str, Any]]:
        token = ""
        while True:
            page = await self.call(
                "ListTasks", {"pageSize": 100, "includeArtifacts": True, "pageToken": token}
            )
            for task in page["tasks"]:
                yield task
            token = page["nextPageToken"]
            if not token:
                return

    def subscribe(
        self, task_id: str, after: int | None = None, comments: list[str] | None = None
    ) -> AsyncGenerator[Frame, None]:
        """Subscribe; with `after`, resume behind that event."""
        headers = {} if after is None else RESUME | {"last-event-id": str(after)}
        return self.stream("SubscribeToTask", {"id": task_id}, headers, comments)


class HttpClient(Client):
    def __init__(self, session: aiohttp.ClientSession, url: str, way: Way) -> None:
        self.way = way.name
        self._session = session
        self._url = url
        self._way = way

    async def call(
        self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        async with self._request(method, params, headers) as answer:
            return self._way.result(method, await answer.read(), answer.status)

    async def stream(
        self,
        method: str,
        params: dict[str, Any],
        headers: dict[str, str] | None = None,
        comments: list[str] | None = None,
    ) -> AsyncGenerator[Frame, None]:
        async with self._request(method, params, headers) as answer:
            if not answer.headers["content-type"].startswith("text/event-stream"):
                self._way.result(method, await answer.read(), answer.status)
                raise AssertionError("an answer instead of a stream")
            number = 0
            async for line in answer.content:
                if line.startswith(b"id: "):
                    number = int(line[4:])
                elif line.startswith(b"data: "):
                    yield Frame(number, self._way.event(line[6:]))
                elif line.startswith(b":") and comments is not None:
                    comments.append(line.decode().rstrip("\n"))

    def _request(self, method: str, params: dict[str, Any], headers: dict[str, str] | None) -> Any:
        verb, path, headers, body = self._way.request(method, params, headers or {})
        return self._session.request(verb, self._url + path, data=body or None, headers=headers)


class GrpcClient(Client):
    def __init__(self, line: Line, way: Way) -> None:
        self.way = way.name
        self._line = line
        self._way = way

    async def call(
        self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        exchange = await self._line.call(self._way.request(method, params, headers or {}))
        try:
            message = await exchange.next()
            assert message is not None
            assert await exchange.next() is None
        finally:
            exchange.hang_up()
        return self._way.result(method, message)

    async def stream(
        self,
        method: str,
        params: dict[str, Any],
        headers: dict[str, str] | None = None,
        comments: list[str] | None = None,
    ) -> AsyncGenerator[Frame, None]:
        exchange = await self._line.call(self._way.request(method, params, headers or {}))
        number = 0
        try:
            while (message := await exchange.next()) is not None:
                number = number + 1 if number else int((exchange.headers or {})["accord-seq"])
                yield Frame(number, self._way.event(message))
        finally:
            exchange.hang_up()
