"""What a relayed task says: the events of the other agent, as those of our task."""

from collections.abc import Iterable
from typing import Any

import msgspec

from ..client import catch_up
from ..engine.runs import Run
from ..engine.skills import Context
from ..model import (
    INTERRUPTED,
    ArtifactUpdate,
    Message,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)
from .link import AgentLink

__all__ = ["RelayedOutput", "status_of"]

STALE = "via.stale"  # in the metadata of a task: its agent has not been heard of for a while


class RelayedOutput:
    """Says what the other agent says, with what it means for our task."""

    def __init__(self, run: Run, ctx: Context, link: AgentLink) -> None:
        self._run = run
        self._ctx = ctx
        self._link = link
        self.cursor = run.cursor  # behind what we have said
        self.is_answering = False  # an answer was sent, and nothing has come since
        known = run.log.draft.metadata if not run.is_pending else None
        self.is_stale = bool((known or {}).get(STALE))

    def seen(self) -> Task:
        """Our task as the other agent would know it."""
        if self._run.is_pending:
            return Task(
                id=self._link.remote.task_id,
                context_id=self._link.remote.context_id,
                status=TaskStatus(state=TaskState.SUBMITTED),
            )
        task = self._ctx.task
        task.id, task.context_id = self._link.remote.task_id, self._link.remote.context_id
        if task.history:
            task.history[0].message_id = self._link.first_id
        return task

    def take_task(self, task: Task, cursor: str) -> StatusUpdate | None:
        """Pass on what of a task is new. Return its question, if it asks one."""
        is_answering, self.is_answering = self.is_answering, False
        events = list(catch_up(self.seen(), task))
        for i, event in enumerate(events):
            assert not isinstance(event, Task)  # it is what leads to one
            is_last = i == len(events) - 1
            if isinstance(event, StatusUpdate) and event.status.state in INTERRUPTED:
                # The first frame of the answer to a question may still show the question.
                return None if is_answering else event
            if isinstance(event, StatusUpdate) and is_last and task.metadata:
                event.metadata = task.metadata
            self.pass_on(event, cursor if is_last else "")
        if self._run.is_pending:
            self.say(status_of(TaskState.SUBMITTED), cursor)
        return None

    def pass_on(self, event: StatusUpdate | ArtifactUpdate, cursor: str) -> None:
        """Say what the agent says, if our task has not said it yet."""
        if isinstance(event, StatusUpdate):
            is_answering, self.is_answering = self.is_answering, False
            says_nothing = event.status.message is None and not event.metadata
            if is_answering and says_nothing and event.status.state is TaskState.WORKING:
                return  # our task became *working* when it took the answer
        elif event.append and not self._is_known(event.artifact.artifact_id):
            event = msgspec.structs.replace(event, append=False)
        self.say(event, cursor)

    def _is_known(self, artifact_id: str) -> bool:
        artifacts: Iterable[Any] = reversed(self._run.log.draft.artifacts)
        return any(artifact.artifact_id == artifact_id for artifact in artifacts)

    def set_stale(self) -> None:
        """Say in the task's metadata that it is as it was when the agent was last heard of."""
        if not self._run.is_pending and not self.is_stale:
            update = status_of(self._run.log.state)
            update.metadata = {STALE: True}
            self.say(update, "")
            self.is_stale = True

    def say(self, event: StatusUpdate | ArtifactUpdate, cursor: str) -> None:
        """Say something as our task; `cursor` is where the agent's stream goes on behind it."""
        if self.is_stale:
            self.is_stale = False
            if isinstance(event, StatusUpdate):
                event.metadata = {**(event.metadata or {}), STALE: False}
            else:
                back = status_of(self._run.log.state)
                back.metadata = {STALE: False}
                self._run.output.say(back, "")
        self._run.output.say(event, cursor)
        self.cursor = cursor or self.cursor


def status_of(state: TaskState, message: Message | None = None) -> StatusUpdate:
    status = TaskStatus(state=state, message=message)
    return StatusUpdate(task_id="", context_id="", status=status)
