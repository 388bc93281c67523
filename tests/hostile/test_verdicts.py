"""One corpus, every binding, the same verdict for the same reason (promise F2).

Written as JSON text, so that what no honest client would write can be said; gRPC gets what protobuf
can express of it.
"""

import json
from typing import Any

import aiohttp
import grpc
import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError

from accord import Agent, Message
from tests.drive import JsonRpc, Rest, say, serving
from tests.drive_grpc import refused_by
from tests.reliability.harness import report

M = '"messageId": "m", "role": "ROLE_USER"'
PARTS = '"parts": [{"text": "hi"}]'


def data(value):
    """A send whose one part holds a JSON value."""
    return '{"message": {%s, "parts": [{"data": %s}]}}' % (M, value)


def meta(value):
    return '{"message": {%s, %s, "metadata": {"a": %s}}}' % (M, PARTS, value)


def message(members):
    return '{"message": {%s}}' % members


def config(members):
    return '{"message": {%s, %s}, "configuration": %s}' % (M, PARTS, members)


OK = "ok"
PARSE = "PARSE_ERROR"
PARAMS = "INVALID_PARAMS"

# What is sent as the parameters of a send, and what becomes of it: ok, or the reason and, of wrong
# fields, the name.
CORPUS = {
    # Duplicate keys: the last wins
    "twin": (message(f'"messageId": "no", {M}, {PARTS}'), OK),
    "twin, the last is wrong": (
        message(f'{M}, {PARTS}, "messageId": 7'),
        (PARAMS, "message.messageId"),
    ),
    "twin, the first is wrong": (message(f'"messageId": 7, {M}, {PARTS}'), OK),
    "twin message": ('{"message": 7, "message": {%s, %s}}' % (M, PARTS), OK),
    "twin in data": (data('{"a": 1, "a": 2}'), OK),
    # camelCase and snake_case of one member: as any twin, the last wins
    "camel and snake": (message(f'"message_id": "no", {M}, {PARTS}'), OK),
    "snake after camel, wrong": (
        message(f'{M}, {PARTS}, "message_id": 7'),
        (PARAMS, "message.messageId"),
    ),
    "camel after snake, right": (message(f'"message_id": 7, {M}, {PARTS}'), OK),
    "snake alone": (message(f'"message_id": "m", "role": "ROLE_USER", {PARTS}'), OK),
    # Numbers no other reader can read
    "NaN": (data("NaN"), PARSE),
    "NaN in metadata": (meta("NaN"), PARSE),
    "Infinity": (data("Infinity"), PARSE),
    "-Infinity": (meta("-Infinity"), PARSE),
    "1e400": (data("1e400"), PARSE),
    "-1e400 in metadata": (meta("-1e400"), PARSE),
    "1e400 in an unknown member": (message(f'{M}, {PARTS}, "zzz": 1e400'), PARSE),
    "1e308": (data("1e308"), OK),
    "1e-400": (data("1e-400"), OK),
    "2**64": (data("18446744073709551616"), OK),
    "64 digits": (data("9" * 64), OK),
    "65 digits": (data("9" * 65), PARSE),
    "100,000 digits": (data("9" * 100_000), PARSE),
    "leading zero": (data("01"), PARSE),
    "plus": (data("+1"), PARSE),
    "hexadecimal": (data("0x10"), PARSE),
    "no digit after the point": (data("1."), PARSE),
    # Text that is none
    "lone high surrogate": (data(r'"\ud800"'), PARSE),
    "lone low surrogate": (data(r'"\udc00"'), PARSE),
    "surrogates the wrong way round": (data(r'"\udc00\ud800"'), PARSE),
    "lone surrogate in a name": (data(r'{"\ud800": 1}'), PARSE),
    "lone surrogate in text": (message(r'%s, "parts": [{"text": "\ud83d"}]' % M), PARSE),
    "lone surrogate in an unknown member": (
        message(r'%s, %s, "zzz": "\ud800"' % (M, PARTS)),
        PARSE,
    ),
    "a pair": (data(r'"\ud83d\ude00"'), OK),
    "invalid UTF-8": (data('"HERE"').encode().replace(b"HERE", b"\xff"), PARSE),
    "UTF-8 cut short": (data('"HERE"').encode().replace(b"HERE", b"\xe2\x82"), PARSE),
    "overlong UTF-8": (data('"HERE"').encode().replace(b"HERE", b"\xc0\xaf"), PARSE),
    "a surrogate in UTF-8": (data('"HERE"').encode().replace(b"HERE", b"\xed\xa0\x80"), PARSE),
    "invalid UTF-8 in a name": (data('{"HERE": 1}').encode().replace(b"HERE", b"\x80"), PARSE),
    "invalid UTF-8 in an unknown member": (
        b'{"zzz": "\xff", "message": {%b, %b}}' % (M.encode(), PARTS.encode()),
        PARSE,
    ),
    "a zero character": (data(r'"\u0000"'), OK),
    "a bare control character": (data('"\x01"'), PARSE),
    "a bare newline": (data('"a\nb"'), PARSE),
    "a byte order mark": (b"\xef\xbb\xbf" + data("1").encode(), PARSE),
    "UTF-16": (data("1").encode("utf-16"), PARSE),
    # Not JSON
    "empty": ("", PARSE),
    "a comment": (data("1 /* one */"), PARSE),
    "a trailing comma": (data("[1,]"), PARSE),
    "single quotes": (data("'a'"), PARSE),
    "cut short": (data("1")[:-1], PARSE),
    "two values": (data("1") + data("1"), PARSE),
    "True": (data("True"), PARSE),
    # Nesting
    "50 levels": (data("[" * 50 + "]" * 50), OK),
    "100 levels": (data("[" * 100 + "]" * 100), PARSE),
    "100,000 levels": (data("[" * 100_000 + "]" * 100_000), PARSE),
    "100,000 objects": (data('{"a":' * 100_000 + "1" + "}" * 100_000), PARSE),
    "100,000 levels left open": (data("[" * 100_000), PARSE),
    "brackets in a text": (data('"%s"' % ("[" * 1_000)), OK),
    # Wrong types, field by field
    "params: list": ("[]", (PARAMS, "params")),
    "params: text": ('"hi"', (PARAMS, "params")),
    "params: number": ("7", (PARAMS, "params")),
    "no message": ("{}", (PARAMS, "message")),
    "message: null": ('{"message": null}', (PARAMS, "message")),
    "message: text": ('{"message": "hi"}', (PARAMS, "message")),
    "message: list": ('{"message": []}', (PARAMS, "message")),
    "messageId: absent": (message(f'"role": "ROLE_USER", {PARTS}'), (PARAMS, "message.messageId")),
    "messageId: number": (
        message(f'"messageId": 7, "role": "ROLE_USER", {PARTS}'),
        (PARAMS, "message.messageId"),
    ),
    "messageId: null": (
        message(f'"messageId": null, "role": "ROLE_USER", {PARTS}'),
        (PARAMS, "message.messageId"),
    ),
    "messageId: list": (
        message(f'"messageId": ["m"], "role": "ROLE_USER", {PARTS}'),
        (PARAMS, "message.messageId"),
    ),
    "messageId: empty": (
        message(f'"messageId": "", "role": "ROLE_USER", {PARTS}'),
        (PARAMS, "message.messageId"),
    ),
    "role: absent": (message(f'"messageId": "m", {PARTS}'), (PARAMS, "message.role")),
    "role: unknown": (
        message(f'"messageId": "m", "role": "ROLE_KING", {PARTS}'),
        (PARAMS, "message.role"),
    ),
    "role: empty": (message(f'"messageId": "m", "role": "", {PARTS}'), (PARAMS, "message.role")),
    "role: unspecified": (
        message(f'"messageId": "m", "role": "ROLE_UNSPECIFIED", {PARTS}'),
        (PARAMS, "message.role"),
    ),
    "role: number": (message(f'"messageId": "m", "role": 1, {PARTS}'), OK),
    "role: another number": (
        message(f'"messageId": "m", "role": 9, {PARTS}'),
        (PARAMS, "message.role"),
    ),
    "role: true": (message(f'"messageId": "m", "role": true, {PARTS}'), (PARAMS, "message.role")),
    "parts: absent": (message(M), (PARAMS, "message.parts")),
    "parts: empty": (message(f'{M}, "parts": []'), (PARAMS, "message.parts")),
    "parts: null": (message(f'{M}, "parts": null'), (PARAMS, "message.parts")),
    "parts: object": (message(M + ', "parts": {"text": "hi"}'), (PARAMS, "message.parts")),
    "parts: text": (message(f'{M}, "parts": "hi"'), (PARAMS, "message.parts")),
    "part: null": (message(f'{M}, "parts": [null]'), (PARAMS, "message.parts[0]")),
    "part: text": (message(f'{M}, "parts": ["hi"]'), (PARAMS, "message.parts[0]")),
    "part: empty": (message(M + ', "parts": [{}]'), (PARAMS, "message.parts[0]")),
    "part: two contents": (
        message(M + ', "parts": [{"text": "a", "data": 1}]'),
        (PARAMS, "message.parts[0]"),
    ),
    "part: unknown content": (
        message(M + ', "parts": [{"video": "x"}]'),
        (PARAMS, "message.parts[0]"),
    ),
    "text: number": (message(M + ', "parts": [{"text": 7}]'), (PARAMS, "message.parts[0].text")),
    "text: null": (message(M + ', "parts": [{"text": null}]'), (PARAMS, "message.parts[0]")),
    "text: empty": (message(M + ', "parts": [{"text": ""}]'), OK),
    "raw: not base64": (
        message(M + ', "parts": [{"raw": "!!"}]'),
        (PARAMS, "message.parts[0].raw"),
    ),
    "raw: number": (message(M + ', "parts": [{"raw": 7}]'), (PARAMS, "message.parts[0].raw")),
    "url: object": (message(M + ', "parts": [{"url": {}}]'), (PARAMS, "message.parts[0].url")),
    "data: null": (data("null"), OK),
    "mediaType: number": (
        message(M + ', "parts": [{"text": "a", "mediaType": 7}]'),
        (PARAMS, "message.parts[0].mediaType"),
    ),
    "metadata: list": (message(f'{M}, {PARTS}, "metadata": []'), (PARAMS, "message.metadata")),
    "metadata: null": (message(f'{M}, {PARTS}, "metadata": null'), OK),
    "extensions: text": (
        message(f'{M}, {PARTS}, "extensions": "x"'),
        (PARAMS, "message.extensions"),
    ),
    "extensions: number inside": (
        message(f'{M}, {PARTS}, "extensions": [7]'),
        (PARAMS, "message.extensions[0]"),
    ),
    "referenceTaskIds: null inside": (
        message(f'{M}, {PARTS}, "referenceTaskIds": [null]'),
        (PARAMS, "message.referenceTaskIds[0]"),
    ),
    "configuration: text": (config('"x"'), (PARAMS, "configuration")),
    "historyLength: text": (
        config('{"historyLength": "many"}'),
        (PARAMS, "configuration.historyLength"),
    ),
    "historyLength: digits": (config('{"historyLength": "3"}'), OK),
    "historyLength: whole float": (config('{"historyLength": 3.0}'), OK),
    "historyLength: float": (
        config('{"historyLength": 3.5}'),
        (PARAMS, "configuration.historyLength"),
    ),
    "historyLength: negative": (
        config('{"historyLength": -1}'),
        (PARAMS, "configuration.historyLength"),
    ),
    "historyLength: 2**31": (
        config('{"historyLength": 2147483648}'),
        (PARAMS, "configuration.historyLength"),
    ),
    "historyLength: 2**64": (
        config('{"historyLength": 18446744073709551616}'),
        (PARAMS, "configuration.historyLength"),
    ),
    "historyLength: 1e300": (
        config('{"historyLength": 1e300}'),
        (PARAMS, "configuration.historyLength"),
    ),
    "historyLength: true": (
        config('{"historyLength": true}'),
        (PARAMS, "configuration.historyLength"),
    ),
    "returnImmediately: text": (
        config('{"returnImmediately": "true"}'),
        (PARAMS, "configuration.returnImmediately"),
    ),
    "returnImmediately: number": (
        config('{"returnImmediately": 1}'),
        (PARAMS, "configuration.returnImmediately"),
    ),
    "acceptedOutputModes: null inside": (
        config('{"acceptedOutputModes": [null]}'),
        (PARAMS, "configuration.acceptedOutputModes[0]"),
    ),
    "tenant: number": ('{"message": {%s, %s}, "tenant": 7}' % (M, PARTS), (PARAMS, "tenant")),
    # Members nobody knows
    "unknown members": ('{"zzz": [1], "message": {%s, %s, "zzz": {"a": null}}}' % (M, PARTS), OK),
    "unknown member in a part": (message(M + ', "parts": [{"text": "a", "kind": "text"}]'), OK),
    "an empty name": (message(f'{M}, {PARTS}, "": 1'), OK),
    # Ids with more in them than an id may have
    "messageId: newline": (
        message(rf'"messageId": "a\nb", "role": "ROLE_USER", {PARTS}'),
        (PARAMS, "message.messageId"),
    ),
    "messageId: zero": (
        message(rf'"messageId": "a\u0000b", "role": "ROLE_USER", {PARTS}'),
        (PARAMS, "message.messageId"),
    ),
    "messageId: delete": (
        message(rf'"messageId": "a\u007fb", "role": "ROLE_USER", {PARTS}'),
        (PARAMS, "message.messageId"),
    ),
    "contextId: carriage return": (
        message(rf'{M}, {PARTS}, "contextId": "a\r\nb"'),
        (PARAMS, "message.contextId"),
    ),
    "taskId: escape": (
        message(rf'{M}, {PARTS}, "taskId": "\u001b[2J"'),
        (PARAMS, "message.taskId"),
    ),
    "tenant: tab": (r'{"message": {%s, %s}, "tenant": "a\tb"}' % (M, PARTS), (PARAMS, "tenant")),
    "messageId: any language": (
        message(f'"messageId": "标识-идентификатор", "role": "ROLE_USER", {PARTS}'),
        OK,
    ),
    "taskId: of nobody": (message(f'{M}, {PARTS}, "taskId": "nobody"'), "TASK_NOT_FOUND"),
}


