"""Several processes on one store: any of them registers webhooks, and any delivers."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from accord import Agent, Context
from accord.auth import new_key
from accord.push import PushSettings
from accord.store.memory import MemoryStore
from tests.drive import JsonRpc, refusal_of, say, serving
from tests.postgres import schema_url

from .webhook import Webhook


@pytest.fixture(autouse=True)
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas share their keys as they share their store."""
    monkeypatch.setenv("ACCORD_KEY", new_key())


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch, patient: None) -> None:
    """A send does not learn that another process has delivered, and waits in vain."""
    monkeypatch.setattr("accord.push.outbox.FIRST_ATTEMPT_S", 0.1)


def helper(gate: asyncio.Event) -> Agent:
    agent = Agent("Helper")

    @agent.skill
    async def work(request: str, ctx: Context):
        if request == "ask":
            return await ctx.ask("What?")
        await gate.wait()
        return request

    return agent


@asynccontextmanager
async def replica(store: MemoryStore | str, gate: asyncio.Event, **options: Any):
    settings = PushSettings(schedule_s=(0.0, *(0.02,) * 20), breaker_s=0.05)
    app = helper(gate).app(store=store, push=settings, allow_hosts=["127.0.0.1"], **options)
    async with serving(app, app.close) as url, aiohttp.ClientSession() as http:
        await app.open()
        yield JsonRpc(http, url), app


async def test_a_webhook_of_a_task_another_process_runs(hook: Webhook):
    """It counts for what the owner commits after it."""
    gate, store = asyncio.Event(), MemoryStore()
    async with replica(store, gate) as (one, _), replica(store.another(), gate) as (two, _):
        config = {"returnImmediately": True}
        task = (await one.send(say("go", configuration=config)))["task"]
        await two.create_push_config(task["id"], {"url": hook.url, "id": "c"})
        assert (await one.get_push_config(task["id"], "c"))["url"] == hook.url
        gate.set()
        assert [call.kind for call in await hook.ended()] == ["completed"]


async def test_a_follow_up_through_another_process_brings_its_webhook(hook: Webhook):
    """The message is posted to the owner; its config is stored before, without its secrets in the
    post.
    """
    gate, store = asyncio.Event(), MemoryStore()
    async with replica(store, gate) as (one, _), replica(store.another(), gate) as (two, _):
        task = (await one.send("ask"))["task"]
        inline = {"taskPushNotificationConfig": {"url": hook.url}}
        await two.send(say("that", configuration=inline, taskId=task["id"]))
        assert [call.kind for call in await hook.ended()] == ["working", "completed"]


async def test_what_one_process_leaves_another_delivers(hook: Webhook):
    gate, store = asyncio.Event(), MemoryStore()
    gate.set()
    hook.judge = lambda call: 500
    async with replica(store, gate) as (one, _):
        inline = {"taskPushNotificationConfig": {"url": hook.url}, "returnImmediately": True}
        await one.send(say("go", configuration=inline))
        await hook.until(lambda calls: len(calls) > 2)
    hook.judge = None
    hook.calls.clear()
    async with replica(store.another(), gate):
        assert [call.kind for call in await hook.ended()] == ["task", "working", "completed"]


async def test_two_processes_deliver_nothing_twice_without_need(hook: Webhook):
    """Who has taken a webhook has it alone."""
    gate, store = asyncio.Event(), MemoryStore()
    gate.set()
    async with replica(store, gate) as (one, _), replica(store.another(), gate) as (two, _):
        inline = {"taskPushNotificationConfig": {"url": hook.url}}
        sends = [who.send(say("go", configuration=inline)) for who in (one, two) * 20]
        await asyncio.gather(*sends)
        await hook.until(lambda calls: len(calls) >= 120)
    ids = [call.headers["webhook-id"] for call in hook.calls]
    assert len(ids) == len(set(ids)) == 120


async def test_a_server_without_a_key_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A shared store needs a key for all: the operator learns it at the start, and the card does
    not offer what would be refused.
    """
    monkeypatch.delenv("ACCORD_KEY")
    store = MemoryStore()
    store.is_volatile = False  # as a database is
    async with replica(store, asyncio.Event()) as (one, app):
        assert "accord keyring new" in caplog.text
        assert not app.card("http://here").capabilities.push_notifications
        inline = {"taskPushNotificationConfig": {"url": "https://h.example"}}
        refused = await refusal_of(one.send(say("go", configuration=inline)))
        assert refused.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        task = (await one.send("ask"))["task"]
        refused = await refusal_of(one.create_push_config(task["id"], {"url": "https://h.example"}))
        assert refused.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"


async def test_on_postgres_any_replica_delivers(hook: Webhook):
    """Registered by one, run by another, refused at first, and delivered by whoever is there."""
    gate = asyncio.Event()
    refused = iter([500, 503])
    hook.judge = lambda call: next(refused, 200)
    with schema_url() as url:
        async with replica(url, gate) as (one, _), replica(url, gate) as (two, _):
            config = {"returnImmediately": True}
            task = (await one.send(say("go", configuration=config)))["task"]
            await two.create_push_config(task["id"], {"url": hook.url, "id": "c"})
            inline = {"taskPushNotificationConfig": {"url": hook.url + "/2"}} | config
            await two.send(say("go", configuration=inline))
            gate.set()
            await hook.until(lambda calls: [c.kind for c in calls].count("completed") >= 2)
    first = [call.kind for call in hook.calls if call.path == "/hook"]
    assert first[-1] == "completed"
    order = list(dict.fromkeys(c.number for c in hook.calls if c.path == "/hook/2"))
    assert order == sorted(order)
    assert order[0] == 1
