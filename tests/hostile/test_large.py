"""Large requests and answers are read and written beside the loop, and mean what small ones
mean.
"""

import asyncio
import gc
import json
import sys
import threading
from urllib.parse import urlsplit

import pytest

from accord import Agent, Message, Part
from accord.engine.offloading import LARGE, offload
from accord.model import ParseError
from accord.server.request import HttpRequest, ServerUrl, Target
from tests.drive import refusal_of, say, serving, text_of
from tests.legacy.wire import say_0_1, say_0_3, talking_to

LONG = "x" * LARGE
READING = {"Rpc.decode", "V1.decode", "V03.decode", "V01.decode", "open_envelope", "check"}
WRITING = {"Rpc.result", "V03.result", "V01.result"}


async def echo(request: Message) -> list[Part]:
    """Repeat what was said."""
    return request.parts


class Watch:
    """Which functions this thread, the loop's, enters."""

    def __enter__(self):
        self.entered = set[str]()
        sys.setprofile(
            lambda frame, event, _: (
                self.entered.add(frame.f_code.co_qualname) if event == "call" else None
            )
        )
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


def parse_errors():
    return sum(isinstance(found, ParseError) for found in gc.get_objects())


def request_of(body):
    headers = {b"content-type": b"application/json"}
    target = Target("POST", "/", "/")
    return HttpRequest(
        target,
        headers,
        list(headers.items()),
        lambda: ServerUrl("http", ("localhost", 80)),
        json.dumps(body).encode(),
    )


async def test_a_large_request_is_not_read_on_the_loop(connect):
    """While it is, the loop serves others; a small one is read sooner than a thread has begun."""
    async with connect(echo) as client:
        with Watch() as small:
            assert text_of((await client.send("x"))["task"]) == "x"
        with Watch() as large:
            task = (await client.send(say([{"data": list(range(LARGE // 4))}])))["task"]
        assert task["artifacts"][0]["parts"][0]["data"] == list(range(LARGE // 4))
        assert small.entered & READING
        assert not large.entered & READING


async def test_a_large_answer_over_grpc_is_not_written_on_the_loop(connect_grpc):
    """It is written in Python, piece by piece."""
    async with connect_grpc(echo) as client:
        with Watch() as loop:
            task = (await client.send(say(LONG)))["task"]
            assert text_of(await client.get(task["id"])) == text_of(task) == LONG
            page = await client.list(includeArtifacts=True)
        assert page["tasks"] == [task]
        assert not loop.entered & WRITING


@pytest.mark.parametrize(
    ("method", "params"), [("message/send", say_0_3(LONG)), ("tasks/send", say_0_1("t", LONG))]
)
async def test_old_versions_are_read_and_written_there_too(method, params):
    async with talking_to(echo) as client:
        with Watch() as loop:
            task = await client.result(method, params)
        assert task["artifacts"][0]["parts"][0]["text"] == LONG
        assert not loop.entered & (READING | WRITING)


async def test_a_stream_with_large_events_is_whole(connect):
    """Event by event, in order, whoever wrote them."""

    async def tell(request: str):
        for n in range(3):
            yield f"{n}" + request

    async with connect(tell) as client:
        stream = await client.stream(LONG)
        told = [
            text_of(frame["artifactUpdate"]["artifact"])
            for frame in await stream.rest()
            if "artifactUpdate" in frame
        ]
        assert told == [f"{n}{LONG}" for n in range(3)]


async def test_a_large_mistake_is_refused_like_a_small_one(connect_http):
    """The same reason and the same words, wherever they are thought of."""
    async with connect_http(echo) as client:
        refused = [
            await refusal_of(client.send(say([{"text": text, "url": "u"}]))) for text in ("x", LONG)
        ]
        small, large = [(str(error), error.reason, error.violations) for error in refused]
        assert small == large


async def test_a_request_whose_client_has_left_does_nothing():
    """It is left while it waits to be read: no task is made, and the next one is answered."""
    called = list[str]()
    agent = Agent("Test agent")

    @agent.skill
    async def note(request: str) -> str:
        called.append(request[0])
        return "done"

    app = agent.app()
    await app.open()
    gate = threading.Event()
    before = asyncio.create_task(offload(LARGE + 1, gate.wait, 10.0))
    await asyncio.sleep(0)
    bodies = [
        {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": say_0_3(name + LONG)}
        for name in "ab"
    ]
    left, stays = (asyncio.create_task(app.answer(request_of(body))) for body in bodies)
    await asyncio.sleep(0)
    left.cancel()
    gate.set()
    assert (await stays).status == 200
    await before
    assert left.cancelled()
    assert called == ["b"]
    await app.close()


async def test_requests_on_one_connection_are_answered_in_order():
    """A small one that comes behind a large one does not overtake it."""
    agent = Agent("Test agent")
    agent.skill(echo)
    app = agent.app()
    calls = [
        {"jsonrpc": "2.0", "id": n, "method": "message/send", "params": say_0_3(text)}
        for n, text in enumerate((LONG, "x"))
    ]
    bodies = [json.dumps(call).encode() for call in calls]
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n"  # noqa: E501
    async with serving(app, app.close) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(
            b"".join(
                head % (close, len(b)) + b
                for close, b in zip((b"", b"connection: close\r\n"), bodies, strict=True)
            )
        )
        answers = await reader.read(-1)
        writer.close()
        places = [answers.index(b'{"jsonrpc":"2.0","id":%d,"result"' % n) for n in range(2)]
        assert places == sorted(places)


async def test_a_large_body_that_is_refused_leaves_nothing_for_the_garbage_collector():
    """Else it would stay, with all its bytes, until that comes by."""
    agent = Agent("Test agent")
    agent.skill(echo)
    app = agent.app()
    body = b'{"message": "' + LONG.encode() + b'\xff"}'
    head = b"POST /message:send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"  # noqa: E501
    async with serving(app, app.close) as url:
        gc.collect()
        gc.disable()
        before = parse_errors()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
            writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            assert (await reader.read(-1)).startswith(b"HTTP/1.1 400")
            writer.close()
            await offload(LARGE + 1, int)  # the thread is done with what it did before
            assert parse_errors() == before
        finally:
            gc.enable()


async def test_two_who_reopen_a_large_task_at_once_both_have_their_turn(lasting):
    """0.1: the task is read in pieces, and only one of those who read it may go on with what they
    found.
    """
    async with talking_to(echo, store=lasting) as client:
        await client.result("tasks/send", say_0_1("t", LONG))
        await asyncio.gather(
            *(client.result("tasks/send", say_0_1("t", word)) for word in ("one", "two"))
        )
        task = await client.result("tasks/get", {"id": "t", "historyLength": 9})
        assert sorted(message["parts"][0]["text"] for message in task["history"])[:2] == [
            "one",
            "two",
        ]
        assert (len(task["history"]), len(task["artifacts"])) == (3, 3)
