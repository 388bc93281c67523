"""Executors that use a2a-sdk 1.x as its official samples do; a few words stand for a model."""

from a2a.helpers import (
    new_task_from_user_message,
    new_text_artifact,
    new_text_artifact_update_event,
    new_text_message,
    new_text_part,
    new_text_status_update_event,
)
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    InternalError,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    UnsupportedOperationError,
)

__all__ = ["SAMPLES"]


class Greeter(AgentExecutor):
    """Makes the task if there is none, and completes it with an artifact and a message."""

    async def execute(self, context, event_queue):
        task = context.current_task
        if not task:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue=event_queue, task_id=task.id, context_id=task.context_id)
        await updater.update_status(
            state=TaskState.TASK_STATE_WORKING, message=new_text_message("Processing")
        )
        await updater.add_artifact(
            parts=[new_text_part(text=f"Hello {context.get_user_input()}", media_type="text/plain")]
        )
        await updater.update_status(
            state=TaskState.TASK_STATE_COMPLETED, message=new_text_message("Done")
        )

    async def cancel(self, context, event_queue):
        raise NotImplementedError("it can't be cancelled")


class Converter(AgentExecutor):
    """Sends the task at every turn, also the one it was given, and completes with no words."""

    async def execute(self, context, event_queue):
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        ids = {"task_id": task.id, "context_id": task.context_id}

        async def status(state, text):
            await event_queue.enqueue_event(
                new_text_status_update_event(**ids, state=state, text=text)
            )

        words = context.get_user_input().split()
        await status(TaskState.TASK_STATE_WORKING, "Looking up the rates")
        if len(words) < 2:
            await status(TaskState.TASK_STATE_INPUT_REQUIRED, "To what?")
            return
        if words[-1] == "nothing":
            raise InternalError
        await event_queue.enqueue_event(
            new_text_artifact_update_event(**ids, name="conversion_result", text=" ".join(words))
        )
        await status(TaskState.TASK_STATE_COMPLETED, "")

    async def cancel(self, context, event_queue):
        raise UnsupportedOperationError


class Governed(AgentExecutor):
    """Asks before it acts; gives the task back as working; can be cancelled."""

    async def execute(self, context, event_queue):
        await self._begin(context, event_queue)
        state = TaskState.TASK_STATE_WORKING
        if context.current_task is None:
            state = TaskState.TASK_STATE_INPUT_REQUIRED
            await self._status(context, event_queue, state, "Delete it?")
        elif context.get_user_input() != "confirm":
            state = TaskState.TASK_STATE_CANCELED
            await self._status(context, event_queue, state, "Nothing was deleted")
        else:
            for text in ("Looking for it", "Deleting it"):
                await self._status(context, event_queue, state, text)
            await event_queue.enqueue_event(
                TaskArtifactUpdateEvent(
                    task_id=context.task_id,
                    context_id=context.context_id,
                    artifact=new_text_artifact(name="result", text="Deleted"),
                )
            )
            await self._status(context, event_queue, TaskState.TASK_STATE_COMPLETED)

    async def cancel(self, context, event_queue):
        await self._begin(context, event_queue)
        await self._status(context, event_queue, TaskState.TASK_STATE_CANCELED, "As you wish")

    async def _begin(self, context, event_queue):
        task = context.current_task or new_task_from_user_message(context.message)
        task.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_WORKING))
        await event_queue.enqueue_event(task)

    async def _status(self, context, event_queue, state, text=""):
        status = TaskStatus(state=state, message=new_text_message(text) if text else None)
        await event_queue.enqueue_event(
            TaskStatusUpdateEvent(
                task_id=context.task_id, context_id=context.context_id, status=status
            )
        )


SAMPLES = {class_.__name__.lower(): class_ for class_ in (Greeter, Converter, Governed)}
