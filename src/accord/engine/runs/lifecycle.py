"""The states of a run, what may follow what, and how long its function has worked."""

import enum
import time

__all__ = ["OVER", "TRANSITIONS", "Lifecycle", "Move", "State"]


class State(enum.Enum):
    # The function has not been called: its message is being stored, or the run waits for its turn
    # to be tried again.
    DEFERRED = "deferred"
    WORKING = "working"
    WAITING = "waiting"  # for its client, in every branch
    RELEASING = "releasing"  # begins no step; those under way are done
    CANCELING = "canceling"  # its client cancelled the task: the function cleans up
    RELEASED = "released"  # over here; another run goes on with the task
    ENDED = "ended"  # its task has ended, or waits for the next message

    __hash__ = object.__hash__  # that of Enum is written in Python


class Move(enum.Enum):
    """What happens to a run."""

    START = "start"
    WAIT = "wait"
    RESUME = "resume"
    RELEASE = "release"
    LEAVE = "leave"
    LOSE = "lose"  # another process owns the task
    CANCEL = "cancel"
    END = "end"

    __hash__ = object.__hash__


# A move that is not in the table changes nothing: a run that is over stays over, whatever its
# function still does.
TRANSITIONS: dict[State, dict[Move, State]] = {
    State.DEFERRED: {
        Move.START: State.WORKING,
        Move.RELEASE: State.RELEASING,
        Move.LEAVE: State.RELEASED,
        Move.LOSE: State.RELEASED,
        Move.CANCEL: State.CANCELING,
        Move.END: State.ENDED,
    },
    State.WORKING: {
        Move.WAIT: State.WAITING,
        Move.RELEASE: State.RELEASING,
        Move.LEAVE: State.RELEASED,
        Move.LOSE: State.RELEASED,
        Move.CANCEL: State.CANCELING,
        Move.END: State.ENDED,
    },
    State.WAITING: {
        Move.RESUME: State.WORKING,
        Move.RELEASE: State.RELEASING,
        Move.LEAVE: State.RELEASED,
        Move.LOSE: State.RELEASED,
        Move.CANCEL: State.CANCELING,
        Move.END: State.ENDED,
    },
    State.RELEASING: {
        Move.LEAVE: State.RELEASED,
        Move.LOSE: State.RELEASED,
        Move.CANCEL: State.CANCELING,
        Move.END: State.ENDED,
    },
    # Its client was promised an end, and its function may have undone its work. So nobody goes on
    # with it.
    State.CANCELING: {Move.LOSE: State.RELEASED, Move.END: State.ENDED},
    State.RELEASED: {},
    State.ENDED: {},
}

OVER = frozenset({State.RELEASED, State.ENDED})


class Lifecycle:
    """The state of one run and its times. Waiting for the client is not work."""

    __slots__ = ("_since_s", "_worked_s", "progressed_s", "recorded_s", "state")

    def __init__(self, worked_s: float = 0.0) -> None:
        """`worked_s` is how long earlier runs of the function have worked."""
        self.state = State.DEFERRED
        self.recorded_s = worked_s  # how much of the work the log knows
        self._worked_s = worked_s  # until the last question
        self._since_s = self.progressed_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def since_s(self) -> float:
        """Return when the function began to work, or to wait, by `time.monotonic`."""
        return self._since_s

    @property
    def worked_s(self) -> float:
        """Return how many seconds the function has worked, in all its runs."""
        if self.state in (State.WAITING, State.DEFERRED):
            return self._worked_s
        return self._worked_s + time.monotonic() - self._since_s

    def move(self, move: Move) -> bool:
        """Change the state. Return whether the move changes anything."""
        new = TRANSITIONS[self.state].get(move)
        if new is None:
            return False
        self.state = new
        return True

    def start(self) -> bool:
        """Note that the function is called."""
        is_new = self.move(Move.START)
        if is_new:
            self._since_s = self.progressed_s = time.monotonic()
        return is_new

    def wait(self) -> bool:
        """Note that the function waits for its client."""
        is_new = self.move(Move.WAIT)
        if is_new:
            now = time.monotonic()
            self._worked_s += now - self._since_s
            self._since_s = now
        return is_new

    def resume(self) -> bool:
        """Note that the function goes on."""
        is_new = self.move(Move.RESUME)
        if is_new:
            self._since_s = self.progressed_s = time.monotonic()
        return is_new

    def progress(self) -> None:
        """Note that the function has said or recorded something."""
        self.progressed_s = time.monotonic()
