"""What a relay knows of the other agent: who to connect to, and the private record of a task."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from ..auth import Caller
from ..client import Client
from ..model import FILES, FORK, IDEMPOTENT, PUSH_ARTIFACTS, RESUME, Message, StatusUpdate

__all__ = ["OUR_EXTENSIONS", "Check", "Connect", "Remote", "RequestContext", "remote_of"]

# Extensions that the relay itself provides; they are not passed on.
OUR_EXTENSIONS = frozenset([RESUME, IDEMPOTENT, PUSH_ARTIFACTS, FILES, FORK])


class RequestContext(msgspec.Struct, kw_only=True):
    """Say for which caller and task a client of the other agent is needed. The credential may
    depend on the caller, and the choice between several equal agents on the task.
    """

    caller: Caller
    tenant: str = ""
    # One of several equal agents, by any name. Empty for a new task: whoever connects may set it.
    # It is recorded with the task, and given again for everything about that.
    member: str = ""


Connect: TypeAlias = Callable[[RequestContext], Awaitable[Client]]
Check: TypeAlias = Callable[[RequestContext, Message, Message], Awaitable[None]]


class Remote(msgspec.Struct, omit_defaults=True):
    """The private record of a relayed task: what it is at the other agent."""

    task_id: str = ""  # empty: not known yet
    context_id: str = ""
    member: str = ""
    key: str = ""  # under which the first message is sent
    message_id: str = ""  # of the first message there; empty: that of our task
    asked: str = ""  # a letter for each question that was passed on: i for input, a for auth
    question: StatusUpdate | None = None  # the last of them
    sent: int = 0  # how many answers are known to have arrived


_decode_remote = msgspec.json.Decoder(Remote).decode


def remote_of(private: str) -> Remote:
    """Return the record of a task; an empty one if there is none."""
    return _decode_remote(private) if private else Remote()
