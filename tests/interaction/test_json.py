"""JSON as it is written and read: one spelling out, every spelling in."""

import json
import re
from datetime import datetime
from typing import Any

import pytest

from accord import Agent, Context, File, Message, Part
from accord.model import Limits
from tests.drive import refusal_of, say, state_of, text_of


async def echo(request: str):
    return request


async def parts(request: Message):
    """Give back the parts that came, so that a test sees how they were understood."""
    return request.parts


def walk(value, path=""):
    """Every member of a JSON value with its name."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name, item
            yield from walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


async def test_members_are_written_in_camel_case_and_enums_by_name(connect):
    """The one spelling we emit (BND-2; section 2)."""

    async def work(request: str, ctx: Context):
        ctx.status("working")
        yield File(b"x", name="x.bin")
        yield {"key": 1}

    async with connect(work) as client:
        frames = await (await client.stream(say(metadata={"camelCase": True}))).rest()
        names = {name for frame in frames for name, _ in walk(frame)}
        assert not [name for name in names if "_" in name]
        states = {value for frame in frames for name, value in walk(frame) if name == "state"}
        assert states == {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"}
        assert {value for frame in frames for name, value in walk(frame) if name == "role"} == {
            "ROLE_USER",
            "ROLE_AGENT",
        }


async def test_nothing_empty_or_unknown_is_written(connect):
    """Strict readers fail on nulls and members they don't know (section 2)."""
    async with connect(echo) as client:
        task = (await client.send("hi"))["task"]
        assert set(task) == {"id", "contextId", "status", "artifacts", "history"}
        assert set(task["history"][0]) == {"messageId", "contextId", "taskId", "role", "parts"}
        assert not [name for name, value in walk(task) if value in (None, "", [], {})]


async def test_times_are_utc_with_milliseconds(connect):
    """YYYY-MM-DDTHH:mm:ss.sssZ, on every status (BND-2, MSG-3)."""

    async def work(request: str, ctx: Context):
        ctx.status("busy")
        return "done"

    async with connect(work) as client:
        frames = await (await client.stream("hi")).rest()
        times = [value for frame in frames for name, value in walk(frame) if name == "timestamp"]
        assert len(times) == 4
        # On gRPC a time is a number; it is printed by protobuf, without a fraction when the clock
        # stood at a full second.
        fraction = r"(\.\d{3})?" if client.binding == "GRPC" else r"\.\d{3}"
        assert all(
            re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d{fraction}Z", time) for time in times
        )
        moments = [datetime.fromisoformat(time) for time in times]
        assert moments == sorted(moments)


async def test_a_part_is_written_even_when_its_content_is_empty(connect):
    """The member name is the only discriminator: empty text, empty bytes, null (section 2)."""
    sent: list[Any] = [{"text": ""}, {"raw": ""}, {"data": None}, {"data": ""}, {"url": ""}]
    async with connect(parts) as client:
        task = (await client.send(say(sent)))["task"]
        assert task["history"][0]["parts"] == sent
        assert task["artifacts"][0]["parts"] == sent


@pytest.mark.parametrize("raw", ["+/+/", "-_-_"])
async def test_base64_is_read_in_both_alphabets(connect, raw):
    """Written in the standard one (section 2)."""
    async with connect(parts) as client:
        task = (await client.send(say([{"raw": raw}])))["task"]
        assert task["artifacts"][0]["parts"] == [{"raw": "+/+/"}]


@pytest.mark.parametrize("raw", ["aGk=", "aGk"])
async def test_base64_is_read_with_and_without_padding(connect, raw):
    """Written with it (section 2)."""
    async with connect(parts) as client:
        task = (await client.send(say([{"raw": raw}])))["task"]
        assert task["artifacts"][0]["parts"] == [{"raw": "aGk="}]


@pytest.mark.parametrize("raw", ["a", "a===", "aG k=", "@@@@", "aGk=aGk=", 7, ["aGk="]])
async def test_what_is_not_base64_is_refused(connect_http, raw):
    """With the field's name (GEN-2)."""
    async with connect_http(parts) as client:
        refused = await refusal_of(client.send(say([{"raw": raw}])))
        assert (refused.reason, list(refused.violations)) == (
            "INVALID_PARAMS",
            ["message.parts[0].raw"],
        )


