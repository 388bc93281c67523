"""The position in a run: the branch of its function, and the step.

The function itself is branch "". Each member of `ctx.gather` is a branch of its own, in an asyncio
task of its own. A task the user has started is no branch: nothing says in which order it comes to
its steps, so they need names.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...model import File, Part
from ...store import StoreClock
from ..log import Entry
from ..threads import Threads

if TYPE_CHECKING:
    from .history import History
    from .output import Output

__all__ = [
    "RUN_POSITION",
    "Branch",
    "DelegateOptions",
    "Delegates",
    "Recorder",
    "RunPosition",
    "branch_of",
    "position_in",
    "step_label",
]


class DelegateOptions(NamedTuple):
    """Set how a part of a task is given to another agent."""

    skill: str = ""
    metadata: dict[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    writes: bool = False  # what the other agent writes is written by us too, as it comes
    within: Any = None  # a timedelta, or seconds: how long it may take


class Delegates(Protocol):
    """Has other agents do parts of a task."""

    async def converse(
        self,
        run: Any,
        agent: Any,
        message: Any,
        key: str,
        *,
        task_id: str,
        branch: "Branch",
        on_task: Callable[[str], Awaitable[None]],
        options: "DelegateOptions",
    ) -> Any:
        """Have another agent do something, and return what it answered as a JSON value.

        Args:
            run: Whose task this is a part of.
            agent: A URL, a card, an Agent, or a client of one.
            message: What `Client.send` takes.
            key: The idempotency key of the delegation.
            task_id: The other agent's task, if an earlier attempt has begun it: it is subscribed
              to, and nothing is sent.
            branch: What its questions are asked under. They are known by their text or name, not by
              their order.
            on_task: To be awaited once the id of the other agent's task is known.
            options: How the message is sent.
        """
        ...

    def reply(self, agent: Any, value: Any) -> Any:
        """Return the value `converse` gave as the Reply a user gets, or raise what it stands
        for.
        """
        ...


class ChunkWriter(Protocol):
    """Writes chunks into the artifacts of a task."""

    def emit(self, value: Any) -> None:
        """Write a chunk, in the branch and step of the caller (see RUN_POSITION)."""
        ...

    async def drain(self) -> None:
        """Wait until the log can take more."""
        ...


class RunActivity(Protocol):
    """Count what the function of a run does, and what it waits for."""

    async def may_begin(self) -> None:
        """Return if something new may be begun; never, if the run is being given up. Raises
        CancelledError if it was.
        """
        ...

    def begin_step(self) -> None:
        """Count a step as under way."""
        ...

    def end_step(self) -> None:
        """Count a step as done."""
        ...

    def pause(self) -> None:
        """A branch waits: for the client, for a time, or for branches of its own."""
        ...

    def resume(self) -> None:
        """A branch goes on, or begins."""
        ...

    def add_due(self, due_ms: int) -> None:
        """Something is to happen then. If the run is given up before, it is taken up again in
        time.
        """
        ...

    def remove_due(self, due_ms: int) -> None:
        """It has happened, or nobody waits for it any more."""
        ...

    def was_left(self, what: str) -> None:
        """The function stopped waiting for something of its own accord, perhaps for a time limit
        that a restart makes begin anew: say so.
        """
        ...


class Recorder(Protocol):
    """Describe what steps need of the run they belong to."""

    @property
    def task_id(self) -> str: ...

    @property
    def turn(self) -> int:
        """Of the message the function was called with: a task may have several runs, and each has
        steps of its own.
        """
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def threads(self) -> Threads: ...

    @property
    def history(self) -> "History | None": ...

    @property
    def delegates(self) -> Delegates: ...

    @property
    def is_stopped(self) -> bool:
        """Released, ended or cancelled: nothing the function does now is recorded."""
        ...

    @property
    def is_stopping(self) -> bool:
        """It is, or is about to be: what the function no longer waits for was not its own
        decision.
        """
        ...

    @property
    def size_left(self) -> int:
        """Return how many bytes the task may still grow."""
        ...

    def stored_file(self, file: File) -> Part:
        """Return a file as the log holds it: with its bytes if they are few, else as a reference.
        The next commit waits for the bytes.
        """
        ...

    def opened_file(self, part: Part) -> File:
        """Return the file that the log holds so."""
        ...

    def record(self, entry: Entry) -> "asyncio.Future[None]":
        """Append a private entry. Done when it is stored; raises Unavailable if it can't be. The
        future is the caller's own.
        """
        ...

    def note(self, entry: Entry) -> None:
        """Append a private entry without waiting for it."""
        ...

    @property
    def activity(self) -> RunActivity:
        """Return what counts the steps and the waiting of the function."""
        ...

    @property
    def clock(self) -> StoreClock:
        """Return the clock of the store."""
        ...

    @property
    def output(self) -> ChunkWriter:
        """Return the writer of chunks."""
        ...


class Branch:
    """A sequence of steps, questions and output that comes in the same order in every attempt."""

    __slots__ = ("_calls", "gathers", "output", "path", "questions", "sleeps", "task")

    def __init__(
        self, path: str, output: "Output", task: "asyncio.Task[Any] | None" = None
    ) -> None:
        self.path = path
        self.output = output
        self.task = task  # the one whose steps are the branch's
        self.questions = 0  # asked so far
        self.sleeps = 0
        self.gathers = 0
        self._calls: dict[str, int] = {}

    def next_step(self, name: str) -> int:
        """The number of a call of this step, from 1."""
        n = self._calls[name] = self._calls.get(name, 0) + 1
        return n

    def next_question(self) -> int:
        """The number of a question, from 1."""
        self.questions += 1
        return self.questions

    def next_sleep(self) -> int:
        """The number of a sleep, from 1."""
        self.sleeps += 1
        return self.sleeps

    def next_gather(self) -> int:
        """The number of a gather, from 0."""
        self.gathers += 1
        return self.gathers - 1

    def below(self, name: str) -> str:
        """The path of a branch of this branch."""
        return f"{self.path}/{name}" if self.path else name


class RunPosition(NamedTuple):
    """Name the run, branch and step of the running code. Tasks and threads that it starts have the
    same position.
    """

    run: Any  # a Recorder
    branch: Branch
    step: str = ""  # its label, empty outside of steps


RUN_POSITION: ContextVar[RunPosition | None] = ContextVar("accord_place", default=None)


def position_in(run: Any) -> RunPosition | None:
    """Return the caller's position in this run; None if it is not a part of it."""
    place = RUN_POSITION.get()
    return place if place is not None and place.run is run else None


def branch_of(run: Any) -> Branch | None:
    """The branch whose own task the caller is; None in a task the user has started, and outside of
    the run.
    """
    place = RUN_POSITION.get()
    if place is None or place.run is not run or place.branch.task is not asyncio.current_task():
        return None
    return place.branch


def step_label(name: str, n: int) -> str:
    """Return the name of a step in the entries of its output, and in its key."""
    return f"{name}#{n}"
