"""How a delivery went can't be stored for a while: nothing is delivered again for that.

Each outcome there is, with the write that stores it failing once, twice, and for longer than a
webhook is taken for.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from accord import Agent
from accord.auth import new_key
from accord.model import Unavailable
from accord.net.breaker import FAILURES
from accord.push import PushSettings
from accord.push.outbox import LEASE_MS
from accord.store import CommitFailed, SystemClock, open_store
from accord.store.postgres import PostgresStore
from tests.drive import JsonRpc, refusal_of, say, serving
from tests.postgres import execute, schema_url
from tests.processes import until

from .webhook import Call, Webhook

# A webhook answers one event in a certain way, and all others with 200.
EVENT = 2
SETTINGS = PushSettings(schedule_s=(0.0, 0.01, 0.01), breaker_s=0.05)

# What comes in, by the number of the event; dead letters; whether the webhook is disabled.
OUTCOMES: dict[str, tuple[Sequence[int], dict[int, int], int, bool]] = {
    "delivered": ((), {1: 1, 2: 1, 3: 1}, 0, False),
    "tried again": ((500,), {1: 1, 2: 2, 3: 1}, 0, False),
    "refused": ((400,), {1: 1, 2: 1, 3: 1}, 1, False),
    "given up": ((429,) * 3, {1: 1, 2: 3, 3: 1}, 1, False),
    "gone": ((410,), {1: 1, 2: 1}, 1, True),
    "down": ((500,) * 2 + (503,), {1: 1, 2: 3, 3: 1}, 1, False),
}
SETTLE, POSTPONE = "settle", "postpone"


class Failing:
    """A store whose write of outcomes fails a number of times."""

    def __init__(self, store: Any, operation: str, times: int) -> None:
        self.store, self._left = store, times
        write = getattr(store.pushes, operation)

        async def failing(*values: Any, **more: Any) -> Any:
            if self._left:
                self._left -= 1
                raise CommitFailed("disk full")
            return await write(*values, **more)

        setattr(store.pushes, operation, failing)

    @property
    def left(self) -> int:
        return self._left


class FailingDatabase:
    """PostgreSQL itself fails the statement: a trigger counts, by a sequence, which is not rolled
    back.
    """

    def __init__(self, store: PostgresStore, operation: str, times: int) -> None:
        self.store, self._times = store, times
        schema = self._schema = store.options.schema
        # Taking a webhook is an update too, and has to succeed.
        its = "%SET sent%" if operation == SETTLE else "UPDATE%SET due_ms = %endpoint = $2%"
        for sql in (
            "CREATE SEQUENCE {s}.faults",
            "CREATE FUNCTION {s}.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF current_query() LIKE '{its}' AND nextval('{schema}.faults') <= {times} THEN "
            "RAISE EXCEPTION 'disk full' USING ERRCODE = '53100'; END IF; RETURN NULL; END $$",
            "CREATE TRIGGER fails BEFORE UPDATE ON {s}.pushes FOR EACH STATEMENT "
            "EXECUTE FUNCTION {s}.fail()",
        ):
            execute(sql.format(s=schema))

    @property
    def left(self) -> int:
        ((last,),) = execute(
            f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {self._schema}.faults"
        )
        return max(0, self._times - int(last))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_KEY", new_key())
    monkeypatch.setattr("accord.push.outbox.RETRY_S", 0.005)
    monkeypatch.setattr("accord.push.outbox.LOOK_S", 0.02)


class LaterClock(SystemClock):
    """The clock of this process, and a while later if a test says so."""

    later_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.later_ms


async def let_leases_end(store: Any) -> None:
    if isinstance(store, PostgresStore):
        await store.fetch("UPDATE {s}.pushes SET due_ms = 1 WHERE due_ms IS NOT NULL")
    else:
        store.clock.later_ms = 2 * LEASE_MS


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Any]:
    if request.param == "postgres":
        with schema_url() as url:
            yield PostgresStore(url)
    else:
        url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'tasks.db'}"
        yield open_store(url, clock=LaterClock())


@asynccontextmanager
async def served(store: Any, settings: PushSettings = SETTINGS) -> AsyncIterator[Any]:
    agent = Agent("Helper")

    @agent.skill
    async def work(request: str) -> None:
        """Three events: the task, working, completed."""

    app = agent.app(store=store, push=settings, allow_hosts=["127.0.0.1"])
    async with serving(app, app.close) as url, aiohttp.ClientSession() as http:
        await app.open()
        client = JsonRpc(http, url)
        client.outbox = app.notifier.outbox  # type: ignore[attr-defined]
        yield client


def failing(store: Any, operation: str, times: int) -> Failing | FailingDatabase:
    kind = FailingDatabase if isinstance(store, PostgresStore) else Failing
    return kind(store, operation, times)


def judge(hook: Webhook, answers: Sequence[int]) -> None:
    left = list(answers)

    def answer(call: Call) -> int:
        return left.pop(0) if call.number == EVENT and left else 200

    hook.judge = answer


async def is_settled(store: Any) -> bool:
    """All there is was delivered or given up, and the store knows."""
    (push,) = await store.pushes.listed(2)
    return bool(push.disabled) or (push.sent == push.upto == 3 and push.due_ms is None)


async def all_of_it(store: Any, hook: Webhook, faults: Any) -> Counter[int]:
    async with asyncio.timeout(30):
        while faults.left or not await is_settled(store):  # noqa: ASYNC110  it is in the store
            await asyncio.sleep(0.01)
    return Counter(call.number for call in hook.calls)


@pytest.mark.parametrize("times", [1, 2, 20], ids=["once", "twice", "long"])
@pytest.mark.parametrize("name", OUTCOMES)
async def test_an_outcome_that_was_not_stored_at_first_delivers_nothing_again(
    store: Any, hook: Webhook, name: str, times: int
) -> None:
    """The same calls come in, the same is stored in the end."""
    answers, expected, letters, is_disabled = OUTCOMES[name]
    judge(hook, answers)
    async with served(store) as client:
        faults = await asyncio.to_thread(failing, store, SETTLE, times)
        inline = {"taskPushNotificationConfig": {"url": hook.url}, "returnImmediately": True}
        await client.send(say("go", configuration=inline))
        if times > 2:  # the time for which it was taken runs out meanwhile
            await until(lambda: client.outbox._is_unsettled)
            await let_leases_end(store)
        assert await all_of_it(store, hook, faults) == expected
        assert len(await store.pushes.letters(10)) == letters
        (push,) = await store.pushes.listed(2)
        assert bool(push.disabled) == is_disabled


@pytest.mark.parametrize("times", [1, 2, 60], ids=["once", "twice", "long"])
async def test_an_endpoint_that_is_not_put_off_is_tried_as_often_and_not_oftener(
    store: Any, hook: Webhook, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The breaker opens after some failures in a row, and puts off what is due there. If that can't
    be stored, the attempt has failed as any other.
    """
    judge(hook, (500,) * (FAILURES + 1))
    settings = PushSettings(schedule_s=(0.0,) * (FAILURES + 3), breaker_s=0.05)
    async with served(store, settings) as client:
        faults = await asyncio.to_thread(failing, store, POSTPONE, times)
        inline = {"taskPushNotificationConfig": {"url": hook.url}, "returnImmediately": True}
        await client.send(say("go", configuration=inline))
        async with asyncio.timeout(30):
            while not await is_settled(store):  # noqa: ASYNC110  it is in the store
                await asyncio.sleep(0.01)
        assert Counter(call.number for call in hook.calls) == {1: 1, 2: FAILURES + 2, 3: 1}
        (push,) = await store.pushes.listed(2)
        assert (push.error, push.disabled) == ("", "")
        assert faults.left < times, "the breaker has opened"
    assert "can't be made" not in caplog.text


async def test_a_webhook_that_can_not_be_stored_is_refused_for_now(hook: Webhook) -> None:
    """503, not an internal error: its sender may try again."""

    async def run(sql: str) -> None:
        """Not in the loop: a change of the table waits for the server's transactions."""
        await asyncio.to_thread(execute, sql)

    with schema_url() as url:
        store = PostgresStore(url)
        async with served(store) as client:
            task = (await client.send("go"))["task"]
            schema = store.options.schema
            await run(
                f"CREATE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'disk full' USING ERRCODE = '53100'; END $$"
            )
            await run(
                f"CREATE TRIGGER fails BEFORE INSERT OR DELETE ON {schema}.pushes "
                f"FOR EACH STATEMENT EXECUTE FUNCTION {schema}.fail()"
            )
            refused = await refusal_of(client.create_push_config(task["id"], {"url": hook.url}))
            assert refused.reason == Unavailable.reason
            await run(f"DROP TRIGGER fails ON {schema}.pushes")
            made = await client.create_push_config(task["id"], {"url": hook.url, "id": "c"})
            assert made["id"] == "c"
