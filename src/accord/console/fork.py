"""Forking a task from the console, as an operator on behalf of its caller."""

from typing import Any

import msgspec

from ..engine.runs import Engine, Fork
from ..model import ForkPoint, InvalidParams, Message, Part, Role, new_id
from ..protocol import lenient, text
from ..store import Record

__all__ = ["fork_task"]


class _Asked(msgspec.Struct):
    at: int
    answer: str | None = None


async def fork_task(engine: Engine, record: Record, body: bytes) -> dict[str, Any]:
    """Fork a task as the page asks for it, and return the id of the new one once it is stored.

    Raises:
        InvalidParams: The page did not ask for it rightly, or the task has no such event.
        UnsupportedOperation: The task can't be forked.
    """
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except msgspec.ValidationError as error:
        problem = lenient.bad_field(error)
        raise InvalidParams(f"the body of a fork is {{at, answer}}: {problem}") from None
    except msgspec.DecodeError as error:
        raise text.parse_error(error) from None
    parts = [] if asked.answer is None else [Part(text=asked.answer)]
    message = Message(message_id=new_id(), role=Role.USER, parts=parts)
    point = ForkPoint(record.id, asked.at, is_answer=asked.answer is not None)
    receipt = await engine.forks.fork(Fork(record.namespace, point, message))
    try:
        return {"id": (await receipt.snapshot(0)).task_id}
    finally:
        receipt.close()
