"""Where a task stands in this process, and what may follow what."""

import enum

__all__ = ["LIVE", "TRANSITIONS", "SlotMove", "SlotState"]


class SlotState(enum.Enum):
    """Whose a task is, as far as this process knows."""

    ABSENT = "absent"  # nothing happens to it here
    READING = "reading"  # somebody reads it here; another process owns it, or none does
    CLAIMING = "claiming"  # the store was asked whether it can be ours
    UNSURE = "unsure"  # the answer was lost: it may be ours
    OWNED = "owned"
    RELEASING = "releasing"  # a commit or a call that gives it up is under way, or made
    IDLE = "idle"  # given up, and its log is kept for the next message
    LOST = "lost"  # another process owns it, or its log could not be stored

    __hash__ = object.__hash__  # that of Enum is written in Python


class SlotMove(enum.Enum):
    """What happens to a slot."""

    READ = "read"  # somebody begins to read
    LEAVE = "leave"  # nobody reads any more
    CREATE = "create"  # a new task
    CLAIM = "claim"
    GRANT = "grant"  # the store has made it ours
    DENY = "deny"  # it is another's, or has ended
    FAIL = "fail"  # the answer was lost
    FREE = "free"  # nothing runs any more: give it up
    KEEP = "keep"  # a message or a post came before it was given up
    CACHE = "cache"  # it is given up, and open
    END = "end"  # it is given up, and nothing more is to be kept of it
    LOSE = "lose"
    FORGET = "forget"

    __hash__ = object.__hash__


# What is not in the table must not happen: a slot raises an error.
TRANSITIONS: dict[SlotState, dict[SlotMove, SlotState]] = {
    SlotState.ABSENT: {
        SlotMove.READ: SlotState.READING,
        SlotMove.CREATE: SlotState.OWNED,
        SlotMove.CLAIM: SlotState.CLAIMING,
    },
    SlotState.READING: {
        SlotMove.CLAIM: SlotState.CLAIMING,
        SlotMove.LEAVE: SlotState.ABSENT,
    },
    SlotState.CLAIMING: {
        SlotMove.GRANT: SlotState.OWNED,
        SlotMove.DENY: SlotState.READING,
        SlotMove.FAIL: SlotState.UNSURE,
    },
    SlotState.UNSURE: {
        SlotMove.CLAIM: SlotState.CLAIMING,
        SlotMove.LOSE: SlotState.LOST,
    },
    SlotState.OWNED: {
        SlotMove.FREE: SlotState.RELEASING,
        SlotMove.LOSE: SlotState.LOST,
    },
    SlotState.RELEASING: {
        SlotMove.KEEP: SlotState.OWNED,
        SlotMove.CLAIM: SlotState.CLAIMING,
        SlotMove.CACHE: SlotState.IDLE,
        SlotMove.END: SlotState.READING,
        SlotMove.LOSE: SlotState.LOST,
    },
    SlotState.IDLE: {
        SlotMove.KEEP: SlotState.OWNED,
        SlotMove.CLAIM: SlotState.CLAIMING,
        SlotMove.END: SlotState.READING,
        SlotMove.LOSE: SlotState.LOST,
    },
    SlotState.LOST: {SlotMove.FORGET: SlotState.READING},
}

# The log of the slot is where the task grows: what it says is what readers are shown.
LIVE = frozenset({SlotState.OWNED, SlotState.RELEASING})
