"""Drive a served agent from outside, the same way over every binding.

A door speaks one binding. Its verbs take and give plain dicts in the JSON shape of A2A 1.0, so that
a test says what must hold once and is run over all of them. Nothing here knows the inside of the
server: what a door sends is what any client could send.
"""

import abc
import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from accord.server.http.router import Router
from accord.server.http1.listener import HttpServer

__all__ = [
    "BINDINGS",
    "Door",
    "FrameReader",
    "Frames",
    "JsonRpc",
    "Refused",
    "Rest",
    "heard",
    "kinds",
    "refusal_of",
    "say",
    "serving",
    "state_of",
    "text_of",
]

PATIENCE_S = 60.0  # far more than anything here takes: a test that hangs fails, with a name

Json = dict[str, Any]
Headers = Mapping[str, str] | None

_ids = itertools.count(1)


class Refused(Exception):
    """The server answered with an error.

    `code` is the number the binding gives (JSON-RPC: the error code, HTTP+JSON: the status),
    `status` the HTTP status.
    """

    def __init__(self, status: int, error: Json, headers: Mapping[str, str]) -> None:
        super().__init__(error.get("message"))
        details = error.get("data") or error.get("details") or []
        infos = [d for d in details if d["@type"].endswith("google.rpc.ErrorInfo")]
        self.status = status
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.reason: str = infos[0]["reason"] if infos else ""
        self.detail: Json = infos[0].get("metadata", {}) if infos else {}
        self.violations = {
            v["field"]: v["description"] for d in details for v in d.get("fieldViolations", [])
        }
        self.error = error
        self.headers = headers


def say(
    content: str | list[Json] = "hello",
    /,
    *,
    tenant: str = "",
    configuration: Json | None = None,
    **fields: Any,
) -> Json:
    """Return the parameters of a send: a message of the user, with these fields besides."""
    parts = [{"text": content}] if isinstance(content, str) else content
    message = {"messageId": f"m-{next(_ids)}", "role": "ROLE_USER", "parts": parts} | fields
    beside = {"tenant": tenant, "configuration": configuration}
    return {"message": message} | {name: value for name, value in beside.items() if value}


class FrameReader(abc.ABC):
    """An open stream, read frame by frame."""

    @abc.abstractmethod
    async def next(self) -> Json | None:
        """Return the next frame, None at the end of the stream."""

    async def take(self, n: int) -> list[Json]:
        return [frame for _ in range(n) if (frame := await self.next()) is not None]

    async def rest(self) -> list[Json]:
        """Return all frames up to the end."""
        frames = []
        while (frame := await self.next()) is not None:
            frames.append(frame)
        return frames


class Frames(FrameReader):
    """An open stream: frames as they come, each the one member of a StreamResponse with its
    name.
    """

    def __init__(
        self, response: aiohttp.ClientResponse, open_frame: Callable[[Json, bool], Json]
    ) -> None:
        self.headers = response.headers
        self.ids: list[int] = []
        self.raw: list[Json] = []
        self.comment = asyncio.Event()  # set by the first comment: a sign of life
        self._response = response
        self._open = open_frame

    async def next(self) -> Json | None:
        """Return the next frame, None at the end of the stream."""
        is_error, data = False, ""
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._response.content:
                name, _, value = line.decode().rstrip("\r\n").partition(": ")
                if name == "id":
                    self.ids.append(int(value))
                elif name == "event":
                    is_error = value == "error"
                elif name == "data":
                    data = value
                elif name == "" and value:
                    self.comment.set()
                elif not name and data:
                    self.raw.append(json.loads(data))
                    return self._open(self.raw[-1], is_error)
        return None

    def close(self) -> None:
        """Hang up."""
        self._response.close()


class Door(Protocol):
    """What every binding can do. Ids are given first; other fields by their names in JSON."""

    binding: str
    url: str
    http: aiohttp.ClientSession

    async def send(self, request: str | Json, *, headers: Headers = None) -> Json: ...
    async def stream(self, request: str | Json, *, headers: Headers = None) -> Frames: ...
    async def get(self, id: str, *, headers: Headers = None, **fields: Any) -> Json: ...
    async def list(self, *, headers: Headers = None, **fields: Any) -> Json: ...
    async def cancel(self, id: str, *, headers: Headers = None, **fields: Any) -> Json: ...
    async def subscribe(self, id: str, *, headers: Headers = None, **fields: Any) -> Frames: ...
    async def create_push_config(self, task_id: str, config: Json) -> Json: ...
    async def get_push_config(self, task_id: str, id: str) -> Json: ...
    async def list_push_configs(self, task_id: str) -> Json: ...
    async def delete_push_config(self, task_id: str, id: str) -> Json: ...
    async def extended_card(self) -> Json: ...


