"""A run: one call of a skill's function for a task, from its message to its end.

One asyncio task per run, no queue. Nothing else writes the log of a task while its run lives.
"""

import asyncio
import contextvars
import datetime
import enum
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...files import has_references, restored
from ...model import (
    INTERRUPTED,
    A2AError,
    File,
    Message,
    Part,
    TaskState,
    TaskStatus,
    Unavailable,
)
from ...observe import is_unsampled, recorded_trace, tracing
from ...store import StoreClock
from ..durable import (
    RUN_POSITION,
    Delegates,
    History,
    RunPosition,
    Steps,
    Timers,
    end_of_sleep,
)
from ..log import Entry, Log, Noted, Released, RunStarted, Turn, Worked
from ..skills import Skill, file_of
from ..threads import Threads
from .activity import Activity
from .conversation_state import StateOfConversation
from .invoke import call, call_within_middleware, fill, in_trace
from .lifecycle import OVER, Lifecycle, Move, State
from .outcome import function_raised, function_returned
from .pending import PendingTask
from .questions import Questions
from .task_output import TaskOutput

if TYPE_CHECKING:
    from .runs import Runs

__all__ = ["Run", "Start"]

CANCEL_GRACE_S = 3.0
FORGOTTEN = (
    "interrupted: the server stopped, and its tasks were in memory only; send the message again, "
    "under a new key if it had one"
)


class Start(enum.Enum):
    """When the function of a run is called."""

    AT_ONCE = "at once"
    # What is to be taken up again has to be known before the function does anything.
    WHEN_STORED = "when the message is stored"
    WHEN_CALLED = "when somebody calls start"


