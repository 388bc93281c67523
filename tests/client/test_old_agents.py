"""Agents of 0.1, 0.2 and 0.3 as they were: their exact words in, the model of 1.0 out."""

import itertools

import pytest

from accord import File
from accord.client import Retry, connect
from accord.model import (
    ArtifactUpdate,
    InvalidParams,
    Part,
    PermissionDenied,
    PushNotificationNotSupported,
    StatusUpdate,
    Task,
    TaskNotCancelable,
    TaskNotFound,
    TaskState,
    TooManyRequests,
    Unauthenticated,
    UnsupportedOperation,
)
from tests.client.peers import answer, scripted, sse

QUICK = Retry(first_s=0.001, most_s=0.01)


def card_of(version: str, url: str) -> dict:
    """The card of an agent of that time."""
    skill = {"id": "count", "name": "Count crates"}
    plain = {
        "name": "Dock clerk",
        "url": url,
        "version": "2.4.0",
        "capabilities": {"streaming": True, "pushNotifications": True},
    }
    if version == "0.1":
        return plain | {"skills": [skill], "authentication": {"schemes": ["Bearer"]}}
    modes = {
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "description": "Counts.",
    }
    skills = {"skills": [skill | {"description": "Counts.", "tags": ["crates"]}]}
    if version == "0.2":
        return plain | modes | skills | {"iconUrl": "https://x/i.png"}
    transport = "HTTP+JSON" if version == "0.3 rest" else "JSONRPC"
    return plain | modes | skills | {"protocolVersion": "0.3.0", "preferredTransport": transport}


def agent(version: str, answers: dict):
    """An agent that answers each method (or verb and path) with a result, an error, or the bytes of
    a response.
    """

    def handler(request):
        if request.path.startswith("/.well-known/"):
            path = (
                "/.well-known/agent-card.json"
                if version.startswith("0.3")
                else "/.well-known/agent.json"
            )
            return (
                answer(card_of(version, f"http://{request.headers['host']}/"))
                if request.path == path
                else answer("", 404)
            )
        if version == "0.3 rest":
            found = answers.get(f"{request.verb} {request.path}")
            found = found(request) if callable(found) else found
            if isinstance(found, bytes):
                return found
            return (
                answer(found) if found is not None else answer({"message": "Task not found"}, 404)
            )
        found = answers.get(
            request.json["method"], {"error": {"code": -32601, "message": "Method not found"}}
        )
        found = found(request) if callable(found) else found
        if isinstance(found, bytes):
            return found
        body = found if isinstance(found, dict) and "error" in found else {"result": found}
        return answer({"jsonrpc": "2.0", "id": request.json["id"]} | body)

    return handler


def frames(request, *results) -> bytes:
    return sse(
        *[{"jsonrpc": "2.0", "id": request.json["id"], "result": result} for result in results]
    )


def said(peer) -> dict:
    """The last request's JSON."""
    return peer.requests[-1].json


TASK_01 = {
    "id": "t-crate-4",
    "sessionId": "s-dock-9",
    "status": {
        "state": "completed",
        "timestamp": "2025-05-20T08:30:01",
        "message": {"role": "agent", "parts": [{"type": "text", "text": "Counted."}]},
    },
    "artifacts": [
        {"name": "count", "index": 0, "parts": [{"type": "data", "data": {"bay": 4, "crates": 17}}]}
    ],
    "history": None,
    "metadata": None,
}


async def test_0_1_send():
    """The client names the task and the session; the answer is always a task."""
    async with scripted(agent("0.1", {"tasks/send": TASK_01})) as peer, connect(peer.url) as client:
        reply = await client.send(
            ["How many?", File(b"x", name="a.txt", media_type="text/plain")], context_id="s-dock-9"
        )
        params = said(peer)["params"]
    assert client is not None
    assert (params["id"] != "", params["sessionId"]) == (True, "s-dock-9")
    assert params["message"] == {
        "role": "user",
        "parts": [
            {"type": "text", "text": "How many?"},
            {"type": "file", "file": {"bytes": "eA==", "name": "a.txt", "mimeType": "text/plain"}},
        ],
    }
    assert (reply.data, reply.context_id, reply.state) == (
        {"bay": 4, "crates": 17},
        "s-dock-9",
        TaskState.COMPLETED,
    )
    assert "a2a-version" not in peer.requests[-1].headers