class _Http:
    """What the two HTTP doors share."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url
        self.answer_headers: Mapping[str, str] = {}  # of the last answer that was not a stream
        self._streams: list[Frames] = []

    async def card(self) -> Json:
        async with self.http.get(self.url + "/.well-known/agent-card.json") as response:
            card: Json = await response.json()
            return card

    async def post(self, path: str, body: bytes | Json, **headers: str) -> tuple[int, Json]:
        """Send any bytes at all, as JSON unless told otherwise; return the status and the
        answer.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        async with (
            asyncio.timeout(PATIENCE_S),
            self.http.post(self.url + path, data=data, headers=named) as response,
        ):
            self.answer_headers = response.headers
            return response.status, await response.json(content_type=None)

    async def _call(
        self,
        verb: str,
        path: str,
        body: Json | None,
        headers: Headers,
        *,
        query: Json | None = None,
    ) -> Json:
        async with (
            asyncio.timeout(PATIENCE_S),
            self.http.request(
                verb, self.url + path, json=body, params=query, headers=headers
            ) as response,
        ):
            self.answer_headers = response.headers
            return self._open(await response.json(content_type=None), response)

    async def _open_stream(
        self, verb: str, path: str, body: Json | None, headers: Headers
    ) -> Frames:
        async with asyncio.timeout(PATIENCE_S):
            response = await self.http.request(verb, self.url + path, json=body, headers=headers)
        if response.content_type != "text/event-stream":
            answer = self._open(await response.json(content_type=None), response)
            raise AssertionError(f"neither a stream nor an error: {answer}")
        frames = Frames(
            response, lambda frame, is_error: self._open_frame(frame, is_error, response)
        )
        self._streams.append(frames)
        return frames

    def _open_frame(self, frame: Json, is_error: bool, response: aiohttp.ClientResponse) -> Json:
        return self._open(frame, response)

    def _open(self, answer: Json, response: aiohttp.ClientResponse) -> Json:
        raise NotImplementedError

    def hang_up(self) -> None:
        for frames in self._streams:
            frames.close()


class JsonRpc(_Http):
    """The JSON-RPC binding."""

    binding = "JSONRPC"

    async def send(self, request: str | Json, *, headers: Headers = None) -> Json:
        return await self.method("SendMessage", _request(request), headers)

    async def stream(self, request: str | Json, *, headers: Headers = None) -> Frames:
        return await self._open_stream(
            "POST", "/", _envelope("SendStreamingMessage", _request(request)), headers
        )

    async def get(self, id: str, *, headers: Headers = None, **fields: Any) -> Json:
        return await self.method("GetTask", {"id": id} | fields, headers)

    async def list(self, *, headers: Headers = None, **fields: Any) -> Json:
        return await self.method("ListTasks", fields, headers)

    async def cancel(self, id: str, *, headers: Headers = None, **fields: Any) -> Json:
        return await self.method("CancelTask", {"id": id} | fields, headers)

    async def subscribe(self, id: str, *, headers: Headers = None, **fields: Any) -> Frames:
        return await self._open_stream(
            "POST", "/", _envelope("SubscribeToTask", {"id": id} | fields), headers
        )

    async def create_push_config(self, task_id: str, config: Json) -> Json:
        return await self.method("CreateTaskPushNotificationConfig", {"taskId": task_id} | config)

    async def get_push_config(self, task_id: str, id: str) -> Json:
        return await self.method("GetTaskPushNotificationConfig", {"taskId": task_id, "id": id})

    async def list_push_configs(self, task_id: str) -> Json:
        return await self.method("ListTaskPushNotificationConfigs", {"taskId": task_id})

    async def delete_push_config(self, task_id: str, id: str) -> Json:
        return await self.method("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": id})

    async def extended_card(self) -> Json:
        return await self.method("GetExtendedAgentCard", {})

    async def method(self, name: str, params: Json, headers: Headers = None) -> Json:
        return await self._call("POST", "/", _envelope(name, params), headers)

    def _open(self, answer: Json, response: aiohttp.ClientResponse) -> Json:
        if "error" in answer:
            raise Refused(response.status, answer["error"], response.headers)
        result: Json = answer["result"]
        return result


