"""The outbox: delivers what is committed, at least once, in order for each task and webhook.

It only reads the log: a webhook is a cursor on it, and nothing that happens here holds up a run or
a stream.
"""

import asyncio
import contextlib
import heapq
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from ..engine.log import Event
from ..engine.tasks import Tasks
from ..model import MethodNotFound, Unavailable
from ..net import CircuitBreaker
from ..observe import Trace
from ..protocol import Codec
from ..protocol.v1 import codec as v1
from ..pump import Pump
from ..store import CommitFailed, DeadLetter, Namespace, Outcome, Push
from .delivery import AttemptResult, Deliverer, Notification, Verdict
from .settings import PushSettings
from .webhooks import Webhook, Webhooks

if TYPE_CHECKING:
    from ..observe import Metrics

__all__ = ["Format", "Outbox"]

log_ = logging.getLogger("accord.push")

WORKERS = 128  # webhooks delivered to at once
PER_ENDPOINT = 16  # how many of these may be for one endpoint
LOOK_S = 1.0  # how often it is looked for what other processes made due
GATHER_S = 0.002
LEASE_MS = 60_000
BEGIN_S = 30.0  # a new attempt begins no later than that after the webhook was taken
CLOSE_S = 2.0
JITTER = 0.2
RETRY_S = 1.0
BREAKERS = 10_000
LONGEST_S = 600.0  # that an endpoint which keeps failing is left alone
FIRST_ATTEMPT_S = 0.1  # how long a blocking send waits for the first try of its last event


class Format(NamedTuple):
    """Say how a version of the protocol writes push notifications."""

    content_type: str
    codec: Codec | None = None  # of the whole task; None: the event, as streams of 1.0 show it
    is_event: bool = False  # the codec writes events, not tasks


