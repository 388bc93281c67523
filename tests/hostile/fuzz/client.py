"""What the client reads of strangers: event streams, cards, answers."""

import json
from typing import Any

from accord.client import BadAnswer, BadCard, Budget
from accord.client.bindings.contract import refusal, understood
from accord.client.discovery.cards import open_card
from accord.client.streams.sse import Sse as Event
from accord.client.streams.sse import SseParser, TooBig
from accord.model import A2AError, GetTaskRequest, Part, Role, SendMessageRequest
from accord.model import Message as Said
from accord.protocol.v01 import client as v01_client
from accord.protocol.v03 import client as v03_client
from accord.protocol.v03 import rest_client as v03_rest_client
from accord.protocol.v1 import client as v1_client
from accord.protocol.v1 import rest_client as v1_rest_client
from accord.protocol.v11 import client as v11_client
from accord.protocol.v11 import rest_client as v11_rest_client
from tests.client.peers import card, task

from . import words
from .tape import Tape
from .target import Target

__all__ = ["Answers", "Cards", "Sse"]

LINES = [
    *(b"data: ", b"data:", b"data", b"id: ", b"id:", b"event: ", b"event: error"),
    *(b": keep-alive", b"retry: 5", b"x: y", b"", b"\xef\xbb\xbf"),
]
ENDS = [b"\n", b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"\r", b"\r\r", b"", b"\n\r\n"]
NAMES = str.split("""
    name description version url supportedInterfaces capabilities defaultInputModes skills protocolBinding protocolVersion
    preferredTransport additionalInterfaces transport securitySchemes security securityRequirements schemes list type in flows
    authentication streaming extensions uri required params provider organization iconUrl documentationUrl signatures protected
    signature header supportsAuthenticatedExtendedCard tags examples inputModes scopes tokenUrl authorizationUrl oauth2 http apiKey
    openIdConnectUrl bearerFormat scheme stateTransitionHistory pushNotifications tenant
    task message statusUpdate artifactUpdate status state artifact artifacts artifactId parts history kind final append lastChunk
    index metadata id contextId taskId result error code data details reason jsonrpc role messageId timestamp content tasks configs
    generation timeline startGeneration endGeneration artifactGenerations
""")
PLACES = str.split("""
    JSONRPC HTTP+JSON GRPC http://x/ /a https://[::1]:99999 1.0 0.3 TASK_STATE_WORKING completed agent
""")
URL = "https://dock.example.net/.well-known/agent-card.json"
MOST_PIECES = 500  # of a stream: one byte at a time, a long one says nothing a short one does not
SEND = SendMessageRequest(message=Said(message_id="m", role=Role.USER, parts=[Part(text="x")]))
GET = GetTaskRequest(id="t")


def strange(tape: Tape, depth: int = 3) -> Any:
    """Any JSON, in the words of agents."""
    match tape.number(6) if depth else 0:
        case 4:
            return [strange(tape, depth - 1) for _ in range(tape.number(4))]
        case 5:
            return {tape.pick(NAMES): strange(tape, depth - 1) for _ in range(tape.number(5))}
        case 3:
            return tape.pick(PLACES)
        case _:
            return words.leaf(tape)


def changed(tape: Tape, thing: Any) -> Any:
    """A copy of `thing`, with a few members of it taken away, replaced, or added."""
    thing = json.loads(json.dumps(thing))
    for _ in range(tape.number(5)):
        at = thing
        while isinstance(at, (dict, list)) and at:
            keys = list(at) if isinstance(at, dict) else range(len(at))
            key = tape.pick(keys)
            if tape.is_one_in(2) or not isinstance(at[key], (dict, list)):
                _change(tape, at, key)
                break
            at = at[key]
    return thing


def _change(tape: Tape, at: Any, key: Any) -> None:
    match tape.number(4):
        case 0:
            at[key] = strange(tape)
        case 1:
            del at[key]
        case 2 if isinstance(at, dict):
            at[tape.pick(NAMES)] = strange(tape)
        case 2:
            at.append(strange(tape))
        case _:
            at[key] = [at[key]] * tape.number(12)


class Sse(Target):
    """The parser of event streams: the same events, whatever pieces they come in."""

    name = "sse"

    async def attack(self, data: bytes) -> None:
        tape = Tape(data)
        lines = []
        for _ in range(tape.number(12)):
            content = words.raw(strange(tape)) if tape.is_one_in(3) else tape.bytes(12)
            lines += [tape.pick(LINES), content, tape.pick(ENDS)]
        text = words.bent(tape, b"".join(lines))
        limit = tape.pick([1 << 20, 200])
        pieces = _cut(tape, text)
        found, again = _events(pieces, limit), _events([text], limit)
        if isinstance(found, list) and isinstance(again, list):
            assert found == again, (pieces, found, again)
        self.outcomes["too big" if found is None else "events"] += 1


