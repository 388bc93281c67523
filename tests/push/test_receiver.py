"""Who receives notifications takes what is proved, once, and nothing else."""

import base64
import hashlib
import json
import secrets
import time
from typing import Any

import aiohttp
import pytest

from accord import Agent, Context, connect
from accord.auth import Keyring
from accord.model import AuthenticationInfo, TaskPushNotificationConfig, TaskState
from accord.push import Notified, Receiver, Refusal
from accord.push.delivery import Deliverer, Notification
from accord.push.webhooks import Webhook
from tests.drive import serving_asgi

AGENT = "https://agent.example"
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
BODY = {
    "statusUpdate": {
        "taskId": "t-1",
        "contextId": "c-1",
        "status": {"state": "TASK_STATE_COMPLETED"},
    }
}
KEYRING = Keyring.in_memory()
HOOK = "https://me.example/hook"


class Sender:
    """Signs as the server does, and may be told to do it wrong."""

    def __init__(self, keyring: Keyring = KEYRING, issuer: str = AGENT) -> None:
        self._deliverer = Deliverer(lambda: None, lambda: keyring, lambda: issuer, timeout_s=1)  # type: ignore[arg-type,return-value]

    def call(
        self,
        *,
        body: Any = BODY,
        at: float | None = None,
        scheme: str = "",
        credentials: str = "",
        number: int = 3,
        task_id: str = "t-1",
    ) -> tuple[dict[str, str], bytes]:
        data = json.dumps(body).encode()
        hook = Webhook(f"{HOOK}?key=of-ours", "tok", scheme, credentials)
        what = Notification(task_id, "c", number, data, "application/a2a+json", "1.0")
        headers = self._deliverer.headers(hook, what, int(at or time.time()))
        return {name.lower(): value for name, value in headers.items()}, data

    def by_secret(self, **more: Any) -> tuple[dict[str, str], bytes]:
        return self.call(scheme="standard-webhooks", credentials=SECRET, **more)


def by_key(**more: Any) -> Receiver:
    return Receiver(**({"agent": AGENT, "jwks": KEYRING.jwks(), "token": "tok"} | more))


def by_secret(**more: Any) -> Receiver:
    return Receiver(**({"secret": SECRET, "token": "tok"} | more))


async def test_what_is_signed_is_taken():
    """By key, in either header, and by secret."""
    for receiver, (headers, body) in (
        (by_key(), Sender().call()),
        (by_key(), Sender().call(scheme="Bearer")),
        (by_key(url=f"{HOOK}?key=another"), Sender().call()),
        (by_secret(), Sender().by_secret()),
        (Receiver(secret=f"{_other_secret()} {SECRET}"), Sender().by_secret()),
        (Receiver(token="tok"), Sender().call()),
        (Receiver(credentials="c3cret"), Sender().call(scheme="Basic", credentials="c3cret")),
        (by_key(credentials="c3cret"), Sender().call(scheme="Bearer", credentials="c3cret")),
    ):
        notified = await receiver.receive(headers, body)
        assert notified is not None
        assert (notified.task_id, notified.number, notified.state) == (
            "t-1",
            3,
            TaskState.COMPLETED,
        )


def _other_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()


def _signed(claims: dict[str, Any], **header: Any) -> dict[str, str]:
    return {"x-a2a-notification-token": "tok", "x-a2a-signature": KEYRING.sign(claims)} | header


def _none(token: str) -> str:
    """The same claims, signed by nobody."""
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{header}.{token.split('.')[1]}."


def _altered(headers: dict[str, str], body: bytes, **changes: str) -> tuple[dict[str, str], bytes]:
    return headers | {name.replace("_", "-"): value for name, value in changes.items()}, body


