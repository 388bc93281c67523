"""How deliveries go: what counts as one, what is tried again and when, what is given up."""

import asyncio
import logging
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Context
from accord.auth import new_key
from accord.push import PushSettings
from accord.push.delivery import Verdict, _judged
from accord.push.outbox import FIRST_ATTEMPT_S, Outbox
from accord.push.settings import SCHEDULE_S
from accord.store.memory import MemoryStore
from accord.testing import Clock
from tests.drive import PATIENCE_S, JsonRpc, say, serving

from .webhook import Call, Webhook, webhook

QUICK = PushSettings(schedule_s=(0.0, *(0.01,) * 9), breaker_s=0.05)


async def work(request: str, ctx: Context):
    if request == "ask":
        return await ctx.ask("What?")
    return request


class Served:
    """An app on a store of the test's own, and a client of it."""

    def __init__(self, app: Any, client: JsonRpc, store: Any) -> None:
        self.app, self.client, self.store = app, client, store
        self.outbox: Outbox = app.notifier.outbox

    async def send(self, text: str, url: str, **more: Any) -> str:
        config = {"taskPushNotificationConfig": {"url": url} | more, "returnImmediately": True}
        task = (await self.client.send(say(text, configuration=config)))["task"]
        return str(task["id"])

    async def push(self) -> Any:
        [found] = await self.store.pushes.listed(2)
        return found

    @property
    def is_idle(self) -> bool:
        """Nothing is under way, and how it went is stored."""
        outbox = self.outbox
        return not outbox._busy and outbox._settler.is_idle

    async def until(self, is_so: Any) -> Any:
        """Wait until the one webhook is as it should be."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_so(push := await self.push()):  # noqa: ASYNC110  it is in the store
                await asyncio.sleep(0.005)
        return push


@asynccontextmanager
async def served(settings: PushSettings = QUICK, agent: Any = work, store: Any = None):
    import aiohttp

    made = Agent("Test agent")
    made.skill(agent)
    store = store or MemoryStore()
    app = made.app(store=store, push=settings, allow_hosts=["127.0.0.1"])
    async with serving(app, app.close) as url, aiohttp.ClientSession() as http:
        await app.open()
        yield Served(app, JsonRpc(http, url), store)


def kinds(calls: list[Call]) -> list[str]:
    return [call.kind for call in calls]


# Verdicts


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(status, Verdict.DELIVERED) for status in (200, 201, 202, 204, 299)]
    + [(status, Verdict.LATER) for status in (301, 302, 304, 307, 308, 408, 425, 429, 500, 503)]
    + [(status, Verdict.REFUSED) for status in (400, 401, 403, 404, 405, 413, 422, 499)]
    + [(410, Verdict.GONE)],
)
def test_what_an_answer_means(status: int, verdict: Verdict):
    """2xx only; redirects are failures; 410 is for good; what a client is blamed for is final."""
    assert _judged(status, None).verdict is verdict


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("7", 7), ("0", 0), ("999999", 3600), ("soon", None), ("", None), (None, None), ("-5", None)],
)
def test_retry_after_is_honoured_up_to_an_hour(given: str | None, seconds: float | None):
    assert _judged(503, given).after_s == seconds
    assert _judged(429, given).after_s == seconds


def test_retry_after_may_be_a_date():
    attempt = _judged(429, "Fri, 31 Dec 1999 23:59:59 GMT")
    assert attempt.after_s == 0


# Order and repetition


async def test_failures_are_tried_again_in_order(hook: Webhook):
    """The second event waits for the first, however often that fails (N3) (PDL-3)."""
    hook.answers += [500, 503, 500]
    async with served() as server:
        await server.send("hi", hook.url)
        calls = await hook.ended()
        assert kinds(calls) == ["task"] * 4 + ["working", "completed"]
        assert len({call.headers["webhook-id"] for call in calls[:4]}) == 1
        push = await server.until(lambda push: push.sent == push.upto)
        assert (push.tries, push.failing_ms, push.due_ms) == (0, 0, None)


async def test_redirects_are_not_followed(hook: Webhook):
    async with webhook() as other:
        hook.answers.append((307, {"Location": other.url}))
        async with served() as server:
            await server.send("hi", hook.url)
            calls = await hook.ended()
            assert kinds(calls) == ["task", "task", "working", "completed"]
            assert other.calls == []


async def test_a_refused_event_is_a_dead_letter_and_the_next_is_delivered(hook: Webhook):
    """A refusal never blocks the queue; the letter says which event, and why."""
    hook.answers += [200, 422]
    async with served() as server:
        await server.send("hi", hook.url)
        assert kinds(await hook.ended()) == ["task", "working", "completed"]
        [letter] = await server.store.pushes.letters(9)
        assert (letter.first, letter.last) == (2, 2)
        assert letter.error == "422 Unprocessable Entity"


async def test_after_the_last_attempt_an_event_is_a_dead_letter(hook: Webhook):
    settings = PushSettings(schedule_s=(0.0, 0.01, 0.01), breaker_s=0.01)
    hook.judge = lambda call: 200 if call.kind != "task" else 500
    async with served(settings) as server:
        await server.send("hi", hook.url)
        assert kinds(await hook.ended()) == ["task"] * 3 + ["working", "completed"]
        [letter] = await server.store.pushes.letters(9)
        assert (letter.first, letter.error) == (1, "500 Internal Server Error")


async def test_a_dead_letter_is_replayed(hook: Webhook):
    """From its event on, in order, with the same ids: who has seen an event knows it."""
    hook.answers.append(400)
    async with served() as server:
        await server.send("hi", hook.url)
        first = list(await hook.ended())
        [letter] = await server.store.pushes.letters(9)
        await server.until(lambda push: push.sent == push.upto)
        await server.store.pushes.replay([letter.n])
        calls = await hook.until(lambda calls: len(calls) == 6)
        assert kinds(calls[3:]) == ["task", "working", "completed"]
        ids = [call.headers["webhook-id"] for call in calls]
        assert ids[3:] == ids[:3]
        assert first == calls[:3]


async def test_410_disables_and_the_owner_sees_why(hook: Webhook):
    hook.answers.append(410)
    async with served() as server:
        task_id = await server.send("ask", hook.url, id="c")
        await server.until(lambda push: push.disabled)
        path = f"{server.client.url}/tasks/{task_id}/pushNotificationConfigs/c"
        async with server.client.http.get(path) as response:
            assert response.headers["accord-push-state"] == "c: disabled: 410 Gone"
        await server.client.send(say("that", taskId=task_id))
        assert len(hook.calls) == 1
        # Registered again it is enabled, and gets what it has missed since.
        config = {"url": hook.url, "id": "c"}
        await server.client.create_push_config(task_id, config)
        assert "completed" in kinds(await hook.ended())
        async with server.client.http.get(path) as response:
            assert "accord-push-state" not in response.headers


# The schedule, by a clock of the test's


def advance_to(clock: Clock, at_ms: int) -> None:
    clock.advance((at_ms - clock.now_ms()) / 1000)


async def _attempts(hook: Webhook, settings: PushSettings, chance: float, count: int):
    """Fail again and again; return the pauses between attempts, and the webhook in the end."""
    clock, pauses = Clock(), []
    async with served(settings, store=clock.store()) as server:
        server.outbox._chance = lambda: chance
        hook.judge = lambda call: 500
        await server.send("ask", hook.url)
        for n in range(1, count + 1):
            push = await server.until(
                lambda push, n=n: (
                    (
                        len(hook.calls) >= n
                        and (push.due_ms or 0) > clock.now_ms()
                        and push.tries == n
                    )
                    or push.disabled
                    or push.sent
                )
            )
            if push.tries != n:
                break
            pauses.append((push.due_ms - clock.now_ms()) / 1000)
            server.outbox._breakers.clear()
            advance_to(clock, push.due_ms)
        return pauses, await server.push(), await server.store.pushes.letters(9)


async def test_attempts_follow_the_schedule(hook: Webhook):
    """Ten of them in 75 hours (PDL-4): 0, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h."""
    pauses, push, letters = await _attempts(hook, PushSettings(breaker_s=0.0), 0.5, 10)
    assert pauses == [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]
    assert sum(pauses) == 75 * 3600 + 35 * 60 + 5
    assert len(SCHEDULE_S) == 10
    assert [letter.first for letter in letters] == [1]
    assert push.sent == 1


@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.8), (1.0, 1.2)])
async def test_pauses_vary_by_a_fifth(hook: Webhook, chance: float, factor: float):
    """So that what failed together does not come back together."""
    pauses, *_ = await _attempts(hook, PushSettings(breaker_s=0.0), chance, 2)
    assert pauses == pytest.approx([5 * factor, 300 * factor])


async def test_retry_after_lengthens_a_pause(hook: Webhook):
    clock = Clock()
    async with served(PushSettings(), store=clock.store()) as server:
        hook.answers.append((503, {"Retry-After": "1000"}))
        await server.send("ask", hook.url)
        push = await server.until(lambda push: push.tries == 1)
        assert push.due_ms == clock.now_ms() + 1_000_000


async def test_an_endpoint_that_fails_for_five_days_is_disabled(hook: Webhook):
    """Each event is given up after its attempts; the endpoint, after five days of nothing else."""
    schedule = (0.0, 86400.0, 86400.0, 86400.0)
    settings = PushSettings(schedule_s=schedule, breaker_s=0.0)
    clock = Clock()
    async with served(settings, store=clock.store()) as server:
        server.outbox._chance = lambda: 0.5
        hook.judge = lambda call: 500
        await server.send("ask", hook.url)
        started = clock.now_ms()
        while True:
            push = await server.until(
                lambda push: push.disabled or (server.is_idle and push.due_ms > clock.now_ms())
            )
            if push.disabled:
                break
            server.outbox._breakers.clear()
            advance_to(clock, push.due_ms)
        assert (clock.now_ms() - started) / 86_400_000 == 5
        assert push.disabled.startswith("every attempt failed for 5 days: 500")
        letters = await server.store.pushes.letters(9)
        assert [(one.first, one.last) for one in letters] == [(2, 3), (1, 1)]


# What stands in nobody's way


async def test_a_webhook_that_hangs_delays_no_other(hook: Webhook):
    """Another task's, and another webhook of the same task."""
    gate = asyncio.Event()

    async def hang() -> int:
        await gate.wait()
        return 200

    async with webhook() as slow, served() as server:
        slow.answers += [hang, hang]
        first = await server.send("hi", slow.url)
        await server.client.create_push_config(first, {"url": hook.url, "id": "second"})
        second = await server.send("hi", hook.url)
        await hook.until(
            lambda calls: any(c.task_id == second and c.kind == "completed" for c in calls)
        )
        assert slow.calls == []
        gate.set()
        assert kinds(await slow.ended()) == ["task", "working", "completed"]


