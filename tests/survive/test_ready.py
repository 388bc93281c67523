"""V4: a server that can't do its work says so, where load balancers and operators look, and refuses
at once what it can't do.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from accord import Agent
from accord.store.sqlite.store import SqliteStore
from tests.drive import refusal_of, say, state_of, text_of
from tests.survive.skills import talkative
from tests.survive.test_store_faults import BIG, FAULTS, locked, read_only

PATIENCE_S = 60.0
NOW = {"returnImmediately": True}


@pytest.fixture(autouse=True)
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look around every few milliseconds instead of seconds: what is seen is the same, sooner."""
    monkeypatch.setattr("accord.engine.runs.retention.CHECK_S", 0.02)
    monkeypatch.setattr("accord.engine.runs.retention.BEAT_S", 0.02)


def an_agent() -> Agent:
    agent = Agent("Ready")

    talkative(agent)

    return agent


async def ready(client: Any) -> tuple[int, str]:
    async with client.http.get(client.url + "/readyz") as answer:
        return answer.status, (await answer.json())["status"]


async def until_ready(client: Any, *, is_ready: bool = True) -> tuple[int, str]:
    async with asyncio.timeout(PATIENCE_S):
        while (now := await ready(client))[0] != (200 if is_ready else 503):
            pass
    return now


async def streamed(client: Any, text: str) -> list[Any]:
    frames = await client.stream(text)
    rest: list[Any] = await frames.rest()
    return rest


def is_refused(refused: Any) -> bool:
    """503 over HTTP, UNAVAILABLE on gRPC, and when to come again."""
    return (
        refused.reason == "UNAVAILABLE"
        and refused.status in (503, 14)
        and int(refused.headers["retry-after"]) >= 1
    )