REFUSED: dict[str, Any] = {
    "no token": lambda: (by_key(), _without(Sender().call(), "x-a2a-notification-token")),
    "another token": lambda: (by_key(token="other"), Sender().call()),
    "no credentials": lambda: (Receiver(credentials="c3cret"), Sender().call()),
    "other credentials": lambda: (
        by_key(credentials="c3cret"),
        Sender().call(scheme="Bearer", credentials="other"),
    ),
    "no signature": lambda: (by_key(), _without(Sender().call(), "x-a2a-signature")),
    "another key": lambda: (by_key(), Sender(Keyring.in_memory()).call()),
    "signed by nobody": lambda: (by_key(), _unsigned(Sender().call())),
    "an altered body": lambda: (by_key(), _with_body(Sender().call(), b'{"x":1}')),
    "another agent": lambda: (by_key(), Sender(issuer="https://evil.example").call()),
    "another port": lambda: (
        Receiver(agent="http://localhost:8001", jwks=KEYRING.jwks()),
        Sender(issuer="http://127.0.0.1:8002").call(),
    ),
    "another webhook": lambda: (by_key(url="https://you.example/hook"), Sender().call()),
    "another path": lambda: (by_key(url=f"{HOOK}/2"), Sender().call()),
    "for no webhook": lambda: (
        by_key(url=HOOK),
        (_signed(_claims()), json.dumps(BODY).encode()),
    ),
    "another task": lambda: (by_key(), Sender().call(task_id="t-2")),
    "six minutes old": lambda: (by_key(), Sender().call(at=time.time() - 360)),
    "from the future": lambda: (by_key(), Sender().call(at=time.time() + 120)),
    "without claims": lambda: (by_key(), (_signed({"iss": AGENT}), json.dumps(BODY).encode())),
    **{
        f"{name} is {value!r}": lambda name=name, value=value: (
            by_key(),
            (_signed(_claims() | {name: value}), json.dumps(BODY).encode()),
        )
        for name in ("iat", "exp")
        for value in ("nan", "inf", "1e400", 1e300, True, None, [], "")
    },
    "another delivery": lambda: (by_key(), _altered(*Sender().call(), webhook_id="t-1/9/c")),
    "HMAC: no signature": lambda: (by_secret(), Sender().call()),
    "HMAC: another secret": lambda: (by_secret(secret=_other_secret()), Sender().by_secret()),
    "HMAC: an altered body": lambda: (by_secret(), _with_body(Sender().by_secret(), b"{}")),
    "HMAC: an altered id": lambda: (
        by_secret(),
        _altered(*Sender().by_secret(), webhook_id="t-1/4/c"),
    ),
    "HMAC: an altered time": lambda: (
        by_secret(),
        _altered(*Sender().by_secret(), webhook_timestamp=str(int(time.time()) + 1)),
    ),
    "HMAC: six minutes old": lambda: (by_secret(), Sender().by_secret(at=time.time() - 360)),
    "HMAC: from the future": lambda: (by_secret(), Sender().by_secret(at=time.time() + 120)),
    "HMAC: another task": lambda: (by_secret(), Sender().by_secret(task_id="t-2")),
    "nobody waits for it": lambda: (by_key(tasks={"t-9"}), Sender().call()),
}


def _claims() -> dict[str, Any]:
    """All that is needed, except `aud`."""
    now, hashed = time.time(), hashlib.sha256(json.dumps(BODY).encode()).hexdigest()
    return {"iss": AGENT, "iat": now, "exp": now + 60, "jti": "1", "request_body_sha256": hashed}


def _without(call: tuple[dict[str, str], bytes], name: str) -> tuple[dict[str, str], bytes]:
    return {key: value for key, value in call[0].items() if key != name}, call[1]


def _with_body(call: tuple[dict[str, str], bytes], body: bytes) -> tuple[dict[str, str], bytes]:
    return call[0], body


def _unsigned(call: tuple[dict[str, str], bytes]) -> tuple[dict[str, str], bytes]:
    return call[0] | {"x-a2a-signature": _none(call[0]["x-a2a-signature"])}, call[1]


@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_not_proved_is_refused(what: str):
    """And never given to the function (PDL-7)."""
    told: list[Notified] = []
    receiver, (headers, body) = REFUSED[what]()
    receiver.handle = told.append
    with pytest.raises(Refusal) as caught:
        await receiver.receive(headers, body)
    assert caught.value.status in (401, 403)
    assert told == []


@pytest.mark.parametrize("how", ["key", "secret"])
async def test_a_replay_is_refused(how: str):
    """The very same bytes a second time, whoever sends them."""
    receiver = by_key() if how == "key" else by_secret()
    call = Sender().call() if how == "key" else Sender().by_secret()
    assert await receiver.receive(*call) is not None
    with pytest.raises(Refusal, match="already received"):
        await receiver.receive(*call)


@pytest.mark.parametrize("how", ["key", "secret"])
async def test_a_repeated_delivery_is_acknowledged_and_not_given_on(how: str):
    """The sender may not have had our answer: it signs again (PDL-8, PDL-6)."""
    told: list[Notified] = []
    receiver = by_key(handle=told.append) if how == "key" else by_secret(handle=told.append)
    now = time.time()
    for at in (now - 10, now):
        call = Sender().call(at=at) if how == "key" else Sender().by_secret(at=at)
        assert await receiver.answer("POST", "", *call) == (200, b"")
    assert len(told) == 1


