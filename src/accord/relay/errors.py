"""Errors of the other agent, as callers of the relay get them."""

import logging
import re

from ..client import AgentFault
from ..model import A2AError, InvalidAgentResponse, PermissionDenied, Unauthenticated, Unavailable

__all__ = ["passed_on"]

log_ = logging.getLogger("accord")


def passed_on(error: A2AError | AgentFault, their_id: str, our_id: str) -> A2AError:
    """An error of the other agent, as our caller gets it: with our ids, and without a word of how
    we reach that agent.
    """
    if isinstance(error, Unauthenticated | PermissionDenied):
        log_.error("the agent behind a relay refuses this server's credentials: %s", error)
        return A2AError("the agent behind this server refused this server's credentials")
    if isinstance(error, AgentFault) and not isinstance(error, A2AError):
        log_.warning("the agent behind a relay: %s", error)
        return Unavailable("the agent behind this server can't be reached", retry_after_s=5)
    if isinstance(error, AgentFault):
        log_.warning("the agent behind a relay: %s", error)
        return InvalidAgentResponse("the agent behind this server gave no valid answer")
    text = str(error)
    if their_id and our_id:
        # Only as a word: an agent may call its tasks 1, 2, 3, and text has such letters everywhere.
        text = re.sub(rf"(?<![\w-]){re.escape(their_id)}(?![\w-])", lambda _: our_id, text)
    passed = type(error)(
        text,
        violations=error.violations,
        retry_after_s=error.retry_after_s,
        reason=error.reason,
        **{k: v for k, v in error.detail.items() if k not in ("taskId", "contextId")},
    )
    if our_id and "taskId" in error.detail:
        passed.detail["taskId"] = our_id
    return passed
