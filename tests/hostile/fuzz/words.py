"""JSON in the words of the protocol, right in most places and bent in some."""

import json
from collections.abc import Callable
from typing import Any

from .tape import Tape

__all__ = [
    "METHODS",
    "NUMBERS",
    "WORDS",
    "bent",
    "leaf",
    "message",
    "name",
    "params",
    "raw",
    "send",
    "value",
]

METHODS = str.split("""
    SendMessage SendStreamingMessage GetTask ListTasks CancelTask SubscribeToTask CreateTaskPushNotificationConfig
    GetTaskPushNotificationConfig ListTaskPushNotificationConfigs DeleteTaskPushNotificationConfig GetExtendedAgentCard
    message/send message/stream tasks/get tasks/list tasks/cancel tasks/resubscribe tasks/pushNotificationConfig/set
    tasks/pushNotificationConfig/get tasks/pushNotificationConfig/list tasks/pushNotificationConfig/delete tasks/send
    tasks/sendSubscribe tasks/pushNotification/set tasks/pushNotification/get agent/getAuthenticatedExtendedCard rpc.discover
    __class__
""")
NAMES = str.split("""
    message messageId message_id role parts text raw url data file kind type metadata contextId taskId task_id extensions
    referenceTaskIds filename mediaType configuration bytes historyLength returnImmediately blocking acceptedOutputModes
    taskPushNotificationConfig tenant id pageSize pageToken status statusTimestampAfter includeArtifacts skill name sessionId uri
    pushNotificationConfig token authentication credentials scheme schemes mimeType fileWithBytes fileWithUri
    pushNotificationConfigId page_token lastUpdatedAfter currentGeneration current_generation ifGenerationMatch
    urn:accord:fork:1 urn:accord:question:1
""")
WORDS = [
    *(
        "x",
        "",
        "m-1",
        "ROLE_USER",
        "ROLE_AGENT",
        "ROLE_UNSPECIFIED",
        "user",
        "agent",
        "text",
        "file",
        "data",
        "message",
        "task",
    ),
    *(
        "TASK_STATE_WORKING",
        "working",
        "input-required",
        "KNOWN",
        "nobody",
        "a/b",
        "..",
        "%2e%2e",
        "\x00",
        "a\nb",
        "\r\n\r\n",
    ),
    *(
        "\u202e",
        "\U0001f600",
        "\ud800",
        "é" * 300,
        "x" * 5_000,
        "YWJj",
        "YWJj=",
        "YQ==",
        "!",
        "true",
        "-1",
        "1.0",
        "0",
        "null",
    ),
    *(
        "2026-01-01T00:00:00Z",
        "2026-13-45T99:99:99Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59Z",
        "2026-01-01",
    ),
    *(
        "MTIuMw",
        "MTIuMw==",
        "LjEu",
        "OTk5OTk5OTk5OTk5OTk5OTk5OTk5LjE",
        "TOKEN",
        "http://localhost",
        "https://[::1",
        "file:///x",
    ),
    *(
        "application/json",
        "text/plain",
        "image/png",
        "*/*",
        "urn:accord:resume:1",
        "urn:accord:idempotent:1",
        "Bearer",
        "{}",
    ),
]
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    50,
    100,
    101,
    2**31 - 1,
    2**31,
    2**53,
    2**63,
    2**64,
    10**30,
    -(2**63),
    0.5,
    1.0,
    1e300,
    -0.0,
]
BROKEN = [
    *(
        b"NaN",
        b"1e400",
        b'"\\ud800"',
        b"[" * 200,
        b"9" * 70,
        b'{"a":1,"a":2}',
        b'"\xff"',
        b"nul",
        b"-",
        b'{"":',
        b"1E+2",
    ),
    *(b"\x00", b"true", b",", b'"\\u0000"'),
]


