"""What can go wrong between us and a server we connect to.

AgentFault
├── Unreachable      (ConnectionError)        nothing was sent
├── ConnectionLost   (ConnectionError)        it broke off: the work may or may not have been done
├── TooSlow          (TimeoutError)           the same, by the clock
└── BadAnswer        (InvalidAgentResponse)   the answer breaks the protocol, or a budget of ours
    └── FileTooLarge                          a file has more bytes than it may
"""

import os
import re

from ..model import InvalidAgentResponse

__all__ = [
    "AgentFault",
    "BadAnswer",
    "ConnectionLost",
    "FileTooLarge",
    "TooSlow",
    "Unreachable",
    "why",
]


# What OpenSSL calls it when plain text comes instead of TLS.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
# asyncio's words where a name has several addresses: "Multiple exceptions: [Errno 111] ...".
_SEVERAL = re.compile(r"\[Errno (\d{1,5})\] Connect call failed")
_WHERE_IN_C = re.compile(r"\s*\(_ssl\.c:[0-9]+\)")


class AgentFault(Exception):
    """Something is wrong with an agent. The text names the agent and the fault; `agent` and `fault`
    hold them apart.

    `task_id` is the task that was being waited for, if it is known: it may go on without us.
    """

    task_id = ""

    def __init__(self, agent: str, fault: str) -> None:
        super().__init__(f"{agent}: {fault}")
        self.agent = agent
        self.fault = fault

    def __str__(self) -> str:
        return f"{self.agent}: {self.fault}" + (
            f" (task {self.task_id} may go on)" if self.task_id else ""
        )


class Unreachable(AgentFault, ConnectionError):
    """No connection: nothing was sent, so it is safe to try again.

    `is_lasting` if that is not because nobody is there now: a name that is not known, a certificate
    that is not trusted. `after_s` is how long it was waited for, where nobody said no. `cause` is
    `dns`, `tls`, `timeout`, `guard` (our own), or else `refused`.
    """

    def __init__(
        self,
        agent: str,
        fault: str,
        *,
        is_lasting: bool = False,
        after_s: float = 0.0,
        cause: str = "refused",
    ) -> None:
        super().__init__(agent, fault)
        self.is_lasting = is_lasting
        self.after_s = after_s
        self.cause = cause


class ConnectionLost(AgentFault, ConnectionError):
    """The connection broke while the agent was at work, or about to be."""


class TooSlow(AgentFault, TimeoutError):
    """The agent took longer than allowed."""


class BadAnswer(AgentFault, InvalidAgentResponse):
    """The agent answered with something the protocol does not allow, or with too much of it.

    `http_status` is set if an HTTP status was all there was.
    """

    def __init__(self, agent: str, fault: str, http_status: int = 0) -> None:
        InvalidAgentResponse.__init__(self, f"{agent}: {fault}")
        self.http_status = http_status
        self.agent = agent
        self.fault = fault


class FileTooLarge(BadAnswer):
    """A file that is fetched has more bytes than it may."""


def why(error: Exception) -> str:
    """An error of the system in a few words."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    several = _SEVERAL.findall(str(text))
    if several:  # one error per address of the name, and the reason is nearly always the same
        return ", ".join(dict.fromkeys(os.strerror(int(number)) for number in several))
    if getattr(error, "reason", "") in _NOT_TLS:
        return "the server does not speak TLS there; its address may begin with http://"
    text = _WHERE_IN_C.sub("", str(text))
    if isinstance(error, OSError) and error.errno and text.startswith("Connect call failed"):
        text = os.strerror(error.errno)  # asyncio puts the address there, which has been named
    return " ".join(str(text).split())[:200]
