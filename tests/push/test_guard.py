"""Webhooks can't be used to reach what only the server can: every known trick, through push
configs.
"""

import asyncio
from urllib.parse import urlsplit

import pytest

from accord import Agent, connect
from accord.model import InvalidParams, TaskPushNotificationConfig
from accord.push import PushSettings
from accord.store.memory import MemoryStore
from tests.client.network.test_guard_cases import ALLOWED, NAMES, PUBLIC, REFUSED, Outside
from tests.client.network.wire import OK, say, speaking

PATIENCE_S = 60.0
QUICK = PushSettings(schedule_s=(0.0, *(0.01,) * 9), breaker_s=0.0, timeout_s=0.3)


@pytest.fixture
async def outside(monkeypatch: pytest.MonkeyPatch) -> Outside:
    return Outside(monkeypatch)


def agent() -> Agent:
    made = Agent("Test agent")

    @made.skill
    async def echo(request: str):
        return request

    return made


@pytest.mark.parametrize("url", [url for urls in REFUSED.values() for url in urls], ids=ascii)
async def test_refused_when_it_is_registered(url: str, outside: Outside):
    """With the field and the reason (PDL-5); nothing is connected to, and no task is made
    (PDL-9).
    """
    async with connect(agent()) as client:
        task = (await client.send("hi")).task
        with pytest.raises(InvalidParams, match=r"url: \S"):
            await client.create_push_config(task.id, url)
        with pytest.raises(InvalidParams, match=r"url: \S"):
            await client.send("hi", push=TaskPushNotificationConfig(url=url))
        assert [one.id async for one in client.list()] == [task.id]
    assert outside.connects == []


async def test_a_local_webhook_is_refused_with_the_way_out():
    """It is what everybody tries first: the text says who can allow it, and how."""
    async with connect(agent()) as client:
        task = (await client.send("hi")).task
        with pytest.raises(InvalidParams, match=r"127\.0\.0\.1 is no .*--allow-host 127"):
            await client.create_push_config(task.id, "http://127.0.0.1:9000/hook")
        with pytest.raises(InvalidParams, match="--allow-host localhost"):
            await client.create_push_config(task.id, "http://localhost:9000/hook")


@pytest.mark.parametrize("url", ALLOWED, ids=ascii)
async def test_allowed(url: str, outside: Outside):
    async with connect(agent()) as client:
        task = (await client.send("hi")).task
        config = await client.create_push_config(task.id, url)
        assert config.url == url


async def _troubled(store: MemoryStore, count: int):
    """Wait until so many attempts have failed."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await store.pushes.listed(1)
            if found and found[0].tries >= count:
                return found[0]
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("change", ["between check and connect", "between attempts"])
async def test_a_resolver_that_changes_its_answer_reaches_nothing(change: str, outside: Outside):
    """Every attempt resolves once, and looks at what it connects to."""
    store = MemoryStore()
    private = ["127.0.0.1"]
    first = {"between check and connect": [private], "between attempts": [[PUBLIC], private]}
    outside.names["hooks.example.com"] = [[PUBLIC], *first[change], *[private] * 20]
    app = agent().app(store=store, push=QUICK)
    async with connect(app) as client:
        await client.send(
            "hi", push=TaskPushNotificationConfig(url="https://hooks.example.com/"), wait=False
        )
        push = await _troubled(store, 3)
    await app.close()
    assert "no public address" in push.error
    assert set(outside.connects) <= {(PUBLIC, 443)}
    assert len(outside.connects) == (1 if change == "between attempts" else 0)


async def test_an_answer_without_end_is_a_failure():
    chunk = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
    turn = say(OK + b"transfer-encoding: chunked\r\n\r\n", *[chunk] * 40)
    await _fails_at(turn, "larger than")


async def test_an_answer_that_hardly_comes_is_a_failure():
    await _fails_at(say(OK + b"content-length: 9\r\n\r\n1"), "no answer within 0.3 s")


async def _fails_at(turn, why: str):
    store = MemoryStore()
    async with speaking(*[turn] * 3) as wire:
        app = agent().app(store=store, push=QUICK, allow_hosts=["127.0.0.1"])
        async with connect(app) as client:
            url = f"http://127.0.0.1:{urlsplit(wire.url).port}/"
            await client.send("hi", push=TaskPushNotificationConfig(url=url), wait=False)
            push = await _troubled(store, 1)
        await app.close()
    assert why in push.error


async def test_a_name_that_is_not_known_may_be_tomorrow(outside: Outside):
    """The resolver may be down: it is tried when it is delivered to."""
    assert "unknown.example.com" not in NAMES
    async with connect(agent()) as client:
        task = (await client.send("hi")).task
        await client.create_push_config(task.id, "https://unknown.example.com/")
