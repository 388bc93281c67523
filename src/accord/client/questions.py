"""Whether an agent still asks what was passed on to somebody else to be answered."""

import asyncio
from collections.abc import Awaitable, Callable, Generator

from ..model import INTERRUPTED, A2AError, Message, Task
from .client import Client
from .errors import AgentFault
from .retry import is_interrupted

__all__ = ["LOOK_S", "MovedOn", "still_asks"]

LOOK_S = 60.0  # how often it is looked whether an agent has gone on without an answer


def still_asks(task: Task, question: Message | None) -> bool:
    """Return whether a task still waits for the answer to this question, as far as can be told."""
    if task.status.state not in INTERRUPTED:
        return False
    asked = task.status.message
    if asked is None or question is None:
        return True
    return asked.message_id == question.message_id or asked.parts == question.parts


class MovedOn:
    """Awaits that a task no longer asks this question: its agent need not wait for an answer.

    Nothing happens before it is awaited.
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
                    continue  # an agent that is away has not gone on, as far as we know
                return  # what is wrong is found when it is read again
            if not still_asks(task, self._question):
                return
