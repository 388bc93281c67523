"""V1, V3, V5, D4: stops, overload, deadlines and work without end leave nothing broken and nothing stuck."""

import asyncio
import contextlib
import uuid
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from tests.reliability.harness import BROKEN, JSON, Client, Died, Refused, message, report, size, state_of, text_of, told
from tests.survive.host import Host, hosting
from tests.survive.test_fail_points import settled

STUCK = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")


async def until_answered(host: Host, client: Client, params: dict[str, Any], key: str) -> dict[str, Any]:
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


async def load(host: Host, client: Client, ids: list[str], is_over: asyncio.Event) -> None:
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


async def test_no_call_fails_over_restarts_under_load(tmp_path: Path) -> None:
    """V1: one process is stopped and started again and again while clients repeat what was not answered: no call fails, no
    step of durable work is done twice, every stop ends with code 0, nothing is stuck."""
    stops, ids = size(5, 50), list[str]()
    async with hosting(tmp_path, grace_s=20) as host:
        is_over = asyncio.Event()
        loads = [asyncio.create_task(load(host, client, ids, is_over)) for client in host.clients() for _ in range(4)]
        for _ in range(stops):
            await asyncio.wait(loads, timeout=0.5, return_when=asyncio.FIRST_EXCEPTION)
            assert await host.stop() == 0
            await host.start()
        is_over.set()
        await asyncio.gather(*loads)
        assert [await host.client().total(state) for state in STUCK] == [0, 0]
        assert len(ids) == len(set(ids))
        assert len(host.done) == len(set(host.done)), "a step was done twice"
        report("V1", stops=stops, calls=len(ids), failed=0, stuck=0, steps=len(host.done), repeated=0)


async def test_a_server_that_stops_is_not_ready_but_healthy_and_says_so_to_senders(tmp_path: Path) -> None:
    """V1: SIGTERM with work going on: /readyz turns 503 while /healthz stays 200, new work is refused with Retry-After, a stream
    of durable work is told to come back, plain work is finished, the exit code is 0; the next life goes on with the rest."""
    async with hosting(tmp_path, grace_s=20) as host, aiohttp.ClientSession() as session:
        client = host.client("rest")
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
        async with session.post(host.url + "/message:send", json=message("new", "echo"), headers=JSON) as refused:
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        with pytest.raises(Refused, match="try again"):
            async for _ in stream:
                pass
        with pytest.raises(Refused, match="try again"):
            await waiting
        assert not plain.done()
        host.let_go()
        assert state_of(await plain) == "TASK_STATE_COMPLETED"
        assert await stopping == 0
        await host.start()
        assert text_of(await settled(client, kept["id"])) == "y-1 done;y-2 done;"


async def test_a_step_under_way_is_done_before_its_run_is_let_go(tmp_path: Path) -> None:
    """V1: a stop in the middle of a step waits for it, so that the next life need not do it again; nothing after it is begun."""
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


async def test_a_repeat_after_a_crash_waits_for_the_durable_run_it_belongs_to(tmp_path: Path) -> None:
    """I1, D4: the same key after a kill gets the end of the work, not a look at the middle of it."""
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
    """How many tasks have an artifact: their first step is done and noted, and no death will repeat it."""
    return sum(bool(text_of(task)) for task in [task async for task in client.every_task()])


async def test_nothing_is_stuck_after_a_kill(tmp_path: Path) -> None:
    """D4: every task a killed process leaves is ended, waiting, or worked on by the next one; on one file that is at once, since
    the next process holds the file only if the last one is gone."""
    async with hosting(tmp_path) as host:
        client = host.client()
        sent = {
            skill: [(await client.send(message(f"{skill}{n}", skill, returnImmediately=True)))["id"] for n in range(10)]
            for skill in ("hold", "careful", "talk")
        }
        while await said_by_all(client) < 10:
            pass
        await host.kill()
        await host.start()
        assert await client.total("TASK_STATE_WORKING") == 10
        host.let_go()
        ends = {skill: {state_of(await settled(client, id_)) for id_ in ids} for skill, ids in sent.items()}
        assert ends == {
            "hold": {"TASK_STATE_FAILED"},
            "careful": {"TASK_STATE_COMPLETED"},
            "talk": {"TASK_STATE_INPUT_REQUIRED"},
        }
        answers = [await client.send(message("bye", task_id=id_)) for id_ in sent["talk"]]  # by task id alone
        assert {state_of(task) for task in answers} == {"TASK_STATE_COMPLETED"}
        assert len(host.done) == len(set(host.done)) == 20
        report("D4", killed_with=30, stuck=0)


