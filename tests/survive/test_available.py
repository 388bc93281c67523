"""V1, V3, V5, D4: stops, overload, deadlines and work without end leave nothing broken and nothing
stuck.
"""

import asyncio
import contextlib
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from accord.engine.runs.recovery import MAX_ATTEMPTS
from tests.reliability.harness import (
    BROKEN,
    JSON,
    Client,
    Died,
    Frame,
    Refused,
    message,
    report,
    size,
    state_of,
    tally,
    text_of,
    told,
)
from tests.survive.host import Host, hosting
from tests.survive.test_fail_points import nothing_is_stuck, settled

STUCK = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")


async def until_answered(
    host: Host, client: Client, params: dict[str, Any], key: str
) -> dict[str, Any]:
    """Send under a key until there is an answer, as a client with patience does."""
    while True:
        await host.up.wait()
        try:
            return await client.send(params, {"idempotency-key": key})
        except Refused as error:
            if error.reason != "UNAVAILABLE":
                raise
        except BROKEN:
            pass
        await asyncio.sleep(0.02)


async def load(
    host: Host, client: Client, done: Counter[str], ids: list[str], is_over: asyncio.Event
) -> None:
    """Send plain and durable work until told to end; every call must end well."""
    while not is_over.is_set():
        key = uuid.uuid4().hex
        skill = "order" if len(ids) % 2 else "slow"
        params = message(key if skill == "order" else "20", skill)
        task = await until_answered(host, client, params, key)
        assert state_of(task) == "TASK_STATE_COMPLETED", told(task)
        if skill == "order":
            assert text_of(task) == f"{key}-1 done;{key}-2 done;{key}-3 done;"
        ids.append(task["id"])
        done[client.way] += 1


async def how_it_ends(stream: AsyncIterator[Frame]) -> str:
    """The reason a stream is ended with; "cut" or "ended" if there is none."""
    try:
        async for _ in stream:
            pass
    except Refused as error:
        return error.reason
    except BROKEN:
        return "cut"
    return "ended"


async def test_no_call_fails_over_restarts_under_load(tmp_path: Path) -> None:
    """V1: one process is stopped and started again and again while clients of every binding and
    version repeat what was not answered: no call fails, no step of durable work is done twice,
    every open stream is told to come back, every stop ends with code 0, nothing is stuck.
    """
    stops, ids, done, ends, took_s = (
        size(5, 50),
        list[str](),
        Counter[str](),
        Counter[str](),
        list[float](),
    )
    async with hosting(tmp_path, grace_s=20, has_grpc=True) as host:
        is_over, clients = asyncio.Event(), host.clients()
        open_ids = [(await client.send(message("hello", "talk")))["id"] for client in clients]
        loads = [
            asyncio.create_task(load(host, client, done, ids, is_over))
            for client in clients
            for _ in range(2)
        ]
        for _ in range(stops):
            streams = [
                client.subscribe(task_id) for client, task_id in zip(clients, open_ids, strict=True)
            ]
            await asyncio.gather(*(anext(stream) for stream in streams))
            reading = [asyncio.create_task(how_it_ends(stream)) for stream in streams]
            await asyncio.wait(loads, timeout=0.5, return_when=asyncio.FIRST_EXCEPTION)
            started = time.monotonic()
            assert await host.stop() == 0
            took_s.append(time.monotonic() - started)
            ends.update(await asyncio.gather(*reading))
            await host.start()
        is_over.set()
        await asyncio.gather(*loads)
        assert ends == {"UNAVAILABLE": stops * len(clients)}
        assert [await host.client().total(state) for state in STUCK] == [0, 0]
        assert len(ids) == len(set(ids))
        assert len(host.done) == len(set(host.done)), "a step was done twice"
        report(
            "V1",
            stops=stops,
            calls=tally(done),
            failed=0,
            stuck=0,
            steps=len(host.done),
            repeated=0,
            streams_told=ends.total(),
            longest_stop_s=f"{max(took_s):.2f}",
        )
        if size(0, 1):
            assert max(took_s) < 25


