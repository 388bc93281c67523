"""What goes wrong inside stays inside (promise K3): no SQL, no path, no trace, no word of an
exception reaches a client.

The log has all of it, and the client the number to look it up by.
"""

import asyncio
import contextlib
import logging
import resource
import sqlite3

import pytest

from accord import Agent, Context, Reply
from accord.store.contract import CommitFailed
from accord.store.open import open_store
from tests.drive import Refused, refusal_of, say, state_of
from tests.limits.process import served

MARKER = "SELECT secret FROM /srv/private/tasks.db"
NOW = {"returnImmediately": True}


class Seeded(Exception):
    """Something only our own logs may see."""


class Failing:
    """A store that fails when told to, and otherwise is the one it stands in front of."""

    def __init__(self, url):
        self._inner = open_store(url)
        self.failing = {}

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        error = self.failing.get(name)
        if error is None:
            return found

        async def fail(*args, **options):
            raise error

        return fail


def everything(refused):
    """All a client gets to see of a refusal."""
    return repr((refused.error, dict(refused.headers)))


def is_opaque(refused, caplog):
    """An internal error with a reference that is in the log, beside the cause."""
    assert MARKER not in everything(refused)
    assert "Traceback" not in everything(refused)
    assert refused.reason == "INTERNAL_ERROR"
    reference = refused.detail["reference"]
    assert any(
        reference in record.getMessage() and MARKER in str(record.exc_info[1])
        for record in caplog.records
        if record.exc_info
    )


def agent_of(function, **options):
    agent = Agent("Test agent")
    agent.skill(**options)(function)
    return agent


async def fails_at_once(request: str):
    raise Seeded(MARKER)


def fails_in_a_thread(request: str):
    raise Seeded(MARKER)


async def fails_between_chunks(request: str):
    yield "one"
    raise Seeded(MARKER)


def fails_between_chunks_in_a_thread(request: str):
    yield "one"
    raise Seeded(MARKER)


async def fails_in_a_step(request: str, ctx: Context):
    await ctx.step(fails_at_once, "x")


async def gives_what_json_cannot_hold(request: str):
    class Odd:
        __name__ = MARKER

    raise Seeded(MARKER) from ValueError(Odd())


async def exits(request: str):
    raise SystemExit(MARKER)


@pytest.mark.parametrize(
    "skill",
    [
        fails_at_once,
        fails_in_a_thread,
        fails_between_chunks,
        fails_between_chunks_in_a_thread,
        fails_in_a_step,
        gives_what_json_cannot_hold,
        exits,
    ],
)
async def test_an_agents_exception_becomes_a_number(connect, caplog, skill):
    """However it fails and however it is looked at; the number is in the log, with the trace."""
    async with connect(skill) as client:
        task = (await client.send("go"))["task"]
        frames = await (await client.stream("go")).rest()
        seen = [
            task,
            await client.get(task["id"]),
            await client.list(includeArtifacts=True),
            frames,
        ]
        seen.append(everything(await refusal_of(client.cancel(task["id"]))))
        seen.append(everything(await refusal_of(client.send(say("again", taskId=task["id"])))))
        assert MARKER not in repr(seen)
        assert "Traceback" not in repr(seen)
        assert state_of(task) == "failed"
        reference = task["status"]["message"]["parts"][0]["text"].rpartition("Reference: ")[2]
        assert any(
            reference in record.getMessage() and record.exc_info for record in caplog.records
        )
        assert MARKER in caplog.text


async def test_a_failed_reply_becomes_a_number(connect, caplog):
    """A skill without a task fails as an internal error."""

    async def reply(request: str) -> Reply:
        raise Seeded(MARKER)

    async with connect(reply) as client:
        is_opaque(await refusal_of(client.send("go")), caplog)
        is_opaque(await refusal_of(client.stream("go")), caplog)
        assert (await client.list())["totalSize"] == 0


async def test_a_failed_route_becomes_a_number(connect, caplog):
    """The user's other function: it chooses a skill, or fails to."""
    agent = agent_of(fails_at_once)

    @agent.route
    async def choose(message):
        raise Seeded(MARKER)

    async with connect(agent) as client:
        is_opaque(await refusal_of(client.send("go")), caplog)
        is_opaque(await refusal_of(client.stream("go")), caplog)


async def echo(request: str):
    return request


async def test_a_store_that_cannot_read_gives_nothing_away(connect, caplog, lasting):
    """Every operation that reads, when reading raises what SQLite raises; and all is well once it
    reads again.
    """
    store = Failing(lasting)
    async with connect(echo, store=store) as client:
        task = (await client.send("hi"))["task"]
        error = sqlite3.OperationalError(f"disk I/O error: {MARKER}")
        store.failing = {
            "load": error,
            "claim": error,
            "page": error,
            "idempotency": error,
            "read": error,
        }
        calls = [
            client.get(task["id"]),
            client.list(),
            client.cancel(task["id"]),
            client.subscribe(task["id"]),
            client.send(say("more", taskId=task["id"])),
            client.stream(say("more", taskId=task["id"])),
        ]
        for call in calls:
            is_opaque(await refusal_of(call), caplog)
        is_opaque(await refusal_of(client.send("hi", headers={"Idempotency-Key": "k"})), caplog)
        store.failing = {}
        assert await client.get(task["id"]) == task
        assert (await client.list())["totalSize"] == 1


