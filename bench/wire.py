"""Requests as bytes, made once, and what a right answer to each looks like."""

import base64
import json
import re
from typing import Any

from .load import Check, Failure
from .server import Server

__all__ = [
    "COMPLETED",
    "MB",
    "check",
    "check_stream",
    "check_tasks",
    "context_id",
    "control",
    "download",
    "follow_up",
    "get",
    "list_page",
    "place_of",
    "send",
    "send_address",
    "send_file",
    "stream",
    "subscribe",
    "task_id",
    "upload",
]

MB = 1 << 20
COMPLETED = b"TASK_STATE_COMPLETED"

_CONTEXT = re.compile(rb'"contextId": ?"([0-9a-f-]{36})"')
_URL = re.compile(rb'"url": ?"([^"]+)"')
_ID = re.compile(rb'"id": ?"([0-9a-f-]{36})"')


def _post(server: Server, raw_path: str, method: str, params: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return _head(server, raw_path if server.is_raw else server.path, len(body)) + body


def _head(server: Server, path: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: "
        "application/json\r\n"
        f"A2A-Version: 1.0\r\n{server.credentials}Content-Length: {length}\r\n\r\n"
    ).encode()


def control(server: Server, path: str) -> bytes:
    """A request to the server script itself, outside the protocol."""
    return _head(server, path, 0)


def _message(text: str, skill: str, **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {
        "messageId": "m-1",
        "role": "ROLE_USER",
        "parts": [{"text": text}],
        **more,
    }
    return message | {"metadata": {"skill": skill}} if skill else message


def send(
    server: Server,
    text: str = "hello",
    skill: str = "",
    *,
    now: bool = False,
    raw_path: str = "/send",
    push: str = "",
) -> bytes:
    """SendMessage; with `now`, the answer comes before the work is done; with `push`, what happens
    is sent to that webhook too.
    """
    params: dict[str, Any] = {"message": _message(text, skill)}
    if now:
        params["configuration"] = {"returnImmediately": True}
    if push:
        params["configuration"] = {"taskPushNotificationConfig": {"url": push}}
    return _post(server, raw_path, "SendMessage", params)


def send_file(server: Server, size: int, *, has_history: bool = True) -> bytes:
    """A message with a file; without history the answer has nothing of it."""
    message = _message("", "weigh") | {
        "parts": [{"raw": base64.b64encode(bytes(size)).decode(), "mediaType": "image/png"}]
    }
    params: dict[str, Any] = {"message": message}
    if not has_history:
        params["configuration"] = {"historyLength": 0}
    return _post(server, "/file", "SendMessage", params)


def upload(server: Server, size: int) -> bytes:
    """A file of so many bytes, uploaded in one request."""
    return _head(server, "/files", size) + bytes(size)


def download(server: Server, place: str) -> bytes:
    """A file at the address that an upload answered with."""
    path = place.partition(f":{server.port}")[2]
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{server.credentials}\r\n"
    ).encode()


def send_address(server: Server, place: str) -> bytes:
    """A message with a file that was uploaded; the answer has the address to read it at."""
    message = _message("", "weigh") | {"parts": [{"url": place, "mediaType": "image/png"}]}
    return _post(server, "/file", "SendMessage", {"message": message})


def place_of(answer: bytes) -> str:
    """The address of a file in an answer."""
    found = _URL.search(answer)
    if not answer.startswith(b"HTTP/1.1 20") or found is None:
        raise _wrong(answer, (b"url",))
    return found[1].decode()


def follow_up(server: Server, task_id: str, context_id: str) -> bytes:
    message = _message("hello", "talk", taskId=task_id, contextId=context_id)
    return _post(server, "/send", "SendMessage", {"message": message})


def stream(server: Server, text: str, skill: str = "") -> bytes:
    raw_path = f"/{skill}?{text}" if skill else "/echo"
    return _post(server, raw_path, "SendStreamingMessage", {"message": _message(text, skill)})


def subscribe(server: Server, task_id: str, gate: str) -> bytes:
    return _post(server, f"/subscribe?{gate}", "SubscribeToTask", {"id": task_id})


def get(server: Server, task_id: str) -> bytes:
    return _post(server, "/get", "GetTask", {"id": task_id})


def list_page(server: Server, size: int) -> bytes:
    return _post(server, "/list", "ListTasks", {"pageSize": size})


def check(*expected: bytes) -> Check:
    """A whole answer: 200, no error, and everything `expected` in it."""

    def look(answer: bytes) -> int:
        if not answer.startswith(b"HTTP/1.1 200") or not all(part in answer for part in expected):
            raise _wrong(answer, expected)
        return 1

    return look


def check_stream(events: int, state: bytes = COMPLETED) -> Check:
    """A stream: 200, ends in `state`, and has at least `events` events. Its units are its
    events.
    """

    def look(answer: bytes) -> int:
        n = answer.count(b"data: ")
        if not answer.startswith(b"HTTP/1.1 200") or n < events or state not in answer[-2000:]:
            raise _wrong(answer, (state, b"%d events" % events))
        return n

    return look


def check_tasks(n: int) -> Check:
    """A page of `n` tasks."""

    def look(answer: bytes) -> int:
        found = answer.count(COMPLETED)
        if not answer.startswith(b"HTTP/1.1 200") or found != n:
            raise _wrong(answer, (b"%d tasks" % n,))
        return 1

    return look


def task_id(answer: bytes) -> str:
    found = _ID.search(answer)
    if found is None:
        raise _wrong(answer, (b"a task",))
    return found[1].decode()


def context_id(answer: bytes) -> str:
    found = _CONTEXT.search(answer)
    if found is None:
        raise _wrong(answer, (b"a context",))
    return found[1].decode()


def _wrong(answer: bytes, expected: tuple[bytes, ...]) -> Failure:
    wanted = ", ".join(part.decode() for part in expected)
    return Failure(
        f"expected {wanted}, got {answer[:160].decode(errors='replace')!r} … {answer[-300:].decode(errors='replace')!r}"  # noqa: E501
    )