async def test_work_that_kills_its_process_is_not_tried_for_ever(tmp_path: Path) -> None:
    """D4: a durable run that dies at the same place in every life is given up after a few, and the server is free of it."""
    async with hosting(tmp_path) as host:
        with pytest.raises(BROKEN):
            await host.client().send(message("x", "deadly"))
        lives = 1
        while await host.ended():
            with contextlib.suppress(Died, *BROKEN):
                await host.start()
                if await host.client().total("TASK_STATE_FAILED"):
                    break
            lives += 1
            assert lives < 20
        (task,) = [task async for task in host.client().every_task()]
        assert told(task) == "interrupted 6 times at the same place, and given up"
        assert host.done == ["x"]


@pytest.mark.parametrize(("skill", "reason"), [("endless", "did not finish within 0.2 s"), ("silent", "said nothing for 0.2 s")])
async def test_work_without_an_end_is_ended(tmp_path: Path, skill: str, reason: str) -> None:
    """D4: nothing stays working for ever: a run has a time limit, and if the skill wants, a limit to its silence; its reader
    hears of it."""
    async with hosting(tmp_path) as host:
        task = await host.client().send(message("hello", skill))
        assert state_of(task) == "TASK_STATE_FAILED"
        assert reason in told(task)


async def test_overload_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    """V3: five times what the server takes at once: what is too much gets 429 and Retry-After before it costs anything, health
    answers meanwhile, memory stays bounded, and afterwards all is as before."""
    capacity, rounds = 100, size(5, 200)
    crowd = aiohttp.TCPConnector(limit=0)
    async with hosting(tmp_path, limits={"tasks": capacity}) as host, aiohttp.ClientSession(connector=crowd) as session:
        client = host.client("rest")
        await asyncio.gather(*(attempt(session, host, "50") for _ in range(capacity)))
        before, outcomes = resident(host.pid), list[int]()
        for _ in range(rounds):
            work = [asyncio.create_task(attempt(session, host, "50")) for _ in range(5 * capacity)]
            while not all(task.done() for task in work):
                assert (await status(session, host.url + "/healthz"))[0] == 200
            outcomes += [task.result() for task in work]
        assert set(outcomes) == {200, 429}
        grown = resident(host.pid) - before
        assert grown < 64 << 20
        assert state_of(await client.send(message("hello", "echo"))) == "TASK_STATE_COMPLETED"
        assert [await client.total(state) for state in STUCK] == [0, 0]
        assert await client.total() == outcomes.count(200) + capacity + 1
        report("V3", calls=len(outcomes), done=outcomes.count(200), refused=outcomes.count(429), grown_kib=grown >> 10)


async def attempt(session: aiohttp.ClientSession, host: Host, text: str) -> int:
    async with session.post(host.url + "/message:send", json=message(text, "slow"), headers=JSON) as answer:
        if answer.status != 200:
            assert int(answer.headers["retry-after"]) >= 1
        await answer.read()
        return answer.status


def resident(pid: int) -> int:
    """Bytes of memory a process has."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) << 10


async def test_overload_on_grpc_is_resource_exhausted(tmp_path: Path) -> None:
    """V3: the same refusal in the words of gRPC, and a deadline (V5) that ends the call and not the task."""
    port = free_port()
    async with hosting(tmp_path, limits={"tasks": 1}, grpc_port=port) as host:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError) as late:
                await grpc_send(channel, "x", "hold", timeout=0.5)
            assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await grpc_send(channel, "y", "echo", timeout=20)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await host.client().total("TASK_STATE_WORKING") == 1
        host.let_go()
        (task,) = [task async for task in host.client().every_task()]
        assert state_of(await settled(host.client(), task["id"])) == "TASK_STATE_COMPLETED"


async def grpc_send(channel: grpc.aio.Channel, text: str, skill: str, timeout: float) -> None:
    from accord.codec.protobuf import kind

    request = kind("lf.a2a.v1.SendMessageRequest").encode(message(text, skill))
    send = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")
    await send(request, timeout=timeout, metadata=(("a2a-version", "1.0"),))


def free_port() -> int:
    import socket

    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_caller_who_hangs_up_ends_the_call_and_not_the_task(tmp_path: Path) -> None:
    """V5: over HTTP a deadline is a connection closed: nothing waits on for a caller who is gone, and the task is finished."""
    async with hosting(tmp_path) as host, aiohttp.ClientSession() as session:
        client = host.client()
        patience = aiohttp.ClientTimeout(total=0.5)
        with pytest.raises(asyncio.TimeoutError):
            await session.post(host.url + "/message:send", json=message("x", "hold"), headers=JSON, timeout=patience)
        (task,) = [task async for task in client.every_task()]
        assert state_of(task) == "TASK_STATE_WORKING"
        host.let_go()
        task = await settled(client, task["id"])
        assert (state_of(task), text_of(task)) == ("TASK_STATE_COMPLETED", "x")
