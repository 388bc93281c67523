"""A run: one call of a skill's function for a task, from its message to its end. All it says goes
into the task's log.

One asyncio task per run, no queue. Nothing else writes the log of a task while its run lives.
"""

import asyncio
import contextvars
import copy
import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from ...model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    Artifact,
    ArtifactUpdate,
    InvalidAgentResponse,
    Message,
    Metadata,
    Part,
    StatusUpdate,
    TaskState,
    TaskStatus,
    Unavailable,
)
from ...observe import NO_TRACE, is_unsampled, recorded_trace, set_current, tracing
from ...store import StateWrite
from ..durable import (
    RUN_POSITION,
    Branch,
    Delegates,
    History,
    Mismatch,
    Output,
    RunPosition,
    Send,
    StepFailed,
    Steps,
    position_in,
)
from ..log import (
    NO_ORIGIN,
    ArtifactChanged,
    Entry,
    Log,
    Noted,
    Origin,
    Released,
    RunStarted,
    Turn,
    Worked,
)
from ..skills import (
    Ask,
    Context,
    Fail,
    Reject,
    Reply,
    Rewrite,
    Skill,
    SkillCall,
    StatusMessage,
    call_around,
    rewritten,
    to_parts,
)
from ..threads import Threads
from .conversation_state import StateOfConversation
from .first_word import FirstWord
from .messages import agent_message
from .questions import Questions, parts_of
from .raised import raised
from .state import OVER, TRANSITIONS, Move, State

if TYPE_CHECKING:
    from ...observe import Tracing
    from .runs import Runs

__all__ = ["Run"]

T = TypeVar("T")
log_ = logging.getLogger("accord")

CANCEL_GRACE_S = 3.0
FORGOTTEN = (
    "interrupted: the server stopped, and its tasks were in memory only; send the message again, "
    "under a new key if it had one"
)
_SURE_S = 0.1
_PAUSE_EVENTS = 64  # after so many events in one go, the rest of the loop has a turn


