"""Where a run stands, and what may follow what."""

import enum

__all__ = ["OVER", "TRANSITIONS", "Move", "State"]


class State(enum.Enum):
    # its function has not been called: its message is being stored, or it is not its turn to be
    # tried again
    HELD = "held"
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


# What is not in the table does not happen: a run that is over stays so, whatever its function still
# does.
TRANSITIONS: dict[State, dict[Move, State]] = {
    State.HELD: {
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
    # Its client was promised an end, and its function may have undone its work: nobody goes on with
    # it.
    State.CANCELING: {Move.LOSE: State.RELEASED, Move.END: State.ENDED},
    State.RELEASED: {},
    State.ENDED: {},
}

OVER = frozenset({State.RELEASED, State.ENDED})