class Run:
    """One call of a skill's function: started, driven to its end, cancelled or given up.

    What the function says goes through `output`, what it asks through `questions`, what it records
    through `steps`. What it does or waits for is counted in `activity`. Where the run stands, and
    how long it has worked, is in `life`.
    """

    __slots__ = (
        "__weakref__",
        "_activity",
        "_context",
        "_private",
        "_questions",
        "_start",
        "_steps",
        "_values",
        "failure",
        "history",
        "idempotency_key",
        "is_canceled",
        "is_new_conversation",
        "life",
        "log",
        "message",
        "output",
        "output_modes",
        "runs",
        "sender",
        "skill",
        "status_before",
        "taken",
        "task",
        "turn",
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
        start: Start = Start.AT_ONCE,
        pending: PendingTask | None = None,
        is_new_conversation: bool = False,
    ) -> None:
        """Begin a run of `skill` with the message of `turn`, whose parts are its `values`.

        Args:
            runs: What all runs share.
            log: Of the task.
            skill: Whose function is called.
            turn: Of the message.
            values: The parameters of the function.
            history: What an earlier run of this function recorded.
            start: When to call the function. A durable one is never called at once.
            pending: The task, if it does not exist before the first output.
            is_new_conversation: Nothing was said in it before: there is no state to load.
        """
        self.runs = runs
        self.log = log
        self.skill = skill
        self.sender = turn.sender or log.about.sender
        self.turn = turn.number  # of the message the function is called with
        # The newest turn the function has taken. A later attempt comes to them one by one.
        self.taken = turn
        self.message = turn.message
        self.output_modes = turn.modes
        self.history = history
        self.life = Lifecycle(history.worked_s if history is not None else 0.0)
        self.output = TaskOutput(
            log, skill, self.life, history, pending, runs.home, runs.tasks.files
        )
        self.is_canceled = False  # by the client
        self.failure = ""  # the type of what the function raised, if that failed the task
        self.task: asyncio.Task[None] | None = None
        self.is_new_conversation = is_new_conversation
        self.idempotency_key = pending.key if pending is not None else ""
        self.status_before: TaskStatus | None = None  # to return to, if a message is refused
        self._values = values
        self._steps: Steps | None = None
        self._questions: Questions | None = None
        self._activity: Activity | None = None
        self._context: contextvars.Context | None = None
        self._private = ""
        self._start = start
        if skill.binding.context:
            self.output.conversation = StateOfConversation(self)
        self._begin()

    def _begin(self) -> None:
        """Record that the run begins, and call its function now or later."""
        log, skill, is_pending = self.log, self.skill, self.output.pending is not None
        log.slot.begin(self)
        log.is_clear = False
        if log.state not in INTERRUPTED:
            log.due_ms = 0  # while it works, its owner sees to what is due
        self.runs.tasks.working.add(self, log.namespace.caller)
        if self.history is None:
            log.turns.append(self.turn)
            log.append(RunStarted(self.turn))
            if not is_pending:
                if skill.has_first_word and log.state in INTERRUPTED:
                    self.status_before = log.draft.status
                log.set_status(TaskState.WORKING)
        if self._start is Start.AT_ONCE and skill.is_durable:
            self._start = Start.WHEN_STORED
        if is_pending or self._start is Start.AT_ONCE:
            self.start()
        else:
            self._context = contextvars.copy_context()

    # Its state

    @property
    def is_over(self) -> bool:
        return self.life.state in OVER

    @property
    def starts_when_stored(self) -> bool:
        """Return whether the function is called when the message is stored."""
        return self._start is Start.WHEN_STORED and self.life.state is State.DEFERRED

    @property
    def is_waiting(self) -> bool:
        return self.life.state is State.WAITING

    @property
    def is_pending(self) -> bool:
        """Return whether the first output is yet to decide if there is a task."""
        return self.output.pending is not None

    @property
    def is_stopped(self) -> bool:
        """Return whether nothing the function does now is recorded."""
        return self.life.state is State.CANCELING or self.is_over or self._is_mismatched

    @property
    def is_stopping(self) -> bool:
        """Return whether the function is being stopped: then it was not its own decision to wait
        for something no longer.
        """
        return self.is_stopped or self.life.state is State.RELEASING

    @property
    def goes_on_elsewhere(self) -> bool:
        """Return whether the function is being stopped, and its task is not."""
        return self.life.state in (State.RELEASING, State.RELEASED) or self._is_mismatched

    @property
    def is_sure(self) -> bool:
        """Return whether no other process can have taken the task."""
        return self.runs.tasks.store.is_sure and not self.log.commits.is_lost

    @property
    def _is_mismatched(self) -> bool:
        return self.history is not None and self.history.mismatch is not None

    # What it belongs to

    @property
    def task_id(self) -> str:
        return self.log.ids.task_id

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.runs.home.loop

    @property
    def threads(self) -> Threads:
        return self.runs.threads

    @property
    def resources(self) -> Any:
        """Return what the lifespan of the agent has yielded."""
        return self.runs.lifespans.resources(self.skill)

    @property
    def delegates(self) -> Delegates:
        return self.runs.delegates()

    # Driving the function

    def start_when_stored(self) -> None:
        """Call the function as soon as what was appended to the log is stored."""
        self._start = Start.WHEN_STORED

    def start(self) -> None:
        """Call the function; if all runs were stopped, leave the task to the next process."""
        if self.runs.is_closed:
            self.output.refuse(self.runs.tasks.refusal())
            return
        if not self.life.start():
            return
        # The run will stand in this context: a reference to it would be a cycle.
        context, self._context = self._context, None
        name = f"skill {self.skill.id}, task {self.log.ids.task_id}"
        spans = tracing()
        # Only a run that is not started by the request of its message has to look for the trace.
        is_elsewhere = self.sender.trace is not recorded_trace()
        is_traced = spans is not None and not is_unsampled()
        work = in_trace(self, spans) if is_elsewhere or is_traced else self.drive()
        self.task = self.runs.home.loop.create_task(work, name=name, context=context)

    async def drive(self) -> None:
        """Call the function, and record what comes of it."""
        values = self._values
        del self._values  # they are the function's
        RUN_POSITION.set(RunPosition(self, self.output.root(self.task)))
        try:
            if self.runs.tasks.files is not None and has_references(self.message):
                binding = self.skill.binding
                message = await self.with_files(self.message, takes_bytes=binding.takes_bytes)
                values = binding.values(message)
            fill(self, values)
            conversation = self.output.conversation
            if conversation is not None and not self.is_new_conversation:
                await conversation.load()
            calls = call_within_middleware if self.skill.middleware else call
            function_returned(self, await calls(self, values))
        except BaseException as error:
            function_raised(self, error)
        finally:
            self.runs.ended(self)
            # Drop what refers to the run: else only the garbage collector finds it.
            self.output.close()
            self._activity = self._questions = self._steps = self.task = None

    # What is recorded

    @property
    def messages(self) -> list[Message]:
        """Return the messages of this task so far; while the record of earlier runs is replayed,
        those that there were then.
        """
        history = self.log.draft.history
        if self.history is not None and self.history.is_replaying(""):
            return history[: self.history.history_length(self.taken.number)]
        return list(history)

    @property
    def cursor(self) -> str:
        """Return where the other side of a bridge stood when the last attempt ended."""
        return self.history.cursor if self.history is not None else ""

    @property
    def private(self) -> str:
        """Return the skill's own record of the task, JSON; empty if there is none."""
        noted = self.history.private if self.history is not None else ""
        return self._private or noted or self.log.about.private

    @private.setter
    def private(self, value: str) -> None:
        """Record something, with what is said next. It becomes a part of a task that does not exist
        yet: it can be read without the log, for as long as there is the task.
        """
        self._private = value
        if self.is_pending:
            self.log.about = replace(self.log.about, private=value)
        else:
            self.log.append(Noted(value))

    def note(self, entry: Entry) -> None:
        """Add a private entry."""
        self.life.progress()
        self.log.append(entry)

    def stored_file(self, file: File) -> Part:
        """Return a file as the log holds it."""
        return self.output.stored_file(file.part())

    def opened_file(self, part: Part) -> File:
        """Return the file of a part that the log holds."""
        return file_of(part).opened_by(self.runs.opener(self.log.namespace))

    def record(self, entry: Entry) -> asyncio.Future[None]:
        """Add a private entry. Return a future that is done when it is stored."""
        self.note(entry)
        return self.log.commits.stored_after_outage()

    def note_work(self) -> None:
        """Record how long this run has worked, for the next one."""
        self.life.recorded_s = self.life.worked_s
        self.log.append(Worked(round(self.life.recorded_s, 1)))

    @property
    def size_left(self) -> int:
        return self.log.writer.limits.task_size - self.log.size

    @property
    def steps(self) -> Steps:
        if self._steps is None:
            self._steps = Steps(self, self.history)
        return self._steps

    @property
    def activity(self) -> Activity:
        if self._activity is None:
            self._activity = Activity(self)
        return self._activity

    # Messages and questions

    @property
    def questions(self) -> Questions:
        if self._questions is None:
            self._questions = Questions(self)
        return self._questions

    def deliver(self, turn: Turn) -> None:
        """Take a message that is in the log already: at once if the function waits for it, else it
        waits for its turn.
        """
        if self._questions is None or not self._questions.deliver(turn):
            self.log.inbox.append(turn)

    @property
    def asks(self) -> bool:
        """Return whether a question is open."""
        return self._questions is not None and self._questions.is_open

    def take(self, turn: Turn) -> None:
        """Give the function a message: what it does next is for its sender."""
        self.taken, self.message = turn, turn.message

    async def with_files(self, message: Message, *, takes_bytes: bool = False) -> Message:
        """Return a message with the bytes of its smaller files, which the log only refers to. If
        the function `takes_bytes`, larger ones too, up to 25 MiB.
        """
        files = self.runs.tasks.files
        if files is None or not has_references(message):
            return message
        found = await restored(files, message, takes_bytes=takes_bytes)
        if self.message is message:  # else another branch has taken one meanwhile
            self.message = found
        return found

    def refuse_taken(self, error: A2AError) -> None:
        """Refuse the message that the function has taken last: it led to nothing."""
        turns = self.log.turns
        if self.taken.number in turns and not self.log.commits.is_lost:
            turns.remove(self.taken.number)
            self.log.refuse(self.taken, error)

    # Times

    @property
    def clock(self) -> StoreClock:
        """Return the clock of the store."""
        return self.runs.tasks.store.clock

    async def sleep(self, duration: Any, until: datetime.datetime | None) -> None:
        """Wait for a while, or until then."""
        if self.skill.is_durable:
            await Timers(self, self.history).sleep(duration, until)
        else:
            await self.clock.sleep_until(end_of_sleep(self.clock.now_ms(), duration, until))

    # Ending

    async def cancel(self) -> None:
        """Stop the function, giving it a moment to clean up; the task is terminal afterwards."""
        self.is_canceled = True
        if self.life.move(Move.CANCEL) and self.task is not None:
            self.task.cancel()
        task = self.task
        try:
            if task is not None:
                await asyncio.wait({task}, timeout=CANCEL_GRACE_S)
        finally:  # also if whoever asked for it has gone meanwhile
            # If it did not stop in time, what it says from here on is dropped.
            self.output.end(TaskState.CANCELED)
            self.runs.ended(self)  # cancelled before its first step, it has not said so itself

    def release(self) -> None:
        """Give the run up where another can go on: at once, or when the steps it is in have been
        done.
        """
        is_free = self.life.state in (State.WAITING, State.DEFERRED)
        if not is_free and self.life.move(Move.RELEASE):
            is_free = self._activity is None or not self._activity.has_steps
        if is_free:
            self.leave()

    def leave(self) -> None:
        """Give the run up now. Its function is cancelled, and nothing it does from here on is
        recorded.
        """
        if self.output.refuse(self.runs.tasks.refusal()):
            self._halt()
            return
        was, worked_s = self.life.state, self.life.worked_s
        if not self.life.move(Move.LEAVE):
            return
        # An answer may be in the log already, and the function not woken yet: then the task is
        # working, and stays ours until the next process takes up what we left.
        due_ms = self._activity.next_due_ms if self._activity is not None else 0
        is_waiting = self.log.state is not TaskState.WORKING or due_ms
        if was is State.WAITING and is_waiting:
            self.log.slot.free()  # whoever gets the answer may go on, or sees that it is time
            self.log.due_ms = due_ms
            self.log.inbox.clear()  # what waits is in the log
        if was is not State.DEFERRED and not self.log.commits.is_lost:
            self.log.append(Released(round(worked_s, 1)))
        self._halt()

    def lose(self) -> None:
        """Stop, because another process owns the task."""
        if self.life.move(Move.LOSE):
            self._halt()

    def give_up(self) -> None:
        """Stop the function, and record nothing of that: another process may soon own the task. If
        none takes it, we go on with it.
        """
        if self.life.state not in (State.WORKING, State.RELEASING):
            return  # it does nothing
        if self.output.refuse(self.runs.tasks.refusal()):
            self._halt()
        elif self.life.move(Move.LOSE):
            self._halt()
            self.runs.on_given_up(self)

    def interrupt(self, reason: str) -> None:
        """Stop the function and fail its task, for a reason of the server's. A task that is being
        cancelled ends as canceled.
        """
        if self.life.state is State.CANCELING:
            self.output.end(TaskState.CANCELED)
        elif not self.output.refuse(Unavailable(reason)):
            self.output.end(TaskState.FAILED, reason)
        self._halt()

    def _halt(self) -> None:
        """Cancel the function. One that has not begun never does."""
        if self.task is not None:
            self.task.cancel()
            self.runs.leaving(self)
        self.runs.ended(self)
