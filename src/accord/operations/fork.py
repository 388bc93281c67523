"""SendMessage under `urn:accord:fork:1`: a task is forked at one of its events."""

from ..engine.runs import Fork
from ..model import (
    FORK,
    ExtensionSupportRequired,
    InvalidParams,
    Message,
    SendMessageRequest,
    fork_point,
)
from ..store import Idempotency
from .call import Call
from .service import Service
from .validation import check_id

__all__ = ["forked", "is_fork"]


def is_fork(message: Message) -> bool:
    """Return whether a message asks for a fork."""
    return message.metadata is not None and FORK in message.metadata


async def forked(
    service: Service, call: Call, request: SendMessageRequest, idempotency: Idempotency | None
) -> Fork:
    """Return the fork that a message asks for.

    Raises:
        ExtensionSupportRequired: The extension is not activated.
        InvalidParams: The message does not say rightly which task, and where.
        PermissionDenied: The caller may not use the skill of the task.
    """
    message, configuration = request.message, request.configuration
    if FORK not in call.extensions:
        raise ExtensionSupportRequired(
            f"a message that asks for a fork activates {FORK} with the A2A-Extensions header",
            extensions=FORK,
        )
    point = fork_point(message)
    check_id(f"message.metadata.{FORK}.taskId", point.task_id, "", service.limits)
    if message.task_id:
        what = f"a fork is a new task: name the old one in metadata.{FORK} alone"
        raise InvalidParams(what, violations=(("message.taskId", what),))
    namespace = service.namespace(request.tenant, call)
    task_id = call.semantics.new_task_id
    record = await service.tasks.store.load(namespace, point.task_id)
    if record is not None:  # a message to a task is one to its skill
        if service.has_scopes:
            service.check_scopes(service.engine.runs.skill_of(record), call)
        skill = service.engine.runs.find_skill(record)
        if service.agent.checks_modes and skill is not None and message.parts:
            service.agent.check_modes(skill, message, is_first=False)
    if task_id:
        check_id("id", task_id, "", service.limits)
    modes = tuple(configuration.accepted_output_modes) if configuration is not None else ()
    return Fork(
        namespace,
        point,
        message,
        service.sender(call),
        modes,
        idempotency,
        call.origin,
        task_id,
    )
