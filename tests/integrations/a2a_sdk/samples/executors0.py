"""Executors that use a2a-sdk 0.2 and 0.3 as its official samples do; a few words stand for a model.

Each class names what is particular to it. Names are camelCase where 0.2 knows no other.
"""

import asyncio
import base64

from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    InternalError,
    InvalidParamsError,
    Part,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    TextPart,
    UnsupportedOperationError,
)
from a2a.utils import (
    completed_task,
    new_agent_parts_message,
    new_agent_text_message,
    new_artifact,
    new_task,
    new_text_artifact,
)
from a2a.utils.errors import ServerError

__all__ = ["SAMPLES"]


class _Uncancelable(AgentExecutor):
    async def cancel(self, context, event_queue):
        raise ServerError(error=UnsupportedOperationError())


class Greeter(_Uncancelable):
    """Answers with a message and makes no task."""

    async def execute(self, context, event_queue):
        if not context.get_user_input():
            raise ServerError(error=InvalidParamsError(message="say something"))
        await event_queue.enqueue_event(new_agent_text_message("Hello"))


class Converter(_Uncancelable):
    """Makes the task if there is none; progress, a question or a result, all by the updater."""

    async def execute(self, context, event_queue):
        task = context.current_task
        if not task:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)

        def says(text):
            return new_agent_text_message(text, context.context_id, context.task_id)

        words = context.get_user_input().split()
        await updater.update_status(TaskState.working, says("Looking up the rates"))
        await updater.update_status(TaskState.working, says("Converting"))
        if len(words) < 2:
            await updater.update_status(TaskState.input_required, says("To what?"), final=True)
            return
        if words[-1] == "nothing":
            raise ServerError(error=InternalError(message="no such currency"))
        await updater.add_artifact(
            [Part(root=TextPart(text=" ".join(words)))], name="conversion_result"
        )
        await updater.complete()


class Traveller(_Uncancelable):
    """Puts events together itself, and says `final` and `lastChunk`."""

    async def execute(self, context, event_queue):
        task = context.current_task
        if not task:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        if context.get_user_input() == "travel":
            await self._status(context, event_queue, TaskState.working, "Thinking")
            await self._status(context, event_queue, TaskState.input_required, "Where to?")
            return
        await event_queue.enqueue_event(
            TaskArtifactUpdateEvent(
                append=False,
                lastChunk=True,
                contextId=context.context_id,
                taskId=context.task_id,
                artifact=new_text_artifact(
                    name="current_result", description="What came of it", text="A plan"
                ),
            )
        )
        await self._status(context, event_queue, TaskState.completed)

    async def _status(self, context, event_queue, state, text=None):
        message = text and new_agent_text_message(text, context.context_id, context.task_id)
        await event_queue.enqueue_event(
            TaskStatusUpdateEvent(
                status=TaskStatus(state=state, message=message or None),
                final=state != TaskState.working,
                contextId=context.context_id,
                taskId=context.task_id,
            )
        )


class Planner(_Uncancelable):
    """Sends artifacts, each under an id of its own, before there is a task."""

    async def execute(self, context, event_queue):
        for text in ("First, ", "then, ", "home."):
            await event_queue.enqueue_event(
                TaskArtifactUpdateEvent(
                    contextId=context.context_id,
                    taskId=context.task_id,
                    artifact=new_text_artifact(name="current_result", text=text),
                )
            )
        await event_queue.enqueue_event(
            TaskStatusUpdateEvent(
                contextId=context.context_id,
                taskId=context.task_id,
                status=TaskStatus(state=TaskState.completed),
                final=True,
            )
        )