@pytest.mark.parametrize("fault", FAULTS)
async def test_while_a_commit_is_tried_again_nobody_queues_behind_it(
    connect: Any,
    tmp_path: Path,
    fault: Callable[[SqliteStore], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who came first is held, for the fault may pass; whoever comes later hears at once that it
    should come again, and load balancers that nobody should come; when it has passed, all is as
    before.
    """
    monkeypatch.setattr(
        "accord.engine.runs.retention.BEAT_S", 3600
    )  # that it fails is found out by the first
    store = SqliteStore(tmp_path / "tasks.db")
    async with connect(an_agent(), store=store) as client:
        asked = (await client.send(say("hi", metadata={"skill": "talk"})))["task"]
        assert await ready(client) == (200, "ready")
        with fault(store):
            first = asyncio.create_task(client.send(BIG))
            assert await until_ready(client, is_ready=False) == (503, "the store can't be written")
            for request in (say("second"), say("answer", taskId=asked["id"])):
                assert is_refused(await refusal_of(client.send(request)))
            assert is_refused(await refusal_of(streamed(client, "third")))
            assert not first.done(), "they were to be refused while the first is held"
        assert text_of((await first)["task"]) == BIG
        assert await until_ready(client) == (200, "ready")
        assert text_of((await client.send(say("answer", taskId=asked["id"])))["task"]) == "answer"
        assert (await client.list())["totalSize"] == 2


@pytest.mark.parametrize("fault", [read_only, locked])
async def test_a_server_without_a_store_is_not_ready_until_it_has_one_again(
    connect_rpc: Any,
    tmp_path: Path,
    fault: Callable[[SqliteStore], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is held, and told after a while; later ones are refused at once. That the store
    works again is found out without any traffic, for none comes to a server that is not ready: then
    the first is done too.
    """
    monkeypatch.setattr("accord.engine.log.writer.OUTAGE_S", 0.2)
    store = SqliteStore(tmp_path / "tasks.db")
    async with connect_rpc(an_agent(), store=store) as client:
        await client.send("before")
        with fault(store):
            assert is_refused(await refusal_of(client.send("first")))
            assert is_refused(await refusal_of(client.send("second")))
            assert await ready(client) == (503, "the store can't be written")
        assert await until_ready(client) == (200, "ready")
        assert state_of((await client.send("after"))["task"]) == "completed"
        tasks = (await client.list(includeArtifacts=True))["tasks"]
        assert [text_of(task) for task in tasks] == ["after", "first", "before"]


async def test_a_store_that_fails_is_noticed_without_any_work(
    connect_rpc: Any, tmp_path: Path
) -> None:
    """The heartbeat is a write like any other."""
    store = SqliteStore(tmp_path / "tasks.db")
    async with connect_rpc(an_agent(), store=store) as client:
        assert await ready(client) == (200, "ready")
        with read_only(store):
            assert (await until_ready(client, is_ready=False))[0] == 503
        assert (await until_ready(client))[0] == 200


async def test_a_process_whose_store_was_taken_over_takes_no_more_work(
    connect_rpc: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """D5: it can never write again: it says so, is not ready for good, stops what it does, and
    shows tasks as they are.
    """
    agent, stopped = an_agent(), asyncio.Event()

    @agent.skill
    async def hold(text: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    store = f"sqlite:///{tmp_path / 'tasks.db'}"
    async with connect_rpc(agent, store=store) as first:
        held = (await first.send(say("x", metadata={"skill": "hold"}, configuration=NOW)))["task"]
        asked = (await first.send(say("hi", metadata={"skill": "talk"})))["task"]
        (tmp_path / "tasks.db-lock").unlink()  # all that keeps a second process out
        async with connect_rpc(an_agent(), store=store) as second:
            assert state_of(await second.get(held["id"])) == "failed"
            assert await until_ready(first, is_ready=False) == (
                503,
                "another process has taken over the store",
            )
            async with first.http.get(first.url + "/healthz") as answer:
                assert answer.status == 200
            async with asyncio.timeout(PATIENCE_S):
                await stopped.wait()
            for request in (say("new"), say("answer", taskId=asked["id"])):
                refused = await refusal_of(first.send(request))
                assert is_refused(refused)
                assert "taken over" in refused.message
            assert is_refused(await refusal_of(first.subscribe(asked["id"])))
            assert (
                text_of((await second.send(say("answer", taskId=asked["id"])))["task"]) == "answer"
            )
            assert state_of(await first.get(asked["id"])) == "completed"
            assert (await ready(second))[0] == 200
        assert (await ready(first))[0] == 503
    told = [record.message for record in caplog.records if record.levelno == logging.CRITICAL]
    assert len(told) == 1
    assert "another process has" in told[0]
    assert "stop it" in told[0]


async def test_threads_that_all_hang_are_told_of_with_their_names(
    connect_rpc: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A plain function that never returns keeps its thread; when all have one, every other plain
    function waits. The log says so once, how many and whose; what needs no thread goes on.
    """
    monkeypatch.setattr("accord.engine.threads.STUCK_S", 0.05)
    agent, gate = an_agent(), threading.Event()

    @agent.skill
    def hang(text: str) -> str:
        gate.wait(PATIENCE_S)
        return text

    @agent.skill
    def quick(text: str) -> str:
        return text

    async with connect_rpc(agent) as client:
        for _ in range(32):
            await client.send(say("x", metadata={"skill": "hang"}, configuration=NOW))
        assert text_of((await client.send("needs no thread"))["task"]) == "needs no thread"
        assert told_of_threads(caplog) == [], "nobody waits"
        waiting = asyncio.create_task(client.send(say("at last", metadata={"skill": "quick"})))
        async with asyncio.timeout(PATIENCE_S):
            while not told_of_threads(caplog):
                await ready(client)
        assert "all 32 threads" in told_of_threads(caplog)[0]
        assert "1 call" in told_of_threads(caplog)[0]
        assert "32 in hang" in told_of_threads(caplog)[0]
        assert await ready(client) == (200, "ready")
        assert text_of((await client.send("still"))["task"]) == "still"
        gate.set()
        assert text_of((await waiting)["task"]) == "at last"
    assert len(told_of_threads(caplog)) == 1


def told_of_threads(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if "threads" in record.message]


async def test_health_on_grpc_is_what_readyz_says(
    connect_grpc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked once or watched: what sends work over gRPC looks there."""
    monkeypatch.setattr("accord.server.grpc.health.CHECK_S", 0.02)
    store, asked = SqliteStore(tmp_path / "tasks.db"), health_pb2.HealthCheckRequest()
    async with connect_grpc(an_agent(), store=store) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        watch = health.Watch(asked, timeout=PATIENCE_S)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        with read_only(store):
            await until_ready(client, is_ready=False)
            assert (
                await health.Check(asked, timeout=PATIENCE_S)
            ).status == health_pb2.HealthCheckResponse.NOT_SERVING
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        assert (
            await health.Check(asked, timeout=PATIENCE_S)
        ).status == health_pb2.HealthCheckResponse.SERVING