async def test_a_function_that_fails_gets_it_again():
    told: list[Notified] = []

    async def handle(notified: Notified) -> None:
        told.append(notified)
        if len(told) == 1:
            raise RuntimeError("not now")

    receiver = by_key(handle=handle)
    assert (await receiver.answer("POST", "", *Sender().call()))[0] == 500
    assert (await receiver.answer("POST", "", *Sender().call()))[0] == 200
    assert len(told) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"task":5}',
        b'{"kind":"what"}',
        b'{"kind":[]}',
        b'{"kind":"task","id":"1","status":{"state":"working","timestamp":[1]}}',
        b'{"kind":"task","id":"1","status":{"state":"working"},"history":7}',
        b'{"id":"1","status":{"state":"working"},"artifacts":true}',
    ],
)
async def test_what_is_no_event_is_refused(body: bytes):
    receiver = Receiver(is_unverified=True)
    assert (await receiver.answer("POST", "", {}, body))[0] == 400


def test_a_receiver_verifies_something():
    with pytest.raises(ValueError, match="nothing would be verified"):
        Receiver()
    with pytest.raises(ValueError, match="give agent= or jwks="):
        Receiver(token="tok", url=HOOK)


async def test_the_claim_may_name_several_webhooks():
    """RFC 7519, section 4.1.3. A URL without a path is one with the path `/`."""
    receiver = by_key(url="https://me.example")
    claims = _claims() | {"aud": ["https://you.example/", "https://me.example/"]}
    assert await receiver.receive(_signed(claims), json.dumps(BODY).encode()) is not None


async def test_it_answers_a_challenge():
    receiver = Receiver(is_unverified=True)
    assert await receiver.answer("GET", "validationToken=a%20b", {}, b"") == (200, b"a b")
    assert (await receiver.answer("PUT", "", {}, b""))[0] == 405


@pytest.mark.parametrize(
    "body",
    [
        {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}},
        {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}},
        {"id": "t", "sessionId": "c", "status": {"state": "working"}},
        {
            "kind": "status-update",
            "taskId": "t",
            "contextId": "c",
            "status": {"state": "working"},
            "final": False,
        },
    ],
    ids=["1.0", "0.3", "0.1", "0.3 status"],
)
async def test_every_version_is_understood(body: dict[str, Any]):
    notified = await Receiver(is_unverified=True).receive({}, json.dumps(body).encode())
    assert notified is not None
    assert (notified.task_id, notified.state) == ("t", TaskState.WORKING)
    assert notified.task.context_id == "c"


async def _nothing() -> None:
    """Nothing is to be closed."""


def helper() -> Agent:
    agent = Agent("Helper")

    @agent.skill
    async def work(request: str, ctx: Context):
        if request == "ask":
            await ctx.ask("What?")
        yield "one "
        yield "two"

    return agent


async def test_this_machine_has_several_names():
    """An agent that is called as localhost signs as 127.0.0.1."""
    told: list[Notified] = []
    app = helper().app(allow_hosts=["127.0.0.1"], push=True)
    async with app.serving() as url:
        named = url.replace("127.0.0.1", "localhost")
        assert named != url
        receiver = Receiver(told.append, agent=named)
        async with serving_asgi(receiver, _nothing) as hook, connect(named) as client:
            receiver.url = hook
            await client.send("go", push=TaskPushNotificationConfig(url=hook))
    assert [one.state.word for one in told] == ["submitted", "working", "completed"]


@pytest.mark.parametrize("how", ["bare", "mounted", "routed"])
async def test_a_real_agent_is_heard(how: str):
    """Served as an ASGI app of its own, mounted in FastAPI, or as a route; the keys are fetched
    from the agent, and events are folded into the task.
    """
    import fastapi

    told: list[Notified] = []
    app = helper().app(allow_hosts=["127.0.0.1"], push=True)
    async with app.serving() as url:
        receiver = Receiver(told.append, agent=url, token="k", credentials="c3cret")
        host: Any = receiver
        if how != "bare":
            host = fastapi.FastAPI()
            if how == "mounted":
                host.mount("/hooks", receiver)
            else:
                host.add_route("/hooks", receiver, methods=["GET", "POST"])
        async with serving_asgi(host, _nothing) as hook, connect(url) as client:
            receiver.url = hook + {"bare": "", "mounted": "/hooks/", "routed": "/hooks"}[how]
            config = TaskPushNotificationConfig(
                url=receiver.url,
                token="k",
                authentication=AuthenticationInfo(scheme="Bearer", credentials="c3cret"),
            )
            reply = await client.send("go", push=config)
    assert [one.state.word for one in told] == ["submitted", "working", "completed"]
    assert {one.task_id for one in told} == {reply.task.id}
    assert [one.number for one in told] == [1, 2, 5]


