"""An app called in this process, over its public wire: what races need, a thousand times a second.

The same requests as over a socket, without one: the only scheduling left is the loop's, which a test can steer.
"""

import asyncio
import json
from typing import Any

from tests.reliability.harness import Frame, Refused

__all__ = ["Inside", "pass_turns"]

_HEADERS = [(b"content-type", b"application/json"), (b"a2a-version", b"1.0")]


async def pass_turns(count: int) -> None:
    """Let everything else have `count` turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


class Inside:
    """Says JSON-RPC to an ASGI app."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def call(self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Return the result. Raises Refused for an A2A error."""
        body = json.loads(await self._post(method, params, headers))
        if "error" in body:
            raise Refused(body["error"])
        return body["result"]

    async def send(self, params: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
        return (await self.call("SendMessage", params, headers))["task"]

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.call("GetTask", {"id": task_id})

    async def cancel(self, task_id: str) -> dict[str, Any]:
        return await self.call("CancelTask", {"id": task_id})

    async def stream(self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None) -> list[Frame]:
        """Return all frames of a stream, at its end. Raises Refused if it is or ends with an error."""
        text = (await self._post(method, params, headers)).decode()
        if text.startswith("{"):
            raise Refused(json.loads(text)["error"])
        return [_frame(block) for block in text.split("\n\n") if block and not block.startswith(":")]

    async def _post(self, method: str, params: dict[str, Any], headers: dict[str, str] | None) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "headers": [*_HEADERS, *((k.encode(), v.encode()) for k, v in (headers or {}).items())],
        }
        asked = False
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
            pieces.append(event.get("body", b""))

        await self._app(scope, receive, send)
        return b"".join(pieces)


def _frame(block: str) -> Frame:
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    found = json.loads(fields["data"])
    if "error" in found:
        raise Refused(found["error"])
    return Frame(int(fields["id"]), found["result"])
