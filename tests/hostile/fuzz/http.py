"""The HTTP doors: JSON-RPC and HTTP+JSON, of every version."""

import asyncio
import json
import re
from typing import Any, NamedTuple

from . import words
from .tape import Tape
from .target import PATIENCE_S, AppTarget

__all__ = ["Http"]

PATHS = str.split("""
    /message:send /message:stream /tasks /tasks/KNOWN /tasks/DONE /tasks/KNOWN:subscribe /tasks/DONE:subscribe /tasks/KNOWN:cancel
    /tasks/KNOWN/pushNotificationConfigs /tasks/KNOWN/pushNotificationConfigs/x /extendedAgentCard /v1/message:send
    /v1/message:stream /v1/tasks/KNOWN /v1/tasks/KNOWN:cancel /v1/tasks/KNOWN:subscribe /v1/tasks
    /v1/tasks/KNOWN/pushNotificationConfigs /v1/card /.well-known/agent-card.json /.well-known/agent.json /healthz
""")
SEGMENTS = str.split("""
    tasks task message message:send message:stream KNOWN KNOWN:cancel KNOWN:subscribe nobody acme v1 card extendedAgentCard
    pushNotificationConfigs %00 %ff %2F %zz %F0%9F%98%80 .. : :cancel
""")
VERBS = ["POST", "POST", "POST", "GET", "GET", "DELETE", "PUT", "HEAD", "OPTIONS"]
HEADERS = bytes.split(b"""
    a2a-version a2a-extensions x-a2a-extensions last-event-id idempotency-key accept content-length content-type
    host if-none-match x-forwarded-host traceparent authorization origin cookie transfer-encoding
""")
VALUES = [
    *(
        b"1.0",
        b"1.1",
        b"1.1",
        b"0.3",
        b"0.2",
        b"0.1",
        b"9.9",
        b"",
        b"1",
        b"1.0.0.0",
        b"\xff",
        b"0",
        b"99999999999999999999",
        b"-1",
        b"x",
        b"k",
    ),
    *(
        b"urn:accord:resume:1",
        b"urn:accord:fork:1",
        b"urn:accord:fork:1, urn:accord:idempotent:1",
        b"urn:accord:idempotent:1, urn:accord:resume:1",
        b",,,",
        b"application/json",
        b"text/html",
        b"*/*",
    ),
    *(
        b"application/a2a+json",
        b"text/event-stream",
        b"application/json; charset=latin-1",
        b'"',
        b"chunked",
    ),
]

_CODE = re.compile(rb'"error":\{"code":(-\d+)')


class Request(NamedTuple):
    verb: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    bodies: list[bytes]


def request(tape: Tape, known: dict[str, str]) -> Request:
    """A request to one door or the other."""
    headers = [(b"a2a-version", tape.pick([b"1.0", b"1.1"]))]
    headers += [(tape.pick(HEADERS), _header(tape)) for _ in range(tape.pick([0, 0, 1, 2, 3]))]
    if tape.is_one_in(2):
        verb, path, query = tape.pick(VERBS), _path(tape), _query(tape)
        body = words.raw(words.params(tape, path))
    else:
        verb, path, query = "POST", "/", b""
        body = words.raw(_envelope(tape))
    for mark, real in known.items():
        path = path.replace(mark, real)
        query = query.replace(mark.encode(), real.encode())
        body = body.replace(mark.encode(), real.encode())
    return Request(verb, path, query, headers, _pieces(tape, words.bent(tape, body)))


def _header(tape: Tape) -> bytes:
    return tape.bytes(20) if tape.is_one_in(6) else tape.pick(VALUES)


def _envelope(tape: Tape) -> Any:
    method = tape.pick(words.METHODS)
    found = {
        "jsonrpc": words.leaf(tape) if tape.is_one_in(16) else "2.0",
        "id": words.value(tape) if tape.is_one_in(8) else 1,
        "method": words.value(tape) if tape.is_one_in(16) else method,
        "params": words.params(tape, method),
    }
    if tape.is_one_in(16):
        found |= {words.name(tape): words.value(tape)}
    return [found] if tape.is_one_in(32) else found