async def take(request: Message):
    return "taken"


async def verdict(client, raw):
    """What becomes of a send: ok, a reason, or a reason and the field."""
    raw = raw if isinstance(raw, bytes) else raw.encode()
    if isinstance(client, Rest):
        path = "/message:send"
    else:
        path, raw = "/", b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": %b}' % raw
    status, answer = await client.post(path, raw, A2A_Version="1.0")
    error = answer.get("error")
    if error is None:
        assert status == 200
        return OK
    assert "Reference" not in error["message"], error
    info, *rest = error.get("data") or error["details"]
    fields = [violation["field"] for detail in rest for violation in detail["fieldViolations"]]
    return (info["reason"], *fields) if fields else info["reason"]


async def test_the_two_http_bindings_agree_on_every_text():
    """Accepted or refused, and why. A member that the envelope of JSON-RPC would swallow is no
    exception.
    """
    agent = Agent("Test agent")
    agent.skill(take)
    app = agent.app()
    async with serving(app, app.close) as url, aiohttp.ClientSession(trust_env=False) as http:
        rpc, rest = JsonRpc(http, url), Rest(http, url)
        wrong = {}
        accepted = 0
        for name, (raw, expected) in CORPUS.items():
            found = [await verdict(door, raw) for door in (rpc, rest)]
            accepted += 2 * (expected == OK)
            if found != [expected] * 2:
                wrong[name] = found
        assert wrong == {}
        page = await rpc.list(pageSize=100)
        assert page["totalSize"] == accepted, (
            "every refusal left nothing, every other left one task"
        )
        report(
            "F2", texts=len(CORPUS), requests=2 * len(CORPUS), accepted=accepted, disagreements=0
        )


