"""Several hubs on one PostgreSQL behind a load balancer behave as one."""

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import pytest

from accord import Agent, connect
from accord.client import NO_RETRY, ApiKey, Retry
from accord.console import BrowserSessions
from accord.hub import RestClient
from accord.hub.records.changes import LOOK_S
from accord.hub.rest import KEY_FILE
from accord.model import ArtifactUpdate, TaskState, TooManyRequests, Unauthenticated, Unavailable
from accord.net.breaker import FAILURES
from tests import postgres
from tests.hub.hubs import Desk, agent_named, hub_at, serving_card
from tests.hub.test_gate import entrance
from tests.processes import Process, free_port, run_sync, start, until
from tests.relay.relays import Gate, clerk, served
from tests.reliability.harness import size

ACCORD = Path(sys.executable).with_name("accord")


@contextlib.asynccontextmanager
async def two_hubs(folder: Path, **settings: Any) -> AsyncIterator[tuple[Desk, Desk]]:
    """Two hubs that know of each other."""
    with postgres.schema_url() as url:
        both = {"store": url, "key_file": str(folder / "keys"), **settings}
        async with hub_at(folder / "one", **both) as one, hub_at(folder / "two", **both) as two:
            await until(lambda: living(one) == living(two) == 2)
            yield one, two


def living(desk: Desk) -> int:
    return desk.hub.app.engine.tasks.store.living


async def known(desk: Desk, name: str) -> None:
    await until(lambda: desk.hub.registry.get(name) is not None)


async def test_a_limit_is_divided_by_the_hubs_that_live(tmp_path):
    """10 calls a minute are 5 at each of two hubs; what one leaves is the other's."""
    async with served(agent_named()) as url:
        with postgres.schema_url() as store:
            both = {"store": store, "key_file": str(tmp_path / "keys")}
            async with hub_at(tmp_path / "one", **both) as one:
                async with hub_at(tmp_path / "two", **both) as two:
                    await until(lambda: living(one) == living(two) == 2)
                    await one.add(url, settings={"limits": {"calls_per_minute": 10}})
                    await known(two, "echo")
                    began_s = time.monotonic()
                    counts = [await granted(desk) for desk in (one, two)]
                await until(lambda: living(one) == 1)
                counts.append(await granted(one))
    # A limit per minute grows back with every second.
    most = 5 + (time.monotonic() - began_s) * 10 / 60
    assert all(5 <= count <= most for count in counts), (counts, most)


async def granted(desk: Desk) -> int:
    """Call until it is too often; return how often it was not."""
    async with entrance(desk, "echo", retry=NO_RETRY) as client:
        for count in range(100):
            try:
                await client.send("hi")
            except TooManyRequests:
                return count
    raise AssertionError("there was no limit")


async def test_open_streams_are_divided_too(tmp_path):
    async with served(clerk(Gate())) as url, two_hubs(tmp_path) as (one, two):
        await one.add(url, settings={"limits": {"open_streams": 4}})
        await known(two, "clerk")
        for desk in (one, two):
            async with entrance(desk, "clerk") as client:
                open_ = [client.stream("wait") for _ in range(2)]
                for stream in open_:
                    await anext(stream)
                with pytest.raises(TooManyRequests):
                    await anext(client.stream("wait", timeout_s=1))
                for stream in open_:
                    await client.cancel(stream.task_id)


async def test_an_agent_that_does_not_answer_one_hub_is_not_tried_by_the_other(tmp_path):
    """A breaker that opens at one hub opens at all of them, and closes with it."""
    port = free_port()
    async with two_hubs(tmp_path, open_s=1.0) as (one, two):
        async with clerk().app().serving(port) as url:
            await one.add(url)
            await known(two, "clerk")
        away = [desk.hub.gate.upstreams.is_away for desk in (one, two)]
        async with entrance(one, "clerk", retry=NO_RETRY) as client:
            calls = (client.send("hello") for _ in range(FAILURES))
            failed = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(one) for one in failed} == {Unavailable}
            assert away[0]("clerk")
            await until(lambda: away[1]("clerk"))
        async with clerk().app().serving(port), entrance(two, "clerk") as client:
            assert (await client.send("hello", timeout_s=60)).text == "HELLO"
            await until(lambda: not away[0]("clerk"))


