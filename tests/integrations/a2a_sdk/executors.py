"""Executors as people write them, for whichever a2a-sdk is installed."""

import asyncio
import sys

from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater

try:  # 0.2 and 0.3
    from a2a.types import InvalidParamsError, Part, TaskState, TextPart
    from a2a.utils import new_agent_text_message, new_task
    from a2a.utils.errors import ServerError

    WORKING, FAILED = TaskState.working, TaskState.failed

    def text(words):
        return Part(root=TextPart(text=words))

    def refusal(words):
        return ServerError(InvalidParamsError(message=words))

except ImportError:  # 1.x
    from a2a.helpers import new_task_from_user_message as new_task
    from a2a.helpers import new_text_message as new_agent_text_message
    from a2a.helpers import new_text_part as text
    from a2a.types import TaskState
    from a2a.utils.errors import InvalidParamsError

    WORKING, FAILED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_FAILED

    def refusal(words):
        return InvalidParamsError(words)


class Everything(AgentExecutor):
    """Does what its message says."""

    async def execute(self, context, event_queue):
        wish = context.get_user_input()
        task = context.current_task
        if wish == "hello":
            await event_queue.enqueue_event(new_agent_text_message("Hello World"))
            return
        if wish == "refuse":
            raise refusal("not like this")
        if wish == "break":
            raise RuntimeError("a secret")
        if task is None:
            await event_queue.enqueue_event(new_task(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if wish == "ask":
            await updater.requires_input(new_agent_text_message("Which day?"))
        elif wish == "wait":
            await updater.start_work()
            print("waiting", flush=True)
            await asyncio.Event().wait()
        elif wish == "chunks":
            for i, word in enumerate(("one ", "two ", "three")):
                await updater.add_artifact(
                    [text(word)], artifact_id="count", append=i > 0, last_chunk=i == 2
                )
            await updater.complete()
        elif wish == "leave":
            await updater.start_work()
        elif wish == "fail":
            await updater.failed(new_agent_text_message("it can't be done"))
        else:
            await updater.update_status(WORKING, new_agent_text_message("looking"))
            turns = 0 if task is None else len(task.history)
            await updater.add_artifact([text(f"{wish} on turn {turns}")], name="answer")
            await updater.complete()

    async def cancel(self, context, event_queue):
        print("cancelled", file=sys.stderr, flush=True)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.cancel(new_agent_text_message("stopped as you wished"))


class Named(AgentExecutor):
    """Says which agent it is."""

    def __init__(self, name):
        self._name = name

    async def execute(self, context, event_queue):
        await event_queue.enqueue_event(new_agent_text_message(self._name))

    async def cancel(self, context, event_queue):
        """There is nothing to cancel."""