async def test_the_circuit_breaker_leaves_a_dead_endpoint_alone():
    """After five failures nothing is sent for a while; then one tries, and if it works, all do."""
    settings = PushSettings(schedule_s=(0.0, *(0.01,) * 30), breaker_s=0.2)
    async with webhook() as hook, served(settings) as server:
        hook.judge = lambda call: 500
        ids = [await server.send("hi", hook.url) for _ in range(30)]
        await hook.until(lambda calls: len(calls) >= 5)
        [breaker] = server.outbox._breakers.values()
        async with asyncio.timeout(PATIENCE_S):
            while not breaker.left_s:  # noqa: ASYNC110  nobody is told
                await asyncio.sleep(0.005)
        hook.judge = None
        wanted = {(task_id, kind) for task_id in ids for kind in ("task", "working", "completed")}
        await hook.until(lambda calls: {(c.task_id, c.kind) for c in calls} >= wanted)
        assert breaker.is_closed
        first = dict[tuple[str, str], int]()
        for place, call in enumerate(hook.calls):
            first.setdefault((call.task_id, call.kind), place)
        for task_id in ids:
            places = [first[task_id, kind] for kind in ("task", "working", "completed")]
            assert places == sorted(places)


async def test_a_blocking_reply_waits_for_the_first_attempt_of_its_last_event(hook: Webhook):
    async with served() as server:
        config = {"taskPushNotificationConfig": {"url": hook.url}}
        await server.client.send(say("hi", configuration=config))
        assert kinds(hook.calls) == ["task", "working", "completed"]