async def test_snake_case_is_read_and_never_written(connect):
    """Parsers of the proto take its own names too (section 2)."""
    async with connect(echo) as client:
        message = {
            "message_id": "m",
            "role": "ROLE_USER",
            "parts": [{"text": "hi", "media_type": "text/plain"}],
            "context_id": "c",
        }
        task = (await client.send({"message": message, "configuration": {"history_length": 1}}))[
            "task"
        ]
        assert (task["contextId"], task["history"][0]["parts"][0]["mediaType"]) == (
            "c",
            "text/plain",
        )


async def test_enums_are_read_by_number(connect_rpc):
    """As the proto's parsers do (section 2)."""
    async with connect_rpc(echo) as client:
        task = (await client.send(say(role=1)))["task"]
        assert task["history"][0]["role"] == "ROLE_USER"
        assert (await client.list(status=3))["totalSize"] == 1
        assert (await client.list(status=6))["totalSize"] == 0


@pytest.mark.parametrize(
    "role", ["user", "role_user", "ROLE_WIZARD", 9, -1, True, "", "ROLE_UNSPECIFIED", 0]
)
async def test_an_unknown_role_is_refused(connect_http, role):
    """Lower case, numbers there are none of, and unspecified (section 2)."""
    async with connect_http(echo) as client:
        refused = await refusal_of(client.send(say(role=role)))
        assert (refused.reason, list(refused.violations)) == ("INVALID_PARAMS", ["message.role"])


async def test_unknown_members_are_ignored_and_not_kept(connect_http):
    """At every level (BND-2)."""
    async with connect_http(echo) as client:
        sent = say([{"text": "hi", "kind": "text"}], kind="message")
        task = (
            await client.send(
                sent | {"futureOption": {"a": 1}, "configuration": {"blocking": True}}
            )
        )["task"]
        assert text_of(task) == "hi"
        assert "kind" not in {name for name, _ in walk(task)}


async def test_null_is_absent(connect):
    """For every field but `data` (section 2)."""
    async with connect(echo) as client:
        sent = say(
            [{"text": "hi", "raw": None, "metadata": None}],
            taskId=None,
            contextId=None,
            metadata=None,
            extensions=None,
        )
        task = (await client.send(sent | {"configuration": None, "tenant": None}))["task"]
        assert task["history"][0]["parts"] == [{"text": "hi"}]


async def test_null_in_a_list_is_refused(connect_http):
    """An element has to be one (section 2)."""
    async with connect_http(echo) as client:
        assert (
            await refusal_of(client.send(say([{"text": "hi"}, None])))
        ).reason == "INVALID_PARAMS"


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"text": "a", "raw": "aGk="},
        {"text": "a", "data": None},
        {"mediaType": "text/plain"},
        {"text": 7},
        "hi",
    ],
)
async def test_a_part_holds_exactly_one_thing(connect_http, part):
    """Two members or none are refused, naming the part (section 2)."""
    async with connect_http(echo) as client:
        refused = await refusal_of(client.send(say([part])))
        assert refused.reason == "INVALID_PARAMS"
        assert next(iter(refused.violations)).startswith("message.parts[0]")


async def test_data_may_be_any_json_value(connect):
    """Objects, lists, numbers, text, booleans and null come back as they went (section 2)."""
    values = [
        {"a": {"b": [1, None, {}]}},
        [],
        [[]],
        0,
        -1.5,
        1e300,
        "x",
        True,
        None,
        {"": ""},
        {"snake_case": 1},
    ]
    async with connect(parts) as client:
        task = (await client.send(say([{"data": value} for value in values])))["task"]
        assert [part["data"] for part in task["artifacts"][0]["parts"]] == values


async def test_metadata_is_kept_as_it_came(connect):
    """Nulls, odd names and nesting inside are the sender's own (section 2)."""
    metadata = {"snake_case": None, "list": [1, None], "nested": {"a": {"b": None}}}
    async with connect(echo) as client:
        task = (await client.send(say(metadata=metadata)))["task"]
        assert task["history"][0]["metadata"] == metadata