def leaf(tape: Tape) -> Any:
    match tape.number(8):
        case 0 | 1 | 2:
            return tape.pick(WORDS)
        case 3 | 4:
            return tape.pick(NUMBERS)
        case 5:
            return tape.pick([True, False, None])
        case 6:
            return tape.text(8)
        case _:
            return int.from_bytes(tape.bytes(9), "big", signed=True)


def name(tape: Tape) -> str:
    return tape.text(6) if tape.is_one_in(8) else tape.pick(NAMES)


def value(tape: Tape, depth: int = 3) -> Any:
    match tape.number(6) if depth else 0:
        case 4:
            return [value(tape, depth - 1) for _ in range(tape.number(4))]
        case 5:
            return {name(tape): value(tape, depth - 1) for _ in range(tape.number(5))}
        case _:
            return leaf(tape)


def mostly(tape: Tape, right: Callable[[], Any]) -> Any:
    """What belongs here, often enough that what lies behind is reached too."""
    return value(tape) if tape.is_one_in(8) else right()


def some(tape: Tape, members: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """A few members that need not be there."""
    names = list(members)
    found = {}
    for _ in range(tape.number(4)):
        chosen = tape.pick(names)
        found[chosen] = members[chosen]()
    return found


def part(tape: Tape) -> Any:
    def any_value() -> Any:
        return value(tape)

    def word() -> Any:
        return tape.pick(WORDS)

    extra = some(
        tape,
        {"metadata": any_value, "mediaType": word, "kind": word, "type": word, "filename": word},
    )
    match tape.number(8):
        case 0 | 1 | 2:
            return {"text": mostly(tape, word)} | extra
        case 3:
            return {"data": value(tape)} | extra
        case 4:
            return {"raw": mostly(tape, word)} | extra
        case 5:
            return {
                "kind": "file",
                "file": mostly(tape, lambda: {tape.pick(["bytes", "uri"]): word(), "name": word()}),
            } | extra
        case 6:
            return {
                tape.pick(["kind", "type"]): tape.pick(["text", "file", "data"]),
                "text": value(tape),
            } | extra
        case _:
            return value(tape)


def odd(tape: Tape) -> Any:
    """Metadata of any kind."""
    return {name(tape): value(tape)}


def fork(tape: Tape) -> Any:
    """Metadata that asks for a fork."""
    point = {
        "taskId": mostly(tape, lambda: tape.pick(["KNOWN", "DONE", "nobody"])),
        "at": mostly(tape, lambda: tape.number(6)),
    } | some(tape, {"isAnswer": lambda: leaf(tape)})
    return {"urn:accord:fork:1": mostly(tape, lambda: point)}


def question(tape: Tape) -> Any:
    """Metadata that names a question."""
    return {
        "urn:accord:question:1": mostly(tape, lambda: {"id": leaf(tape), "expiresAt": leaf(tape)})
    }


def message(tape: Tape) -> Any:
    said = {
        "messageId": mostly(tape, lambda: "m-1"),
        "role": mostly(tape, lambda: tape.pick(["ROLE_USER", "user"])),
        "parts": mostly(tape, lambda: [part(tape) for _ in range(tape.pick([1, 2, 0, 3]))]),
    }
    return said | some(
        tape,
        {
            "taskId": lambda: mostly(tape, lambda: tape.pick(["KNOWN", "nobody", "DONE"])),
            "contextId": lambda: value(tape),
            "metadata": lambda: mostly(tape, lambda: tape.pick([odd, fork, question])(tape)),
            "extensions": lambda: value(tape),
            "referenceTaskIds": lambda: value(tape),
            "kind": lambda: mostly(tape, lambda: "message"),
            "zzz": lambda: value(tape),
        },
    )


def send(tape: Tape) -> Any:
    """The parameters of a send."""
    return {"message": mostly(tape, lambda: message(tape))} | some(
        tape,
        {
            "configuration": lambda: mostly(
                tape,
                lambda: (
                    {name(tape): value(tape) for _ in range(tape.number(4))}
                    | some(tape, {"ifGenerationMatch": lambda: leaf(tape)})
                ),
            ),
            "metadata": lambda: value(tape),
            "tenant": lambda: leaf(tape),
            "id": lambda: leaf(tape),
            "sessionId": lambda: leaf(tape),
        },
    )


def push_config(tape: Tape) -> Any:
    def at() -> Any:
        return tape.pick(
            [
                "http://127.0.0.1:9/hook",
                "http://127.0.0.1/",
                "//x",
                "x" * 3_000,
                "https://u:p@h:99999/\r\n",
            ]
        )

    def login() -> Any:
        return {"scheme": leaf(tape), "schemes": value(tape), "credentials": leaf(tape)}

    def any_leaf() -> Any:
        return leaf(tape)

    extra = {"id": any_leaf, "token": any_leaf, "authentication": lambda: mostly(tape, login)}
    config = {"url": mostly(tape, at)} | some(tape, extra)
    if tape.is_one_in(2):
        config = {"pushNotificationConfig": config}
    return {
        tape.pick(["taskId", "id", "parent"]): mostly(
            tape, lambda: tape.pick(["KNOWN", "nobody", "DONE"])
        )
    } | config


def page(tape: Tape) -> Any:
    """The parameters of a list, with a token of our own that is right, bent, or of somebody
    else.
    """
    token = tape.pick(["TOKEN", "TOKEN", "TOKEN=", "TOKENx", "", "xTOKEN", "TOKENTOKEN"])
    found = {
        "pageToken": tape.text(24)
        if tape.is_one_in(3)
        else leaf(tape)
        if tape.is_one_in(6)
        else token
    }
    return found | some(
        tape,
        {
            "pageSize": lambda: leaf(tape),
            "status": lambda: mostly(
                tape, lambda: tape.pick(["TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "working"])
            ),
            "statusTimestampAfter": lambda: leaf(tape),
            "contextId": lambda: leaf(tape),
            "historyLength": lambda: leaf(tape),
            "includeArtifacts": lambda: leaf(tape),
        },
    )


def of_task(tape: Tape) -> Any:
    found = {"id": mostly(tape, lambda: tape.pick(["KNOWN", "DONE", "nobody"]))}
    return found | some(
        tape,
        {
            "historyLength": lambda: leaf(tape),
            "currentGeneration": lambda: leaf(tape),
            "tenant": lambda: leaf(tape),
            "metadata": lambda: value(tape),
        },
    )


def params(tape: Tape, method: str) -> Any:
    """Parameters, mostly those the method takes."""
    match 9 if tape.is_one_in(8) else 0:
        case 0 if "ush" in method:
            return push_config(tape)
        case 0 if "List" in method or "list" in method:
            return page(tape)
        case 0 if "end" in method or "stream" in method:
            return send(tape)
        case 0:
            return of_task(tape)
        case _:
            return tape.pick([send, page, of_task, push_config, value])(tape)


def raw(thing: Any) -> bytes:
    """JSON as Python writes it: NaN, lone surrogates and all."""
    return json.dumps(thing).encode("utf-8", "surrogatepass")


def bent(tape: Tape, text: bytes) -> bytes:
    """Text, in one case of four no longer what it was."""
    if not tape.is_one_in(4):
        return text
    at = tape.number(len(text) + 1)
    match tape.number(5):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + tape.bytes(4) + text[at:]
        case 2:
            return text[:at] + bytes([tape.number(256)]) + text[at + 1 :]
        case 3:
            bad = tape.pick(BROKEN)
            return (
                text.replace(b'"x"', bad).replace(b"null", bad)
                if tape.is_one_in(2)
                else text[:at] + bad + text[at:]
            )
        case _:
            other = tape.number(len(text) + 1)
            return text[:at] + text[min(at, other) : max(at, other)] + text[at:]