async def test_artifacts_are_folded():
    """With artifact events, the receiver has the whole task."""
    told: list[Notified] = []
    keyring = Keyring.in_memory()
    receiver = Receiver(told.append, jwks=keyring.jwks())
    sender = Sender(keyring)
    ids = {"taskId": "t-1", "contextId": "c"}
    artifact = {"artifactId": "a", "parts": [{"text": "one "}]}
    more = {"artifactId": "a", "parts": [{"text": "two"}]}
    for number, body in enumerate(
        (
            {"task": {"id": "t-1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}},
            {"artifactUpdate": ids | {"artifact": artifact}},
            {"artifactUpdate": ids | {"artifact": more, "append": True}},
            {"statusUpdate": ids | {"status": {"state": "TASK_STATE_COMPLETED"}}},
        ),
        1,
    ):
        await receiver.receive(*sender.call(body=body, number=number))
    assert told[-1].state is TaskState.COMPLETED
    assert "".join(str(part.text) for part in told[-1].task.artifacts[0].parts) == "one two"


async def test_a_file_that_grows_is_one_file_with_its_name():
    """Also when it has become too large to be sent as bytes."""
    told: list[Notified] = []
    receiver = Receiver(told.append, is_unverified=True)
    ids = {"taskId": "t-1", "contextId": "c"}
    begun = {"raw": "AAAA", "filename": "a.bin", "mediaType": "video/mp4"}
    place = "https://agent.example/files/f"
    grown = {
        "url": f"{place}?range=3-9&key=k",
        "mediaType": "video/mp4",
        "metadata": {"urn:accord:files:1": {"offset": 3}},
    }
    for part, append in ((begun, False), (grown, True)):
        artifact = {"artifactId": "a", "parts": [part]}
        update = {"artifactUpdate": ids | {"artifact": artifact, "append": append}}
        assert (await receiver.answer("POST", "", {}, json.dumps(update).encode()))[0] == 200
    [file] = told[-1].task.artifacts[0].parts
    assert (file.filename, file.media_type, file.url) == ("a.bin", "video/mp4", f"{place}?key=k")


async def test_a_receiver_that_begins_in_the_middle_takes_what_goes_on():
    """It was started again, or registered late: an error would have it sent again for ever."""
    told: list[Notified] = []
    receiver = Receiver(told.append, is_unverified=True)
    ids = {"taskId": "t-1", "contextId": "c"}
    more = {"artifactId": "a", "parts": [{"text": "two"}]}
    for update in (
        {"artifactUpdate": ids | {"artifact": more, "append": True}},
        {"statusUpdate": ids | {"status": {"state": "TASK_STATE_COMPLETED"}}},
    ):
        assert (await receiver.answer("POST", "", {}, json.dumps(update).encode()))[0] == 200
    assert [one.task_id for one in told] == ["t-1", "t-1"]
    assert told[-1].state is TaskState.COMPLETED


async def test_a_challenge_at_registration():
    """A URL that does not repeat what it is told is refused; a receiver does."""
    from accord.model import InvalidParams
    from accord.push import PushSettings

    settings = PushSettings(challenge=True)
    app = helper().app(allow_hosts=["127.0.0.1"], push=settings)
    async with app.serving() as url, connect(url) as client:
        task = (await client.send("ask")).task
        with pytest.raises(InvalidParams, match="validationToken"):
            await client.create_push_config(task.id, url + "/.well-known/agent-card.json")
        with pytest.raises(InvalidParams, match="did not answer a challenge"):
            await client.create_push_config(task.id, "http://127.0.0.1:9/")
        receiver = Receiver(is_unverified=True)
        async with serving_asgi(receiver, _nothing) as hook:
            assert (await client.create_push_config(task.id, hook)).url == hook


async def test_large_bodies_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("accord.push.receiver.MAX_BODY", 100)
    receiver = Receiver(is_unverified=True)
    async with (
        serving_asgi(receiver, _nothing) as url,
        aiohttp.ClientSession() as http,
        http.post(url, data=b"x" * 200) as response,
    ):
        assert response.status == 413


def test_authentication_is_not_shown_in_a_traceback():
    """A hook that is printed by accident tells its secrets to the log; it is not printed."""
    hook = Webhook("https://me.example/?key=marker", "marker", "Basic", "marker")
    assert "marker" not in repr(hook)
    assert AuthenticationInfo(scheme="Basic").scheme == "Basic"