async def test_0_1_stream():
    """A 0.1 stream has no task frame: the first status stands for it; `final` ends it though the
    connection stays.
    """

    def stream(request):
        task_id = request.json["params"]["id"]
        chunk = {"name": "label", "index": 0, "parts": [{"type": "text", "text": "FRAGILE "}]}
        return frames(
            request,
            {"id": task_id, "status": {"state": "working"}, "final": False},
            {"id": task_id, "artifact": chunk | {"append": False, "lastChunk": False}},
            {
                "id": task_id,
                "artifact": chunk
                | {
                    "append": True,
                    "lastChunk": True,
                    "parts": [{"type": "text", "text": "THIS SIDE UP"}],
                },
            },
            {"id": task_id, "status": {"state": "completed"}, "final": True},
        )

    async with (
        scripted(agent("0.1", {"tasks/sendSubscribe": stream})) as peer,
        connect(peer.url, retry=QUICK) as client,
    ):
        reading = client.stream("label it")
        kinds = [type(event) async for event in reading]
    assert kinds == [Task, ArtifactUpdate, ArtifactUpdate, StatusUpdate]
    assert (reading.reply.text, reading.reply.state) == (
        "FRAGILE THIS SIDE UP",
        TaskState.COMPLETED,
    )


async def test_0_1_stream_goes_on_after_a_cut():
    """Without cursors: look at the task, listen again, and compare in the end; each chunk once."""
    parts = [{"type": "text", "text": text} for text in "abcd"]

    def artifact(*texts, append=True):
        return {
            "index": 0,
            "append": append,
            "parts": [{"type": "text", "text": text} for text in texts],
        }

    def begin(request):
        task_id = request.json["params"]["id"]
        first = {"id": task_id, "status": {"state": "working"}, "final": False}
        return sse(
            *[
                {"jsonrpc": "2.0", "id": 1, "result": r}
                for r in (first, {"id": task_id, "artifact": artifact("a", append=False)})
            ],
            end=False,
        )

    looks = iter([("working", 2), ("completed", 4)])

    def get(request):
        state, count = next(looks)
        return {
            "id": request.json["params"]["id"],
            "status": {"state": state},
            "artifacts": [{"index": 0, "parts": parts[:count]}],
        }

    def again(request):
        task_id = request.json["params"]["id"]
        return frames(
            request,
            {"id": task_id, "artifact": artifact("c")},
            {"id": task_id, "artifact": artifact("d")},
            {"id": task_id, "status": {"state": "completed"}, "final": True},
        )

    answers = {"tasks/sendSubscribe": begin, "tasks/get": get, "tasks/resubscribe": again}
    async with scripted(agent("0.1", answers)) as peer, connect(peer.url, retry=QUICK) as client:
        stream = client.stream("go")
        chunks = [
            event.artifact.text async for event in stream if isinstance(event, ArtifactUpdate)
        ]
    assert chunks == ["a", "b", "c", "d"]
    assert stream.reply.text == "abcd"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (-32001, TaskNotFound),
        (-32002, TaskNotCancelable),
        (-32004, UnsupportedOperation),
        (-32006, UnsupportedOperation),
        (-32007, Unauthenticated),
        (-32008, PermissionDenied),
        (-32009, UnsupportedOperation),
        (-32010, TooManyRequests),
        (-32602, InvalidParams),
    ],
)
async def test_0_1_numbers_mean_other_things(code, error):
    """The codes were reused: -32006 to -32009 of a 0.1 agent are not those of 1.0."""
    refuse = {"error": {"code": code, "message": "no", "data": None}}
    async with (
        scripted(agent("0.1", {"tasks/get": refuse})) as peer,
        connect(peer.url, retry=Retry(attempts=1)) as client,
    ):
        with pytest.raises(error):
            await client.get("t")


async def test_0_1_has_no_lists_and_one_webhook():
    """What 0.1 has no word for is refused before anything is sent."""
    config = {
        "id": "t",
        "pushNotificationConfig": {
            "url": "https://hooks.example.net/",
            "token": "n",
            "authentication": {"schemes": ["Bearer"]},
        },
    }
    async with (
        scripted(agent("0.1", {"tasks/pushNotification/set": config})) as peer,
        connect(peer.url) as client,
    ):
        made = await client.create_push_config(
            "t", "https://hooks.example.net/", token="n", scheme="Bearer"
        )
        sent = said(peer)["params"]
        count = len(peer.requests)
        for refused in (client.page(), client.list_push_configs("t"), client.extended_card()):
            with pytest.raises(UnsupportedOperation):
                await refused
        assert len(peer.requests) == count
    assert sent == config
    assert (made.task_id, made.url, made.authentication.scheme) == (
        "t",
        "https://hooks.example.net/",
        "Bearer",
    )