class Rest(_Http):
    """The HTTP+JSON binding. A tenant goes into the path."""

    binding = "HTTP+JSON"

    async def send(self, request: str | Json, *, headers: Headers = None) -> Json:
        params = _request(request)
        return await self._call("POST", _tenant(params) + "/message:send", params, headers)

    async def stream(self, request: str | Json, *, headers: Headers = None) -> Frames:
        params = _request(request)
        return await self._open_stream("POST", _tenant(params) + "/message:stream", params, headers)

    async def get(self, id: str, *, headers: Headers = None, **fields: Any) -> Json:
        return await self._call(
            "GET", f"{_tenant(fields)}/tasks/{_segment(id)}", None, headers, query=_query(fields)
        )

    async def list(self, *, headers: Headers = None, **fields: Any) -> Json:
        return await self._call(
            "GET", f"{_tenant(fields)}/tasks", None, headers, query=_query(fields)
        )

    async def cancel(self, id: str, *, headers: Headers = None, **fields: Any) -> Json:
        return await self._call(
            "POST", f"{_tenant(fields)}/tasks/{_segment(id)}:cancel", fields, headers
        )

    async def subscribe(self, id: str, *, headers: Headers = None, **fields: Any) -> Frames:
        return await self._open_stream(
            "POST", f"{_tenant(fields)}/tasks/{_segment(id)}:subscribe", fields, headers
        )

    async def create_push_config(self, task_id: str, config: Json) -> Json:
        return await self._call("POST", _configs(task_id), config, None)

    async def get_push_config(self, task_id: str, id: str) -> Json:
        return await self._call("GET", f"{_configs(task_id)}/{_segment(id)}", None, None)

    async def list_push_configs(self, task_id: str) -> Json:
        return await self._call("GET", _configs(task_id), None, None)

    async def delete_push_config(self, task_id: str, id: str) -> Json:
        return await self._call("DELETE", f"{_configs(task_id)}/{_segment(id)}", None, None)

    async def extended_card(self) -> Json:
        return await self._call("GET", "/extendedAgentCard", None, None)

    def _open(self, answer: Json, response: aiohttp.ClientResponse) -> Json:
        if response.status >= 400:
            raise Refused(response.status, answer["error"], response.headers)
        return answer

    def _open_frame(self, frame: Json, is_error: bool, response: aiohttp.ClientResponse) -> Json:
        if is_error:
            raise Refused(frame["error"]["code"], frame["error"], response.headers)
        return frame


BINDINGS: dict[str, type[JsonRpc | Rest]] = {"jsonrpc": JsonRpc, "rest": Rest}


@asynccontextmanager
async def serving(app: Any, close: Callable[[], Any]) -> AsyncIterator[str]:
    """Serve an app on a free loopback port, in this loop; yield its URL. Ours as `accord serve`
    does it, any other with uvicorn.

    No lifespan is run: the app has to start itself, as when it is mounted in another.
    """
    if not isinstance(app, Router):
        async with serving_asgi(app, close) as url:
            yield url
        return
    server = HttpServer(
        app.answer, "127.0.0.1", 0, app.limits, unread=app.unread, is_refused=app.is_refused
    )
    await server.start()
    try:
        yield server.url
    finally:
        await close()
        await server.stop()


@asynccontextmanager
async def serving_asgi(app: Any, close: Callable[[], Any]) -> AsyncIterator[str]:
    """Serve any ASGI app, with uvicorn."""
    config = uvicorn.Config(
        app, lifespan="off", ws="none", access_log=False, log_config=None, proxy_headers=False
    )
    config.load()
    state = ServerState()
    listener = await asyncio.get_running_loop().create_server(
        lambda: HttpToolsProtocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    try:
        yield "http://127.0.0.1:%d" % listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await close()
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=PATIENCE_S)


def kinds(frames: list[Json]) -> list[str]:
    """What a stream showed, in a word each: the state of a task or status, `chunk` for an artifact,
    `message`.
    """
    return [_kind(frame) for frame in frames]


def _kind(frame: Json) -> str:
    [(name, value)] = frame.items()
    match name:
        case "task":
            return f"task {_word(value)}"
        case "statusUpdate":
            return _word(value)
        case "artifactUpdate":
            return "chunk"
    return str(name)


def state_of(task: Json) -> str:
    return _word(task)


def _word(value: Json) -> str:
    state: str = value["status"]["state"]
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def text_of(thing: Json) -> str:
    """All the text in a message, an artifact, or a task's artifacts."""
    if "status" in thing:
        return "".join(text_of(artifact) for artifact in thing.get("artifacts", []))
    return "".join(part.get("text", "") for part in thing["parts"])


async def heard(door: Door, task_id: str, n: int) -> None:
    """Wait until `n` messages are in the history of a task."""
    async with asyncio.timeout(PATIENCE_S):
        while len((await door.get(task_id)).get("history", [])) < n:
            pass


async def refusal_of(call: Any) -> Refused:
    """Return the error a call is answered with."""
    try:
        answer = await call
    except Refused as refused:
        return refused
    raise AssertionError(f"not refused, but answered: {answer}")


def _request(request: str | Json) -> Json:
    return say(request) if isinstance(request, str) else request


def _envelope(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}


def _segment(value: str) -> str:
    return quote(value, safe="")


def _tenant(fields: Json) -> str:
    return "/" + _segment(fields["tenant"]) if fields.get("tenant") else ""


def _configs(task_id: str) -> str:
    return f"/tasks/{_segment(task_id)}/pushNotificationConfigs"


def _query(fields: Json) -> Json:
    texts = {True: "true", False: "false"}
    return {
        name: texts.get(value, value) if isinstance(value, bool) else value
        for name, value in fields.items()
        if name != "tenant"
    }
