"""The runs of agents: started, and followed by the next when messages wait."""

import asyncio
import logging
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...model import (
    FINAL,
    A2AError,
    Limits,
    OpenUrl,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
    UnsupportedOperation,
    moment,
    new_id,
)
from ...store import Idempotency, Namespace, Record, Store
from ..durable import Delegates
from ..log import About, Log, Sender, Turn
from ..reading import Accepted, Receipt
from ..skills import AgentBase, Skill
from ..tasks import Tasks
from ..threads import Threads
from .first_word import FirstWord
from .lifespans import Lifespans
from .run import FORGOTTEN, Run
from .state import State

if TYPE_CHECKING:
    from ...observe import Metrics

__all__ = ["Begun", "Runs"]

log_ = logging.getLogger("accord")


class Begun(NamedTuple):
    """A message that begins a task."""

    receipt: Receipt
    first_word: FirstWord | None = None  # None: there is a task


class Runs:
    """Starts the runs of the agents of an engine, and holds what they share."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.agents: dict[str, AgentBase] = {}  # by name, which their tasks are stored under
        self.limits = limits
        self.tasks = Tasks(store, limits)
        self.threads = Threads()
        self.lifespans = Lifespans()
        self.open_url: OpenUrl | None = None  # fetches files that callers name by a URL
        self.delegates: Callable[[], Delegates] | None = (
            None  # put in by the app, which knows the client
        )
        self.on_mismatch: Callable[[Run, str], None] = lambda run, reason: None
        self.on_given_up: Callable[[Run], None] = lambda run: None
        # runs on whose first word depends whether there is a task, by the id that has
        self.unspoken: dict[tuple[Namespace, str], Run] = {}
        self.metrics: Metrics | None = None
        self.is_closed = False  # what runs has been stopped, and nothing new is begun
        self._next_end: asyncio.Future[None] | None = None
        self._leaving: dict[asyncio.Task[None], Skill] = {}  # cancelled and not over

    @property
    def can_go_on(self) -> bool:
        """Whether another process can go on with what this one leaves."""
        store = self.tasks.store
        return not store.is_volatile or store.is_shared

    def start(
        self,
        skill: Skill,
        request: SendMessageRequest,
        namespace: Namespace,
        sender: Sender,
        *,
        idempotency: Idempotency | None = None,
        origin: str = "",
        task_id: str = "",
        always_task: bool = False,
    ) -> Begun:
        """Make a task of a message and start its run. `task_id`, if given, is one no task of this
        process has.

        If the skill decides by its first word whether there is a task, there is none yet. With
        `always_task` there will be one even if it answers with a message.
        """
        message, configuration = request.message, request.configuration
        values = skill.binding.values(message)
        is_new_conversation = not message.context_id
        message.task_id = task_id or new_id()
        message.context_id = message.context_id or new_id()
        at_ms, now = moment()
        status = TaskStatus(state=TaskState.SUBMITTED, timestamp=now)
        task = Task(
            id=message.task_id, context_id=message.context_id, status=status, history=[message]
        )
        modes = tuple(configuration.accepted_output_modes) if configuration is not None else ()
        log, turn = self.tasks.directory.create(
            namespace,
            task,
            skill.id,
            About(origin, sender),
            at_ms,
            modes,
            is_withheld=skill.has_first_word,
        )
        if skill.has_first_word:
            first = FirstWord(self.tasks, log, turn, idempotency, always_task=always_task)
            run = Run(
                self,
                log,
                skill,
                turn,
                values,
                first_word=first,
                is_new_conversation=is_new_conversation,
            )
            self.unspoken[namespace, log.ids.task_id] = run
            return Begun(self._receipt(log, turn), first)
        if idempotency is not None:
            log.keep(idempotency, turn)
        # Another process may have used the key, or made a task of that id: the function is not
        # called before the commit.
        may_be_refused = self.tasks.store.is_shared and (idempotency is not None or bool(task_id))
        Run(
            self,
            log,
            skill,
            turn,
            values,
            waits_for_commit=may_be_refused,
            is_new_conversation=is_new_conversation,
        )
        return Begun(self._receipt(log, turn))

    def _receipt(self, log: Log, turn: Turn) -> Receipt:
        return self.tasks.receipt(Accepted(log, turn.number), is_new=True)

    def ended(self, run: Run) -> None:
        """A run is over. If its task is open and messages wait, the oldest starts the next run."""
        log = run.log
        slot = log.slot
        if not slot.end(run):
            return  # it has been told before
        self.tasks.working.discard(run)
        if self.metrics is not None:
            self.metrics.ran(log.namespace.agent, run.skill.id, log.state.word, run.worked())
        if self._next_end is not None and not self._next_end.done():
            self._next_end.set_result(None)
        if self.is_closed or log.is_lost:
            return
        if run.state is not State.RELEASED:
            self._start_next(log)
            is_for_next = self.tasks.is_draining and run.skill.is_durable and self.can_go_on
            if is_for_next and isinstance(slot.run, Run):
                slot.run.leave()  # it is in the log that the next process has to begin it
        if slot.run is None:
            if self.tasks.is_draining and slot.tail is not None:
                slot.tail.wake()  # who waits for more is told that the server stops
            self.tasks.directory.release(log)

    def _start_next(self, log: Log) -> None:
        """Start the next run, with the oldest message that waits."""
        while log.inbox:
            turn = log.inbox.popleft()
            try:
                skill = self.skill_of(log)
                values = skill.binding.values(turn.message)
            except A2AError as error:
                if log.state not in FINAL:  # else its sender gets the task as it ended
                    log.refuse(turn, error)
                continue
            if log.state in FINAL:
                log.set_status(TaskState.SUBMITTED)  # what still waits then has reopened it
            Run(self, log, skill, turn, values)
            return

    def waits(self, run: Run) -> None:
        """A run waits for its client: that is no work, and holds up no stop."""
        self.tasks.working.discard(run)
        if self.tasks.is_draining:  # nobody can answer here any more
            run.release() if self.can_go_on else run.interrupt(FORGOTTEN)

    def mismatched(self, run: Run, reason: str) -> None:
        self.on_mismatch(run, reason)
        self.ended(run)

    def leaving(self, run: Run) -> None:
        """A function was cancelled, and has a while to end."""
        if run.task is not None and not run.task.done():
            self._leaving[run.task] = run.skill
            run.task.add_done_callback(lambda task: self._leaving.pop(task, None))

    async def left(self, timeout_s: float) -> None:
        """Wait for functions that were cancelled; say which did not end."""
        if self._leaving:
            _, unresponsive = await asyncio.wait(list(self._leaving), timeout=timeout_s)
            for task in unresponsive:
                place = _place_of(task)
                log_.warning(
                    "skill %s did not end when it was cancelled; the process ends without it; "
                    "it was at %s",
                    self._leaving[task].id,
                    place,
                )

    def next_end(self) -> asyncio.Future[None]:
        """Done when a run is over, and what waited for it has begun."""
        self._next_end = self.tasks.loop.create_future()
        return self._next_end

    def running(self) -> list[Run]:
        runs = [slot.run for slot in self.tasks.directory.slots()]
        spoken = [run for run in runs if isinstance(run, Run)]
        return [*spoken, *self.unspoken.values()]

    def find_skill(self, task: Log | Record) -> Skill | None:
        """Return the skill a task was begun by; None if there is none any more."""
        agent = self.agents.get(task.namespace.agent)
        return agent.skills.get(task.skill) if agent is not None else None

    def skill_of(self, task: Log | Record) -> Skill:
        """Return the skill a task was begun by."""
        skill = self.find_skill(task)
        if skill is None:
            task_id = task.ids.task_id if isinstance(task, Log) else task.id
            raise UnsupportedOperation(
                f"task {task_id} was started by skill {task.skill!r}, which this agent no longer "
                "has",
                taskId=task_id,
            )
        return skill


def _place_of(task: asyncio.Task[None]) -> str:
    """Where the function of a run stands: in the first coroutine of its chain that is not ours."""
    inner: Any = task.get_coro()
    while inner is not None:
        frame = getattr(inner, "cr_frame", None)
        if frame is not None and not frame.f_globals.get("__name__", "").startswith("accord."):
            return traceback.format_stack(frame, limit=1)[0].strip().splitlines()[0]
        inner = getattr(inner, "cr_await", None)
    return "an unknown place"
