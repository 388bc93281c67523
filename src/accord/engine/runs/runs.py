"""The runs of agents: started, and followed by the next when messages wait."""

import asyncio
import functools
import logging
import traceback
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import msgspec

from ...files import file_not_found, opened
from ...model import (
    FINAL,
    A2AError,
    FileReference,
    InvalidParams,
    Limits,
    OpenUrl,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
    UnsupportedOperation,
    new_id,
    timestamp,
)
from ...store import Idempotency, Namespace, Record, Store
from ..durable import Delegates
from ..log import About, Log, Sender
from ..reading import Receipt
from ..skills import AgentDefinition, Skill
from ..tasks import Tasks
from ..threads import LoopThread, Threads
from .lifecycle import State
from .lifespans import Lifespans
from .pending import PendingTask
from .run import FORGOTTEN, Run, Start

if TYPE_CHECKING:
    from ...observe import Metrics

__all__ = ["Begun", "Runs"]

log_ = logging.getLogger("accord")


class Begun(msgspec.Struct, frozen=True):
    """A message that begins a task."""

    receipt: Receipt
    pending: PendingTask | None = None  # None: there is a task


class Runs:
    """Starts the runs of the agents of an engine, and has what they share."""

    home: LoopThread  # known when the engine is opened

    def __init__(self, store: Store, limits: Limits) -> None:
        self.agents: dict[str, AgentDefinition] = {}  # by name, which their tasks are stored under
        self.limits = limits
        self.tasks = Tasks(store, limits)
        self.threads = Threads()
        self.lifespans = Lifespans()
        self.open_url: OpenUrl | None = None  # fetches files that callers name by a URL
        # put in by the app, which knows the client
        self.delegates: Callable[[], Delegates] = _no_delegates
        self.on_mismatch: Callable[[Run, str], None] = lambda run, reason: None
        self.on_given_up: Callable[[Run], None] = lambda run: None
        # Runs whose first output decides whether there is a task, by the id it would have.
        self.pending: dict[tuple[Namespace, str], Run] = {}
        self.left_early: set[str] = set()  # skills whose functions stopped waiting by themselves
        self.metrics: Metrics | None = None
        self.is_closed = False  # what runs has been stopped, and nothing new is begun
        self._next_end: asyncio.Future[None] | None = None
        self._leaving: dict[asyncio.Task[None], Skill] = {}  # cancelled and not over

    def opener(self, namespace: Namespace) -> OpenUrl:
        """Return what opens files that a message of this caller names."""
        return functools.partial(self._open_file, namespace)

    async def _open_file(self, namespace: Namespace, url: str, limit: int | None) -> IO[bytes]:
        reference, files = FileReference.parse(url), self.tasks.files
        if reference is not None and files is not None:
            if not await files.is_own(namespace, reference.id):
                raise file_not_found(url)
            return await opened(files, reference, limit)
        if self.open_url is None:
            raise InvalidParams(f"this server fetches no files; {url[:200]} was not read")
        return await self.open_url(url, limit)

    @property
    def can_go_on(self) -> bool:
        """Return whether another process can go on with what this one leaves."""
        return self.tasks.store.outlives_process

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

        If the skill decides by its first output whether there is a task, there is none yet. With
        `always_task` there will be one even if it answers with a message.
        """
        message, configuration = request.message, request.configuration
        values = skill.binding.values(message)
        is_new_conversation = not message.context_id
        message.task_id = task_id or new_id()
        message.context_id = message.context_id or new_id()
        at_ms = self.tasks.store.now_ms()
        status = TaskStatus(state=TaskState.SUBMITTED, timestamp=timestamp(at_ms))
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
            is_pending=skill.has_first_word,
        )
        if skill.has_first_word:
            pending = PendingTask(self, log, turn, idempotency, always_task=always_task)
            run = Run(
                self,
                log,
                skill,
                turn,
                values,
                pending=pending,
                is_new_conversation=is_new_conversation,
            )
            self.pending[namespace, log.ids.task_id] = run
            return Begun(Receipt(self.tasks.views, log, turn.number, is_new=True), pending)
        if idempotency is not None:
            log.keep(idempotency, turn)
        # Another process may have used the key, or made a task of that id: the function is not
        # called before the commit.
        may_be_refused = idempotency is not None or bool(task_id)
        Run(
            self,
            log,
            skill,
            turn,
            values,
            start=Start.WHEN_STORED if may_be_refused else Start.AT_ONCE,
            is_new_conversation=is_new_conversation,
        )
        return Begun(Receipt(self.tasks.views, log, turn.number, is_new=True))

    def pending_task(self, namespace: Namespace, task_id: str) -> PendingTask | None:
        """Return the task of this id if it is not decided yet whether there is one."""
        run = self.pending.get((namespace, task_id))
        return run.output.pending if run is not None else None

    def no_longer_pending(self, log: Log) -> None:
        """Note that it is decided whether there is a task."""
        run = self.pending.pop((log.namespace, log.ids.task_id), None)
        if run is not None and self.tasks.is_draining and run.skill.is_durable and self.can_go_on:
            self.tasks.loop.call_soon(run.release)  # the next process goes on with it

    def ended(self, run: Run) -> None:
        """End a run. If its task is open and messages wait, the oldest starts the next run."""
        log = run.log
        slot = log.slot
        if not slot.end(run):
            return  # it was reported before
        self.tasks.working.discard(run)
        if self.metrics is not None:
            self.metrics.ran(log.namespace.agent, run.skill.id, log.state.word, run.life.worked_s)
        if self._next_end is not None and not self._next_end.done():
            self._next_end.set_result(None)
        if self.is_closed or log.commits.is_lost:
            return
        if run.life.state is not State.RELEASED:
            self._start_next(log)
            is_for_next = self.tasks.is_draining and run.skill.is_durable and self.can_go_on
            if is_for_next and isinstance(slot.run, Run):
                slot.run.leave()  # it is in the log that the next process has to begin it
        if slot.run is None:
            if self.tasks.is_draining and slot.tail is not None:
                slot.tail.wake()  # those who wait for more get an error: the server stops
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
        """Count a run as waiting, for its client or a time: that is no work, and delays no stop."""
        self.tasks.working.discard(run)
        if self.tasks.is_draining:  # nobody can answer here any more
            run.release() if self.can_go_on else run.interrupt(FORGOTTEN)
        elif run.activity.can_sleep:
            run.leave()  # it costs a row until then, and no memory

    def mismatched(self, run: Run, reason: str) -> None:
        self.on_mismatch(run, reason)
        self.ended(run)

    def leaving(self, run: Run) -> None:
        """Note that a function was cancelled, and has a while to end."""
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
        """Return a future that is done when a run is over, and what waited for it has begun."""
        self._next_end = self.tasks.loop.create_future()
        return self._next_end

    def running(self) -> list[Run]:
        runs = [slot.run for slot in self.tasks.directory.slots()]
        return [*(run for run in runs if isinstance(run, Run)), *self.pending.values()]

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


def _no_delegates() -> Delegates:
    raise TypeError(
        "ctx.delegate needs an agent that is served: use accord.Agent, and its app() or run()"
    )


def _place_of(task: asyncio.Task[None]) -> str:
    """Return where the function of a run is: in its first coroutine that is not ours."""
    inner: Any = task.get_coro()
    while inner is not None:
        frame = getattr(inner, "cr_frame", None)
        if frame is not None and not frame.f_globals.get("__name__", "").startswith("accord."):
            return traceback.format_stack(frame, limit=1)[0].strip().splitlines()[0]
        inner = getattr(inner, "cr_await", None)
    return "an unknown place"