async def test_grpc_agrees_where_it_can_be_said(connect_grpc):
    """What protobuf can carry of the corpus: accepted or refused alike, wrong fields under the same
    names.
    """
    asked, wrong = 0, {}
    async with connect_grpc(take) as client:
        send = client.channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")
        for name, (raw, expected) in CORPUS.items():
            try:
                said = json.loads(raw if isinstance(raw, str) else raw.decode())
                request = ParseDict(said, pb.SendMessageRequest())
                data = request.SerializeToString()
                if MessageToDict(request) != said:
                    continue
            except (ParseError, SerializeToJsonError, TypeError, ValueError, RecursionError):
                continue  # clients with types can't say this
            asked += 1
            try:
                await send(data, timeout=10)
                found: Any = OK
            except grpc.aio.AioRpcError as error:
                refused = refused_by(error)
                found = (
                    (refused.reason, *refused.violations) if refused.violations else refused.reason
                )
            if (found == OK) != (expected == OK) or (
                isinstance(expected, tuple) and found != expected
            ):
                wrong[name] = (found, expected)
        assert wrong == {}
        assert asked > 20
        report(
            "F2 over gRPC",
            texts=f"{asked} of {len(CORPUS)}, the rest it can't say",
            disagreements=0,
        )


@pytest.mark.parametrize(
    ("id_", "code"),
    [
        (b"7", -32601),
        (b'"seven"', -32601),
        (b"7.5", -32601),
        (b"null", -32601),
        ('"sieben ✓"'.encode(), -32601),
        (rb'"\ud83d\ude00"', -32601),
        (b"true", -32600),
        (b"[7]", -32600),
        (b'{"a": 7}', -32600),
        (b"1e400", -32600),
        (b"9" * 70, -32700),
        (b'"\xff"', -32700),
        (rb'"\ud800"', -32700),
        (b"NaN", -32700),
    ],
)
async def test_an_id_comes_back_as_it_was_or_not_at_all(connect_rpc, id_, code):
    """The answer is JSON that any client can read, whatever stood where the id stands."""
    async with connect_rpc(take) as client:
        body = b'{"jsonrpc": "2.0", "id": %b, "method": "Nothing"}' % id_
        async with client.http.post(
            client.url + "/", data=body, headers={"Content-Type": "application/json"}
        ) as response:
            answer = json.loads((await response.read()).decode())
        assert answer["error"]["code"] == code
        assert answer["id"] == (json.loads(id_) if code == -32601 else None)


async def test_what_was_accepted_is_listed_over_every_binding(connect):
    """One odd value must not break the list of everything from then on (reliability, A18)."""
    odd = [
        1e308,
        -0.0,
        5e-324,
        2**53 + 1,
        "\x00",
        "\u202e",
        "\U0001f600",
        {"": {"": []}},
        [[[[]]]],
        None,
        "x" * 10_000,
    ]
    async with connect(take) as client:
        for value in odd:
            await client.send(say([{"data": value}], metadata={"odd": value}))
        page = await client.list(includeArtifacts=True, pageSize=100)
        assert (len(page["tasks"]), page["totalSize"]) == (len(odd), len(odd))
        for value, task in zip(reversed(odd), page["tasks"], strict=True):
            shown = (await client.get(task["id"]))["history"][0]["parts"][0]["data"]
            assert shown == (pytest.approx(value) if isinstance(value, (int, float)) else value)