def _cut(tape: Tape, text: bytes) -> list[bytes]:
    size = max(tape.pick([1, 2, 3, 7, 50, 1_000]), len(text) // MOST_PIECES)
    return [text[at : at + size] for at in range(0, len(text), size)]


def _events(pieces: list[bytes], limit: int) -> list[Event] | None:
    parser = SseParser(limit)
    try:
        return [event for piece in pieces for event in parser.feed(piece)] + parser.end()
    except TooBig:
        return None


class Cards(Target):
    """A card of any version, or a BadCard."""

    name = "card"
    OLD = {
        "name": "Dock clerk",
        "description": "Counts crates.",
        "url": "http://localhost:1/a",
        "version": "1",
        "protocolVersion": "0.3.0",
        "preferredTransport": "GRPC",
        "additionalInterfaces": [
            {"url": "http://x/", "transport": "JSONRPC"},
            {"url": "/rest", "transport": "HTTP+JSON"},
        ],
        "capabilities": {"streaming": True, "extensions": [{"uri": "urn:x", "required": True}]},
        "securitySchemes": {
            "a": {
                "type": "oauth2",
                "flows": {"clientCredentials": {"tokenUrl": "https://t/", "scopes": {"r": "read"}}},
            }
        },
        "security": [{"a": ["r"]}],
        "authentication": {"schemes": ["Bearer"], "credentials": None},
        "skills": [{"id": "count", "name": "Count", "tags": []}],
    }
    NEW = card(
        "https://dock.example.net/",
        securitySchemes={"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
        securityRequirements=[{"schemes": {"k": {"list": []}}}],
        signatures=[{"protected": "e30", "signature": "AAAA", "header": {}}],
        provider={"organization": "Dock", "url": "https://dock.example.net"},
    )

    async def attack(self, data: bytes) -> None:
        tape = Tape(data)
        thing = (
            strange(tape) if tape.is_one_in(8) else changed(tape, tape.pick([self.NEW, self.OLD]))
        )
        try:
            open_card(
                words.bent(tape, words.raw(thing)),
                tape.pick([URL, "", "http://localhost:8000/x"]),
                Budget(),
                [],
            )
            self.outcomes["card"] += 1
        except BadCard:
            self.outcomes["refused"] += 1


class Answers(Target):
    """What an agent answers, in every version: understood, an error of the protocol, or a
    BadAnswer.
    """

    name = "answer"
    REST_VARIANTS = [
        v1_client,
        v03_client,
        v01_client,
        v1_rest_client,
        v03_rest_client.RAW,
        v03_rest_client.TEXT,
        v11_client,
        v11_rest_client,
    ]
    MESSAGE = {
        "messageId": "m",
        "role": "ROLE_AGENT",
        "kind": "message",
        "parts": [{"text": "x", "kind": "text", "type": "text"}],
    }
    STATUS = {
        "taskId": "t",
        "contextId": "c",
        "id": "t",
        "kind": "status-update",
        "status": {"state": "working"},
        "final": True,
    }
    ARTIFACT = {
        "artifactId": "a",
        "index": 0,
        "parts": [{"raw": "YWJj", "data": {"x": 1}, "file": {"bytes": "YWJj"}}],
    }
    THINGS = [
        {"task": task()},
        task() | {"kind": "task", "status": {"state": "completed"}},
        {"message": MESSAGE},
        MESSAGE,
        {"statusUpdate": STATUS},
        STATUS,
        {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": ARTIFACT, "append": True}},
        {
            "kind": "artifact-update",
            "id": "t",
            "taskId": "t",
            "contextId": "c",
            "artifact": ARTIFACT,
            "lastChunk": True,
        },
        {
            "error": {
                "code": -32001,
                "message": "no",
                "data": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "X"}],
            }
        },
        {
            "type": "https://a2a-protocol.org/errors/task-not-found",
            "title": "x",
            "status": 404,
            "details": [],
        },
        {"tasks": [task()], "nextPageToken": "x", "pageSize": 1, "totalSize": 1},
        {
            "task": task(
                generation="3",
                timeline=[
                    {"generation": "1", "message": MESSAGE},
                    {"generation": "3", "status": {"state": "TASK_STATE_COMPLETED"}},
                ],
            )
        },
        {"tasks": [task(generation="3"), task(id="t-2", generation=4)]},
        {"statusUpdate": STATUS | {"generation": "4"}},
    ]

    async def attack(self, data: bytes) -> None:
        tape = Tape(data)
        dialect: Any = tape.pick(self.REST_VARIANTS)
        thing = changed(tape, strange(tape) if tape.is_one_in(8) else tape.pick(self.THINGS))
        raw = words.bent(tape, words.raw(thing))
        match tape.number(4):
            case 0:
                self._understand(dialect.result, "SendMessage", raw, SEND, [].append)
            case 1:
                self._understand(
                    dialect.result,
                    tape.pick(["GetTask", "ListTasks", "CancelTask"]),
                    raw,
                    GET,
                    [].append,
                )
            case 2:
                self._understand(dialect.frames(SEND, [].append), raw)
            case _:
                self._refused(tape, dialect, raw)

    def _understand(self, read_: Any, *given: Any) -> None:
        try:
            understood("http://x/", "the answer", read_, *given)
            self.outcomes["understood"] += 1
        except BadAnswer:
            self.outcomes["refused"] += 1
        except A2AError:
            self.outcomes["an error"] += 1

    def _refused(self, tape: Tape, dialect: Any, raw: bytes) -> None:
        """The same as an answer that is an error by its status."""
        status = tape.pick([400, 401, 404, 409, 429, 500, 503, 302, 307, 418])

        def read_(value: Any) -> Any:
            is_rest = dialect not in (v1_client, v03_client, v01_client, v11_client)
            return dialect.error(status, value) if is_rest else dialect.error(value)

        after = tape.pick(
            [None, "1", "x", "Wed, 21 Oct 2015 07:28:00 GMT", "99999999999999", "-1", tape.text(8)]
        )
        found = refusal(
            "http://x/", status, after, tape.pick([None, "http://y/", "//[", "\x00"]), raw, read_
        )
        assert isinstance(found, A2AError), raw
        self.outcomes["an error"] += 1