def _path(tape: Tape) -> str:
    if tape.is_one_in(4):
        return "/" + "/".join(
            [tape.pick([*SEGMENTS, "", "a" * 3_000]) for _ in range(tape.number(6))]
        )
    return tape.pick(PATHS)


def _query(tape: Tape) -> bytes:
    pairs = []
    for _ in range(tape.pick([0, 0, 1, 2, 4])):
        name = tape.pick(
            [
                "pageToken",
                "pageSize",
                "historyLength",
                "status",
                "includeArtifacts",
                "currentGeneration",
            ]
        )
        pairs.append(f"{words.name(tape) if tape.is_one_in(3) else name}={words.leaf(tape)}")
    return "&".join(pairs).encode("utf-8", "surrogatepass" if tape.is_one_in(2) else "replace")


def _pieces(tape: Tape, body: bytes) -> list[bytes]:
    """A body as the network may bring it."""
    if not tape.is_one_in(8):
        return [body]
    at = tape.number(len(body) + 1)
    return [body[:at], b"", body[at:]]


class Http(AppTarget):
    """The app, called as a server calls it."""

    name = "http"

    async def open(self) -> None:
        await super().open()
        done = await self._send([{"text": "a"}])
        waiting = await self._send([{"text": "a"}, {"text": "b"}])
        _, page = await self.call(Request("GET", "/tasks", b"pageSize=1", [], [b""]))
        self._known = {"KNOWN": waiting, "DONE": done, "TOKEN": json.loads(page)["nextPageToken"]}

    async def _send(self, parts: list[Any]) -> str:
        body = words.raw({"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}})
        _, answer = await self.call(Request("POST", "/message:send", b"", [], [body]))
        task_id: str = json.loads(answer)["task"]["id"]
        return task_id

    async def attack(self, data: bytes) -> None:
        asked = request(Tape(data), self._known)
        status, answer = await self.call(asked)
        code = _CODE.search(answer)
        self.outcomes[code[1].decode() if code else str(status)] += 1
        assert status < 500 or status == 501, (
            asked,
            answer,
        )  # 501 is how 0.3 says "not supported" over HTTP
        # A page of another site is told so by its status; everywhere else this code is our fault.
        assert status == 403 or b'"code":-32603' not in answer, (asked, answer)
        assert b"Reference:" not in answer, (asked, answer)
        self.check(asked)

    async def call(self, asked: Request) -> tuple[int, bytes]:
        """One request, by a client that hangs up once it has the beginning of a stream."""
        named = dict(
            [(b"content-type", b"application/json"), (b"a2a-version", b"1.0"), *asked.headers]
        )
        scope = {
            "type": "http",
            "method": asked.verb,
            "path": asked.path,
            "raw_path": asked.path.encode("ascii", "replace"),
            "query_string": asked.query,
            "headers": list(named.items()),
        }
        coming = [
            {"type": "http.request", "body": body, "more_body": i < len(asked.bodies) - 1}
            for i, body in enumerate(asked.bodies)
        ]
        pieces: list[bytes] = []
        status = 0
        has_enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def receive() -> dict[str, Any]:
            if not coming:
                await asyncio.shield(has_enough)
                return {"type": "http.disconnect"}
            return coming.pop(0)

        async def send(event: dict[str, Any]) -> None:
            nonlocal status
            status = event.get("status", status)
            pieces.append(event.get("body", b""))
            if pieces[-1] and event.get("more_body") and not has_enough.done():
                has_enough.set_result(None)

        answering = asyncio.ensure_future(self.app(scope, receive, send))
        done, _ = await asyncio.wait(
            {answering, has_enough}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
        )
        assert done, f"no answer within {PATIENCE_S} s: {asked}"
        if not answering.done():
            answering.cancel()
            await asyncio.wait({answering}, timeout=PATIENCE_S)
        has_enough.cancel()
        if not answering.cancelled():
            answering.result()
        return status, b"".join(pieces)
