"""What only the HTTP+JSON binding has: verbs, paths, queries, content types."""

from urllib.parse import quote

import pytest
from yarl import URL

from accord import Ask
from tests.drive import kinds, refusal_of, say, state_of, text_of

A2A = "application/a2a+json"
JSON = "application/json"


async def echo(request: str):
    return request


async def call(client, verb, path, **options):
    async with client.http.request(verb, client.url + path, **options) as response:
        return response.status, await response.json(content_type=None)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Content-Type": JSON, "Accept": "*/*"}, JSON),
        ({"Content-Type": A2A, "Accept": "*/*"}, A2A),
        ({"Content-Type": A2A + "; charset=utf-8"}, A2A),
        ({"Content-Type": JSON, "Accept": A2A}, A2A),
        ({"Content-Type": A2A, "Accept": JSON}, JSON),
    ],
)
async def test_the_answer_is_of_the_type_asked_for(connect_rest, headers, expected):
    """Accept, else what was sent, else A2A's own (BND-3)."""
    async with connect_rest(echo) as client:
        status, _ = await client.post(
            "/message:send", say("hi"), **{k.replace("-", "_"): v for k, v in headers.items()}
        )
        assert (status, client.answer_headers["Content-Type"]) == (200, expected)


async def test_a_get_without_wishes_is_answered_in_the_types_own_name(connect_rest):
    """application/a2a+json (section 3.5)."""
    async with connect_rest(echo) as client:
        await client.list()
        assert client.answer_headers["Content-Type"] == A2A


async def test_errors_are_plain_json_unless_the_type_is_asked_for(connect_rest):
    """Some clients read no other."""
    async with connect_rest(echo) as client:
        refused = await refusal_of(client.get("nowhere"))
        assert refused.headers["Content-Type"] == JSON
        refused = await refusal_of(client.get("nowhere", headers={"Accept": A2A}))
        assert refused.headers["Content-Type"] == A2A


@pytest.mark.parametrize("kind", ["text/plain", "", "multipart/form-data", "application/jsonx"])
async def test_a_request_that_is_not_json_is_refused_unread(connect_rest, kind):
    """400, as every ContentTypeNotSupported (5.4 of 1.0.1)."""
    async with connect_rest(echo) as client:
        status, answer = await client.post("/message:send", say("hi"), Content_Type=kind)
        assert (status, answer["error"]["details"][0]["reason"]) == (
            400,
            "CONTENT_TYPE_NOT_SUPPORTED",
        )


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"7", b"null", b"true"])
async def test_a_body_is_an_object(connect_rest, body):
    """JSON, but no request: InvalidParams (section 3.5)."""
    async with connect_rest(echo) as client:
        for path in ("/message:send", "/acme/message:send"):
            status, answer = await client.post(path, body)
            assert (status, answer["error"]["details"][0]["reason"]) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/tasks/a/b", "/message", "/v2/x/y/z", "/tasks/a/pushNotificationConfigs/b/c"],
)
async def test_an_unknown_path_is_not_found(connect_rest, path):
    """404 with an error body (section 3.5)."""
    async with connect_rest(echo) as client:
        status, answer = await call(client, "GET", path)
        assert (status, answer["error"]["details"][0]["reason"]) == (404, "METHOD_NOT_FOUND")


@pytest.mark.parametrize(
    ("verb", "path", "allow"),
    [
        ("GET", "/message:send", "POST"),
        ("DELETE", "/message:stream", "POST"),
        ("POST", "/tasks", "GET"),
        ("PUT", "/tasks/t-1", "GET"),
        ("PATCH", "/tasks/t-1/pushNotificationConfigs/c", "GET, DELETE"),
        ("POST", "/extendedAgentCard", "GET"),
    ],
)
async def test_a_wrong_verb_is_not_allowed(connect_rest, verb, path, allow):
    """405 with the verbs that are (section 3.5)."""
    async with (
        connect_rest(echo) as client,
        client.http.request(verb, client.url + path, json={}) as response,
    ):
        assert (response.status, response.headers["Allow"]) == (405, allow)


@pytest.mark.parametrize("body", [None, b"", b"{}", b'{"metadata": {"why": "late"}}'])
async def test_cancel_needs_no_body(connect_rest, body):
    """None, empty, {} and a full object (section 3.5)."""

    async def park(request: str):
        return Ask("?")

    async with connect_rest(park) as client:
        task = (await client.send("hi"))["task"]
        headers = {"Content-Type": JSON} if body else {}
        status, answer = await call(
            client, "POST", f"/tasks/{task['id']}:cancel", data=body, headers=headers
        )
        assert (status, state_of(answer)) == (200, "canceled")