async def test_a_round_of_probes_is_made_by_one_hub(tmp_path):
    """Both look for what is due at the same time; the agent is probed as by one hub."""
    async with served(agent_named()) as url:
        async with hub_at(tmp_path / "alone") as desk:
            await desk.add(url)
            expected = await probed(desk)
        async with two_hubs(tmp_path) as (one, two):
            await one.add(url)
            await known(two, "echo")
            assert await probed(one, two) == expected > 0


async def probed(*desks: Desk) -> int:
    """Have all rounds made that are due; return how many results are stored."""
    probers = [desk.hub.prober for desk in desks]
    for _ in range(3):
        await asyncio.gather(*(prober.tick() for prober in probers))
    entry = desks[0].hub.registry.get("echo")
    assert entry is not None
    await until(lambda: not any(prober.is_busy for prober in probers))
    return sum(hour.total for hour in await probers[0].results.hours(entry.id, 0))


async def test_a_browser_that_one_hub_logged_in_is_known_to_the_other(tmp_path):
    """The console's sessions are in the database. So is what waits for a person."""
    async with serving_card() as server, two_hubs(tmp_path, console=True) as (one, two):
        await one.key("pat", "publisher")
        await one.add(server.url, by="pat")
        alerts = [(await desk.call("GET", "/inbox")).body["alerts"] for desk in (one, two)]
        assert alerts[0] == alerts[1] != []
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            key = await BrowserSessions(one.hub.app.engine.tasks.store.logins).new_link()
            headers = {"X-Accord-Session": "none"}
            login = f"{two.url}/console/api/login"
            async with browser.post(login, json={"key": key}, headers=headers) as opened:
                assert opened.status == 200
                secret = (await opened.json())["secret"]
                name, _, value = opened.headers["Set-Cookie"].partition(";")[0].partition("=")
            # Behind a load balancer both have one address, and so one name for the cookie.
            shown = {
                "X-Accord-Session": secret,
                "Cookie": f"{name.replace(two.url.rpartition(':')[2], port_of(one))}={value}",
            }
            async with browser.get(f"{one.url}/console/api/me", headers=shown) as answer:
                assert answer.status == 200


def port_of(desk: Desk) -> str:
    return desk.url.rpartition(":")[2]