@pytest.mark.parametrize("version", ["0.2", "0.3"])
async def test_0_2_and_0_3_send(version):
    """`kind` on everything, states and roles as words, blocking said out loud."""
    done = {
        "kind": "task",
        "id": "7c1e",
        "contextId": "ctx-31",
        "status": {"state": "completed", "timestamp": "2025-06-10T12:00:03.000Z"},
        "artifacts": [
            {
                "artifactId": "a-1",
                "name": "translation",
                "parts": [{"kind": "text", "text": "satama"}],
            }
        ],
        "history": [
            {
                "kind": "message",
                "messageId": "m-100",
                "role": "user",
                "parts": [{"kind": "text", "text": "harbour"}],
            }
        ],
    }
    async with (
        scripted(agent(version, {"message/send": done})) as peer,
        connect(peer.url) as client,
    ):
        reply = await client.send(
            ["harbour", Part(data={"to": "fi"})], output_modes=["text/plain"], history_length=1
        )
        params = said(peer)["params"]
        assert client.version == version
    assert params["message"]["kind"] == "message"
    assert [part["kind"] for part in params["message"]["parts"]] == ["text", "data"]
    assert params["configuration"] == {
        "acceptedOutputModes": ["text/plain"],
        "blocking": True,
        "historyLength": 1,
    }
    assert (reply.text, reply.task.history[0].text, reply.context_id) == (
        "satama",
        "harbour",
        "ctx-31",
    )


@pytest.mark.parametrize("shape", ["message", "task without kind", "message without kind"])
async def test_0_2_answers_told_apart(shape):
    """A bare message, and answers that forgot their `kind`."""
    message = {
        "messageId": "m",
        "role": "agent",
        "contextId": "c",
        "parts": [{"kind": "text", "text": "satama"}],
    }
    results = {
        "message": message | {"kind": "message"},
        "message without kind": message,
        "task without kind": {
            "id": "t",
            "contextId": "c",
            "status": {"state": "completed", "message": message},
        },
    }
    async with (
        scripted(agent("0.2", {"message/send": results[shape]})) as peer,
        connect(peer.url) as client,
    ):
        reply = await client.send("harbour")
    assert reply.text == "satama"
    assert (reply.task is None) == shape.startswith("message")


@pytest.mark.parametrize(
    "place", ["/docks/agent/authenticatedExtendedCard", "/agent/authenticatedExtendedCard"]
)
async def test_0_2_extended_card(place):
    """In 0.2 a plain GET, beside the RPC address or at the root of the host."""

    def handler(request):
        url = f"http://{request.headers['host']}"
        if request.path == "/.well-known/agent.json":
            return answer(card_of("0.2", url + "/docks/rpc"))
        return (
            answer(card_of("0.2", url) | {"name": "Dock clerk, for those it knows"})
            if request.path == place
            else answer("", 404)
        )

    async with scripted(handler) as peer, connect(peer.url) as client:
        assert (await client.extended_card()).name == "Dock clerk, for those it knows"


async def test_0_3_stream_that_pauses():
    """`final: true` on input-required ends the stream; the answer goes on with the task."""

    def stream(request):
        question = {
            "kind": "message",
            "messageId": "m-10",
            "role": "agent",
            "parts": [{"kind": "text", "text": "Which chapter?"}],
        }
        return frames(
            request,
            {"kind": "task", "id": "5d21", "contextId": "ctx-8", "status": {"state": "working"}},
            {
                "kind": "status-update",
                "taskId": "5d21",
                "contextId": "ctx-8",
                "final": True,
                "status": {"state": "input-required", "message": question},
            },
        )

    async with (
        scripted(agent("0.3", {"message/stream": stream})) as peer,
        connect(peer.url) as client,
    ):
        reading = client.stream("Summarise this.")
        kinds = [type(event) async for event in reading]
    assert (kinds, reading.reply.question) == ([Task, StatusUpdate], "Which chapter?")
    assert peer.requests[-1].headers["a2a-version"] == "0.3"


async def test_0_3_webhooks():
    """List is a bare array, delete answers with nothing at all."""
    config = {
        "taskId": "5d20",
        "pushNotificationConfig": {
            "id": "h1",
            "url": "https://hooks.example.net/a2a",
            "token": "n-1",
        },
    }
    answers = {
        "tasks/pushNotificationConfig/set": config,
        "tasks/pushNotificationConfig/get": config,
        "tasks/pushNotificationConfig/list": [config],
        "tasks/pushNotificationConfig/delete": lambda request: answer(
            {"jsonrpc": "2.0", "id": request.json["id"]}
        ),
    }
    async with scripted(agent("0.3", answers)) as peer, connect(peer.url) as client:
        made = await client.create_push_config(
            "5d20", "https://hooks.example.net/a2a", id="h1", token="n-1"
        )
        found = await client.get_push_config("5d20", "h1")
        asked = said(peer)["params"]
        listed = await client.list_push_configs("5d20")
        await client.delete_push_config("5d20", "h1")
    assert (made, listed) == (found, [found])
    assert asked == {"id": "5d20", "pushNotificationConfigId": "h1"}


