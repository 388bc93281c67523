"""The questions of one run: asked of its client, and found again with their answers when the
function is called again.
"""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any

from ...model import A2AError, InvalidParams, Message, Metadata, Part, Role, TaskState
from ...schema import Shape
from ..durable import Branch
from ..log import Answered, Asked, AskLeft, Turn
from .messages import read_answer

if TYPE_CHECKING:
    from .run import Run

__all__ = ["Questions", "parts_of"]

_SCHEMA = "application/schema+json"
# what authorizations are known by: their texts hold addresses made for one time
_AUTH = "authorization"


class Questions:
    """Asks a run's client, one question at a time: a message can't say which of two it answers.

    A question is known by its branch and number, and by what is asked: text and type, or its name
    and the type.
    """

    __slots__ = ("_answer", "_asking", "_run")

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._asking = asyncio.Lock()
        self._answer: tuple[Branch, int, asyncio.Future[Turn]] | None = (
            None  # the question that is open
        )

    @property
    def is_open(self) -> bool:
        """A question was asked, and the answer is awaited."""
        return self._answer is not None

    async def ask(
        self,
        branch: Branch,
        question: str | Message,
        type_: Any,
        name: str = "",
        *,
        metadata: Metadata | None = None,
        refusal: A2AError | None = None,
        until: Awaitable[Any] | None = None,
    ) -> Any:
        """Ask, and return the answer. A `refusal` is what the senders of messages get that were
        taken before and led to nothing. With `until`, None if that is done first: then the question
        is no longer open.
        """
        run, n = self._run, branch.next_question()
        parts = parts_of(question, type_)
        word = question if isinstance(question, Message) and type_ is Message else parts
        asked = Asked(branch.path, n, name or _text(parts), _type_name(type_), is_named=bool(name))
        while True:
            found = self._recorded(asked)
            if isinstance(found, AskLeft):
                if until is not None:
                    return None
                await run.loop.create_future()  # the function stopped waiting then, and will again
            answer = self._taken(found).message if isinstance(found, Answered) else None
            if answer is None:
                async with self._turn():
                    await run.may_begin()
                    self._say(TaskState.INPUT_REQUIRED, word or None, asked, metadata, refusal)
                    if until is None:
                        answer = await self._next_message(branch, n)
                    elif (answer := await self._first(branch, n, until)) is None:
                        return None
            if type_ is Message:
                return answer
            try:
                return read_answer(answer, type_)
            except InvalidParams as error:
                word = _again(f"That does not fit: {error}", question, type_)

    async def require_auth(
        self,
        branch: Branch,
        text: str | Message,
        until: Awaitable[Any] | None,
        *,
        metadata: Metadata | None = None,
        refusal: A2AError | None = None,
    ) -> Any:
        run, n = self._run, branch.next_question()
        asked = Asked(branch.path, n, _AUTH, _AUTH, is_watching=until is not None, is_named=True)
        was_left = False
        if run.history is not None:
            found = run.history.answer(asked.branch, n, asked.text, asked.type, asked.is_named)
            was_left = isinstance(found, AskLeft)
            if isinstance(found, Answered):
                return self._taken(found).message
            if was_left and until is not None:
                return await until  # it came without a message
        if was_left:
            await run.loop.create_future()
        async with self._turn():
            await run.may_begin()
            if not (
                run.history is not None and _is_same(run.history.question, asked)
            ):  # else it was said, and nothing came of it
                self._say(TaskState.AUTH_REQUIRED, text or None, asked, metadata, refusal)
            if until is None:
                return await self._next_message(branch, n)
            return await self._first(branch, n, until)

    async def _first(self, branch: Branch, n: int, until: Awaitable[Any]) -> Any:
        """The next message, or what comes of `until`."""
        message = asyncio.ensure_future(self._next_message(branch, n))
        granted = asyncio.ensure_future(until)
        try:
            await asyncio.wait({message, granted}, return_when=asyncio.FIRST_COMPLETED)
            if message.done():
                return message.result()
            return granted.result()
        finally:
            for waiting in (message, granted):
                waiting.cancel()
            await asyncio.wait({message, granted})

    def _recorded(self, asked: Asked) -> Answered | AskLeft | None:
        """What an earlier run was told at this question; None if it has to be asked."""
        history = self._run.history
        if history is None:
            return None
        return history.answer(asked.branch, asked.n, asked.text, asked.type, asked.is_named)

    def _taken(self, answered: Answered) -> Turn:
        run = self._run
        assert run.history is not None  # it has the answer
        run.taken = Turn(answered.turn, run.history.message(answered.turn))
        run.message = run.taken.message
        return run.taken

    def _say(
        self,
        state: TaskState,
        word: Any,
        asked: Asked,
        metadata: Metadata | None,
        refusal: A2AError | None,
    ) -> None:
        """Ask. The turn ends with it, so the state of the conversation is stored too."""
        run = self._run
        write = run.state_to_store()
        if run.conversation is not None:
            run.conversation.question_follows()
        run.status(state, word, metadata, refusal=refusal)
        asked.worked_s = round(run.worked(), 3)
        run.note(asked)
        run.remember(write)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Questions wait for each other. A branch whose question waits, waits for the client
        too.
        """
        run = self._run
        run.pause()
        try:
            await self._asking.acquire()
        finally:
            run.resume()
        try:
            yield
        finally:
            self._asking.release()

    async def _next_message(self, branch: Branch, n: int) -> Message:
        """The next message that is accepted now that the question is stored."""
        run = self._run
        answer: asyncio.Future[Turn] = run.loop.create_future()
        self._answer = (branch, n, answer)
        run.pause()
        try:
            return (await answer).message
        except asyncio.CancelledError:
            if not run.is_stopping and not run.is_over:
                run.note(AskLeft(branch.path, n))  # the function has stopped waiting
                run.status(TaskState.WORKING)
            raise
        finally:
            self._answer = None
            run.resume()

    def deliver(self, turn: Turn) -> bool:
        """Take a message, if one is waited for."""
        if self._answer is None or self._answer[2].done():
            return False
        branch, n, answer = self._answer
        self._take(branch, n, turn)
        answer.set_result(turn)
        return True

    def _take(self, branch: Branch, n: int, turn: Turn) -> None:
        run = self._run
        run.taken, run.message = turn, turn.message
        run.log.turns.append(turn.number)
        run.note(Answered(branch.path, n, turn.number))
        run.status(
            TaskState.WORKING
        )  # in the commit that stores the message: nobody is shown the old question


def parts_of(question: str | Message, type_: Any) -> list[Part]:
    """What the client is shown of a question: its text, and the schema of an answer if that is not
    just any text.
    """
    parts = list(question.parts) if isinstance(question, Message) else [Part(text=question)]
    if type_ is not None and type_ not in (str, Message):
        parts.append(Part(data=Shape(type_).schema(), media_type=_SCHEMA))
    return parts


def _again(wrong: str, question: str | Message, type_: Any) -> list[Part]:
    if isinstance(question, Message):
        return [Part(text=wrong), *parts_of(question, type_)]
    return parts_of(f"{wrong}\n{question}", type_)


def _text(parts: list[Part]) -> str:
    return Message(message_id="", role=Role.AGENT, parts=parts).text


def _type_name(type_: Any) -> str:
    if isinstance(type_, dict):
        text = json.dumps(type_, sort_keys=True, default=str)
        return f"schema {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return getattr(type_, "__qualname__", "") or str(type_)


def _is_same(one: Asked | None, other: Asked) -> bool:
    return one is not None and (one.branch, one.n, one.text) == (other.branch, other.n, other.text)
