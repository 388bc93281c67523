"""Calls are repeated where that is safe, patiently, and not for ever."""

import asyncio

import pytest

from accord.client import BadAnswer, ConnectionLost, Retry, TooSlow, Unreachable, connect
from accord.client.retry import may_repeat
from accord.model import InvalidParams, TaskNotFound, TaskState, TooManyRequests, Unavailable
from accord.testing import Ask, Delay, Disconnect, FakeAgent, Status
from tests.client.peers import answer, card, scripted, task

QUICK = Retry(first_s=0.001, most_s=0.01)


@pytest.mark.parametrize(
    ("error", "always", "if_safe"),
    [
        (Unreachable("x", "no connection"), True, True),
        (TooManyRequests(), True, True),
        (ConnectionLost("x", "cut"), False, True),
        (TooSlow("x", "late"), False, True),
        (Unavailable(), False, True),
        (TaskNotFound(), False, False),
        (InvalidParams(), False, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_what_may_be_repeated(error, always, if_safe):
    """Nothing was sent, or it was refused before it began: always. It may have been done: only
    where that does no harm.
    """
    assert (may_repeat(error, is_safe=False), may_repeat(error, is_safe=True)) == (always, if_safe)


def test_pauses_grow_with_jitter_and_honour_the_agent():
    """Each pause is a random part of a limit that doubles; Retry-After is a lower bound."""
    calm, eager = (
        Retry(first_s=0.1, most_s=1.0, chance=lambda: 1.0),
        Retry(first_s=0.1, most_s=1.0, chance=lambda: 0.0),
    )
    assert [round(calm.pause_s(n), 3) for n in range(1, 7)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert eager.pause_s(3) == 0.0
    assert eager.pause_s(1, TooManyRequests(retry_after_s=7)) == 7


async def test_a_send_is_done_once_however_often_it_is_sent():
    """Our extension makes the message id a key: every lost answer is asked for again, the work is
    done once (design, rule 17).
    """
    async with FakeAgent("done") as fake, connect(fake.url, retry=QUICK) as client:
        fake.fail(Disconnect(), Disconnect(), Status(503), Status(429))
        reply = await client.send("go")
    assert (reply.text, len(fake.messages), len(fake.requests)) == ("done", 1, 5)
    assert {request.headers["a2a-extensions"] for request in fake.requests} == {
        "urn:accord:idempotent:1, urn:accord:resume:1"
    }


async def test_a_key_of_ones_own_makes_any_agent_safe():
    """Who gives an idempotency key says that the agent knows them."""
    async with FakeAgent("done") as fake:
        async with connect(fake.url) as looking:
            plain = looking.card
        plain.capabilities.extensions = []
        async with connect(plain, retry=QUICK) as client:
            fake.fail(Disconnect())
            reply = await client.send("go", key="order-7")
    assert (reply.text, len(fake.messages)) == ("done", 1)
    assert [request.headers["idempotency-key"] for request in fake.requests] == [
        "order-7",
        "order-7",
    ]


async def test_reads_are_repeated_with_any_agent():
    """Asking twice changes nothing."""
    async with FakeAgent("done") as fake:
        async with connect(fake.url) as looking:
            plain = looking.card
        plain.capabilities.extensions = []
        async with connect(plain, retry=QUICK) as client:
            task_id = (await client.send("go")).task_id
            fake.fail(Disconnect(), Status(503))
            assert (await client.get(task_id)).id == task_id


async def test_a_cancel_whose_answer_was_lost_is_still_a_cancel():
    """The second attempt may find the task canceled by the first: that is success, not an error."""
    calls = []

    def handler(request):
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        calls.append(request.json["method"])
        if calls == ["CancelTask"]:
            return b""
        if request.json["method"] == "CancelTask":
            return answer(
                {
                    "jsonrpc": "2.0",
                    "id": request.json["id"],
                    "error": {"code": -32002, "message": "over"},
                }
            )
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": task("CANCELED", "")})

    async with scripted(handler) as peer, connect(peer.url, retry=QUICK) as client:
        assert (await client.cancel("t-1")).status.state is TaskState.CANCELED
    assert calls == ["CancelTask", "CancelTask", "GetTask"]


async def test_the_deadline_holds_over_all_attempts():
    """A total deadline: repeating ends when the time is up, not after the last attempt."""
    async with (
        FakeAgent("done") as fake,
        connect(fake.url, retry=Retry(attempts=1000, first_s=0.02, most_s=0.02)) as client,
    ):
        fake.fail(*[Status(503)] * 1000)
        with pytest.raises((Unavailable, TooSlow), match="503"):
            await asyncio.wait_for(client.send("go", timeout_s=0.2), 10)
    assert 1 < len(fake.requests) < 1000


async def test_retry_after_beyond_the_deadline_is_not_waited_for():
    """An agent that asks for an hour gets no hour of ours."""
    async with FakeAgent("done") as fake, connect(fake.url) as client:
        fake.fail(Status(429, retry_after_s=3600))
        with pytest.raises(TooManyRequests) as caught:
            await asyncio.wait_for(client.send("go", timeout_s=5), 10)
    assert caught.value.retry_after_s == 3600


async def test_a_slow_send_ends_in_time():
    """The deadline is the caller's, and the fault says which agent was too slow."""
    async with FakeAgent("done") as fake, connect(fake.url, retry=Retry(attempts=1)) as client:
        fake.fail(Delay(5))
        with pytest.raises(TooSlow, match="Fake agent"):
            await client.send("go", timeout_s=0.05)


async def test_an_agent_that_returns_early_is_polled():
    """Some agents answer a blocking send while still at work: `send` asks until the task has
    settled.
    """
    states = iter(["WORKING", "WORKING", "COMPLETED"])

    def handler(request):
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        found = task(next(states))
        result = {"task": found} if request.json["method"] == "SendMessage" else found
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": result})

    async with scripted(handler) as peer, connect(peer.url, retry=QUICK) as client:
        reply = await client.send("go")
    assert reply.state is TaskState.COMPLETED
    assert [request.json["method"] for request in peer.requests if request.body] == [
        "SendMessage",
        "GetTask",
        "GetTask",
    ]


async def test_nothing_is_repeated_when_told_so():
    """`Retry(attempts=1)` is one attempt, and activates nothing."""
    async with FakeAgent(Ask("?")) as fake, connect(fake.url, retry=Retry(attempts=1)) as client:
        fake.fail(Status(429))
        with pytest.raises(TooManyRequests):
            await client.send("go")
    assert [("a2a-extensions" in request.headers) for request in fake.requests] == [False]


async def test_the_next_interface_is_used_when_one_does_not_connect():
    """The card's order is a preference: what can't be reached is passed over, and noted."""
    async with FakeAgent("done") as fake:
        async with connect(fake.url) as looking:
            moved = looking.card
        moved.supported_interfaces[0].url = "http://127.0.0.1:9/"
        async with connect(moved, retry=Retry(attempts=1)) as client:
            assert (await client.send("go")).text == "done"
            assert client.binding == "HTTP+JSON"
            assert "127.0.0.1:9" in client.notes[0]


async def test_retry_after_may_be_a_date():
    """Both forms of the header are read (RFC 9110)."""
    past = "Wed, 21 Oct 2015 07:28:00 GMT"
    responses = iter([answer("", 503, retry_after=past), answer("", 503, retry_after="soon")])

    def handler(request):
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        return next(responses, None) or answer(
            {"jsonrpc": "2.0", "id": request.json["id"], "result": task()}
        )

    async with scripted(handler) as peer, connect(peer.url, retry=QUICK) as client:
        assert (await client.get("t-1")).id == "t-1"


async def test_a_required_extension_is_noted():
    """An agent that will refuse us says so in its card; we say it first."""
    needed = {
        "streaming": True,
        "extensions": [{"uri": "https://example.net/ext/tone", "required": True}],
    }

    def handler(request):
        return answer(card(f"http://{request.headers['host']}/", capabilities=needed))

    tone = ["https://example.net/ext/tone"]
    async with (
        scripted(handler) as peer,
        connect(peer.url) as plain,
        connect(peer.url, extensions=tone) as active,
    ):
        assert [len(plain.notes), len(active.notes)] == [1, 0]


async def test_a_missing_slash_is_found():
    """Mounted apps answer with 307 to the same address with a slash; it is followed on the same
    origin, and remembered.
    """

    def handler(request):
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/a2a"))
        if request.path == "/a2a":
            return answer("", 307, location="/a2a/")
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})

    async with scripted(handler) as peer, connect(peer.url) as client:
        assert [(await client.send("go")).text for _ in range(2)] == ["17 crates", "17 crates"]
    assert [request.path for request in peer.requests if request.body] == ["/a2a", "/a2a/", "/a2a/"]


async def test_a_garbled_answer_is_no_reason_to_send_again():
    """An agent of unknown version that did the work and answered badly is not asked in another
    version.
    """
    sent = []

    def handler(request):
        if request.verb == "GET":
            plain = card(f"http://{request.headers['host']}/", supportedInterfaces=None)
            return answer(plain | {"url": f"http://{request.headers['host']}/"})
        sent.append(request.json["method"])
        return answer("<html>")

    async with scripted(handler) as peer, connect(peer.url, retry=QUICK) as client:
        with pytest.raises(BadAnswer):
            await client.send("go")
    assert sent == ["message/send"]


async def test_a_key_outlives_the_process():
    """The same call with the same key is the same message to the last byte, so that an agent
    recognises it (design, rule 17).
    """
    async with FakeAgent("done") as fake:
        async with connect(fake.url) as client:
            first = await client.send("go", key="order-7")
        async with connect(fake.url) as client:
            second = await client.send("go", key="order-7")
            other = await client.send("go", key="order-8")
    assert (first.task_id == second.task_id, other.task_id == first.task_id) == (True, False)
    assert len(fake.messages) == 2


async def test_many_calls_at_once_fall_back_together():
    """Calls that fail at the same time turn to the next interface once, not each past the one
    before.
    """
    async with FakeAgent("done") as fake:
        async with connect(fake.url) as looking:
            moved = looking.card
        moved.supported_interfaces[0].url = "http://127.0.0.1:9/"
        async with connect(moved, retry=Retry(attempts=1)) as client:
            replies = await asyncio.gather(*[client.send(str(i)) for i in range(20)])
            assert (client.binding, client.version, len(client.notes)) == ("HTTP+JSON", "1.0", 1)
    assert {reply.text for reply in replies} == {"done"}