@pytest.mark.parametrize("metadata", [[], "x", 7, True])
async def test_metadata_is_an_object(connect_http, metadata):
    """Arrays and scalars are errors (section 2)."""
    async with connect_http(echo) as client:
        refused = await refusal_of(client.send(say(metadata=metadata)))
        assert (refused.reason, list(refused.violations)) == (
            "INVALID_PARAMS",
            ["message.metadata"],
        )


@pytest.mark.parametrize("length", [1, 1.0, "1"])
async def test_whole_numbers_are_read_in_any_spelling(connect, length):
    """1, 1.0 and "1" are one number (section 2)."""
    async with connect(echo) as client:
        task = (await client.send(say(configuration={"historyLength": length})))["task"]
        assert len(task["history"]) == 1


@pytest.mark.parametrize("length", [1.5, "one", True, 2**31, [1]])
async def test_what_is_no_whole_number_is_refused(connect_http, length):
    """Fractions, words and what does not fit 32 bits (section 2)."""
    async with connect_http(echo) as client:
        refused = await refusal_of(client.send(say(configuration={"historyLength": length})))
        assert (refused.reason, list(refused.violations)) == (
            "INVALID_PARAMS",
            ["configuration.historyLength"],
        )


async def test_a_refusal_names_types_as_a_user_knows_them(connect_http):
    """Python's names of types mean nothing to a client in another language."""
    async with connect_http(echo) as client:
        refused = await refusal_of(client.send(say(configuration={"historyLength": "one"})))
        assert refused.violations["configuration.historyLength"] == (
            "expected a whole number or null, got text"
        )


async def test_quoted_booleans_are_refused(connect_http):
    """Only true and false are (section 2)."""
    async with connect_http(echo) as client:
        refused = await refusal_of(client.send(say(configuration={"returnImmediately": "true"})))
        assert list(refused.violations) == ["configuration.returnImmediately"]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("message.messageId", {"role": "ROLE_USER", "parts": [{"text": "x"}]}),
        ("message.messageId", {"messageId": "", "role": "ROLE_USER", "parts": [{"text": "x"}]}),
        ("message.role", {"messageId": "m", "parts": [{"text": "x"}]}),
        ("message.parts", {"messageId": "m", "role": "ROLE_USER"}),
        ("message.parts", {"messageId": "m", "role": "ROLE_USER", "parts": []}),
        ("message", None),
    ],
)
async def test_required_members_are_required(connect, field, message):
    """Missing, empty and null are the same, and named (BND-2, GEN-2)."""
    async with connect(echo) as client:
        refused = await refusal_of(client.send({"message": message}))
        assert (refused.reason, list(refused.violations)) == ("INVALID_PARAMS", [field])


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("message.parts", {"messageId": "m", "role": "ROLE_USER", "parts": {"text": "x"}}),
        ("message", "hello"),
    ],
)
async def test_required_members_have_their_type(connect_http, field, message):
    """A list is not one of its members, and a message no text . gRPC can't say it wrong."""
    async with connect_http(echo) as client:
        refused = await refusal_of(client.send({"message": message}))
        assert (refused.reason, list(refused.violations)) == ("INVALID_PARAMS", [field])


async def test_all_wrong_fields_are_named_at_once(connect):
    """A caller fixes them in one go (GEN-2)."""
    async with connect(echo) as client:
        refused = await refusal_of(
            client.send({"message": {"messageId": "", "role": "ROLE_UNSPECIFIED", "parts": []}})
        )
        assert list(refused.violations) == ["message.messageId", "message.role", "message.parts"]


async def test_text_is_utf_8_both_ways(connect):
    """Every character there is, and no more (section 2)."""
    words = 'żółć 東京 🚀 \u2028 \\ " \x7f é'
    async with connect(echo) as client:
        assert text_of((await client.send(words))["task"]) == words


async def test_the_last_of_two_members_of_one_name_wins(connect_http):
    """On every binding alike (design, rule 15)."""
    async with connect_http(echo) as client:
        body = json.dumps(say("first")).replace(
            '"text": "first"', '"text": "first", "text": "last"'
        )
        if client.binding == "JSONRPC":
            body = '{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": %s}' % body
        _, answer = await client.post(
            "/" if client.binding == "JSONRPC" else "/message:send", body.encode()
        )
        assert text_of(answer.get("result", answer)["task"]) == "last"