class Run:
    """One call of a skill's function."""

    __slots__ = (
        "__weakref__",
        "_busy",
        "_context",
        "_events",
        "_first_word",
        "_has_output",
        "_last_message",
        "_left_open",
        "_private",
        "_questions",
        "_rewrites",
        "_root",
        "_runs",
        "_status_before",
        "_steps",
        "_steps_under_way",
        "_values",
        "conversation",
        "failure",
        "history",
        "idempotency_key",
        "is_canceled",
        "is_new_conversation",
        "log",
        "loop",
        "message",
        "noted_s",
        "output_modes",
        "progressed_s",
        "sender",
        "since_s",
        "skill",
        "starts_when_told",
        "state",
        "taken",
        "task",
        "thread",
        "turn",
        "worked_s",
    )

    def __init__(
        self,
        runs: "Runs",
        log: Log,
        skill: Skill,
        turn: Turn,
        values: dict[str, Any],
        *,
        history: History | None = None,
        is_held: bool = False,
        waits_for_commit: bool = False,
        first_word: FirstWord | None = None,
        is_new_conversation: bool = False,
    ) -> None:
        self._runs = runs
        self.log = log
        self.skill = skill
        self.sender = turn.sender or log.about.sender
        self.turn = turn.number  # of the message the function is called with
        self.taken = (
            turn  # the newest the function has taken; in a later attempt, as it comes to them
        )
        self.message = turn.message
        self.output_modes = turn.modes
        self.history = history  # what an earlier run of this function recorded
        self.loop = log.writer.loop
        self.thread = threading.get_ident()
        self.state = State.HELD
        self.is_canceled = False  # by the client
        self.failure = ""  # the type of what the function raised, if that failed the task
        self.worked_s = 0.0  # before the last question; waiting for the client is not work
        self.noted_s = 0.0  # of it the log knows
        self.since_s = self.progressed_s = time.monotonic()
        self.starts_when_told = (
            is_held  # it starts when it is told to, not when its message is stored
        )
        self.task: asyncio.Task[None] | None = None
        # What is said first in a conversation finds nothing to be loaded.
        self.conversation: StateOfConversation | None = (
            StateOfConversation(self) if skill.binding.context else None
        )
        self.is_new_conversation = is_new_conversation
        self._values = values
        self._last_message: Message | None = None
        self._left_open: StatusUpdate | None = None  # the question a bridge ended its turn with
        self._has_output = False
        self._rewrites: list[Rewrite] = []  # of middleware, for what the function says
        self._root: Branch | None = None
        self._steps: Steps | None = None
        self._questions: Questions | None = None
        self._steps_under_way = 0
        self._busy = 1  # branches of the function that do not wait for anything of ours
        self._events = 0
        self._context: contextvars.Context | None = None
        # None: there is a task, as there is from the start unless the skill has `first_word`
        self._first_word = first_word
        self.idempotency_key = first_word.key if first_word is not None else ""
        self._private = ""
        self._status_before: TaskStatus | None = None  # to return to, if a message is refused
        log.slot.begin(self)
        log.is_clear = False
        runs.tasks.working.add(self, log.namespace.caller)
        if history is None:
            log.turns.append(turn.number)
            log.append(RunStarted(turn.number))
            if first_word is None:
                if skill.has_first_word and log.state in INTERRUPTED:
                    self._status_before = log.draft.status
                log.set_status(TaskState.WORKING)
        else:
            self.worked_s = self.noted_s = history.worked_s
        if first_word is None and (is_held or waits_for_commit or skill.is_durable):
            self._context = contextvars.copy_context()
        else:
            self.start()

    # Its state

    def _move(self, move: Move) -> bool:
        """Something happens to the run. Return whether that changes anything."""
        new = TRANSITIONS[self.state].get(move)
        if new is None:
            return False
        self.state = new
        return True

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def is_held(self) -> bool:
        """It starts when its message is stored: what is to be taken up again has to be known before
        it does anything.
        """
        return self.state is State.HELD and not self.starts_when_told

    @property
    def is_waiting(self) -> bool:
        return self.state is State.WAITING

    @property
    def is_stopped(self) -> bool:
        """Nothing the function does now is recorded."""
        return self.state is State.CANCELING or self.state in OVER or self._is_mismatched

    @property
    def is_stopping(self) -> bool:
        """The function is being stopped, by whomever: what it no longer waits for was not its own
        decision.
        """
        return self.is_stopped or self.state is State.RELEASING

    @property
    def goes_on_elsewhere(self) -> bool:
        """The function is being stopped, and not its task."""
        return self.state in (State.RELEASING, State.RELEASED) or self._is_mismatched

    @property
    def _is_mismatched(self) -> bool:
        return self.history is not None and self.history.mismatch is not None

    @property
    def is_unspoken(self) -> bool:
        """It has not said its first word, on which depends whether there is a task."""
        return self._first_word is not None

    @property
    def task_id(self) -> str:
        return self.log.ids.task_id

    @property
    def skill_id(self) -> str:
        return self.skill.id

    @property
    def resources(self) -> Any:
        """What the lifespan of the agent has yielded."""
        return self._runs.lifespans.resources(self.skill)

    # Driving the function

    def start(self) -> None:
        """Call the function."""
        if not self._move(Move.START):
            return
        self.starts_when_told = False
        self.since_s = self.progressed_s = time.monotonic()
        context, self._context = (
            self._context,
            None,
        )  # in which the run will stand: held on to, it would hold itself
        name = f"skill {self.skill.id}, task {self.log.ids.task_id}"
        spans = tracing()
        # Only a run that is not started by the request of its message has to look for the trace.
        is_elsewhere = self.sender.trace is not recorded_trace()
        is_traced = spans is not None and not is_unsampled()
        work = self._traced(spans) if is_elsewhere or is_traced else self._drive()
        self.task = self.loop.create_task(work, name=name, context=context)

    async def _traced(self, spans: "Tracing | None") -> None:
        """Call the function in the trace of its message."""
        is_left_out = is_unsampled() and self.sender.trace is NO_TRACE
        if not is_left_out:
            set_current(self.sender.trace)
        if spans is None or is_left_out:
            return await self._drive()
        is_resumed = self.history is not None
        name = self.log.namespace.agent
        agent = self._runs.agents.get(name)  # None: it was removed while this run was started
        version = agent.version if agent is not None else ""
        with spans.run(name, version, self.skill.id, *self.log.ids, is_resumed) as span:
            await self._drive()
            if span is not None:
                span.set_state(self.log.state.word)
                if self.log.state is TaskState.FAILED:
                    span.fail(self.failure or "Fail")

    async def _drive(self) -> None:
        binding, values = self.skill.binding, self._values
        del self._values  # they are the function's
        self._root = Branch("", self._output(), self.task)
        RUN_POSITION.set(RunPosition(self, self._root))
        if binding.context:
            values[binding.context] = Context(self, self.sender, self.log.ids.context_id)
        if binding.caller:
            values[binding.caller] = self.sender.caller
        if self.skill.takes_files:
            binding.open_files(values, self._runs.open_url)
        if binding.resources:
            binding.put_resources(values, self.resources)
        try:
            if self.conversation is not None and not self.is_new_conversation:
                await self.conversation.load()
            if self.skill.middleware:
                self._finish(await self._call_around(values))
            elif self.skill.kind == "coroutine":
                self._finish(await self.skill.function(**values))
            else:
                self._finish(await _CALL[self.skill.kind](self, values))
        except Mismatch as reason:
            self._differs(reason)
        except Reject as reason:
            self._end_with(TaskState.REJECTED, str(reason))
        except Fail as reason:
            self._end_with(TaskState.FAILED, str(reason))
        except (
            StepFailed
        ) as error:  # what ended a step in this way ends the task, if nobody caught it
            if error.type == Fail.__name__:
                self._end_with(TaskState.FAILED, error.message)
            elif error.type == Reject.__name__:
                self._end_with(TaskState.REJECTED, error.message)
            else:
                self._fail(sys.exc_info())
        except InvalidAgentResponse as error:
            self._log(logging.ERROR, str(error))
            if not self._refuse_call(error):
                self._end_with(TaskState.FAILED, str(error))
        except A2AError as error:
            self._refuse(error)
        except asyncio.CancelledError:
            if self.state is State.CANCELING:
                self._end(TaskState.CANCELED)
            elif self.state is State.RELEASING:
                self.leave()
            else:
                self._fail(sys.exc_info())
        except BaseException:  # whatever it is, it ends this task and nothing else
            self._fail(sys.exc_info())
        finally:
            self._runs.ended(self)
            # What knows the run is let go of, else only the garbage collector finds it.
            if self._root is not None:
                self._root.task = None
            self._questions = self._steps = self._root = self.task = self.conversation = None

    async def _call_around(self, values: dict[str, Any]) -> Any:
        """Call the function within the agent's middleware."""
        context = Context(self, self.sender, self.log.ids.context_id)
        call = SkillCall(self.skill.id, self.message, context, values)
        self._rewrites = call.rewrites

        async def work() -> Any:
            if self.skill.kind == "coroutine":
                return await self.skill.function(**values)
            return await _CALL[self.skill.kind](self, values)

        return await call_around(self.skill.middleware, call, work)

    async def _iterate(self, values: dict[str, Any]) -> Any:
        stream = self.skill.function(**values)
        try:
            async for item in stream:
                if isinstance(item, Ask):
                    return item
                self.emit(item)
                if self.state is State.ENDED:
                    break  # its first word was the answer
                await self.drain()
        finally:
            await stream.aclose()
        return self._last_message

    async def _await_thread(self, values: dict[str, Any]) -> Any:
        return await self._runs.threads.run(lambda: self.skill.function(**values), self.skill.id)

    async def _iterate_thread(self, values: dict[str, Any]) -> Any:
        async def pass_on(item: Any) -> None:
            if self.is_over:
                raise Fail("cancelled")  # ends the thread, which can't be stopped from outside
            self.emit(item)
            await self.drain()

        def work() -> Any:
            stream = self.skill.function(**values)
            while True:
                try:
                    item = next(stream)
                except StopIteration as end:
                    return end.value if end.value is not None else self._last_message
                if isinstance(item, Ask):
                    return item
                asyncio.run_coroutine_threadsafe(pass_on(item), self.loop).result()

        return await self._runs.threads.run(work, self.skill.id)

    def _finish(self, value: Any) -> None:
        """The function has returned: say so."""
        if self.is_over:
            return
        if self.history is not None:
            self.history.end_all()  # all that was recorded must have come up again
        if isinstance(value, Ask):
            self._resend_changed()
            self._rest_with(
                TaskState.INPUT_REQUIRED,
                parts_of(value.question, value.type),
                metadata=None,
                keeps_waiting=value.takes_waiting,
            )
            return
        if self._left_open is not None:
            status = self._left_open.status
            if status.state is TaskState.AUTH_REQUIRED:  # which was said at once
                self._rest_as_it_is()
            else:
                self._rest_with(status.state, status.message, self._left_open.metadata)
            return
        word = self._last_message
        if isinstance(value, (Reply, StatusMessage, Message)):
            if self._answer(value):
                return
            word = self._message(value)
        elif value is not None:
            self.emit(value, is_last=True)
        self._resend_changed()
        self._end(TaskState.COMPLETED, word)

    def _rest(self) -> None:
        """The function has returned and the task waits for its client: any process may go on."""
        self.log.is_clear = True
        self.log.slot.free()

    def _rest_with(
        self,
        state: TaskState,
        word: Any,
        metadata: Metadata | None,
        *,
        keeps_waiting: bool = False,
    ) -> None:
        """The function has returned, and the next message calls it again."""
        write = self.state_to_store()
        self._rest()
        self.status(state, word, metadata, keeps_waiting=keeps_waiting)
        self.remember(write)
        self._move(Move.END)

    def _rest_as_it_is(self) -> None:
        """The function has returned, and its status is the last it has said."""
        write = self.state_to_store()
        self._rest()
        self.log.append(Noted(self.private))  # the task is given up with a commit
        self.remember(write)
        self._move(Move.END)

    def state_to_store(self) -> StateWrite | None:
        """The state of the conversation, to be stored with the status that follows. Raises as
        `StateOfConversation.to_store` does.
        """
        return self.conversation.to_store() if self.conversation is not None else None

    def remember(self, write: StateWrite | None) -> None:
        if write is not None and not self.log.is_lost:
            self.log.remember(write)

    def _resend_changed(self) -> None:
        """What was said otherwise in an earlier attempt is sent as it is now."""
        if self.history is not None and self._root is not None:
            for path, send in self._root.output.finish():
                self._send(send, Origin(path), is_ours=True)

    def _fail(self, error: Any) -> None:
        """The function has raised: the client gets a number to quote, the log the rest. One that
        was cancelled, and failed as it cleaned up, has been cancelled all the same.
        """
        if self.is_over or self._is_another():
            return
        self.failure = error[0].__name__
        self._rewrites = []  # they may be what failed, and what is said now is ours
        reference = secrets.token_hex(4)
        log_.error(
            "task %s: skill %s failed, reference %s",
            self.task_id,
            self.skill.id,
            reference,
            exc_info=error,
            extra={"task_id": self.task_id},
        )
        is_canceled = self.state is State.CANCELING
        word = f"The agent failed. Reference: {reference}"
        if self._refuse_call(A2AError(word, reference=reference)):
            return
        if not is_canceled:
            self.log.append(raised(reference, error[1]))
        self._end(TaskState.FAILED, None if is_canceled else word)

    def _refuse(self, error: A2AError) -> None:
        """The function has raised an error of the protocol: its sender gets it, if that is all the
        function did. What another agent reported is a failure like any other.
        """
        if error.agent or self.state is State.CANCELING:
            self._fail(sys.exc_info())
        elif self._has_output:
            self._end_with(TaskState.FAILED, str(error))
        elif not self.is_over and not self._is_another() and not self._refuse_call(error):
            before = self._status_before
            if before is not None:
                self._rest()
                self.log.set_status(before.state, before.message, refusal=error, keeps_waiting=True)
            else:
                self.log.set_status(TaskState.REJECTED, self._last_words(str(error)), refusal=error)
            self._move(Move.END)

    def _end_with(self, state: TaskState, word: str) -> None:
        """The function has ended the task itself."""
        if not self._refuse_call(A2AError(word)) and not self._is_another():
            self._end(state, word)

    def _is_another(self) -> bool:
        """Whether the function has ended without all that is recorded: then it is not the one that
        recorded it.
        """
        if self.history is None or self.is_over:
            return False
        try:
            self.history.end_all()
        except Mismatch as reason:
            self._differs(reason)
            return True
        return False

    def _differs(self, reason: Mismatch) -> None:
        """The function has changed since it was recorded: the run is given up, and tried again
        later.
        """
        if self.state is State.CANCELING:
            self._end(TaskState.CANCELED)
        elif self._move(Move.LEAVE):
            self._runs.mismatched(self, str(reason))

    def _end(self, state: TaskState, word: Any = None) -> None:
        """End the task, unless the run is over already. One that its client cancelled does not
        fail.
        """
        if self.is_over:
            return
        self._speak()
        if self.state is State.CANCELING and state in (TaskState.FAILED, TaskState.REJECTED):
            state = TaskState.CANCELED
        message = None if word is None else self._last_words(word)
        try:
            write = self.state_to_store() if state is TaskState.COMPLETED else None
            self.log.set_status(state, message)
            self.remember(write)
        except InvalidAgentResponse as error:  # more than the task, or its state, may hold
            self._log(logging.ERROR, str(error))
            self.log.set_status(TaskState.FAILED, self._last_words(str(error)))
        self._move(Move.END)

    def _log(self, level: int, text: str) -> None:
        log_.log(
            level,
            "task %s: skill %s: %s",
            *(self.task_id, self.skill.id, text),
            extra={"task_id": self.task_id},
        )

    # Its first word

    def _speak(self, *, works: bool = True) -> None:
        """The function says something: now there is a task, if there was none."""
        first, self._first_word = self._first_word, None
        if first is None:
            return
        self._runs.unspoken.pop((self.log.namespace, self.task_id), None)
        if works:
            self.log.set_status(TaskState.WORKING)
        first.begin_task()
        if self._runs.tasks.is_draining and self.skill.is_durable and self._runs.can_go_on:
            self.loop.call_soon(self.release)  # the next process goes on with it

    async def spoken(self) -> None:
        """Return when it is decided whether there is a task."""
        if self._first_word is not None:
            await asyncio.wait({self._first_word.said})

    def _answer(self, word: Reply | StatusMessage | Message) -> bool:
        """Return whether a message is the answer: the first word of a function that may have no
        task. Else there is a task, and it is the message of its last status.
        """
        skill = self.skill
        if isinstance(word, Reply) and skill.makes_task and not skill.has_first_word:
            raise TypeError(
                f"{skill.function.__qualname__} has a task, and a Reply is an answer without one; "
                "annotate it -> Reply, or say StatusMessage(...)"
            )
        if isinstance(word, StatusMessage):
            return False
        first = self._first_word
        if first is None or first.always_task:
            return False
        self._leave_unspoken()
        message = agent_message(word, "", self.log.ids.context_id)
        first.answer(replace(message, parts=rewritten(message.parts, self._rewrites)))
        return True

    def _refuse_call(self, error: A2AError) -> bool:
        """Nothing comes of the message: its sender gets an error. False if there is a task."""
        first = self._first_word
        if first is None:
            return False
        self._leave_unspoken()
        first.refuse(error)
        return True

    def _leave_unspoken(self) -> None:
        self._first_word = None
        self._runs.unspoken.pop((self.log.namespace, self.task_id), None)
        self._move(Move.END)

    # What the function says

    @property
    def is_here(self) -> bool:
        """Whether this is the thread of the loop, and not one in which a plain function runs."""
        return threading.get_ident() == self.thread

    @property
    def is_on_a_loop(self) -> bool:
        """Whether an event loop runs in this thread, ours or another."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    async def here(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something of this run, also on an event loop of another thread: some frameworks
        call tools there. It is cancelled when the run ends.
        """
        if self.is_here:
            return await work
        if self.task is None or not self.loop.is_running():
            work.close()
            raise RuntimeError("the run that this is a part of has ended")
        moved = asyncio.run_coroutine_threadsafe(work, self.loop)
        self.loop.call_soon_threadsafe(self.task.add_done_callback, lambda run: moved.cancel())
        return await asyncio.wrap_future(moved)

    def act(self, action: Callable[[], None]) -> None:
        """Do something to the log at once, or from another thread as soon as the loop gets
        to it.
        """
        if self.is_here:
            action()
            return
        self.loop.call_soon_threadsafe(self._act_late, action)
        if self.log.is_far_ahead:
            asyncio.run_coroutine_threadsafe(self.log.drain(), self.loop).result()

    def _act_late(self, action: Callable[[], None]) -> None:
        try:
            action()
        except InvalidAgentResponse as error:
            self._log(logging.WARNING, str(error))

    def status(
        self,
        state: TaskState,
        word: Any = None,
        metadata: Metadata | None = None,
        origin: Origin = NO_ORIGIN,
        *,
        refusal: A2AError | None = None,
        cursor: str | None = None,
        keeps_waiting: bool = False,
    ) -> None:
        if self.is_over or self.log.state in FINAL:
            self._drop()
            return
        if self._first_word is not None:
            self._speak()
        self.progressed_s = time.monotonic()
        self._has_output = True
        message = None if word is None else self._message(word)
        self.log.set_status(
            state,
            message,
            metadata,
            origin,
            refusal=refusal,
            cursor=cursor,
            keeps_waiting=keeps_waiting,
        )

    def progress(self, text: str, metadata: Metadata | None) -> None:
        """Say how far the work is."""
        branch, origin = self._origin()
        if branch.output.status(is_in_step=bool(origin.step)):
            self.status(TaskState.WORKING, text, metadata, origin)

    def emit(self, value: Any, *, is_last: bool = False) -> None:
        """Add what was yielded or returned: an Artifact is its own, anything else is a chunk of the
        branch's one.
        """
        if isinstance(value, (Reply, StatusMessage, Message)):
            if not self._answer(value):
                self._last_message = self._message(value)
            return
        if self.is_over or self.log.state in FINAL:
            self._drop()
            return
        branch, origin = self._origin()
        output = branch.output
        if isinstance(value, Artifact):
            if not value.parts:
                raise InvalidAgentResponse(f"artifact {value.artifact_id!r} has no parts")
            artifact = copy.copy(value)
            if self._rewrites:
                artifact.parts = rewritten(artifact.parts, self._rewrites)
            send = output.artifact(artifact, is_in_step=bool(origin.step))
        else:
            parts = [Part(text=value)] if type(value) is str else to_parts(value)
            if not parts:
                raise InvalidAgentResponse("an artifact needs at least one part")
            if self._rewrites:
                parts = rewritten(parts, self._rewrites)
            send = output.chunk(parts, is_last=is_last, is_in_step=bool(origin.step))
        if send is not None:
            self._send(send, origin, is_ours=isinstance(value, str))

    def say(
        self, event: StatusUpdate | ArtifactUpdate | Message, cursor: str | None = None
    ) -> None:
        """Add an event of the protocol as it is, with the ids of this task."""
        if isinstance(event, Message):
            if not self._answer(event):
                self._last_message = self._message(event)
        elif self.skill.is_durable and cursor is None:
            raise TypeError(
                "in a durable skill ctx.say needs cursor=, the place of the event on the other "
                "side (or '' if there are none): a later attempt has to find out by ctx.cursor and "
                "ctx.task what was said; else use ctx.status, ctx.write and ctx.artifact"
            )
        elif self.is_over or self.log.state in FINAL:
            self._drop()
        elif isinstance(event, ArtifactUpdate):
            artifact = copy.copy(event.artifact)
            artifact.parts = rewritten(artifact.parts, self._rewrites)
            send = Send(artifact, bool(event.append), bool(event.last_chunk))
            self._send(send, self._origin()[1], is_ours=False, cursor=cursor)
        elif event.status.state in FINAL:
            is_done = event.status.state is TaskState.COMPLETED
            write = self.state_to_store() if is_done else None
            self.status(event.status.state, event.status.message, event.metadata, cursor=cursor)
            self.remember(write)
            self._move(Move.END)
        elif event.status.state in INTERRUPTED:
            if self.skill.is_durable:
                raise TypeError("a durable skill asks with ctx.ask or ctx.require_auth")
            self._left_open = event
            if event.status.state is TaskState.AUTH_REQUIRED:
                # Its sender has to know of it, while the function may wait for the authorization.
                self.status(event.status.state, event.status.message, event.metadata)
        else:
            self._left_open = None
            is_first = self._first_word is not None
            self._speak(works=False)
            if (
                is_first
                and event.status.state is TaskState.SUBMITTED
                and event.status.message is None
            ):
                return  # that is how every task begins
            self.status(event.status.state, event.status.message, event.metadata, cursor=cursor)

    def end_turn(
        self,
        state: TaskState,
        message: Message | None,
        metadata: Metadata | None,
        *,
        refusal: A2AError,
    ) -> None:
        """End the task, of a bridge; its sender gets an error."""
        self.status(state, message, metadata, refusal=refusal, cursor="")
        self._move(Move.END)

    def _send(
        self, send: Send, origin: Origin, *, is_ours: bool, cursor: str | None = None
    ) -> None:
        if self._first_word is not None:
            self._speak()
        self.progressed_s = time.monotonic()
        self._has_output = True
        task_id, context_id = self.log.ids
        update = ArtifactUpdate(
            task_id=task_id,
            context_id=context_id,
            artifact=send.artifact,
            append=send.append,
            last_chunk=send.last_chunk,
        )
        entry = ArtifactChanged(update, origin.branch, origin.step, cursor)
        self.log.append(entry, is_ours=is_ours)

    def add_artifact(
        self,
        content: tuple[Any, ...],
        *,
        name: str,
        description: str,
        artifact_id: str,
        metadata: Metadata | None,
    ) -> None:
        parts = [part for value in content for part in to_parts(value)]
        self.emit(
            Artifact(
                artifact_id=artifact_id,
                parts=parts,
                name=name,
                description=description,
                metadata=metadata,
            )
        )

    def _origin(self) -> tuple[Branch, Origin]:
        """Where in the function we are."""
        place = position_in(self)
        if place is None:  # a skill that takes no Context has one branch, and no steps
            if self._root is None:
                self._root = Branch("", self._output(), self.task)
            return self._root, NO_ORIGIN
        branch, step = place.branch, place.step
        return branch, Origin(branch.path, step) if branch.path or step else NO_ORIGIN

    def _output(self) -> Output:
        return Output(
            self.history,
            self.history.artifacts if self.history is not None else len(self.log.draft.artifacts),
        )

    def _drop(self) -> None:
        """After the end nothing is heard: a cancelled thread may go on talking for a while."""
        if self.state is not State.RELEASED:  # else its next run says it
            self._log(logging.WARNING, "output after the end was dropped")

    def _last_words(self, word: Any) -> Message | None:
        """What the task ends with; nothing, if middleware can't rewrite it as it has to."""
        if isinstance(word, Message):
            return agent_message(word, *self.log.ids)  # it was rewritten when it was said
        try:
            return self._message(word)
        except Exception:
            log_.exception("task %s: its last message could not be rewritten", self.task_id)
            return None

    def _message(self, word: Any) -> Message:
        message = agent_message(word, *self.log.ids)
        if self._rewrites:
            message = replace(message, parts=rewritten(message.parts, self._rewrites))
        return message

    async def drain(self) -> None:
        """Wait until the commit has caught up, and give others a turn now and then."""
        self._events += 1
        if self._events % _PAUSE_EVENTS == 0:
            await asyncio.sleep(0)
        if self.log.is_far_ahead:
            await self.log.drain()
        if self.state is State.RELEASED:
            raise asyncio.CancelledError

    @property
    def messages(self) -> list[Message]:
        """What has been said in this task; as long as earlier runs are gone through, what had been
        said by then.
        """
        history = self.log.draft.history
        if self.history is not None and self.history.is_replaying(""):
            return history[: self.history.history_length(self.taken.number)]
        return list(history)

    # What is recorded

    @property
    def cursor(self) -> str:
        """Where the other side of a bridge stood when the last attempt ended."""
        return self.history.cursor if self.history is not None else ""

    @property
    def is_replaying(self) -> bool:
        """Whether the function has not come yet to where the record of earlier attempts ends."""
        return self.history is not None and self.history.is_replaying("")

    @property
    def private(self) -> str:
        """The skill's own record of the task, JSON; empty if there is none."""
        noted = self.history.private if self.history is not None else ""
        return self._private or noted or self.log.about.private

    @private.setter
    def private(self, value: str) -> None:
        """Record something, with what is said next. Of a task that does not exist yet it is part:
        it can be read without its log, for as long as there is the task.
        """
        self._private = value
        if self._first_word is not None:
            self.log.about = msgspec.structs.replace(self.log.about, private=value)
        else:
            self.log.append(Noted(value))

    def note(self, entry: Entry) -> None:
        """Add a private entry."""
        self.progressed_s = time.monotonic()
        self.log.append(entry)

    def record(self, entry: Entry) -> asyncio.Future[None]:
        """Add a private entry. Done when it is stored."""
        self.note(entry)
        return self.log.stored_after_outage()

    @property
    def size_left(self) -> int:
        return self.log.writer.limits.task_size - self.log.size

    @property
    def steps(self) -> Steps:
        if self._steps is None:
            self._steps = Steps(self, self.history)
        return self._steps

    @property
    def threads(self) -> Threads:
        return self._runs.threads

    @property
    def runs(self) -> "Runs":
        return self._runs

    @property
    def delegates(self) -> Delegates:
        if self._runs.delegates is None:
            raise TypeError(
                "ctx.delegate needs an agent that is served: use accord.Agent, and "
                "its app() or run()"
            )
        return self._runs.delegates()

    async def may_begin(self) -> None:
        """Return if something new may be begun. If the run is being given up, that is never: its
        function is about to be cancelled.

        Nor is anything begun while another process may have taken the task.
        """
        while not self._runs.tasks.store.is_sure and not self.is_over:  # noqa: ASYNC110  the store tells nobody
            await asyncio.sleep(_SURE_S)
        if self.state is State.RELEASING:
            await self.loop.create_future()
        if self.is_over:
            raise asyncio.CancelledError

    @property
    def is_sure(self) -> bool:
        """Nobody can have taken the task from this process."""
        return self._runs.tasks.store.is_sure and not self.log.is_lost

    def begin_step(self) -> None:
        self._steps_under_way += 1

    def end_step(self) -> None:
        self._steps_under_way -= 1
        if self.state is State.RELEASING and not self._steps_under_way:
            self.leave()

    # Questions

    @property
    def questions(self) -> Questions:
        if self._questions is None:
            self._questions = Questions(self)
        return self._questions

    def deliver(self, turn: Turn) -> None:
        """A message for this run, already logged: taken at once if it is waited for, else it waits
        for its turn.
        """
        if self._questions is None or not self._questions.deliver(turn):
            self.log.inbox.append(turn)

    def pause(self) -> None:
        """A branch waits: for the client, or for branches of its own."""
        self._busy -= 1
        if (
            self._busy <= 0
            and self._questions is not None
            and self._questions.is_open
            and self._move(Move.WAIT)
        ):
            self.worked_s += time.monotonic() - self.since_s
            self._runs.waits(self)

    def resume(self) -> None:
        """A branch goes on."""
        self._busy += 1
        if self._move(Move.RESUME):
            self.since_s = self.progressed_s = time.monotonic()
            self._runs.tasks.working.add(self, self.log.namespace.caller)

    # Time

    def worked(self) -> float:
        """How many seconds the function has worked, in all its runs."""
        return self.worked_s + (
            0.0 if self.state in (State.WAITING, State.HELD) else time.monotonic() - self.since_s
        )

    def note_work(self) -> None:
        """Have the next run know how long this one has worked."""
        self.noted_s = self.worked()
        self.log.append(Worked(round(self.noted_s, 1)))

    # Ending

    async def cancel(self) -> None:
        """Stop the function, giving it a moment to clean up; the task is terminal afterwards."""
        self.is_canceled = True
        if self._move(Move.CANCEL) and self.task is not None:
            self.task.cancel()
        task = self.task
        try:
            if task is not None:
                await asyncio.wait({task}, timeout=CANCEL_GRACE_S)
        finally:  # also if whoever asked for it has gone meanwhile
            self._end(TaskState.CANCELED)  # it did not stop in time: it is no longer listened to
            self._runs.ended(self)  # cancelled before its first step, it has not said so itself

    def release(self) -> None:
        """Give the run up where another can go on: at once, or when the steps it is in have been
        done.
        """
        if self.state in (State.WAITING, State.HELD) or (
            self._move(Move.RELEASE) and not self._steps_under_way
        ):
            self.leave()

    def leave(self) -> None:
        """Give the run up now. Its function is cancelled, and nothing it does from here on is
        recorded.
        """
        if self._refuse_call(self._runs.tasks.refusal()):
            self._halt()
            return
        was, worked_s = self.state, self.worked()
        if not self._move(Move.LEAVE):
            return
        if was is State.WAITING:
            self.log.slot.free()  # whoever gets the answer may go on
        if was is not State.HELD and not self.log.is_lost:
            self.log.append(Released(round(worked_s, 1)))
        self._halt()

    def lose(self) -> None:
        """Another process owns the task."""
        if self._move(Move.LOSE):
            self._halt()

    def give_up(self) -> None:
        """Another process may soon own the task: stop the function, and record nothing of that. If
        nobody takes the task, we go on with it.
        """
        if self.state not in (State.WORKING, State.RELEASING):
            return  # it does nothing
        if self._refuse_call(self._runs.tasks.refusal()):
            self._halt()
        elif self._move(Move.LOSE):
            self._halt()
            self._runs.on_given_up(self)

    def interrupt(self, reason: str) -> None:
        """Stop the function and fail its task, for a reason of the server's; one that is being
        cancelled is.
        """
        if self.state is State.CANCELING:
            self._end(TaskState.CANCELED)
        elif not self._refuse_call(Unavailable(reason)):
            self._end(TaskState.FAILED, reason)
        self._halt()

    def _halt(self) -> None:
        """Cancel the function. One that has not begun never does."""
        if self.task is not None:
            self.task.cancel()
            self._runs.leaving(self)
        self._runs.ended(self)


_CALL: dict[str, Callable[[Run, dict[str, Any]], Coroutine[Any, Any, Any]]] = {
    "stream": Run._iterate,
    "thread": Run._await_thread,
    "thread stream": Run._iterate_thread,
}
