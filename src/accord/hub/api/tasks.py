"""Routes of tasks: an admin answers for guests, who have no login."""

from collections.abc import Callable
from typing import Any

import msgspec

from ...engine.log import state_of
from ...model import (
    Message,
    Part,
    Role,
    SendConfiguration,
    SendMessageRequest,
    TaskState,
    new_id,
)
from ...operations import OPERATIONS, Call, Service
from ..access import GUEST
from ..errors import Conflict, EntryNotFound
from ..records import Audit
from .router import ApiCall, ApiRoute

__all__ = ["ANSWERED_BY", "TaskRoutes"]

ANSWERED_BY = "answeredBy"  # in the metadata of the message: who answered for the task's caller


class GuestAnswer(msgspec.Struct, frozen=True):
    parts: list[Part]


class TaskRoutes:
    """Answers for guests."""

    def __init__(
        self,
        service_of: Callable[[str], Service | None],
        audit: Audit,
    ) -> None:
        self._service_of = service_of
        self._audit = audit

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                *("POST", "/agents/{name}/tasks/{id}:answer", "admin", self._answer),
                "Answer the question of a guest's task",
                takes=GuestAnswer,
            ),
        )

    async def _answer(self, call: ApiCall) -> Any:
        """Answer the question of a guest's task. Guests have no login, so an admin may answer for
        them. Every other caller answers its own questions.
        """
        name, id_ = call.path["name"], call.path["id"]
        service, given = self._service_of(name), Call(caller=GUEST)
        if service is None:
            raise EntryNotFound.of_agent(name)
        record = await service.tasks.store.load(service.namespace("", given), id_)
        if record is None:
            raise EntryNotFound(
                f"no task {id_[:80]!r} of a guest is here; only its own caller may answer another",
                fix="ask its caller to answer it",
            )
        state = state_of(record.state)
        if state not in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED):
            raise Conflict(f"the task asks nothing: it is {state.word}")
        message = Message(
            message_id=new_id(),
            role=Role.USER,
            parts=call.body.parts,
            task_id=id_,
            context_id=record.context_id,
            metadata={ANSWERED_BY: call.principal.name},
        )
        # Before it is sent: nothing is done that is not in the audit log.
        await self._audit.write(
            call.principal.name, "task.answer", f"{name}/{id_}", {"for": "guest"}
        )
        request = SendMessageRequest(
            message=message, configuration=SendConfiguration(return_immediately=True)
        )
        await OPERATIONS["SendMessage"].run(service, given, request)
        return {"task": id_, "answered_by": call.principal.name}
