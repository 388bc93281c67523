"""One task in this process: whose it is, its log, its run, and who reads it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ...store import Namespace
from .state import LIVE, TRANSITIONS, SlotMove, SlotState

if TYPE_CHECKING:
    from ..log import Log
    from ..reading import Tail

__all__ = ["Place", "SlotObserver", "SlotRun", "TaskSlot"]

Place: TypeAlias = tuple[Namespace, str]


class SlotRun(Protocol):
    """What a slot knows of the run that writes its log."""

    @property
    def starts_when_stored(self) -> bool:
        """Return whether it starts when its message is stored."""

    def start(self) -> None: ...

    def lose(self) -> None:
        """Stop: nothing it does is stored any more."""


class SlotObserver(Protocol):
    """What is called when something happens to a slot."""

    # With a slot that is read, and whose task ceases to be ours.
    on_unowned: "Callable[[TaskSlot], None]"
    # With a slot whose state has changed; for tests.
    on_move: "Callable[[TaskSlot], None] | None"


class TaskSlot:
    """One task in this process. Nobody else writes its state, log, run, tail and pins. The
    directory writes its key, when the store has said it, and `settled`.

    The tail is fed by the log while the task is ours. Then it is known at once what is stored;
    else the store is watched, which `SlotObserver.on_unowned` begins.
    """

    __slots__ = (
        "_observer",
        "_unpinned",
        "key",
        "log",
        "pins",
        "place",
        "run",
        "settled",
        "state",
        "tail",
    )

    def __init__(self, place: Place, key: int, observer: SlotObserver) -> None:
        self.place = place
        self.key = key
        self.state = SlotState.ABSENT
        self.log: Log | None = None
        self.run: SlotRun | None = None
        self.tail: Tail | None = None  # if somebody reads along
        self.pins = 0  # operations under way that need the log to stay
        self.settled: asyncio.Future[None] | None = None  # done when a claim or a release is
        self._unpinned: asyncio.Future[None] | None = None
        self._observer = observer

    @property
    def is_live(self) -> bool:
        """Return whether the task is ours: its log is where it grows."""
        return self.state in LIVE

    @property
    def is_owned(self) -> bool:
        """Return whether the task is ours, and is not being given up."""
        return self.state is SlotState.OWNED

    @property
    def is_used(self) -> bool:
        """Return whether something still happens to the log here."""
        log = self.log
        return (
            self.run is not None
            or bool(self.pins)
            or (log is not None and (bool(log.inbox) or not log.commits.is_stored))
        )

    def move(self, move: SlotMove) -> None:
        """Change the state, and nothing else.

        Raises:
            RuntimeError: That must not follow. It is a fault of ours.
        """
        new = TRANSITIONS[self.state].get(move)
        if new is None:
            raise RuntimeError(
                f"task {self.place[1]} is {self.state.value}, so it can't {move.value}"
            )
        self.state = new
        if self._observer.on_move is not None:
            self._observer.on_move(self)

    # Its log

    def own(self, log: "Log") -> None:
        """Take the log of a task that is ours now."""
        self.log, log.slot = log, self
        log.gives_up = False
        if (tail := self.tail) is not None:
            log.awaited, tail.log = tail.senders, log
            commits = log.commits  # others may have written since the tail was read
            tail.reset(commits.stored_pos, commits.stored_seq, commits.stored_state)

    def disown(self, *, keeps_log: bool = False) -> None:
        """Let go of a task that is not ours any more: who reads it reads what others write."""
        log, tail = self.log, self.tail
        if not keeps_log:
            self.log = None
        if log is not None:
            log.awaited = ()
        if tail is None or tail.log is None:
            return
        tail.artifacts = [artifact.artifact_id for artifact in tail.log.draft.artifacts]
        tail.log = None
        if tail.is_used:
            self._observer.on_unowned(self)

    def free(self) -> None:
        """Have the next commit give the task up: nothing runs any more."""
        if self.state is SlotState.OWNED and self.log is not None:
            self.move(SlotMove.FREE)
            self.log.gives_up = True

    def keep(self) -> None:
        """Keep a task that was to be given up: something happens to it again."""
        if self.state is SlotState.RELEASING and self.log is not None:
            self.move(SlotMove.KEEP)
            self.log.gives_up = False

    @contextlib.contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep the log while the block lasts: without that, the task could get a second one."""
        self.pins += 1
        try:
            yield
        finally:
            self.pins -= 1
            if not self.pins and self._unpinned is not None:
                self._unpinned.set_result(None)
                self._unpinned = None

    def unpinned(self) -> asyncio.Future[None]:
        """Return a future that is done when no operation needs the log to stay."""
        unpinned = self._unpinned or asyncio.get_running_loop().create_future()
        if self.pins:
            self._unpinned = unpinned
        else:
            unpinned.set_result(None)
        return unpinned

    # Its run and its readers

    def begin(self, run: SlotRun) -> None:
        self.run = run
        if self.state is SlotState.RELEASING:
            self.keep()

    def end(self, run: SlotRun) -> bool:
        """Note that a run is over. Return whether that is new."""
        if self.run is not run:
            return False
        self.run = None
        return True

    def read(self, tail: "Tail") -> None:
        """Feed a tail: somebody begins to read."""
        self.tail = tail
        if self.state in LIVE and self.log is not None:
            self.log.awaited, tail.log = tail.senders, self.log

    def read_no_longer(self) -> None:
        if self.tail is not None:
            self.tail.log = None
            self.tail = None
        if self.log is not None:
            self.log.awaited = ()