@pytest.mark.parametrize("way", ["jsonrpc", "rest", "grpc"])
async def test_a_server_that_stops_is_not_ready_but_healthy_and_says_so_to_senders(
    tmp_path: Path, way: str
) -> None:
    """V1: SIGTERM with work going on: /readyz turns 503 while /healthz stays 200, new work is
    refused with Retry-After, a stream of durable work is told to come back, plain work is
    finished, the exit code is 0; the next life goes on with the rest.
    """
    async with (
        hosting(tmp_path, grace_s=20, has_grpc=True) as host,
        aiohttp.ClientSession() as session,
    ):
        client = host.client(way)
        plain = asyncio.create_task(client.send(message("x", "hold")))
        kept = await client.send(message("y", "careful", returnImmediately=True))
        waiting = asyncio.create_task(client.send(message("z", "careful")))
        stream = client.subscribe(kept["id"])
        await anext(stream)
        while await client.total("TASK_STATE_WORKING") < 3:
            pass
        assert await status(session, host.url + "/readyz") == (200, {"status": "ready"})
        stopping = asyncio.create_task(host.stop())
        while (await status(session, host.url + "/readyz"))[0] == 200:
            assert not stopping.done()
        assert (await status(session, host.url + "/healthz"))[0] == 200
        with pytest.raises(Refused, match="stopping"):
            await client.send(message("new", "echo"))
        async with session.post(
            host.url + "/message:send", json=message("new", "echo"), headers=JSON
        ) as refused:
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert await how_it_ends(stream) == "UNAVAILABLE"
        with pytest.raises(Refused, match="stopping"):
            await waiting
        assert not plain.done()
        host.let_go()
        assert state_of(await plain) == "TASK_STATE_COMPLETED"
        assert await stopping == 0
        await host.start()
        assert text_of(await settled(client, kept["id"])) == "y-1 done;y-2 done;"


async def test_a_step_under_way_is_done_before_its_run_is_let_go(tmp_path: Path) -> None:
    """V1: a stop in the middle of a step waits for it, so that the next life need not do it again;
    nothing after it is begun.
    """
    async with hosting(tmp_path, grace_s=20) as host:
        client = host.client()
        task = await client.send(message("x", "steady", returnImmediately=True))
        while not host.done:
            await client.total()
        stopping = asyncio.create_task(host.stop())
        with contextlib.suppress(Refused, *BROKEN):
            while True:
                await client.send(message("late", "echo"))
        assert not stopping.done()
        host.let_go()
        assert await stopping == 0
        assert host.done == ["x-1"]
        await host.start()
        assert text_of(await settled(client, task["id"])) == "x-1 done;x-2 done;"
        assert host.done == ["x-1", "x-2"]


async def status(session: aiohttp.ClientSession, url: str) -> tuple[int, Any]:
    async with session.get(url) as answer:
        return answer.status, await answer.json()


async def test_a_repeat_after_a_crash_waits_for_the_durable_run_it_belongs_to(
    tmp_path: Path,
) -> None:
    """I1, D4: the same key after a kill gets the end of the work, not a look at the middle
    of it.
    """
    async with hosting(tmp_path) as host:
        client, params = host.client(), message("y", "careful")
        sending = asyncio.create_task(client.send(params, {"idempotency-key": "k"}))
        while await said_by_all(client) < 1:
            await asyncio.wait({sending}, timeout=0.02)
        await host.kill()
        with contextlib.suppress(*BROKEN):
            await sending
        await host.start()
        again = asyncio.create_task(client.send(params, {"idempotency-key": "k"}))
        await client.total()
        host.let_go()
        task = await again
        assert (state_of(task), text_of(task)) == ("TASK_STATE_COMPLETED", "y-1 done;y-2 done;")
        assert host.done == ["y-1", "y-2"]
        assert await client.total() == 1


async def said_by_all(client: Client) -> int:
    """How many tasks have an artifact: their first step is done and noted, and no death will repeat
    it.
    """
    return sum(bool(text_of(task)) for task in [task async for task in client.every_task()])