async def test_a_blocking_reply_does_not_wait_for_a_webhook_that_hangs(
    hook: Webhook, monkeypatch: pytest.MonkeyPatch
):
    """A tenth of a second at most, and the page says so."""
    page = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
    assert f"at most {FIRST_ATTEMPT_S:g} s" in page
    assert FIRST_ATTEMPT_S <= 0.1
    monkeypatch.setattr("accord.push.outbox.FIRST_ATTEMPT_S", FIRST_ATTEMPT_S)
    gate = asyncio.Event()

    async def hang() -> int:
        await gate.wait()
        return 200

    async with served() as server:
        hook.answers.append(hang)
        config = {"taskPushNotificationConfig": {"url": hook.url}}
        answer = await server.client.send(say("hi", configuration=config))
        assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert hook.calls == []
        gate.set()


async def test_artifacts_are_pushed_on_request(hook: Webhook):
    """To who activates the extension when it registers; others get statuses alone."""
    async with served() as server:
        for name, headers in (("all", "urn:accord:push-artifacts:1"), ("some", "")):
            config = {"taskPushNotificationConfig": {"url": f"{hook.url}/{name}"}}
            await server.client.send(
                say("hi", configuration=config), headers={"A2A-Extensions": headers}
            )
        seen = {
            name: [call.kind for call in hook.calls if call.path.endswith(name)]
            for name in ("all", "some")
        }
        assert seen == {
            "all": ["task", "working", "artifactUpdate", "completed"],
            "some": ["task", "working", "completed"],
        }