async def test_an_id_in_the_body_must_be_the_one_in_the_path(connect_rest):
    """The path decides; to differ from it is a mistake (BND-5; section 3.5)."""
    async with connect_rest(echo) as client:
        status, answer = await client.post("/tasks/a:cancel", {"id": "b"})
        assert (status, answer["error"]["details"][0]["reason"]) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_subscribe_takes_both_verbs(connect_rest, verb):
    """The text says POST, the proto GET."""

    async def park(request: str):
        return Ask("?")

    async with connect_rest(park) as client:
        task = (await client.send("hi"))["task"]
        async with client.http.request(
            verb, f"{client.url}/tasks/{task['id']}:subscribe"
        ) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
            assert (await response.content.readline()).startswith(b"id: ")


async def test_frames_are_bare(connect_rest):
    """A StreamResponse without an envelope (section 3.5)."""
    async with connect_rest(echo) as client:
        stream = await client.stream("hi")
        assert kinds(await stream.rest())[-1] == "completed"
        assert [len(frame) for frame in stream.raw] == [1] * len(stream.raw)


@pytest.mark.parametrize(
    "id_", ["a/b", "a:cancel", "..", "a?b=c", "ü", "%41", "a:subscribe:x", " "]
)
async def test_an_id_is_one_segment_whatever_is_in_it(connect_rest, id_):
    """Percent-encoded it reaches the operation as it is (BND-5)."""
    async with connect_rest(echo, push=False) as client:
        url = URL(f"{client.url}/tasks/{quote(id_, safe='')}/pushNotificationConfigs", encoded=True)
        async with client.http.get(url) as response:
            answer = await response.json(content_type=None)
        assert answer["error"]["details"][0]["reason"] == "PUSH_NOTIFICATION_NOT_SUPPORTED"


async def test_an_unknown_id_comes_back_decoded(connect_rest):
    """What was asked for, in the words it was asked with (BND-5)."""
    async with connect_rest(echo) as client:
        refused = await refusal_of(client.get("a/b ü"))
        assert refused.detail == {"taskId": "a/b ü"}


async def test_query_parameters_are_camel_case_and_percent_encoded(connect_rest):
    """Numbers, booleans, enums and times as text; unknown ones ignored (BND-5; section 3.5)."""
    async with connect_rest(echo) as client:
        task = (await client.send(say("hi", contextId="a&b=c d")))["task"]
        query = "contextId=a%26b%3Dc%20d&status=TASK_STATE_COMPLETED&pageSize=5&includeArtifacts=TRUE&historyLength=0&x=y"  # noqa: E501
        status, page = await call(client, "GET", "/tasks?" + query)
        assert (status, page["pageSize"]) == (200, 5)
        assert [(t["id"], text_of(t), "history" in t) for t in page["tasks"]] == [
            (task["id"], "hi", False)
        ]


async def test_the_go_clients_name_of_a_filter_is_understood(connect_rest):
    """lastUpdatedAfter is statusTimestampAfter (section 3.5)."""
    async with connect_rest(echo) as client:
        await client.send("hi")
        _, page = await call(client, "GET", "/tasks?lastUpdatedAfter=2999-01-01T00:00:00Z")
        assert page["totalSize"] == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("includeArtifacts=yes", "includeArtifacts"),
        ("pageSize=many", "pageSize"),
        ("pageSize=1.5", "pageSize"),
        ("historyLength=-1", "historyLength"),
        ("status=done", "status"),
        ("status=99", "status"),
        ("pageSize=", "pageSize"),
    ],
)
async def test_a_bad_query_parameter_is_named(connect_rest, query, field):
    """400 with a field violation (GEN-2, BND-5)."""
    async with connect_rest(echo) as client:
        status, answer = await call(client, "GET", "/tasks?" + query)
        assert status == 400
        assert [v["field"] for v in answer["error"]["details"][1]["fieldViolations"]] == [field]


async def test_a_final_slash_does_no_harm(connect_rest):
    """/tasks/ is /tasks."""
    async with connect_rest(echo) as client:
        status, page = await call(client, "GET", "/tasks/")
        assert (status, page["totalSize"]) == (200, 0)
