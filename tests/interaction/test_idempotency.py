"""Safe to send again, when asked (IDM-2; design, rule 17)."""

import asyncio
import json

import pytest

from accord import Agent, Ask, Context, Reply
from accord.server.request import HttpRequest, ServerUrl, Target
from accord.store import FOREVER_MS
from accord.store.memory import MemoryStore
from tests.drive import kinds, refusal_of, say, state_of, text_of

KEY = {"Idempotency-Key": "k-1"}
BY_MESSAGE = {"A2A-Extensions": "urn:accord:idempotent:1"}


@pytest.fixture
def calls():
    """How often the agent was really asked."""
    return []


@pytest.fixture
def count(calls):
    async def count(request: str):
        calls.append(request)
        return f"call {len(calls)}"

    return count


async def test_without_asking_every_send_is_new(connect, count):
    """Real clients reuse message ids."""
    async with connect(count) as client:
        sent = say(messageId="m")
        one, two = [(await client.send(sent))["task"] for _ in range(2)]
        assert one["id"] != two["id"]


@pytest.mark.parametrize("headers", [KEY, BY_MESSAGE], ids=["key", "message id"])
async def test_the_same_message_again_gives_the_same_task(connect, store, count, calls, headers):
    """By a key of the caller, or by messageId with our extension (IDM-2)."""
    async with connect(count, store=store) as client:
        sent = say("hi", messageId="m")
        answers = [await client.send(sent, headers=headers) for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
        assert calls == ["hi"]


async def test_another_key_is_another_task(connect, count):
    """And so is no key (IDM-2)."""
    async with connect(count) as client:
        sent = say()
        headers = [KEY, {"Idempotency-Key": "k-2"}, None]
        ids = {(await client.send(sent, headers=h))["task"]["id"] for h in headers}
        assert len(ids) == 3


async def test_another_message_under_the_same_key_is_refused(connect, count, calls):
    """INVALID_PARAMS' code with a reason of its own (design, rule 17)."""
    async with connect(count) as client:
        await client.send("one", headers=KEY)
        refused = await refusal_of(client.send("two", headers=KEY))
        assert refused.reason == "IDEMPOTENCY_KEY_REUSED"
        assert refused.code in (-32602, 400, 3)  # as each binding numbers INVALID_PARAMS
        assert calls == ["one"]


async def test_two_sends_at_once_are_one_task(connect, store):
    """During the run too; both are answered by its end (IDM-2)."""
    entered, gate = asyncio.Event(), asyncio.Event()

    async def slow(request: str):
        entered.set()
        await gate.wait()
        return "done"

    async with connect(slow, store=store) as client:
        sent = say()
        both = [asyncio.create_task(client.send(sent, headers=KEY)) for _ in range(2)]
        await entered.wait()
        gate.set()
        one, two = await asyncio.gather(*both)
        assert one == two
        assert text_of(one["task"]) == "done"
        assert (await client.list())["totalSize"] == 1


async def test_a_key_outlives_its_server(connect, lasting, count, calls):
    """After the answer, after a restart (design, rule 17)."""
    sent = say()
    async with connect(count, store=lasting) as client:
        first = await client.send(sent, headers=KEY)
    async with connect(count, store=lasting) as client:
        assert await client.send(sent, headers=KEY) == first
        assert len(calls) == 1


async def test_a_reply_is_given_again_too(connect, store, calls):
    """The same message, not a new one (design, rule 17)."""

    async def greet(request: str) -> Reply:
        calls.append(request)
        return Reply(f"call {len(calls)}")

    async with connect(greet, store=store) as client:
        sent = say()
        assert await client.send(sent, headers=KEY) == await client.send(sent, headers=KEY)
        assert len(calls) == 1


async def test_a_reply_whose_first_sender_hung_up_is_made_once(connect, store, calls):
    """The repeat gets what the first would have got (design, rule 17)."""
    entered, gate = asyncio.Event(), asyncio.Event()

    async def greet(request: str) -> Reply:
        calls.append(request)
        entered.set()
        await gate.wait()
        return Reply(f"call {len(calls)}")

    async with connect(greet, store=store) as client:
        sent = say("hi")
        first = asyncio.create_task(client.send(sent, headers=KEY))
        await entered.wait()
        first.cancel()
        await asyncio.wait({first})
        await client.list()  # by now the server has noticed
        gate.set()
        assert text_of((await client.send(sent, headers=KEY))["message"]) == "call 1"
        assert calls == ["hi"]


class SlowStore(MemoryStore):
    """Keeps whoever asks for a key waiting."""

    def __init__(self):
        super().__init__()
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def idempotency(self, namespace, key, kept_ms=FOREVER_MS):
        self.asked.set()
        await self.gate.wait()
        return await super().idempotency(namespace, key, kept_ms)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_a_repeat_whose_sender_hung_up_leaves_nothing_behind(method):
    """The task it would have shown was brought back for nobody, and is let go."""
    store = SlowStore()
    agent = Agent("Inn")

    @agent.skill
    async def book(request: str):
        return Ask("Which day?")  # nothing of it runs until that is answered

    app = agent.app(store=store)
    sent = say("a table")
    store.gate.set()
    assert b"Which day?" in (await app.answer(keyed("SendMessage", sent))).body
    store.gate.clear()
    store.asked.clear()
    repeat = asyncio.ensure_future(app.answer(keyed(method, sent)))
    await store.asked.wait()
    repeat.cancel()
    await asyncio.wait({repeat})
    store.gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert app._engine.tasks.directory.live() == []
    await app.close()


def keyed(method, params):
    """A request that needs no server."""
    headers = {b"content-type": b"application/json", b"idempotency-key": b"k-1"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return HttpRequest(
        Target("POST", "/", "/"),
        headers,
        list(headers.items()),
        lambda: ServerUrl("http", ("localhost", 80)),
        body,
    )


async def test_an_answer_sent_again_is_taken_once(connect, store):
    """A follow-up under a key joins its task once (IDM-2)."""

    async def book(request: str, ctx: Context):
        day = await ctx.ask("Which day?")
        return f"{day}, {await ctx.ask('Which hour?')}"

    async with connect(book, store=store) as client:
        asked = (await client.send("a table"))["task"]
        answer = say("Monday", taskId=asked["id"])
        for _ in range(2):
            task = (await client.send(answer, headers=KEY))["task"]
            assert text_of(task["status"]["message"]) == "Which hour?"
        assert (
            text_of((await client.send(say("nine", taskId=asked["id"])))["task"]) == "Monday, nine"
        )


async def test_an_answer_under_a_key_streams_all_that_follows_it(connect, store):
    """From where the task stood when the answer was taken (IDM-2)."""

    async def book(request: str, ctx: Context):
        yield await ctx.ask("Which day?")
        yield "at nine"

    async with connect(book, store=store) as client:
        asked = (await client.send("a table"))["task"]
        stream = await client.stream(say("Monday", taskId=asked["id"]), headers=KEY)
        assert kinds(await stream.rest()) == ["task working", "chunk", "chunk", "completed"]


async def test_a_stream_asked_for_again_shows_the_same_task(connect, store, count, calls):
    """The snapshot of what is, then what follows (IDM-2)."""
    async with connect(count, store=store) as client:
        sent = say()
        first = await (await client.stream(sent, headers=KEY)).rest()
        again = await (await client.stream(sent, headers=KEY)).rest()
        assert kinds(again) == ["task completed"]
        assert again[0]["task"]["id"] == first[0]["task"]["id"]
        assert len(calls) == 1


async def test_tenants_do_not_share_keys(connect, count):
    """A key is one caller's, in one tenant (design, rule 17)."""
    async with connect(count) as client:
        sent = [say(tenant=tenant, messageId="m") for tenant in ("a", "b")]
        one, two = [(await client.send(s, headers=KEY))["task"] for s in sent]
        assert one["id"] != two["id"]


async def test_a_refused_message_does_not_use_up_its_key(connect, count):
    """Nothing was done, so nothing is remembered (IDM-2)."""
    async with connect(count) as client:
        assert (
            await refusal_of(client.send(say([{"data": 1}]), headers=KEY))
        ).reason == "CONTENT_TYPE_NOT_SUPPORTED"
        assert state_of((await client.send("hi", headers=KEY))["task"]) == "completed"


async def test_a_key_too_long_is_refused(connect, count):
    """Before anything is done (OPS-2)."""
    async with connect(count) as client:
        assert (
            await refusal_of(client.send("hi", headers={"Idempotency-Key": "k" * 300}))
        ).reason == "INVALID_PARAMS"