async def test_secrets_are_not_logged(hook: Webhook, caplog: pytest.LogCaptureFixture):
    """Not in any log, at any level, whatever goes wrong (K1)."""
    caplog.set_level(logging.DEBUG)
    secrets: dict[str, Any] = {"url": hook.url + "?key=marker-url", "token": "marker-token"}
    secrets["authentication"] = {"scheme": "Basic", "credentials": "marker-credentials"}
    hook.answers += [500, 302, 400]
    async with served() as server:
        config = {"taskPushNotificationConfig": secrets}
        await server.client.send(say("hi", configuration=config))
        await hook.ended()
        dead = secrets | {"url": "http://127.0.0.1:9/?key=marker-url"}
        await server.client.send(say("hi", configuration={"taskPushNotificationConfig": dead}))
    assert hook.calls[-1].headers["authorization"] == "Basic marker-credentials"
    assert caplog.records
    # What the test's own clients and servers log of themselves is not ours.
    ours = [r.getMessage() + str(r.exc_text) for r in caplog.records if r.name.startswith("accord")]
    assert ours
    assert "marker" not in "\n".join(ours)


async def test_a_stop_leaves_nothing_behind(hook: Webhook, monkeypatch: pytest.MonkeyPatch):
    """What is under way when the server stops is delivered by the next one on the same store, with
    the same keys.
    """
    monkeypatch.setenv("ACCORD_KEY", new_key())
    gate = asyncio.Event()

    async def hang() -> int:
        await gate.wait()
        return 200

    store = MemoryStore()
    hook.answers.append(hang)
    async with served(store=store) as server:
        await server.send("hi", hook.url)
        await server.until(lambda push: push.upto == 4)
        asyncio.get_running_loop().call_later(0.1, gate.set)
    async with served(store=store.another()):
        assert kinds(await hook.ended())[-3:] == ["task", "working", "completed"]
