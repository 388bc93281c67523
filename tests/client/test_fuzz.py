"""Whatever an agent sends, the client knows what to say about it: no other exception, whatever the
bytes (F1).
"""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.client import BadAnswer, BadCard, Budget
from accord.client.bindings.contract import understood
from accord.client.discovery.cards import card_of, open_card
from accord.client.streams.sse import SseParser, TooBig
from accord.model import A2AError, GetTaskRequest, Message, Part, Role, SendMessageRequest
from accord.protocol.v01 import client as v01_client
from accord.protocol.v03 import client as v03_client
from accord.protocol.v03 import rest_client as v03_rest_client
from accord.protocol.v1 import client as v1_client
from accord.protocol.v1 import rest_client as v1_rest_client
from tests.client.peers import card, task

# JSON made of the words the protocol uses, so that it gets past the first look.
WORDS = st.sampled_from(
    [
        "name",
        "url",
        "version",
        "skills",
        "capabilities",
        "supportedInterfaces",
        "protocolBinding",
        "protocolVersion",
        "preferredTransport",
        "additionalInterfaces",
        "securitySchemes",
        "security",
        "securityRequirements",
        "schemes",
        "list",
        "type",
        "in",
        "flows",
        "authentication",
        "streaming",
        "extensions",
        "uri",
        "transport",
        "task",
        "message",
        "status",
        "state",
        "parts",
        "text",
        "raw",
        "data",
        "file",
        "bytes",
        "artifact",
        "artifacts",
        "artifactId",
        "history",
        "kind",
        "role",
        "messageId",
        "taskId",
        "contextId",
        "statusUpdate",
        "artifactUpdate",
        "final",
        "append",
        "index",
        "metadata",
        "id",
        "result",
        "error",
        "code",
        "details",
        "reason",
        "content",
        "tasks",
        "configs",
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(
        [
            "JSONRPC",
            "1.0",
            "0.3",
            "http://x/",
            "/a",
            "TASK_STATE_WORKING",
            "completed",
            "agent",
            "ROLE_AGENT",
            "task",
            "text",
        ]
    ),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=15,
)
MANY = settings(max_examples=100, deadline=None)
SEND = SendMessageRequest(message=Message(message_id="m", role=Role.USER, parts=[Part(text="x")]))


def changed(value, path, new):
    """A copy of `value` with one thing in it replaced; `path` chooses which."""
    value = json.loads(json.dumps(value))
    at = value
    for step in path:
        if isinstance(at, dict) and at:
            key = sorted(at)[step % len(at)]
        elif isinstance(at, list) and at:
            key = step % len(at)
        else:
            break
        if step == path[-1] or not isinstance(at[key], (dict, list)) or not at[key]:
            at[key] = new
            break
        at = at[key]
    return value


@MANY
@given(JSON)
def test_any_json_as_a_card(value):
    """A card or a BadCard."""
    with contextlib.suppress(BadCard):
        card_of(value, "https://dock.example.net/.well-known/agent-card.json", [])


@MANY
@given(st.lists(st.integers(0, 20), min_size=1, max_size=4), JSON)
def test_any_member_of_a_card(path, new):
    """The same with one thing wrong in a card that was right."""
    with contextlib.suppress(BadCard):
        card_of(
            changed(card("https://dock.example.net/"), path, new), "https://dock.example.net/", []
        )


@MANY
@given(st.binary(max_size=200))
def test_any_bytes_as_a_card(body):
    """Bytes are JSON, or a BadCard."""
    with pytest.raises(BadCard):
        open_card(body, "", Budget(), [])


@MANY
@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_as_a_stream(body, size):
    """The parser returns events or gives up; nothing else."""
    parser = SseParser(100)
    try:
        for at in range(0, len(body), size):
            parser.feed(body[at : at + size])
        parser.end()
    except TooBig:
        pass


DIALECTS = [
    v1_client,
    v03_client,
    v01_client,
    v1_rest_client,
    v03_rest_client.RAW,
    v03_rest_client.TEXT,
]


@pytest.mark.parametrize(
    "dialect", DIALECTS, ids=["v1", "v03", "v01", "rest_v1", "rest_v03", "rest_v03_text"]
)
@MANY
@given(
    value=JSON
    | st.builds(
        changed,
        st.just({"task": task()}),
        st.lists(st.integers(0, 9), min_size=1, max_size=5),
        JSON,
    )
)
def test_any_json_as_an_answer(dialect, value):
    """An answer or an event of every version is understood, or is a BadAnswer."""
    raw = json.dumps(value).encode()
    for operation, request in (("SendMessage", SEND), ("GetTask", GetTaskRequest(id="t"))):
        _understand(dialect.result, operation, raw, request, [].append)
    _understand(dialect.frames(SEND, [].append), raw)


@MANY
@given(JSON)
def test_any_json_as_an_error(value):
    """What stands where an error should be is some error."""
    body = value if isinstance(value, dict) else {"error": value}
    for dialect in (v1_client, v03_client, v01_client):
        assert isinstance(dialect.error(body), A2AError)
    for rest in (v1_rest_client, v03_rest_client.RAW):
        assert isinstance(rest.error(500, body), A2AError | None)


def _understand(read_, *given) -> None:
    with contextlib.suppress(BadAnswer):
        understood("http://x/", "the answer", read_, *given)