class Outbox:
    """Takes webhooks that are due, sends their events, and stores how that went."""

    def __init__(
        self,
        tasks: Tasks,
        agents: Collection[str],  # a live view: others may be added
        webhooks: Webhooks,
        deliverer: Deliverer,
        formats: Mapping[str, Format],  # by version; the first is for versions that are gone
        settings: PushSettings,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._tasks = tasks
        self._agents = agents
        self._webhooks = webhooks
        self._store = webhooks.store
        self._deliverer = deliverer
        self._formats = formats
        self._settings = settings
        self._chance = chance
        self.metrics: Metrics | None = None
        # Writes files into what is sent: those that are stored are references.
        self.give: Callable[[bytes, Namespace], Awaitable[bytes]] | None = None
        self._breakers: dict[str, CircuitBreaker] = {}
        self._busy: dict[asyncio.Task[None], str] = {}  # deliveries under way, with their endpoint
        self._outcomes: list[Outcome] = []
        self._dues: list[int] = []  # when what failed here is due again: a heap
        self._is_full = False  # something due may have been left for lack of room
        self._settler = Pump(
            "outcomes of push notifications",
            self._settle_all,
            log=log_,
            retry_s=lambda: RETRY_S,
            waits_for=(CommitFailed,),
        )
        self._is_unsettled = False  # outcomes could not be stored yet
        self._waiting: dict[tuple[int, str], list[tuple[int, asyncio.Future[None]]]] = {}
        self._looked_s = self._settled_s = 0.0  # when that was last done
        self._unsubscribe: Callable[[], None] = lambda: None
        self._looker = Pump(
            "push notifications",
            self._look,
            log=log_,
            pause_s=self._until_next,
            retry_s=lambda: RETRY_S,
            waits_for=(CommitFailed,),
        )

    def open(self) -> None:
        self._store.on_due = self._looker.wake
        self._unsubscribe = self._tasks.store.clock.subscribe(self._looker.wake)
        self._settler.start()
        self._looker.start()

    async def close(self) -> None:
        """Stop. What is under way has a moment to end; the rest is due as before."""
        self._store.on_due = lambda: None
        self._unsubscribe()
        await self._looker.stop()
        if self._busy:
            await asyncio.wait(list(self._busy), timeout=CLOSE_S)
        for delivering in list(self._busy):
            delivering.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        await self._settler.stop(CLOSE_S)

    async def attempted(self, task: int, push: str, number: int) -> None:
        """Return when this event was tried for the first time, or could not be by now; after
        `FIRST_ATTEMPT_S` in any case.
        """
        tried: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault((task, push), [])
        waiting.append((number, tried))
        try:
            with contextlib.suppress(Unavailable):  # the send has its answer all the same
                if not await self._is_sent(task, push, number):
                    await asyncio.wait({tried}, timeout=FIRST_ATTEMPT_S)
        finally:
            waiting.remove((number, tried))
            if not waiting:
                self._waiting.pop((task, push), None)

    async def _is_sent(self, task: int, push: str, number: int) -> bool:
        found = [one for one in await self._store.of(task) if one.id == push]
        return not found or found[0].sent >= number or bool(found[0].disabled)

    # Finding what is due

    async def _look(self) -> bool:
        await self._pause(self._looked_s)  # much is going on: one look for several commits
        self._looked_s = asyncio.get_running_loop().time()
        return await self._take()

    async def _pause(self, last_s: float) -> None:
        """Let more gather, if something was done a moment ago."""
        if asyncio.get_running_loop().time() - last_s < GATHER_S:
            await asyncio.sleep(GATHER_S)

    async def _take(self) -> bool:
        """Begin what is due, while there is room. Return whether there may be more."""
        if self._tasks.clock_fault:
            return False  # receivers would refuse our signatures, which have this machine's time
        if self._is_unsettled:
            return False  # something delivered may look due: its outcome is not stored yet
        room = WORKERS - len(self._busy)
        self._is_full = room <= 0
        if room <= 0:
            return False
        busy = Counter(self._busy.values())
        shut = {
            *(endpoint for endpoint, count in busy.items() if count >= PER_ENDPOINT),
            *(endpoint for endpoint, breaker in self._breakers.items() if breaker.left_s > 0),
        }
        self._is_full = bool(shut)
        taken = await self._store.take(
            self._agents,
            min(room, PER_ENDPOINT),
            lease_ms=LEASE_MS,
            skip=shut,
        )
        for push in taken:
            delivering = asyncio.get_running_loop().create_task(self._deliver(push))
            self._busy[delivering] = push.endpoint
            delivering.add_done_callback(self._done)
        return bool(taken)

    def _done(self, delivering: asyncio.Task[None]) -> None:
        del self._busy[delivering]
        if self._is_full:
            self._looker.wake()

    def _until_next(self) -> float:
        """Until something is due that we know of; a look now and then finds what others know of."""
        now = self._tasks.store.now_ms()
        while self._dues and self._dues[0] <= now:
            heapq.heappop(self._dues)
        return min((self._dues[0] - now) / 1000 + 0.001, LOOK_S) if self._dues else LOOK_S

    # Delivering

    async def _deliver(self, push: Push) -> None:
        """Send the events of one webhook, one after the other, until one fails."""
        state = _Progress(push)
        try:
            await self._send_all(push, state)
        except asyncio.CancelledError:
            self._breaker(push.endpoint).left()
            state.retry(0)  # the process stops: another goes on at once
        except Exception as error:  # a fault of our own is tried again later, as any other
            self._breaker(push.endpoint).left()
            log_.error(
                "push notifications of task %s can't be made: %s",
                push.task_id,
                error,
                exc_info=True,
            )
            self._fail(push, state, f"{type(error).__name__} on this side", None)
        self._settle(state.outcome())
        self._report(push, state)

    async def _send_all(self, push: Push, state: "_Progress") -> None:
        await self._webhooks.warm()
        webhook = self._webhooks.opened(push)
        breaker = self._breaker(push.endpoint)
        begun_s = asyncio.get_running_loop().time()
        trace = await self._tasks.reader.trace(push.namespace, push.task_id)
        async for event in self._tasks.reader.events_after(
            push.task, push.task_id, push.context_id, push.sent
        ):
            if event.seq > push.upto or state.is_over:
                return
            if event.state is None and not push.has_artifacts:
                continue
            if asyncio.get_running_loop().time() - begun_s > BEGIN_S:
                return  # the lease would run out: it goes on when it is taken again
            if not await breaker.admit_after_trial():
                state.retry(self._open_ms(breaker))
                return
            await self._send(push, webhook, event, state, breaker, trace)
            self._report(push, state)
            if event.seq == push.upto:
                return  # the last one: nothing more has to be read
        if not state.is_over and state.sent < push.upto:
            state.sent = push.upto  # what is left are artifacts nobody asked for

    async def _send(
        self,
        push: Push,
        webhook: Webhook,
        event: Event,
        state: "_Progress",
        breaker: CircuitBreaker,
        trace: Trace,
    ) -> None:
        what = await self._notification(push, event, trace)
        if what is None:
            return state.over()
        attempt = await self._deliverer.attempt(webhook, what)
        if self.metrics is not None:
            self.metrics.pushed(attempt.verdict.value)
        if attempt.is_down:
            if breaker.failed():
                await self._opened(push.endpoint, breaker, attempt)
        else:
            breaker.succeeded()
        state.tried = event.seq
        self._judge(push, event.seq, attempt, state)

    async def _notification(self, push: Push, event: Event, trace: Trace) -> Notification | None:
        """Return an event as the version of a webhook has it; None if its task is gone."""
        version = push.version if push.version in self._formats else next(iter(self._formats))
        format_ = self._formats[version]
        body = event.data if self.give is None else await self.give(event.data, push.namespace)
        if format_.codec is not None and format_.is_event:
            decoded = v1.decode_event(body)
            [body] = format_.codec.frames(decoded, seq=event.seq, is_last=False, index=lambda _: 0)
        elif format_.codec is not None:
            snapshot = await self._tasks.reader.snapshot_after(
                push.namespace, push.task_id, event.pos
            )
            if snapshot is None:
                return None
            if self.give is not None:
                snapshot = replace(
                    snapshot,
                    head=await self.give(snapshot.head, push.namespace),
                    artifacts=await self.give(snapshot.artifacts, push.namespace),
                )
            body = format_.codec.result("GetTask", snapshot)
        return Notification(
            push.task_id, push.id, event.seq, body, format_.content_type, version, trace
        )

    async def send_newest(self, push: Push) -> AttemptResult:
        """Send the newest event of a webhook once more, as a test. What is due stays due.

        Raises:
            MethodNotFound: The log of the task is no longer kept.
        """
        await self._webhooks.warm()
        webhook = self._webhooks.opened(push)
        trace = await self._tasks.reader.trace(push.namespace, push.task_id)
        async for event in self._tasks.reader.events_after(
            push.task, push.task_id, push.context_id, max(0, push.upto - 1)
        ):
            what = await self._notification(push, event, trace)
            if what is not None:
                return await self._deliverer.attempt(webhook, what)
        raise MethodNotFound(f"the events of task {push.task_id} are no longer kept")

    def _judge(self, push: Push, number: int, attempt: AttemptResult, state: "_Progress") -> None:
        if attempt.verdict is Verdict.DELIVERED:
            state.delivered(number)
        elif attempt.verdict is Verdict.REFUSED:
            log_.warning(
                "a push notification of task %s was refused by %s: %s",
                push.task_id,
                push.endpoint,
                attempt.error,
            )
            state.refused(number, self._letter(push, number, number, attempt.error), attempt.error)
        elif attempt.verdict is Verdict.GONE:
            self._disable(push, state, attempt.error)
        else:
            self._fail(push, state, attempt.error, attempt.after_s, number)

    def _fail(
        self,
        push: Push,
        state: "_Progress",
        error: str,
        after_s: float | None,
        number: int | None = None,
    ) -> None:
        """An attempt failed: the next comes by the schedule, or there is none."""
        now = self._tasks.store.now_ms()
        state.failing_ms = state.failing_ms or now
        schedule = self._settings.schedule_s
        if now - state.failing_ms >= self._settings.disable_s * 1000:
            days = self._settings.disable_s / 86400
            self._disable(push, state, f"every attempt failed for {days:g} days: {error}")
            return
        state.tries += 1
        if state.tries >= len(schedule):
            number = number if number is not None else push.upto
            log_.warning(
                "a push notification of task %s is given up after %d attempts: %s: %s",
                push.task_id,
                state.tries,
                push.endpoint,
                error,
            )
            state.refused(number, self._letter(push, number, number, error), error)
            return
        pause_s = schedule[state.tries] * (1 + JITTER * (2 * self._chance() - 1))
        state.error = error
        state.retry(int(max(pause_s, after_s or 0.0) * 1000))

    def _disable(self, push: Push, state: "_Progress", why: str) -> None:
        log_.warning(
            "no more push notifications of task %s go to %s: %s", push.task_id, push.endpoint, why
        )
        state.disable(why, self._letter(push, state.sent + 1, push.upto, why))

    def _letter(self, push: Push, first: int, last: int, error: str) -> DeadLetter:
        if self.metrics is not None:
            self.metrics.gave_up()
        return DeadLetter(push.task, push.id, first, last, error)

    def _report(self, push: Push, state: "_Progress") -> None:
        """Blocking sends wait for the first attempt at their last event."""
        for number, tried in self._waiting.get((push.task, push.id), ()):
            if (state.tried >= number or state.is_over) and not tried.done():
                tried.set_result(None)

    # Circuit breakers

    def _breaker(self, endpoint: str) -> CircuitBreaker:
        found = self._breakers.get(endpoint)
        if found is None:
            if len(self._breakers) >= BREAKERS:
                busy = set(self._busy.values())
                self._breakers = {
                    name: one
                    for name, one in self._breakers.items()
                    if not one.is_closed or name in busy
                }
            found = self._breakers[endpoint] = CircuitBreaker(
                self._settings.breaker_s, LONGEST_S, trial_s=self._settings.timeout_s
            )
        return found

    def _open_ms(self, breaker: CircuitBreaker) -> int:
        return int(breaker.left_s * 1000) + 1

    async def _opened(self, endpoint: str, breaker: CircuitBreaker, attempt: AttemptResult) -> None:
        """Nothing of this endpoint is due for a while: it stands in nobody's way."""
        log_.warning(
            "push notifications to %s pause for %.0f s: %s",
            endpoint,
            breaker.left_s,
            attempt.error,
        )
        with contextlib.suppress(CommitFailed):  # then each webhook is tried and postponed alone
            await self._store.postpone(self._agents, endpoint, self._open_ms(breaker))

    # Storing how it went

    def _settle(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._settler.wake()

    async def _settle_all(self) -> bool:
        """Store whatever has gathered, as one commit."""
        await self._pause(self._settled_s)  # much is going on: one commit for several outcomes
        self._settled_s = asyncio.get_running_loop().time()
        outcomes, self._outcomes = self._outcomes, []
        if not outcomes:
            return False
        try:
            await self._store.settle(outcomes)
            self._is_unsettled = False
            now_ms = self._tasks.store.now_ms()
            for one in outcomes:
                if one.pause_ms:
                    heapq.heappush(self._dues, now_ms + one.pause_ms)
        except CommitFailed:  # kept: else it would be delivered again
            self._is_unsettled = True
            self._outcomes = outcomes + self._outcomes
            raise
        self._looker.wake()
        return bool(self._outcomes)


class _Progress:
    """Track how far a webhook has come while this process delivers it."""

    def __init__(self, push: Push) -> None:
        self._push = push
        self.sent = push.sent
        self.tries = push.tries
        self.failing_ms = push.failing_ms
        self.error = push.error
        self.tried = 0  # the last event that was attempted
        self.is_over = False
        self._pause_ms = 0
        self._disabled = ""
        self._letter: DeadLetter | None = None

    def delivered(self, number: int) -> None:
        self.sent, self.tries, self.failing_ms, self.error = number, 0, 0, ""

    def refused(self, number: int, letter: DeadLetter, error: str) -> None:
        """This event is given up; the next may be taken."""
        self.sent, self.tries, self.error, self._letter = number, 0, error, letter
        self.is_over = True  # stored, with its letter, before the next is tried

    def retry(self, pause_ms: int) -> None:
        self._pause_ms = pause_ms
        self.is_over = True

    def disable(self, why: str, letter: DeadLetter) -> None:
        self._disabled = self.error = why
        self._letter, self.sent = letter, letter.last
        self.is_over = True

    def over(self) -> None:
        self.is_over = True

    def outcome(self) -> Outcome:
        push = self._push
        return Outcome(
            push.task,
            push.id,
            push.claim,
            self.sent,
            self._pause_ms,
            self.tries,
            self.failing_ms,
            self.error,
            self._disabled,
            self._letter,
        )
