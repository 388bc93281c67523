"""Notice that an agent went on without an answer to a question that was passed on."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator

from ..model import INTERRUPTED, A2AError, Message, Question, Task
from .client import Client
from .errors import AgentFault
from .retry import is_interrupted

__all__ = ["LOOK_S", "MovedOn", "still_asks"]

PASSED_S = 1.0  # after a deadline: the agent may be that late, and its clock another
LOOK_S = 60.0  # between two looks at whether an agent went on without an answer


def still_asks(task: Task, question: Message | None) -> bool:
    """Return whether a task still waits for the answer to this question, as far as it says."""
    if task.status.state not in INTERRUPTED:
        return False
    asked = task.status.message
    if asked is None or question is None:
        return True
    one, other = Question.read(asked).id, Question.read(question).id
    if one and other:
        return one == other
    return asked.message_id == question.message_id or asked.parts == question.parts


class MovedOn:
    """An awaitable that is done when a task no longer asks this question.

    It looks when the deadline of the question has passed, and every minute: an agent may go on by
    itself at any time. It does nothing before it is awaited, and may be dropped.
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
            await asyncio.sleep(self._pause_s())
            try:
                task = await (await self._connect()).get(self._task_id)
            except (A2AError, AgentFault) as error:
                if is_interrupted(error):
                    continue  # it may still ask: an agent that is away says nothing
                return  # whoever reads the task next gets the error
            if not still_asks(task, self._question):
                return

    def _pause_s(self) -> float:
        """Return the pause before the next look: at most until the deadline, by our clock."""
        expires_ms = Question.read(self._question).expires_ms if self._question is not None else 0
        rest_s = expires_ms / 1000 - time.time()
        if not expires_ms or abs(rest_s) > LOOK_S:
            return LOOK_S
        return max(rest_s, 0) + PASSED_S