async def test_nothing_is_stuck_after_a_kill(tmp_path: Path) -> None:
    """D4: every task a killed process leaves is ended, waiting, or worked on by the next one; on
    one file that is at once, since the next process holds the file only if the last one is gone.
    """
    async with hosting(tmp_path) as host:
        client = host.client()
        sent = {
            skill: [
                (await client.send(message(f"{skill}{n}", skill, returnImmediately=True)))["id"]
                for n in range(10)
            ]
            for skill in ("hold", "careful", "talk")
        }
        while await said_by_all(client) < 10:
            pass
        await host.kill()
        killed_s = time.monotonic()
        await host.start()
        assert await client.total("TASK_STATE_WORKING") == 10
        host.let_go()
        await nothing_is_stuck(client)
        unstuck_s = time.monotonic() - killed_s
        ends = {
            skill: {state_of(await settled(client, id_)) for id_ in ids}
            for skill, ids in sent.items()
        }
        assert ends == {
            "hold": {"TASK_STATE_FAILED"},
            "careful": {"TASK_STATE_COMPLETED"},
            "talk": {"TASK_STATE_INPUT_REQUIRED"},
        }
        answers = [
            await client.send(message("bye", task_id=id_)) for id_ in sent["talk"]
        ]  # by task id alone
        assert {state_of(task) for task in answers} == {"TASK_STATE_COMPLETED"}
        assert len(host.done) == len(set(host.done)) == 20
        report("D4", killed_with=30, stuck=0, after_s=f"{unstuck_s:.2f}")


async def test_work_that_kills_its_process_is_not_tried_for_ever(tmp_path: Path) -> None:
    """D4: a durable run whose process dies in every attempt, with nothing new recorded, is given up
    after eight more, and the server is free of it. What it had recorded before is not done again.
    """
    async with hosting(tmp_path, pause_s=0.001) as host:
        with pytest.raises(BROKEN):
            await host.client().send(message("x", "deadly"))
        deaths = 0
        while await host.ended():
            deaths += 1
            assert deaths < 20
            with contextlib.suppress(Died, *BROKEN):
                await host.start()
                if await host.client().total("TASK_STATE_FAILED"):
                    break
        (task,) = [task async for task in host.client().every_task()]
        assert deaths == 1 + MAX_ATTEMPTS
        assert told(task).startswith("interrupted, and can't be resumed")
        assert told(task).endswith(
            f"the server died {deaths} times in a row while the agent worked on this"
        )
        assert host.done == ["x"]


@pytest.mark.parametrize(
    ("skill", "reason"),
    [("endless", "did not finish within 0.2 s"), ("silent", "produced no output for 0.2 s")],
)
async def test_work_without_an_end_is_ended(tmp_path: Path, skill: str, reason: str) -> None:
    """D4: nothing stays working for ever: a run has a time limit, and if the skill wants, a limit
    to its silence; its reader hears of it.
    """
    async with hosting(tmp_path) as host:
        task = await host.client().send(message("hello", skill))
        assert state_of(task) == "TASK_STATE_FAILED"
        assert reason in told(task)


async def test_overload_on_grpc_is_resource_exhausted(tmp_path: Path) -> None:
    """V3: the same refusal in the words of gRPC, and a deadline (V5) that ends the call and not the
    task.
    """
    async with hosting(tmp_path, limits={"tasks": 1}, has_grpc=True) as host:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{host.grpc_port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError) as late:
                await grpc_send(channel, "x", "hold", timeout=2)
            assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await grpc_send(channel, "y", "echo", timeout=20)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert int(dict(refused.value.trailing_metadata())["retry-after"]) >= 1
        assert await host.client().total("TASK_STATE_WORKING") == 1
        host.let_go()
        (task,) = [task async for task in host.client().every_task()]
        assert state_of(await settled(host.client(), task["id"])) == "TASK_STATE_COMPLETED"


async def grpc_send(channel: grpc.aio.Channel, text: str, skill: str, timeout: float) -> None:
    from accord.protocol.protobuf.messages import kind

    request = kind("lf.a2a.v1.SendMessageRequest").encode(message(text, skill))
    send = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")
    await send(request, timeout=timeout, metadata=(("a2a-version", "1.0"),))


async def test_a_caller_who_hangs_up_ends_the_call_and_not_the_task(tmp_path: Path) -> None:
    """V5: over HTTP a deadline is a connection closed: nothing waits on for a caller who is gone,
    and the task is finished.
    """
    async with hosting(tmp_path) as host, aiohttp.ClientSession() as session:
        client = host.client()
        said = message("x", "hold")
        calling = asyncio.create_task(
            session.post(host.url + "/message:send", json=said, headers=JSON)
        )
        while not await client.total("TASK_STATE_WORKING"):
            assert not calling.done()
        calling.cancel()  # which closes its connection
        with pytest.raises(asyncio.CancelledError):
            await calling
        (task,) = [task async for task in client.every_task()]
        assert state_of(task) == "TASK_STATE_WORKING"
        host.let_go()
        task = await settled(client, task["id"])
        assert (state_of(task), text_of(task)) == ("TASK_STATE_COMPLETED", "x")