BAD_JSON = [
    b"",
    b"{",
    b"{} {}",
    b"{'a': 1}",
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": 1e400}',
    b'{"a": "\xff"}',
    b'{"a": "\\ud800"}',
    b'{"a": ' + b"1" * 100 + b"}",
    b"[" * 100 + b"]" * 100,
    b'{"a":' * 70 + b"1" + b"}" * 70,
]


@pytest.mark.parametrize("body", BAD_JSON, ids=range(len(BAD_JSON)))
async def test_what_is_not_json_is_a_parse_error(connect_http, body):
    """Broken text, numbers there are none of, bad UTF-8, lone surrogates, too deep (design, rule
    15; section 4.2).
    """
    async with connect_http(echo) as client:
        status, answer = await client.post(
            "/" if client.binding == "JSONRPC" else "/message:send", body
        )
        assert "PARSE_ERROR" in str(answer["error"])
        if client.binding == "JSONRPC":
            assert (status, answer["id"], answer["error"]["code"]) == (200, None, -32700)
        else:
            assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")


async def test_a_deep_value_inside_the_limit_is_fine(connect):
    """64 levels are plenty, and allowed (OPS-2)."""
    value: Any = 1
    for _ in range(40):
        value = [value]
    async with connect(parts) as client:
        task = (await client.send(say([{"data": value}])))["task"]
        assert task["artifacts"][0]["parts"] == [{"data": value}]


async def test_brackets_in_text_are_not_depth(connect):
    """Only structure counts (OPS-2)."""
    async with connect(echo) as client:
        assert state_of((await client.send("[" * 500 + "{" * 500))["task"]) == "completed"


async def test_a_body_too_large_is_refused(connect_http):
    """413 on both bindings, with the limit (OPS-2)."""
    async with connect_http(echo, limits=Limits(body=2000)) as client:
        refused = await refusal_of(client.send("x" * 2000))
        assert (refused.status, refused.reason, refused.detail) == (
            413,
            "BODY_TOO_LARGE",
            {"limit": "2000"},
        )
        assert state_of((await client.send("x" * 1000))["task"]) == "completed"


async def test_a_body_too_large_is_refused_though_its_length_is_not_told(connect):
    """A chunked body is counted while it comes (OPS-2)."""

    async def pieces():
        for _ in range(50):
            yield b" " * 100

    async with connect(echo, limits=Limits(body=2000)) as client:
        url = client.url + ("/" if client.binding == "JSONRPC" else "/message:send")
        async with client.http.post(
            url, data=pieces(), headers={"Content-Type": "application/json"}
        ) as response:
            assert response.status == 413


@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("message.messageId", say(messageId="x" * 300)),
        ("message.contextId", say(contextId="a\x00b")),
        ("message.taskId", say(taskId="a\nb")),
        ("tenant", say(tenant="x" * 300)),
        ("message.parts", say([{"text": ""}] * 1001)),
        ("message.metadata", say(metadata={"k": "x" * (300 << 10)})),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
async def test_sizes_and_ids_are_bounded(connect_rpc, field, request_):
    """The error names the field (OPS-2, OPS-3)."""
    async with connect_rpc(echo) as client:
        refused = await refusal_of(client.send(request_))
        assert (refused.reason, list(refused.violations)) == ("INVALID_PARAMS", [field])


async def test_what_an_agent_writes_cannot_break_the_frame(connect):
    """Newlines and markup in text stay inside one SSE event (OPS-3; section 3.4)."""
    agent = Agent("Nasty")

    @agent.skill
    async def nasty(request: str):
        return Part(text="\n\ndata: {}\r\nevent: error\n\n</script>")

    async with connect(agent) as client:
        frames = await (await client.stream("go")).rest()
        assert (
            text_of(frames[2]["artifactUpdate"]["artifact"])
            == "\n\ndata: {}\r\nevent: error\n\n</script>"
        )
