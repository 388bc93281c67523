"""Notice that an agent went on without an answer to a question that was passed on."""

import asyncio
from collections.abc import Awaitable, Callable, Generator

from ..model import INTERRUPTED, A2AError, Message, Task
from .client import Client
from .errors import AgentFault
from .retry import is_interrupted

__all__ = ["LOOK_S", "MovedOn", "still_asks"]

LOOK_S = 60.0  # between two looks at whether an agent went on without an answer


def still_asks(task: Task, question: Message | None) -> bool:
    """Return whether a task still waits for the answer to this question, as far as it says."""
    if task.status.state not in INTERRUPTED:
        return False
    asked = task.status.message
    if asked is None or question is None:
        return True
    return asked.message_id == question.message_id or asked.parts == question.parts


class MovedOn:
    """An awaitable that is done when a task no longer asks this question.

    It does nothing before it is awaited, and may be dropped.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Client]],
        task_id: str,
        question: Message | None,
    ) -> None:
        self._connect = connect
        self._task_id = task_id
        self._question = question

    def __await__(self) -> Generator[object, None, None]:
        return self._look().__await__()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                task = await (await self._connect()).get(self._task_id)
            except (A2AError, AgentFault) as error:
                if is_interrupted(error):
                    continue  # it may still ask: an agent that is away says nothing
                return  # whoever reads the task next gets the error
            if not still_asks(task, self._question):
                return
