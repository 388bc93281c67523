"""Errors between us and an agent, beside those that the agent itself reports.

    AgentFault
    ├── Unreachable      (ConnectionError)        nothing was sent
    ├── ConnectionLost   (ConnectionError)        it broke off: the work may or may not have been
    done
    ├── TooSlow          (TimeoutError)           the same, by the clock
    ├── BadCard          (ValueError)             there is no card, or none that can be used
    │   └── UntrustedCard                         nobody we trust has signed it
    └── BadAnswer        (InvalidAgentResponse)   the answer breaks the protocol, or a budget of
    ours

What the agent reports is raised as the class of `accord.model.errors` that it means.
"""

from typing import TYPE_CHECKING

from ..model import A2AError
from ..net import AgentFault, BadAnswer, ConnectionLost, TooSlow, Unreachable

if TYPE_CHECKING:
    from .reply import ClientReply

__all__ = [
    "AgentFault",
    "BadAnswer",
    "BadCard",
    "CallFailed",
    "ConnectionLost",
    "TooSlow",
    "Unreachable",
    "UntrustedCard",
    "about_task",
    "task_of",
]


class BadCard(AgentFault, ValueError):
    """Raised when there is no agent card at the address, or it can't be used.

    `cause` is `missing`, `several` (a catalog that lists more than one agent), `not JSON`,
    `no interface` (none that this client can use), or else `content`.
    """

    def __init__(self, agent: str, fault: str, *, cause: str = "content") -> None:
        super().__init__(agent, fault)
        self.cause = cause


class UntrustedCard(BadCard):
    """Raised when the card is not signed by anyone that `verify=` trusts."""


class CallFailed(Exception):
    """Raised when a skill that was called like a function failed, was rejected, or asks."""

    def __init__(self, what: str, reply: "ClientReply") -> None:
        said = reply.task.status.message if reply.task is not None else None
        words = said.text if said is not None else ""
        super().__init__(f"{what} is {reply.state.word}" + (f": {words}" if words else ""))
        self.reply = reply


def about_task(error: A2AError | AgentFault, task_id: str) -> A2AError | AgentFault:
    """Return an error that says which task was being waited for: whoever catches it can ask for
    that.
    """
    if isinstance(error, AgentFault):
        error.task_id = task_id
    elif task_id:
        error.detail.setdefault("taskId", task_id)
    return error


def task_of(error: BaseException) -> str:
    """The task an error leaves behind, as the agent or the client has named it; empty if none is
    known.
    """
    if isinstance(error, AgentFault):
        return error.task_id
    return error.detail.get("taskId", "") if isinstance(error, A2AError) else ""