REST_TASK = {
    "id": "91aa",
    "contextId": "ctx-2",
    "status": {"state": "TASK_STATE_COMPLETED"},
    "artifacts": [
        {
            "artifactId": "a-1",
            "parts": [
                {"file": {"fileWithBytes": "aGVsbG8=", "mimeType": "text/plain", "name": "a.txt"}}
            ],
        }
    ],
    "history": [{"messageId": "m-20", "role": "ROLE_USER", "content": [{"text": "Crop."}]}],
}


async def test_0_3_rest_send():
    """`/v1`, `content`, doubly nested data, and bytes by the letter of the proto as nothing says
    otherwise.
    """
    async with (
        scripted(agent("0.3 rest", {"POST /v1/message:send": {"task": REST_TASK}})) as peer,
        connect(peer.url) as client,
    ):
        reply = await client.send(
            ["Crop.", Part(data={"w": 64}), File(b"hello", name="a.txt", media_type="text/plain")]
        )
        body = said(peer)
    assert body["message"]["content"] == [
        {"text": "Crop."},
        {"data": {"data": {"w": 64}}},
        {"file": {"fileWithBytes": "aGVsbG8=", "mimeType": "text/plain", "name": "a.txt"}},
    ]
    assert body["configuration"]["blocking"] is True
    assert (reply.files[0].text, reply.task.history[0].text) == ("hello", "Crop.")


async def test_0_3_rest_stream_over_many_lines():
    """The 0.3 library pretty-prints: one event over many `data:` lines; canceled has two l (legacy
    12.3, 12.4).
    """
    begun = b'"task": {"id": "91ab", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}'
    pretty = b"data: {\r\ndata:   %b\r\ndata: }\r\n\r\n" % begun
    last = b'data: {"statusUpdate":{"taskId":"91ab","contextId":"c","status":{"state":"TASK_STATE_CANCELLED"},"final":true}}\r\n\r\n'  # noqa: E501
    async with (
        scripted(agent("0.3 rest", {"POST /v1/message:stream": sse(raw=pretty + last)})) as peer,
        connect(peer.url) as client,
    ):
        stream = client.stream("go")
        kinds = [type(event) async for event in stream]
    assert (kinds, stream.reply.state) == ([Task, StatusUpdate], TaskState.CANCELED)


async def test_0_3_rest_subscribes_the_way_the_agent_does():
    """POST is refused with 405: GET is tried, and remembered."""
    asked = itertools.cycle(
        [REST_TASK | {"status": {"state": "TASK_STATE_WORKING"}}, REST_TASK]
    )  # before and behind the stream
    answers = {
        "GET /v1/tasks/91aa": lambda request: next(asked),
        "POST /v1/tasks/91aa:subscribe": answer({"detail": "Method Not Allowed"}, 405),
        "GET /v1/tasks/91aa:subscribe": sse({"task": REST_TASK}),
    }
    async with scripted(agent("0.3 rest", answers)) as peer, connect(peer.url) as client:
        for _ in range(2):
            assert [type(event) async for event in client.subscribe("91aa")] == [Task, StatusUpdate]
    assert [r.verb for r in peer.requests if "subscribe" in r.path] == ["POST", "GET", "GET"]


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, {"message": "Task not found"}, TaskNotFound),
        (404, {"code": -32001, "message": "Task not found", "data": None}, TaskNotFound),
        (
            404,
            {
                "error": {
                    "code": 404,
                    "status": "NOT_FOUND",
                    "message": "x",
                    "details": [{"reason": "TASK_NOT_FOUND"}],
                }
            },
            TaskNotFound,
        ),
        (404, {"error": "TaskNotFoundError", "message": "Task not found"}, TaskNotFound),
        (404, {"type": "TaskNotFoundError", "message": "Task not found"}, TaskNotFound),
        (409, {"message": "over"}, TaskNotCancelable),
        (422, {"message": "bad"}, InvalidParams),
        (
            501,
            {"type": "PushNotificationNotSupportedError", "message": "no"},
            PushNotificationNotSupported,
        ),
        (501, {"message": "no"}, UnsupportedOperation),
    ],
)
async def test_0_3_rest_errors_of_every_library(status, body, error):
    """Errors were never standardised on this binding; five shapes are read."""
    answers = {"GET /v1/tasks/t": answer(body, status)}
    async with (
        scripted(agent("0.3 rest", answers)) as peer,
        connect(peer.url, retry=Retry(attempts=1)) as client,
    ):
        with pytest.raises(error):
            await client.get("t")
