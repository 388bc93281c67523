"""An agent whose server is restarted is waited for: calls are repeated and streams gone on with
until it is back.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from accord import Agent
from accord.client import BadCard, Client, Retry, Unreachable, connect
from accord.client.retry import Failures
from accord.model import TaskState, TooManyRequests, Unavailable
from accord.protocol import BindingName
from accord.testing import FakeAgent, Status
from tests.client.peers import PATIENCE_S, Gate, Later, answer, card, scripted, sse, task
from tests.drive import serving

LONG = 10  # pauses: more than a short break


def quick(later: Callable[[Any], None] | None = None, **options) -> Retry:
    return Retry(first_s=0.001, most_s=0.01, on_pause=later, **options)


# When to give up


def test_an_agent_is_waited_for_as_long_as_a_restart_takes():
    """Pauses grow and then stay; together they are the patience, and the last attempt is at its
    end.
    """
    failures, now, pauses = Failures(Retry(chance=lambda: 1.0)), 100.0, []
    while pause := failures.pause(Unreachable("x", "no connection"), now, None):
        pauses.append(pause.seconds)
        now += pause.seconds
    assert [round(seconds, 3) for seconds in pauses[:7]] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]
    assert sum(pauses) == pytest.approx(30.0)


def test_patience_is_counted_from_the_first_failure_in_a_row():
    """However long the agent had been working before, and anew when it has been heard of since."""
    failures = Failures(Retry(max_time_s=10, chance=lambda: 1.0))
    assert failures.pause(Unavailable(), 1000.0, None) is not None
    assert failures.pause(Unavailable(), 1010.0, None) is None
    failures.forget()
    assert failures.pause(Unavailable(), 2000.0, None) is not None


@pytest.mark.parametrize(
    ("asked_s", "deadline", "waits"),
    [(5, None, True), (60, None, False), (60, 600.0, True), (60, 50.0, False)],
)
def test_what_the_agent_asks_for_is_waited_if_there_is_time(asked_s, deadline, waits):
    """Retry-After counts up to the caller's deadline; a call without one has our patience."""
    pause = Failures(Retry()).pause(TooManyRequests(retry_after_s=asked_s), 0.0, deadline)
    assert (pause is not None and pause.seconds >= asked_s) == waits


def test_where_nobody_has_ever_answered_less_patience_is_enough():
    """The address may be wrong, and whoever typed it wants to know."""
    failures = Failures(Retry())
    assert failures.pause(Unreachable("x", "no connection"), 0.0, None, is_first=True) is not None
    assert failures.pause(Unreachable("x", "no connection"), 5.0, None, is_first=True) is None