async def test_a_store_that_cannot_write_gives_nothing_away(connect, caplog, lasting, monkeypatch):
    """A sender is told that nothing can be stored, when to try again, and no more; nothing is
    acknowledged (reliability, V4).
    """
    monkeypatch.setattr("accord.engine.log.writer.OUTAGE_S", 0.2)
    gate = Agent("Test agent")

    @gate.skill
    async def asks(request: str, ctx: Context):
        return await ctx.ask("more?")

    store = Failing(lasting)
    async with connect(gate, store=store) as client:
        task = (await client.send("hi"))["task"]
        store.failing = {"commit": CommitFailed(f"database or disk is full: {MARKER}")}
        refusals = [
            await refusal_of(client.send("held")),
            await refusal_of(client.send("hi", headers={"Idempotency-Key": "k"})),
            await refusal_of(client.send(say("hi", configuration=NOW))),
            await refusal_of(read_all(client.stream("hi"))),
            await refusal_of(client.send(say("answer", taskId=task["id"]))),
        ]
        for refused in refusals:
            assert refused.reason == "UNAVAILABLE"
            assert MARKER not in everything(refused)
        assert MARKER in caplog.text
        assert await client.get(task["id"]) == task, "as last stored"
        assert (await client.list())["totalSize"] == 1
        refused = await refusal_of(client.cancel(task["id"]))
        assert (refused.reason, MARKER in everything(refused)) == ("UNAVAILABLE", False)
        store.failing = {}
        async with asyncio.timeout(10):
            while (await client.list())[
                "totalSize"
            ] < 2:  # the one that was held, and none of those refused at once
                pass
        assert state_of(await client.get(task["id"])) == "canceled"


async def read_all(stream):
    frames = await (await stream).rest()
    raise AssertionError(frames)


async def test_a_log_line_of_the_caller_is_one_line(connect, caplog):
    """What a caller sends can't forge a line of the log (threat T13)."""
    caplog.set_level(logging.DEBUG)
    forged = "x\nERROR accord: all is lost"
    async with connect(echo) as client:
        for call in (
            client.get(forged),
            client.cancel(forged),
            client.send(say("hi", messageId=forged)),
        ):
            assert (await refusal_of(call)).reason == "INVALID_PARAMS"
        assert not [
            record
            for record in caplog.records
            if record.name == "accord" and "\n" in record.getMessage()
        ]


@pytest.mark.parametrize(
    "broken", [b'{"id', b"", b"\x00\xff\xfe", b'{"id":"\xff"}', b'[{"artifactId":"']
)
@pytest.mark.parametrize("column", ["head", "artifacts"])
async def test_one_bad_row_never_breaks_a_list(connect, caplog, lasting, broken, column):
    """The others are listed, the log names the one that is not, and looking at it alone is refused
    (threat T12).
    """
    async with connect(echo, store=lasting) as client:
        tasks = [(await client.send(str(n)))["task"] for n in range(5)]
    with contextlib.closing(sqlite3.connect(lasting.removeprefix("sqlite:///"))) as db, db:
        db.execute(f"UPDATE tasks SET {column} = ? WHERE id = ?", (broken, tasks[2]["id"]))
    async with connect(echo, store=lasting) as client:
        good = [task["id"] for task in reversed(tasks) if task is not tasks[2]]
        for options in (
            {},
            {"includeArtifacts": True},
            {"historyLength": 1},
            {"includeArtifacts": True, "historyLength": 0},
        ):
            try:
                page = await client.list(**options)
            except Refused as refused:
                raise AssertionError((options, refused.error)) from None
            listed = [task["id"] for task in page["tasks"]]
            assert [id_ for id_ in listed if id_ != tasks[2]["id"]] == good
        is_left_out = tasks[2]["id"] not in listed
        assert is_left_out == (tasks[2]["id"] in caplog.text)
        if is_left_out:
            refusal = await refusal_of(client.get(tasks[2]["id"]))
            assert (refusal.reason, "Traceback" in everything(refusal)) == ("INTERNAL_ERROR", False)


async def test_one_bad_row_does_not_keep_a_server_from_starting(connect, caplog, lasting):
    """Whatever state it was left in."""
    async with connect(echo, store=lasting) as client:
        tasks = [(await client.send(str(n)))["task"] for n in range(3)]
    with contextlib.closing(sqlite3.connect(lasting.removeprefix("sqlite:///"))) as db, db:
        db.execute(
            "UPDATE tasks SET head = x'00', state = 2, owner = 0 WHERE id = ?", (tasks[1]["id"],)
        )
    async with connect(echo, store=lasting) as client:
        assert await client.get(tasks[2]["id"]) == tasks[2]
        assert state_of((await client.send("new"))["task"]) == "completed"
        assert tasks[1]["id"] in caplog.text


async def test_a_full_disk_is_waited_for_and_not_told(tmp_path):
    """A real server that may not make its files any larger: reads go on, writes wait and are made
    when there is room again.
    """
    async with served(tmp_path) as server:
        client = server.door()
        first = (await client.send("first"))["task"]
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (256 << 10, resource.RLIM_INFINITY))
        send = asyncio.ensure_future(client.send(say("300 2000 0", metadata={"skill": "make"})))
        async with asyncio.timeout(10):
            while "the store can't be written; trying again" not in server.log:
                assert await client.get(first["id"]) == first
        assert not send.done(), "nothing is acknowledged that is not stored"
        assert [task["id"] for task in (await client.list())["tasks"]] == [first["id"]], "nor shown"
        resource.prlimit(
            server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
        task = (await send)["task"]
        assert (state_of(task), len(task["artifacts"])) == ("completed", 300)
        assert await client.get(task["id"]) == task
