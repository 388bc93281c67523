"""A stream that is not lost when its connection is.

On a cut it goes on by the best way the agent has: after the last event seen, with our resume
extension; else with a new subscription, whose first frame (the task as it stands) is brought
together with what was seen; else by asking for the task until it has settled. Whoever reads it sees
each event once and in order, or is told of a gap.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from ...model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    ArtifactUpdate,
    Event,
    Message,
    SendMessageRequest,
    StatusUpdate,
    SubscribeRequest,
    Task,
    TaskNotFound,
    TaskState,
    TaskStatus,
    join_files,
    join_text,
    whole_number,
)
from ...protocol import DEFAULT_SEMANTICS, EventFrame, Semantics
from ..bindings import Item
from ..errors import AgentFault, CallFailed, ConnectionLost, TooSlow, about_task, task_of
from ..reply import ClientReply
from ..retry import Failures, Pause, is_interrupted, may_repeat
from .generations import EventStep, Generations
from .seen import Echo, Gap, apply, catch_up, message_arrived, own, reconcile, unseen

if TYPE_CHECKING:
    from ..client import Client

__all__ = ["Stream", "StreamEvent"]

StreamEvent: TypeAlias = Task | StatusUpdate | ArtifactUpdate | Message | Gap

# What the next frame of a task means: the next thing that happened, or how it stands after a cut.
_LIVE, _RESUMED, _SNAPSHOT = "live", "resumed", "snapshot"

_LAST_BYTES_S = 0.2
_LAST_EVENTS_S = 1.0  # for the rest of the stream, after the task has ended
_POLL_MOST_S = 2.0
_WITHHELD = 256  # events that are kept until it is clear that generations count


_UNSUCCESSFUL = (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED)


class ShownText:
    """The text of an artifact, as far as it was shown to somebody who reads it as it comes."""

    __slots__ = ("_again", "_shown")

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._again: str | None = None  # what was written anew, while it says nothing new

    def add(self, text: str, *, is_whole: bool) -> str:
        """Take what came; return what is to be shown of it."""
        if self._again is None and not (is_whole and self._shown):
            self._shown.append(text)
            return text
        again = text if is_whole else (self._again or "") + text
        shown = "".join(self._shown)
        if shown.startswith(again) and shown != again:
            self._again = again
            return ""
        self._again, self._shown = None, [again]
        return again[len(shown) :] if again.startswith(shown) else f"\n{again}"


class Stream:
    """Iterate over the events of one task. Reconnects by itself.

    - Each event comes once, in the order the agent made them; a gap that can't be closed is a
      `Gap`.
    - It ends with the task, or with a question of the agent (when it began with a message), never
      silently: otherwise it raises.
    - `task` is the task as read so far. At the end the chunks of a text are one part.
    - `cursor` is the position after the last event, for agents that number their events.
    """

    def __init__(
        self,
        client: "Client",
        request: SendMessageRequest | SubscribeRequest,
        *,
        key: str = "",
        after: str = "",
        seen: Task | None = None,
        extensions: Sequence[str] = (),
        timeout_s: float | None = None,
        semantics: Semantics = DEFAULT_SEMANTICS,
    ) -> None:
        self.task: Task | None = own(seen) if seen is not None else None
        self.message: Message | None = None
        self.cursor = after
        self.on_answer: Callable[[ClientReply], None] | None = None  # of its replies
        self._client = client
        self._request = request
        self._is_send = isinstance(request, SendMessageRequest)
        self._key = key
        self._fills_gaps = seen is not None
        self._extensions = extensions
        self._semantics = semantics
        self._generations = Generations()
        self._has_gap = False
        # Events that were not taken in, because of their generations.
        self._withheld: deque[tuple[StatusUpdate | ArtifactUpdate, str]] = deque(maxlen=_WITHHELD)
        self._at = after  # behind what has been received; `cursor` is behind what has been read
        self._timeout_s = timeout_s
        self._deadline: float | None = None  # runs from the first read
        self._ready: deque[tuple[StreamEvent, str]] = deque()
        self._source: AsyncIterator[list[Item]] | None = None
        self._answered_at = 0.0  # since when this connection is a stream
        self._mode = _LIVE
        self._failures = Failures(client.connection.retry)
        # Connections in a row that ended soon and had nothing new to say. The agent is there, so it
        # is not given up; but it is not asked as fast as it can end them.
        self._early_ends = 0
        self._sends = 0
        self._polls = 0
        self._is_over = False
        self._chunked: set[str] = set()  # artifacts that came in pieces
        self._is_asking = False  # by calls, which are patient themselves
        self._is_restarting = False
        self._is_blind = (
            False  # went on without knowing for sure: to be compared with the task in the end
        )
        self._echo: Echo | None = None
        self._reading: asyncio.Timeout | None = None  # while it waits for the next frame
        self._end_by: float | None = None  # by when the stream of a task that ended has to end
        client.streams.add(self)

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._ready:
            if not self._is_over:
                await (
                    self._more() if self._timeout_s is None else self._more_in_time(self._timeout_s)
                )
            elif self._is_blind:
                self._is_blind = False
                await self._fetch_task()
            else:
                self._join_chunks()
                await self._let_go()
                raise StopAsyncIteration
        event, self.cursor = self._ready.popleft()
        if self._is_over and not self._ready and not self._is_blind:
            self._join_chunks()  # the last event: many readers stop here, and ask for no end
        return event

    async def text(self) -> AsyncIterator[str]:
        """Yield the text of the answer as it comes.

        async for text in client.stream("A weekend in Rome").text():
            print(text, end="")

        An agent that goes on after a restart may write its answer again: only what is new comes
        then. What it replaces by something else is not taken back: `reply.text` has the answer as
        it stands. A question, or the words of a task that ended without an artifact, come last.

        Raises:
            CallFailed: The task failed, was rejected or canceled; after the text it had written.
        """
        written: dict[str, ShownText] = {}
        async for event in self:
            if isinstance(event, ArtifactUpdate):
                shown = written.setdefault(event.artifact.artifact_id, ShownText())
                new = shown.add(event.artifact.text, is_whole=not event.append)
                if new:
                    yield new
        if self.task is not None and self.task.status.state in _UNSUCCESSFUL:
            raise CallFailed(self._client.card.name, self.reply)
        said = self.message or (self.task.status.message if self.task is not None else None)
        if said is not None and (not written or self.reply.question):
            yield said.text

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading. The task goes on."""
        is_read, self._is_over = self._is_over, True
        self._ready.clear()
        await (self._let_go() if is_read else self._drop())

    @property
    def task_id(self) -> str:
        """The id of the task; empty while it is not known."""
        if self.task is not None:
            return self.task.id
        return (
            self._request.id
            if isinstance(self._request, SubscribeRequest)
            else self._request.message.task_id
        )

    @property
    def reply(self) -> ClientReply:
        """The answer as far as it has been read."""
        found = self.task or self.message
        if found is None:
            raise ValueError("nothing has been read from this stream yet")
        reply = ClientReply(self._client, found)
        reply.on_answer = self.on_answer
        return reply

    # Reading

    def _join_chunks(self) -> None:
        """Make one text, or one file, of the chunks in the task. Once, at the end: after every
        chunk the cost would be quadratic.
        """
        for artifact in self.task.artifacts if self._chunked and self.task is not None else ():
            # Else its parts are what its agent wanted them to be.
            if artifact.artifact_id in self._chunked:
                artifact.parts = join_files(join_text(artifact.parts))

    async def _more_in_time(self, timeout_s: float) -> None:
        """As `_more`, until all of the stream has taken longer than its reader allows."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._more()
        except TimeoutError as error:
            await self._drop()
            if isinstance(error, AgentFault):
                raise
            late = TooSlow(
                self._client.connection.name, f"the stream did not end within {timeout_s:.3g} s"
            )
            raise about_task(late, self.task_id) from None

    async def _more(self) -> None:
        try:
            if self._source is None:
                self._source = await self._open()
            items = await self._next(self._source)
        except StopAsyncIteration:
            self._source = None
            await self._ended()
        except (A2AError, AgentFault) as error:
            self._source = None
            await self._recover(error)
        except TimeoutError:
            await self._end_late()
        else:
            if not items:
                self._answered_at = asyncio.get_running_loop().time()
            self._take(items)
            if self._has_gap:
                self._has_gap = False
                await self._fetch_task()
            if self._is_restarting:
                self._is_restarting = False
                await self._drop()

    async def _next(self, source: AsyncIterator[list[Item]]) -> list[Item]:
        """Return what comes next. Raises TimeoutError if the task has ended and nothing comes."""
        try:
            async with asyncio.timeout_at(self._end_by) as self._reading:
                return await anext(source)
        finally:
            self._reading = None

    def expect_end(self) -> None:
        """Limit the wait for the rest: the agent said elsewhere that the task ended."""
        self._end_by = asyncio.get_running_loop().time() + _LAST_EVENTS_S
        if self._reading is not None and not self._reading.expired():
            self._reading.reschedule(self._end_by)

    async def _end_late(self) -> None:
        """Drop a stream that the agent forgot to end, and fetch the task."""
        self._end_by = None
        await self._drop()
        await self._fetch_task()

    async def _open(self) -> AsyncIterator[list[Item]]:
        connection = self._client.connection
        if self._polls:
            return self._poll()
        if self._fills_gaps and not await connection.can_stream():
            return self._poll()
        if self.task is None:
            if not await connection.can_stream():
                return self._begin_polling()
            if not self._is_send and not connection.snapshots_first and not connection.can_resume:
                return self._listen_and_fetch(self._request.tenant)
            self._sends += 1
            operation = "SendStreamingMessage" if self._is_send else "SubscribeToTask"
            return connection.open_stream(
                operation,
                self._request,
                key=self._key,
                after=self._at,
                extensions=self._extensions,
                timeout_s=self._timeout_s,
                semantics=self._semantics,
            )
        request = SubscribeRequest(id=self.task.id, tenant=self._request.tenant)
        if self._at and connection.can_resume:
            self._mode = _RESUMED
            return connection.open_stream("SubscribeToTask", request, after=self._at)
        self._mode = _SNAPSHOT
        return (
            connection.open_stream("SubscribeToTask", request)
            if connection.snapshots_first
            else self._listen_and_fetch(request.tenant)
        )

    async def _listen_and_fetch(self, tenant: str) -> AsyncIterator[list[Item]]:
        """Subscribe with an old agent, which starts with whatever comes next: ask how the task
        stands, and compare in the end.

        The subscription begins with the question, not when the reader has dealt with the answer:
        less is missed in between.
        """
        request = SubscribeRequest(id=self.task_id, tenant=tenant)
        async with aclosing(
            self._client.connection.open_stream("SubscribeToTask", request)
        ) as source:
            first = asyncio.ensure_future(anext(source, None))
            try:
                await self._fetch_task()
                self._mode = _SNAPSHOT
                yield []
                if self._is_over:
                    return
                self._is_blind = True
                items = await first
            finally:
                first.cancel()
                await asyncio.gather(first, return_exceptions=True)
            if items is not None:
                yield items
                async for items in source:
                    yield items

    def _take(self, items: list[Item]) -> None:
        for item in items:
            for event in item.frame.events:
                self._accept(event, item.cursor)
                if self._is_restarting:
                    return
            if item.frame.is_last:
                self._is_over = True
            if self._is_over:
                return

    def _accept(self, event: Task | StatusUpdate | ArtifactUpdate | Message, cursor: str) -> None:
        self._failures.forget()
        if self._is_known(cursor) or not self._counts(event, cursor):
            return
        known = len(self._ready)
        self._accept_new(event, cursor)
        if len(self._ready) > known:
            self._early_ends = 0

    def _accept_new(
        self, event: Task | StatusUpdate | ArtifactUpdate | Message, cursor: str
    ) -> None:
        if self._withheld:
            withheld = list(self._withheld)
            self._withheld.clear()
            # An agent without generations has sent them for no reason to leave them out.
            for one, at in withheld if not self._generations.is_on else ():
                self._take_in(one, at)
        self._take_in(event, cursor)

    def _take_in(self, event: Task | StatusUpdate | ArtifactUpdate | Message, cursor: str) -> None:
        mode, self._mode = self._mode, _LIVE
        if isinstance(event, Message):
            self.message = event
            self._is_over = True
        elif isinstance(event, Task):
            if not self._accept_task(event, cursor, mode):
                return
        else:
            if self.task is None:
                # An agent that does not begin with the task.
                status = TaskStatus(state=TaskState.UNSPECIFIED)
                self.task = Task(id=event.task_id, context_id=event.context_id, status=status)
            elif (
                isinstance(event, StatusUpdate)
                and event.status == self.task.status
                and event.status.timestamp
            ):
                return  # said before the cut, and once more after it
            elif isinstance(event, ArtifactUpdate):
                fresh = self._fresh(self.task, event)
                if fresh is None:
                    return
                event = fresh
            apply(self.task, event)
            if isinstance(event, ArtifactUpdate) and event.append:
                self._chunked.add(event.artifact.artifact_id)
            if isinstance(event, StatusUpdate):
                self._settle(event.status.state)
        self._at = cursor or self._at
        self._ready.append((event, self._at))

    def _counts(self, event: Task | StatusUpdate | ArtifactUpdate | Message, cursor: str) -> bool:
        """Whether an event is to be taken in, by its generation. One after a gap is not: the task
        is fetched, which has it.
        """
        if isinstance(event, Message) or not self._client.connection.has_generations:
            return True
        if isinstance(event, Task):
            self._generations.see_task(event.generation)
            return True
        step = self._generations.see_event(event.generation)
        self._has_gap = self._generations.is_on and (self._has_gap or step is EventStep.GAP)
        if step is EventStep.NEXT:
            return True
        self._withheld.append((event, cursor))
        return False

    def _is_known(self, cursor: str) -> bool:
        """Whether an event of an agent that numbers them has come before."""
        at = self._at
        if len(cursor) > len(at) or (len(cursor) == len(at) and cursor > at):
            return False  # as numbers that grow, nearly always, and at little cost
        number, last = whole_number(cursor), whole_number(at)
        if number is None or last is None:
            return False
        return number <= last and self._client.connection.can_resume

    def _fresh(self, task: Task, event: ArtifactUpdate) -> ArtifactUpdate | None:
        """Return what of an artifact's event is new, after a cut that no cursor bridges."""
        if event.append:
            if self._echo is not None and self._echo.is_repeat(event):
                self._is_blind = True
                return None
        elif self._is_blind:
            # Some old agents begin a subscription by telling all artifacts again.
            return unseen(task, event)
        return event

    def _accept_task(self, task: Task, cursor: str, mode: str) -> bool:
        """Take a task frame in; return whether it is to be passed on as it is."""
        seen, self.task = self.task, own(task)
        if seen is None:
            if (
                self._sends > 1
                and cursor not in ("", "1")
                and self._client.connection.can_resume
                and self._is_new_task
            ):
                # Sent a second time and recognised: what the first answer would have told is still
                # in the log.
                self._at, self._is_restarting = "0", True
                return False
        elif mode == _SNAPSHOT:
            self._ready.extend((missed, self._at) for missed in self._missed(seen, task))
            self._echo = Echo(task)
            self._settle(task.status.state)
            return False
        elif mode == _RESUMED and self._at != "0":
            self._at = cursor or self._at
            gap = Gap(task, "the agent no longer has the events after the last one seen")
            missed = catch_up(seen, task) if self._fills_gaps else [gap]
            self._ready.extend((event, self._at) for event in missed)
            self._settle(task.status.state)
            return False
        # The first frame of an answer to a question may still show the question.
        if (
            seen is not None
            or self._is_new_task
            or task.status.state is not TaskState.INPUT_REQUIRED
        ):
            self._settle(task.status.state)
        return True

    def _missed(self, seen: Task, now: Task) -> Sequence[Event | Gap]:
        """What leads from what was seen to the task as it stands."""
        if self._fills_gaps:
            return catch_up(seen, now)
        missed = reconcile(seen, now)
        reported = [event for event in missed if not isinstance(event, Gap)]
        # One generation is one event: then nothing is missing, whatever the history keeps.
        count = now.generation - seen.generation if seen.generation else -1
        return reported if self._generations.is_on and count == len(reported) else missed

    @property
    def _is_new_task(self) -> bool:
        return isinstance(self._request, SendMessageRequest) and not self._request.message.task_id

    def _settle(self, state: TaskState) -> None:
        """A stream that began with a message ends with the agent's question; every stream ends with
        the task.
        """
        if state in FINAL or (self._is_send and state is TaskState.INPUT_REQUIRED):
            self._is_over = True

    # Going on after a cut

    async def _ended(self) -> None:
        """The connection was closed in good order. That is an end only if the task has one."""
        if self._is_over:
            return
        if self.task is not None and self.task.status.state in INTERRUPTED:
            self._is_over = True
            return
        if self._polls:
            return
        state = (
            f"while the task was {self.task.status.state.word}"
            if self.task is not None
            else "before anything came"
        )
        await self._recover(
            ConnectionLost(self._client.connection.name, f"the stream ended {state}")
        )

    async def _recover(self, error: A2AError | AgentFault) -> None:
        connection = self._client.connection
        if not is_interrupted(error):
            if self._mode == _LIVE or isinstance(error, AgentFault):
                connection.report(error)
                raise connection.named(error)
            await self._instead_of_subscribing()
            return
        now = asyncio.get_running_loop().time()
        if self._answered_at and now - self._answered_at > connection.retry.most_s:
            self._failures.forget()  # it was there for a while, with nothing to say
            self._early_ends = 0
        self._answered_at = 0.0
        pause = connection.pause_after(error, self._failures, self._deadline)
        self._early_ends += 1
        if pause is not None and self._early_ends > pause.attempt:
            seconds = max(pause.seconds, connection.retry.pause_s(self._early_ends))
            pause = Pause(pause.error, self._early_ends, seconds)
        is_lost = (
            self.task is None
            and self._is_send
            and not may_repeat(error, is_safe=connection.may_send_again(self._key))
        )
        if pause is None or self._is_asking or (is_lost and not self._name_after(error)):
            connection.report(error)
            raise about_task(connection.named(error), self.task_id or task_of(error))
        await connection.pause(pause)
        if is_lost:
            await self._find(self._name_after(error), error)

    def _name_after(self, error: A2AError | AgentFault) -> str:
        """The id of the task a message became, though no answer came: as we named it, or as the
        agent says.
        """
        assert isinstance(self._request, SendMessageRequest)  # only a message makes a task
        named = (
            self._request.message.message_id
            if self._client.connection.names_tasks and self._is_new_task
            else ""
        )
        return named or task_of(error)

    async def _find(self, task_id: str, error: A2AError | AgentFault) -> None:
        """Ask for a task: what was begun is gone on with; under a name of ours, what never arrived
        can be sent again.
        """
        connection = self._client.connection
        try:
            found = await self._client.get(task_id)
        except TaskNotFound:
            if connection.names_tasks:
                return
            raise connection.named(error) from None
        except (A2AError, AgentFault) as gone:
            raise about_task(gone, task_id) from None
        if not message_arrived(self._request, found):
            raise connection.named(error)
        self._accept(found, "")

    async def _instead_of_subscribing(self) -> None:
        """The agent refuses the subscription: the task has ended meanwhile, or can only be asked
        for.
        """
        await self._fetch_task()
        if not self._is_over:
            self._polls = 1

    async def _fetch_task(self) -> None:
        """Ask for the task and pass on what has happened to it."""
        self._catch_up_with(await self._client.get(self.task_id))

    def _catch_up_with(self, now: Task) -> None:
        """Pass on what has happened to the task."""
        if self.task is None:
            self._accept(now, "")
            return
        self._generations.see_task(now.generation)
        self._withheld.clear()  # the task has what they said
        seen, self.task = self.task, own(now)
        self._ready.extend((missed, self._at) for missed in self._missed(seen, now))
        self._settle(now.status.state)
        if now.status.state in INTERRUPTED and self._is_send:
            self._is_over = True

    # Without streaming

    async def _begin_polling(self) -> AsyncIterator[list[Item]]:
        self._is_asking = True
        request = self._request
        if isinstance(request, SendMessageRequest):
            found = await self._client.send_request(
                request,
                key=self._key,
                wait=False,
                extensions=self._extensions,
                timeout_s=self._timeout_s,
                semantics=self._semantics,
            )
        else:
            found = await self._client.get(request.id)
        self._polls = 1
        yield [Item(EventFrame((found,)), "")]

    async def _poll(self) -> AsyncIterator[list[Item]]:
        """Ask for the task again and again, at growing intervals while nothing changes."""
        self._is_asking = True
        while not self._is_over:
            connection = self._client.connection
            grown_s = connection.retry.first_s * 2 ** min(self._polls, 8)
            pause_s = connection.budget.poll_s or min(grown_s, _POLL_MOST_S)
            assert self.task is not None  # polling begins with a task
            self._catch_up_with(await self._client.poll(self.task, pause_s))
            self._polls = 1 if self._ready else self._polls + 1
            if self._ready:
                yield []

    # Letting go

    async def _let_go(self) -> None:
        """Read the last bytes, so that the connection can be used again; but don't wait for them
        long.
        """
        source = self._source
        if source is None:
            return
        try:
            async with asyncio.timeout(_LAST_BYTES_S):
                async for _ in source:
                    pass
        except (TimeoutError, A2AError, AgentFault):
            pass
        await self._drop()

    async def _drop(self) -> None:
        source, self._source = self._source, None
        close: Any = getattr(source, "aclose", None)
        if close is not None:
            await close()