class Balancer:
    """A load balancer: each connection goes to the next hub that accepts one."""

    def __init__(self, ports: list[int]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._ports = itertools.cycle(ports)
        self._count = len(ports)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async with await asyncio.start_server(self._accepted, "127.0.0.1", self.port):
            yield self.url

    async def _accepted(self, near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        for _ in range(self._count):
            with contextlib.suppress(OSError):
                far, to = await asyncio.open_connection("127.0.0.1", next(self._ports))
                await asyncio.gather(_pass(near, to), _pass(far, out))
                return
        out.close()


async def _pass(near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await near.read(65536):
            out.write(data)
            await out.drain()
    out.close()


def counter() -> Agent:
    """An agent that counts slowly, so that hubs die in between."""
    agent = Agent("Counter", description="Counts.")

    @agent.skill
    async def count(most: str) -> AsyncIterator[str]:
        for n in range(int(most)):
            yield f"{n} "
            await asyncio.sleep(0.05)

    return agent


def hub_process(folder: Path, store: str, port: int, url: str, *more: str) -> Process:
    """A hub as `accord hub` serves it."""
    folder.mkdir(exist_ok=True)
    command = ["hub", "--port", str(port), "--url", url, "--store", store, "--no-console", *more]
    keys = {"ACCORD_HUB_KEY_FILE": str(folder.parent / "keys"), "ACCORD_HUB_POLL_S": "0.2"}
    return start(ACCORD, *command, cwd=folder, env=keys)


async def listed(folder: Path, agent: str, *hubs: str) -> None:
    """Add an agent, as the admin of a folder, and return when all hubs know it."""
    key = (folder / ".accord" / KEY_FILE).read_text().strip()
    entry = await RestClient(hubs[0], key).call("POST", "/agents", {"url": agent})
    assert entry["state"] == "approved"
    async with asyncio.timeout(30):
        for hub in hubs:
            while not (await RestClient(hub, key).call("GET", "/agents"))["agents"]:  # noqa: ASYNC110  it polls
                await asyncio.sleep(0.05)


async def counted(url: str, most: int) -> None:
    """Read a stream to its end, wherever it goes on: nothing is missing, nothing comes twice."""
    async with connect(f"{url}/agents/counter", retry=Retry(max_time_s=120)) as client:
        stream = client.stream(str(most), timeout_s=240)
        got = [
            part.text
            async for event in stream
            if isinstance(event, ArtifactUpdate)
            for part in event.artifact.parts
        ]
        assert "".join(map(str, got)).split() == [str(n) for n in range(most)]
        assert (await client.get(stream.task_id)).status.state is TaskState.COMPLETED


async def test_streams_go_on_when_hubs_are_killed(tmp_path):
    """Two hubs behind a load balancer are killed in turns: no event is lost, none comes twice."""
    kills, streams, most = size(2, 10), size(6, 60), size(60, 400)
    ports = [free_port(), free_port()]
    balancer = Balancer(ports)
    folders = [tmp_path / "one", tmp_path / "two"]
    with postgres.schema_url() as store:
        async with served(counter()) as agent, balancer.serving() as url:
            hubs = [
                hub_process(folder, store, port, url)
                for folder, port in zip(folders, ports, strict=True)
            ]
            try:
                for hub in hubs:
                    await hub.line()
                await listed(folders[0], agent, *(f"http://127.0.0.1:{port}" for port in ports))
                work = [asyncio.create_task(counted(url, most)) for _ in range(streams)]
                for n in range(kills):
                    await asyncio.sleep(1.0)  # they are killed in the middle of their work
                    at = n % 2
                    hubs[at].kill()
                    hubs[at] = hub_process(folders[at], store, ports[at], url)
                    await hubs[at].line()
                await asyncio.gather(*work)
            finally:
                for hub in hubs:
                    hub.close()
    print(f"\n{streams} streams of {most} events, {kills} hubs killed: 0 lost, 0 twice")


Way: TypeAlias = Callable[[Desk, str], Awaitable[None]]


def by_door(door: str) -> Way:
    async def call(desk: Desk, name: str) -> None:
        async with entrance(desk, name, door=door) as client:
            assert (await client.send("hi")).text == "hi"

    return call


def by_tenant(binding: str) -> Way:
    async def call(desk: Desk, name: str) -> None:
        headers = {"X-API-Key": desk.keys["admin"]}
        more: dict[str, Any] = {
            "tenant": name,
            "binding": binding,
            "version": "1.0",
            "headers": headers,
        }
        async with connect(desk.url, **more) as client:
            assert (await client.send("hi")).text == "hi"

    return call


async def by_the_hubs_own_agent(desk: Desk, name: str) -> None:
    async with connect(desk.url, auth=ApiKey(desk.keys["admin"])) as client:
        assert (await client.send("hi", metadata={"skill": f"{name}/echo"})).text == "hi"


async def by_its_card(desk: Desk, name: str) -> None:
    async with connect(desk.url, auth=ApiKey(desk.keys["admin"])) as client:
        assert f"{name}/echo" in {skill.id for skill in client.card.skills}


def by_rest(path: str) -> Way:
    async def read(desk: Desk, name: str) -> None:
        found = await desk.call("GET", path.format(name=name))
        assert f'"{name}"' in found.raw.decode(), found.body

    return read


async def by_a_change(desk: Desk, name: str) -> None:
    assert (await desk.call("PATCH", f"/agents/{name}", {"team": "hr"})).status == 200


WAYS = [
    *(by_door(door) for door in ("jsonrpc-1.0", "rest-1.0", "grpc-1.0", "jsonrpc-0.3")),
    *(by_tenant(binding) for binding in ("JSONRPC", "HTTP+JSON", "GRPC")),
    by_the_hubs_own_agent,
    by_its_card,
    *map(by_rest, ("/agents/{name}", "/agents", "/search?text=echo", "/ai-catalog.json")),
    by_a_change,
]


async def test_what_one_hub_has_added_the_other_has_at_once(tmp_path):
    """Every way to an agent finds one that another hub has just added, though the hubs never look
    for changes by themselves here.
    """
    async with two_hubs(tmp_path, poll_s=3600.0, grpc_port=0) as (one, two):
        two.keys["admin"] = one.keys["admin"]
        for n, way in enumerate(WAYS):
            async with served(agent_named()) as url:
                await one.add(url, name=f"agent-{n}")
                assert two.hub.registry.get(f"agent-{n}") is None
                await way(two, f"agent-{n}")


async def test_what_one_hub_has_decided_holds_at_the_other_at_once_over_rest(tmp_path):
    """People, rules, networks and suspended agents: none is listed as it was before."""
    async with served(agent_named()) as url, two_hubs(tmp_path, poll_s=3600.0) as (one, two):
        two.keys["admin"] = one.keys["admin"]
        await one.add(url)
        for verb, path, body, seen_at, seen in (
            ("PUT", "/users/mia", {"role": "publisher"}, "/users", "mia"),
            ("POST", "/teams", {"name": "hr"}, "/teams", "hr"),
            ("POST", "/networks", {"what": "10.1.0.0/16"}, "/networks", "10.1.0.0/16"),
            ("POST", "/policies", {"who": "user:bob", "what": "*"}, "/policies", "user:bob"),
            ("POST", "/agents/echo:suspend", None, "/agents/echo", "suspended"),
        ):
            assert (await one.call(verb, path, body)).status in (200, 201, 204), path
            assert seen in (await two.call("GET", seen_at)).raw.decode(), seen_at


def readings_of(desk: Desk) -> list[str]:
    """Return a list that grows whenever a hub looks for changes of others."""
    database: Any = desk.hub.db
    readings: list[str] = []
    fetch_one = database.fetch_one

    async def counted(sql: str, *values: Any) -> Any:
        if "FROM changes" in sql:
            readings.append(sql)
        return await fetch_one(sql, *values)

    database.fetch_one = counted
    return readings


async def test_who_has_no_valid_key_has_nothing_read(tmp_path):
    """Neither for a name that there is nor for another: the time would show which there are."""
    async with (
        served(agent_named()) as url,
        two_hubs(tmp_path, poll_s=3600.0, grpc_port=0, guests="off") as (one, _),
    ):
        await one.add(url, name="hidden", visibility="private")
        readings = readings_of(one)
        wrong = {"X-API-Key": one.keys["admin"][:-1] + "?"}
        for name in ("hidden", "absent"):
            for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
                async with connect(
                    one.url, tenant=name, binding=binding, version="1.0", headers=wrong
                ) as client:
                    readings.clear()  # of the hub's own card, which is for everybody
                    with pytest.raises(Unauthenticated):
                        await client.get("t1")
                    assert readings == [], (name, binding)
            async with (
                aiohttp.ClientSession(headers=wrong) as http,
                http.get(f"{one.url}/agents/{name}/tasks/t1") as answer,
            ):
                assert answer.status == 401
            assert readings == [], name


async def test_names_that_there_are_not_do_not_load_the_database(tmp_path):
    """However many ask at once for agents that are not there, few readings answer all of them."""
    async with two_hubs(tmp_path, poll_s=3600.0) as (_, two):
        readings = readings_of(two)
        began_s = time.monotonic()
        paths = (f"{two.url}/agents/nosuch-{n}/.well-known/agent-card.json" for n in range(100))
        async with aiohttp.ClientSession(headers={"X-API-Key": two.keys["admin"]}) as http:

            async def status(path: str) -> int:
                async with http.get(path) as answer:
                    return answer.status

            found = await asyncio.gather(*map(status, paths))
        assert set(found) == {404}
        assert 0 < len(readings) <= 2 + (time.monotonic() - began_s) / LOOK_S
        assert len(readings) < len(found)


async def test_workers_share_a_port(tmp_path):
    """`accord hub --workers 2`: one that is killed is started again, and calls are answered."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with postgres.schema_url() as store:
        async with served(agent_named()) as agent:
            with hub_process(tmp_path / "one", store, port, url, "--workers", "2") as hub:
                assert "by 2 processes" in await hub.line()
                await listed(tmp_path / "one", agent, *[url] * 20)
                async with connect(f"{url}/agents/echo", retry=Retry(max_time_s=60)) as client:
                    assert (await client.send("hi")).text == "hi"
                    before = children(hub.pid)
                    os.kill(before[0], signal.SIGKILL)
                    for n in range(20):
                        assert (await client.send(f"hi {n}", timeout_s=60)).text == f"hi {n}"
                    await until(lambda: len(set(children(hub.pid)) - {before[0]}) == 2)
                assert await hub.stop() == 0


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()]


def test_workers_need_a_database_they_can_share(tmp_path):
    done = run_sync(ACCORD, "hub", "--workers", "2", cwd=tmp_path)
    assert done.code == 1
    assert "2 workers need a store that they can share" in done.err