class Expenses(_Uncancelable):
    """Asks with a form, reads the answer from a data part."""

    async def execute(self, context, event_queue):
        task = context.current_task
        if not task:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        filled = [part.root.data for part in context.message.parts if part.root.kind == "data"]
        if not filled:
            form = {"type": "form", "properties": {"amount": {"type": "number"}}}
            await updater.update_status(
                TaskState.input_required,
                new_agent_parts_message(
                    [Part(root=TextPart(text="Please fill in")), Part(root=DataPart(data=form))],
                    context.context_id,
                    context.task_id,
                ),
                final=True,
            )
        elif filled[0].get("amount"):
            await updater.add_artifact([Part(root=DataPart(data=filled[0]))], name="form")
            await updater.complete(new_agent_text_message("Paid"))
        else:
            await updater.update_status(
                TaskState.failed, new_agent_text_message("Without an amount?"), final=True
            )


class Painter(_Uncancelable):
    """Its only event is a finished task with a file."""

    async def execute(self, context, event_queue):
        if context.get_user_input() == "something odd":
            raise ServerError(error=ValueError("no picture of that"))
        picture = FileWithBytes(
            bytes=base64.b64encode(b"\x89PNG").decode(), mimeType="image/png", name="picture"
        )
        await event_queue.enqueue_event(
            completed_task(
                context.task_id,
                context.context_id,
                [new_artifact([FilePart(file=picture)], f"image_{context.task_id}")],
                [context.message],
            )
        )


class Bartender(_Uncancelable):
    """Begins with `submit`, gives parts that are not wrapped; fails and then raises."""

    async def execute(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if not context.current_task:
            await updater.submit()
        await updater.start_work()
        if context.get_user_input() == "poison":
            await updater.update_status(
                TaskState.failed, message=new_agent_text_message("Not here")
            )
            raise ValueError("Not here")
        await updater.add_artifact([TextPart(text="A Martini")], name="answer")
        await updater.complete()


class Runner(_Uncancelable):
    """Sends the task at every turn, also the one it was given; knows who calls."""

    async def execute(self, context, event_queue):
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.update_status(
            TaskState.working, new_agent_text_message("Processing", None, context.task_id)
        )
        if context.get_user_input() == "ask":
            await updater.requires_input(new_agent_text_message("How far?"))
            return
        user = context.call_context.user
        text = f"{context.get_user_input()} for {user.user_name!r} {user.is_authenticated}"
        await updater.add_artifact([Part(root=TextPart(text=text))], name="response")
        await updater.complete()

    async def cancel(self, context, event_queue):
        raise NotImplementedError("it can't be cancelled")


class Calendar(AgentExecutor):
    """Needs an authorization, and waits for it with its work under way; can be cancelled."""

    def __init__(self):
        self._allowed = asyncio.Event()

    async def execute(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if not context.current_task:
            await event_queue.enqueue_event(new_task(context.message))
        if context.get_user_input() == "allow":
            self._allowed.set()
        elif context.get_user_input() == "wait":
            await updater.start_work()
            await asyncio.Event().wait()
        else:
            await updater.update_status(
                TaskState.auth_required, new_agent_text_message("Sign in at https://example.com")
            )
            await self._allowed.wait()
            await updater.start_work()
            await updater.add_artifact([Part(root=TextPart(text="Monday is free"))])
        await updater.complete()

    async def cancel(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.cancel(new_agent_text_message("As you wish"))


class Tracer(_Uncancelable):
    """Activates an extension it is asked for, and puts its data into metadata."""

    async def execute(self, context, event_queue):
        uri = "https://example.com/trace"
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        metadata = None
        if uri in context.requested_extensions:
            context.add_activated_extension(uri)
            metadata = {uri: {"steps": [1, 2]}}
        await updater.add_artifact(
            [Part(root=TextPart(text="traced"))], name="conversion_result", metadata=metadata
        )
        await updater.update_status(
            TaskState.completed, new_agent_text_message("done"), metadata=metadata, final=True
        )


SAMPLES = {
    class_.__name__.lower(): class_
    for class_ in (
        Greeter,
        Converter,
        Traveller,
        Planner,
        Expenses,
        Painter,
        Bartender,
        Runner,
        Calendar,
        Tracer,
    )
}
