"""Skills that answer with a message and keep no task."""

import logging
import secrets
from typing import Any

from msgspec.structs import replace

from ...model import A2AError, Message, OpenUrl
from ..log import Sender
from ..skills import (
    NO_RESOURCES,
    Context,
    Fail,
    Reject,
    Skill,
    SkillCall,
    call_around,
    rewritten,
)
from ..threads import Threads
from .messages import agent_message, with_bytes

__all__ = ["call_reply"]

log_ = logging.getLogger("accord")


async def call_reply(
    skill: Skill,
    message: Message,
    values: dict[str, Any],
    sender: Sender,
    context_id: str,
    threads: Threads,
    tenant: str = "",
    open_url: OpenUrl | None = None,
    resources: Any = NO_RESOURCES,
) -> Message:
    """Call a skill that answers without a task.

    Raises:
        A2AError: The function failed; the reason is in the log.
    """
    context = Context(None, sender, context_id, tenant, resources)
    if skill.binding.context:
        values[skill.binding.context] = context
    if skill.binding.caller:
        values[skill.binding.caller] = sender.caller
    if skill.takes_files:
        skill.binding.open_files(values, open_url)
    skill.binding.put_resources(values, resources)

    async def work() -> Any:
        if skill.kind == "thread":
            return await threads.run(lambda: skill.function(**values), skill.id)
        return await skill.function(**values)

    try:
        if not skill.middleware:
            return with_bytes(agent_message(await work(), "", context_id))
        call = SkillCall(skill.id, message, context, values)
        reply = agent_message(await call_around(skill.middleware, call, work), "", context_id)
        return with_bytes(replace(reply, parts=rewritten(reply.parts, call.rewrites)))
    except (Reject, Fail) as reason:
        raise A2AError(str(reason)) from None
    except A2AError as error:
        if not error.agent:  # what another agent reported is a failure like any other
            raise
        raise _failed(skill) from None
    except Exception:
        raise _failed(skill) from None


def _failed(skill: Skill) -> A2AError:
    """Return the error a caller gets for an exception, and log the exception."""
    reference = secrets.token_hex(4)
    log_.exception("skill %s failed, reference %s", skill.id, reference)
    return A2AError(f"The agent failed. Reference: {reference}", reference=reference)