@pytest.mark.parametrize("binding", ["URL", "JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("way", ["send", "stream"])
async def test_an_address_where_nobody_ever_was_is_soon_given_up(binding, way):
    """Known by its card alone it may be a wrong one just as well; who waits hears for how long, and
    what to check.
    """
    there: Any = "http://127.0.0.1:9"
    if binding != "URL":
        url = "127.0.0.1:9" if binding == "GRPC" else f"{there}/"
        there = card(
            url,
            supportedInterfaces=[
                {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
            ],
        )
    with pytest.raises(Unreachable) as caught:
        async with (
            asyncio.timeout(PATIENCE_S),
            connect(there, retry=quick(max_time_s=1000, first_max_time_s=0.3)) as client,
        ):
            await (client.send("x") if way == "send" else _read(client))
    assert "onnection refused" in str(caught.value)
    assert re.search(
        r"this address has never answered, tried \d+ times in [\d.]+ s: check the address",
        str(caught.value),
    )


def test_a_first_connection_that_does_not_come_has_had_its_time():
    """Nobody says no to it, either: there is nothing to hope for from a second wait as long as the
    first.
    """
    swallowed = Unreachable("x", "no connection within 10 s", after_s=10.0)
    failures = Failures(Retry())
    assert failures.pause(swallowed, 10.0, None, is_first=True) is None
    assert failures.tried(10.0) == "tried once"
    assert (
        Failures(Retry()).pause(swallowed, 10.0, None) is not None
    )  # where somebody was before: it may be on its way back


# A server that goes away and comes back


@asynccontextmanager
async def behind_a_gate(
    agent: Agent, binding: BindingName, retry: Retry
) -> AsyncIterator[tuple[Client, Gate]]:
    """A client that reaches an agent by a gate only."""
    app = agent.app(grpc_port=0 if binding == "GRPC" else None)
    async with serving(app, app.close) as url:
        await app.open()
        async with Gate(f":{app.grpc_port}" if binding == "GRPC" else url) as gate:
            there = app.card(gate.url)
            for interface in there.supported_interfaces:
                interface.url = (
                    gate.url.removeprefix("http://")
                    if interface.protocol_binding == "GRPC"
                    else interface.url
                )
            async with connect(there, binding=binding, retry=retry) as client:
                yield client, gate


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("way", ["send", "stream", "get"])
async def test_a_restart_is_sat_out(binding, way):
    """The connection breaks, nobody is there for many attempts, then somebody is: one answer, of
    work done once.
    """
    agent, calls, begun, go = Agent("Clerk"), [], asyncio.Event(), asyncio.Event()

    @agent.skill
    async def work(text: str) -> str:
        """Work."""
        calls.append(text)
        begun.set()
        await go.wait()
        return "done"

    async def back() -> None:
        await gate.open()
        go.set()

    later = Later(LONG, back)
    async with (
        asyncio.timeout(PATIENCE_S),
        behind_a_gate(agent, binding, quick(later)) as (client, gate),
    ):
        if way == "get":
            task_id = (await client.send("x", wait=False)).task_id
            await gate.shut()
            assert (await client.get(task_id)).id == task_id
        else:
            reading = asyncio.create_task(client.send("x") if way == "send" else _read(client))
            await begun.wait()
            await gate.shut()
            assert (await reading).text == "done"
    assert (calls, len(later.pauses) >= LONG) == (["x"], True)


async def _read(client: Client):
    async with client.stream("x") as stream:
        assert [event async for event in stream]
    return stream.reply


async def test_a_door_that_was_open_is_not_left_for_another():
    """A 503 was an answer: the message may be there, so when nobody is, it is sent the same way
    again (design, rule 17).
    """
    async with FakeAgent("done") as fake, Gate(fake.url) as gate:
        async with connect(gate.url) as looking:
            there = looking.card
        there.supported_interfaces[1].url = fake.url  # a way around the gate
        later = Later(LONG, gate.open)

        def on_pause(pause) -> None:
            if not later.pauses:
                shutting.append(asyncio.ensure_future(gate.shut()))
            later(pause)

        shutting: list = []
        async with asyncio.timeout(PATIENCE_S), connect(there, retry=quick(on_pause)) as client:
            fake.fail(Status(503))
            assert (await client.send("go")).text == "done"
            assert (client.binding, client.version, client.notes) == ("JSONRPC", "1.0", [])
    assert (len(fake.messages), len(later.pauses) > LONG // 2) == (1, True)


async def test_while_nobody_is_there_the_preferred_door_is_tried_first():
    """Being away says nothing about an interface: each round of attempts begins at the top, and
    notes nothing twice.
    """
    async with FakeAgent("done") as fake, Gate(fake.url) as gate:
        async with connect(gate.url) as looking:
            there = looking.card
        there.supported_interfaces[1].url = "http://127.0.0.1:9/"
        await gate.shut()
        later = Later(LONG, gate.open)
        async with asyncio.timeout(PATIENCE_S), connect(there, retry=quick(later)) as client:
            assert (await client.send("go")).text == "done"
            assert (client.binding, client.url, len(client.notes)) == (
                "JSONRPC",
                there.supported_interfaces[0].url,
                1,
            )


# Finding the agent


async def test_an_agent_is_waited_for_at_the_first_word_too():
    """A client started during the restart of its agent is one that comes a moment early."""
    async with FakeAgent("done") as fake, Gate(fake.url) as gate:
        await gate.shut()
        async with (
            asyncio.timeout(PATIENCE_S),
            connect(gate.url, retry=quick(Later(LONG, gate.open))) as client,
        ):
            assert (await client.send("go")).text == "done"


async def test_a_server_that_is_not_ready_has_a_card_later():
    """503 for a card is not a missing card."""
    answers = iter([answer("", 503, retry_after="0")] * 6)

    def handler(request):
        return next(answers, None) or answer(card(f"http://{request.headers['host']}/"))

    async with scripted(handler) as peer, connect(peer.url, retry=quick()) as client:
        assert client.card.name == "Dock clerk"


async def test_where_waiting_mends_nothing_there_is_no_waiting():
    """A wrong name, the wrong scheme, no card: said at once."""
    later = Later(1, cast(Any, asyncio.Event().wait))
    async with scripted(lambda request: answer("nothing here", 404)) as empty, FakeAgent() as plain:
        for where, fault in [
            ("http://nobody.invalid:8000", Unreachable),
            (plain.url.replace("http:", "https:"), Unreachable),
            (empty.url, BadCard),
        ]:
            with pytest.raises(fault):
                await connect(where, retry=quick(later)).open()
    assert later.pauses == []


# What the server says when it stops


def _stopping(request) -> bytes:
    detail: dict[str, Any] = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "UNAVAILABLE",
        "domain": "a2a-protocol.org",
    }
    detail["metadata"] = {"taskId": "t-1"}
    error = {"code": -32603, "message": "stopping; task t-1 goes on", "data": [detail]}
    return answer(
        {"jsonrpc": "2.0", "id": request.json["id"], "error": error}, 503, retry_after="0"
    )


class Stopping:
    """An agent that is sent a message just before it stops, and does the work in its next life."""

    def __init__(self, **known) -> None:
        self.methods: list[str] = []
        self._known = known
        self._states = iter(["WORKING", "WORKING", "COMPLETED"])

    def __call__(self, request) -> bytes:
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        self.methods.append(request.json["method"])
        if len(self.methods) < 3:
            return _stopping(request)
        found = task(next(self._states), **self._known)
        result = {"task": found} if request.json["method"] != "GetTask" else found
        if request.json["method"] == "SubscribeToTask":
            return sse(
                {
                    "jsonrpc": "2.0",
                    "id": request.json["id"],
                    "result": {"task": task(**self._known)},
                }
            )
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": result})


async def test_a_message_that_has_arrived_is_followed_by_its_task():
    """An agent without our extensions, no key: the 503 names the task, so it is asked for, and the
    message not sent again.
    """
    agent = Stopping()
    async with scripted(agent) as peer, connect(peer.url, retry=quick()) as client:
        assert (await client.send("go")).text == "17 crates"
    assert agent.methods == ["SendMessage", *["GetTask"] * 4]


async def test_a_stream_that_never_began_is_followed_by_its_task():
    agent = Stopping()
    async with scripted(agent) as peer, connect(peer.url, retry=quick()) as client:
        stream = client.stream("go")
        assert [event async for event in stream]
        assert (stream.task_id, stream.reply.state) == ("t-1", TaskState.COMPLETED)
    assert agent.methods[:3] == ["SendStreamingMessage", "GetTask", "GetTask"]
    assert "SendStreamingMessage" not in agent.methods[1:]


async def test_with_a_key_the_message_is_sent_again():
    agent = Stopping()
    async with scripted(agent) as peer, connect(peer.url, retry=quick()) as client:
        assert (await client.send("go", key="order-7")).text == "17 crates"
    assert agent.methods[:3] == ["SendMessage"] * 3


@pytest.mark.parametrize("way", ["send", "stream"])
async def test_an_answer_the_task_never_got_is_not_taken_for_given(way):
    """A task that was there before does not prove that the message has arrived; its history
    does.
    """
    agent = Stopping(
        history=[{"messageId": "another", "role": "ROLE_USER", "parts": [{"text": "go"}]}]
    )
    async with scripted(agent) as peer, connect(peer.url, retry=quick()) as client:
        with pytest.raises(Unavailable, match="stopping"):
            await (
                client.send("3", task_id="t-1")
                if way == "send"
                else anext(client.stream("3", task_id="t-1"))
            )


async def test_who_gives_up_says_which_task_is_left():
    """In the error's text for people, in `task_id` for programs."""
    agent = Agent("Clerk")

    @agent.skill
    async def work(text: str):
        """Work."""
        yield "begun"
        await asyncio.Event().wait()

    async with behind_a_gate(agent, "JSONRPC", quick(attempts=3)) as (client, gate):
        stream = client.stream("go")
        await anext(stream)
        await gate.shut()
        with pytest.raises(Unreachable, match=f"task {stream.task_id} may go on") as caught:
            assert [event async for event in stream]
        assert caught.value.task_id == stream.task_id


# Quiet, but there


async def test_a_quiet_stream_that_is_cut_now_and_then_is_no_agent_that_is_away():
    """Between the cuts it was there: a proxy that ends idle streams must not use our patience up,
    one cut after the other.
    """
    calls = []
    resume = [{"uri": "urn:accord:resume:1"}]

    async def handler(request):
        if request.verb == "GET":
            return answer(
                card(
                    f"http://{request.headers['host']}/",
                    capabilities={"streaming": True, "extensions": resume},
                )
            )
        calls.append(request.json["method"])
        if len(calls) == 1:
            return sse(
                raw=b'id: 1\ndata: {"jsonrpc":"2.0","id":1,"result":{"task":%b}}\n\n' % _working(),
                end=False,
            )
        if len(calls) < 8:
            return sse(raw=b": quiet\n\n", end=False)
        end = {
            "statusUpdate": {
                "taskId": "t-1",
                "contextId": "c-1",
                "status": {"state": "TASK_STATE_COMPLETED"},
            }
        }
        return sse({"jsonrpc": "2.0", "id": request.json["id"], "result": end})

    # So short that any stream at all has lasted longer than a pause.
    retry = Retry(attempts=3, first_s=1e-9, most_s=1e-9)
    async with scripted(handler) as peer, connect(peer.url, retry=retry) as client:
        stream = client.stream("go")
        assert [event async for event in stream]
    assert stream.reply.state is TaskState.COMPLETED


def _working() -> bytes:
    return b'{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_WORKING"}}'


# Leaving


@pytest.mark.parametrize("way", ["send", "stream"])
async def test_who_stops_waiting_stops_nothing_else(reach, way):
    """A caller cancelled in the middle of a call lets go of the connection; the agent goes on to
    the end.
    """
    begun, go, ids = asyncio.Event(), asyncio.Event(), asyncio.Queue()

    async def work(text: str) -> str:
        """Work."""
        begun.set()
        await go.wait()
        return "done"

    async def follow(client: Client) -> None:
        async for event in client.stream("x"):
            ids.put_nowait(getattr(event, "id", "") or event.task_id)

    async with asyncio.timeout(PATIENCE_S), reach(work) as client:
        waiting = asyncio.create_task(
            client.send("x", key="k") if way == "send" else follow(client)
        )
        await begun.wait()
        task_id = await ids.get() if way == "stream" else ""
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go.set()
        reply = await (client.send("x", key="k") if way == "send" else client.wait(task_id))
    assert (reply.state, reply.text) == (TaskState.COMPLETED, "done")
