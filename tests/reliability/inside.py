"""An app called in this process, over its public wire: what races need, a thousand times a second.

The same requests as over a socket, without one: the only scheduling left is the loop's, which a
test can steer.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.reliability.clients import Frame
from tests.reliability.ways import WAYS

__all__ = ["Inside", "pass_turns"]


async def pass_turns(count: int) -> None:
    """Let everything else have `count` turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


class Inside:
    """Talks to an ASGI app, over one of the ways that are HTTP."""

    def __init__(self, app: Any, way: str = "jsonrpc") -> None:
        self._app = app
        self._way = WAYS[way]

    async def call(
        self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the result. Raises Refused for an A2A error."""
        status, body = await self._request(method, params, headers)
        return self._way.result(method, body, status)

    async def send(
        self, params: dict[str, Any], headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        return (await self.call("SendMessage", params, headers))["task"]

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.call("GetTask", {"id": task_id})

    async def cancel(self, task_id: str) -> dict[str, Any]:
        return await self.call("CancelTask", {"id": task_id})

    async def stream(
        self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None
    ) -> list[Frame]:
        """Return all frames of a stream, at its end. Raises Refused if it is or ends with an
        error.
        """
        status, body = await self._request(method, params, headers)
        if body.startswith(b"{"):
            self._way.result(method, body, status)
            raise AssertionError("an answer instead of a stream")
        return [
            self._frame(block)
            for block in body.split(b"\n\n")
            if block and not block.startswith(b":")
        ]

    async def first(
        self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None
    ) -> Frame:
        """Return the first frame of a stream, as soon as it is sent, and hang up. Raises Refused if
        there is none but an error.
        """
        sent: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def first(data: bytes) -> None:
            if not sent.done():
                sent.set_result(data)

        request = asyncio.create_task(self._request(method, params, headers, first))
        try:
            body = await sent
        finally:
            request.cancel()
        if body.startswith(b"{"):
            self._way.result(method, body)
        return self._frame(body.partition(b"\n\n")[0])

    def _frame(self, block: bytes) -> Frame:
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
        event = self._way.event(fields[b"data"])
        return Frame(int(fields[b"id"]), event)

    async def _request(
        self,
        method: str,
        params: dict[str, Any],
        headers: dict[str, str] | None,
        on_data: Callable[[bytes], Any] | None = None,
    ) -> tuple[int, bytes]:
        verb, path, headers, body = self._way.request(method, params, headers or {})
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": verb,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        asked = False
        status = 0
        gone = asyncio.Event()
        pieces: list[bytes] = []

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if asked:
                await gone.wait()  # a client that stays to the end
                return {"type": "http.disconnect"}
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(event: dict[str, Any]) -> None:
            nonlocal status
            status = event.get("status", status)
            pieces.append(event.get("body", b""))
            if on_data is not None and pieces[-1]:
                on_data(pieces[-1])

        await self._app(scope, receive, send)
        return status, b"".join(pieces)
