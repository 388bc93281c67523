"""The questions of one run: asked of its client, and found again with their answers in the run's later lives."""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Any

from ...codec import v1
from ...model import InvalidParams, Message, Part, TaskState
from ..durable.answers import Asked, digest_of, parts_of
from ..durable.replay import Past
from ..log.log import Turn
from .say import read_answer

if TYPE_CHECKING:
    from .run import Run

__all__ = ["Questions"]

_AUTH = "auth"  # what authorizations are known by: their texts hold addresses made for one time


class Questions:
    """Asks a run's client, one question at a time.

    A question is known by its number, or by a `place` of its own, and by what is asked: text and type, or its name and the type.
    """

    __slots__ = ("_answer", "_asked", "_past", "_place", "_run")  # many wait in memory

    def __init__(self, run: "Run", past: Past | None) -> None:
        self._run = run
        self._past = past
        self._asked = 0
        self._place = 0  # the question it is in
        self._answer: asyncio.Future[Message] | None = None

    @property
    def is_waiting(self) -> bool:
        return self._answer is not None

    async def ask(self, question: str | Message, type_: Any, name: str = "", place: int = 0) -> Any:
        run = self._run
        parts = parts_of(question, type_)
        digest = digest_of(parts_of(name, type_) if name else parts)
        with self._asking(place) as place:
            while True:
                answer = await self._answered(place, parts, digest)
                if answer is None:
                    run.status(TaskState.INPUT_REQUIRED, parts)
                    self._note(Asked(place, digest))
                    answer = await self._next_message()
                run.message = answer
                if type_ is Message:
                    return answer
                try:
                    return read_answer(answer, type_)
                except InvalidParams as error:
                    parts = _again(f"That does not fit: {error}", question, type_)

    async def require_auth(self, text: str, until: Awaitable[Any] | None, place: int = 0) -> Any:
        run = self._run
        with self._asking(place) as place:
            if until is not None and self._past is not None and self._past.answers.is_stopped(place):
                return await until  # it came without a message
            answer = await self._answered(place, [Part(text=text)], _AUTH)
            if answer is not None:
                return answer
            if self._past is None or self._past.asked != place:  # else it has been said, and nothing has come of it yet
                run.status(TaskState.AUTH_REQUIRED, text)
                self._note(Asked(place, _AUTH, is_watching=until is not None))
            message = asyncio.ensure_future(self._next_message())
            if until is None:
                return await message
            granted = asyncio.ensure_future(until)
            try:
                await asyncio.wait({message, granted}, return_when=asyncio.FIRST_COMPLETED)
                if message.done():
                    return message.result()
                self._answer = None
                run.status(TaskState.WORKING)
                return granted.result()
            finally:
                message.cancel()
                granted.cancel()

    @contextlib.contextmanager
    def _asking(self, place: int) -> Iterator[int]:
        if self._place:
            raise RuntimeError("one question at a time: a message can't say which of two it answers")
        if not place:
            self._asked += 1
        self._place = place or self._asked
        try:
            yield self._place
        finally:
            self._place = 0

    async def _answered(self, place: int, question: list[Part], digest: str) -> Message | None:
        """What an earlier life was told at this question."""
        past = self._past
        if past is None:
            return None
        answer = await self._run.steps.recall(past, lambda: past.answer(place, question, digest))
        if answer is None and past.answers.is_stopped(place):
            await self._run.loop.create_future()  # the function stopped waiting then, and will again
        return answer

    def _note(self, asked: Asked) -> None:
        asked.worked_s = round(self._run.worked(), 3)
        self._run.log.note(b"q", v1.encode(asked))

    async def _next_message(self) -> Message:
        """The oldest message that waits for a turn, or the next to come."""
        run, place = self._run, self._place
        if run.log.inbox:
            turn = run.log.inbox.popleft()
            self._take(turn)
            return turn.message
        self._answer = run.loop.create_future()
        run.rest()
        try:
            return await self._answer
        except asyncio.CancelledError:
            if not (run.is_over or run.is_canceled):
                run.log.note(b"u", b"%d" % place)  # the function has stopped waiting
                run.status(TaskState.WORKING)
            raise
        finally:
            self._answer = None
            run.go_on()

    def deliver(self, turn: Turn) -> bool:
        """Take a message, if one is waited for."""
        if self._answer is None or self._answer.done():
            return False
        self._take(turn)
        self._answer.set_result(turn.message)
        return True

    def _take(self, turn: Turn) -> None:
        run = self._run
        run.message = turn.message
        run.log.begin(turn, self._place)
        run.status(TaskState.WORKING)  # in the commit that stores the message: nobody is shown the old question


def _again(wrong: str, question: str | Message, type_: Any) -> list[Part]:
    if isinstance(question, Message):
        return [Part(text=wrong), *parts_of(question, type_)]
    return parts_of(f"{wrong}\n{question}", type_)
