"""The questions of one run: asked of its client, and found again with their answers when the
function is called again.
"""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...model import (
    A2AError,
    File,
    InvalidParams,
    Message,
    Metadata,
    Part,
    Question,
    Role,
    TaskState,
    question_id,
    question_metadata,
    question_named,
)
from ...schema import Shape
from ..durable import Branch, Expired, expired, within_ms
from ..log import Answered, Asked, AskExpired, AskLeft, Turn
from ..skills import NO_DEFAULT
from .messages import agent_message, read_answer, read_file

if TYPE_CHECKING:
    from .run import Run

__all__ = ["Questions", "identified", "parts_of"]

_SCHEMA = "application/schema+json"
# what authorizations are known by: their texts hold addresses made for one time
_AUTH = "authorization"
# If its process dies while a run watches another agent that asks, the next one looks so soon.
WATCH_MS = 60_000
_PASSED_MS = 1_000  # after the deadline of another agent's question it is looked at
_AGAIN_S = 1.0  # after which it is tried again to end a question that is late


class _Open:
    """The question that is open."""

    __slots__ = ("answer", "asked", "branch", "is_watching", "theirs_ms", "timer")

    def __init__(self, branch: Branch, asked: Asked, answer: "asyncio.Future[Turn | None]") -> None:
        self.branch = branch
        self.asked = asked
        self.answer = answer  # None: its deadline has passed
        self.is_watching = False
        self.theirs_ms = 0  # the deadline of another agent that asks
        self.timer: asyncio.Task[None] | None = None


class Questions:
    """Asks a run's client, one question at a time: a message can't say which of two it answers.

    A question is known by its branch and number, and by what is asked: text and type, or its name
    and the type.
    """

    __slots__ = ("_activity", "_asking", "_newest_id", "_open", "_run")

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._activity = run.activity
        self._asking = asyncio.Lock()
        self._open: _Open | None = None
        self._newest_id = ""  # of the newest question; empty if it has none

    @property
    def is_open(self) -> bool:
        """Return whether a question was asked and its answer is awaited."""
        return self._open is not None

    @property
    def open_id(self) -> str | None:
        """Return the id of the question that takes an answer, empty if it has none; None if there
        is no such question.
        """
        question = self._open
        return self._newest_id if question is not None and not question.answer.done() else None

    @property
    def is_watching(self) -> bool:
        """Return whether the function waits for something else beside the client."""
        return self._open is not None and self._open.is_watching

    @property
    def expires_ms(self) -> int:
        """Return until when the open question may be answered; 0: for ever, or there is none."""
        return self._open.asked.expires_ms if self._open is not None else 0

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
        within: Any = None,
        default: Any = NO_DEFAULT,
    ) -> Any:
        """Ask, and return the answer. A `refusal` is what the senders of messages get that were
        taken before and led to nothing. With `until`, None if that is done first: then the question
        is no longer open. `within` is how long it may be answered; then the `default` is returned.

        Raises:
            Expired: Nobody has answered in time, and there is no default.
        """
        run, n = self._run, branch.next_question()
        allowed_ms = None if within is None else within_ms(within)
        parts = parts_of(question, type_)
        word = question if isinstance(question, Message) and type_ is Message else parts
        asked = Asked(branch.path, n, name or _text(parts), _type_name(type_), is_named=bool(name))
        if run.history is not None:
            asked.expires_ms = run.history.expires_ms(branch.path, n)
        while True:
            found = self._recorded(asked)
            if isinstance(found, AskExpired):
                return _late(asked, default)
            if isinstance(found, AskLeft):
                if until is not None:
                    return None
                await run.loop.create_future()  # the function stopped waiting then, and will again
            answer = self._taken(found).message if isinstance(found, Answered) else None
            if answer is None:
                async with self._turn():
                    await self._activity.may_begin()
                    if allowed_ms is not None and not asked.expires_ms:
                        asked.expires_ms = run.clock.now_ms() + allowed_ms
                    if until is not None:
                        answer = await self._ask_watching(
                            branch, asked, word or None, metadata, refusal, until
                        )
                        if answer is None:
                            return None
                    else:
                        answer = await self._ask(branch, asked, word, metadata, refusal)
                        if answer is None:
                            return _late(asked, default)
            assert answer is not None  # it was recorded, or awaited
            if until is None:  # else it is passed on as it is
                answer = await self._run.with_files(answer)
            if type_ is Message:
                return answer
            try:
                if type_ is File:
                    return read_file(answer).opened_by(run.runs.opener(run.log.namespace))
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
                answer = self._taken(found).message
                return answer if until is not None else await self._run.with_files(answer)
            if was_left and until is not None:
                return await until  # it came without a message
        if was_left:
            await run.loop.create_future()
        async with self._turn():
            await self._activity.may_begin()
            # Else it was said, and nothing came of it.
            if not (run.history is not None and _is_same(run.history.question, asked)):
                self._say(TaskState.AUTH_REQUIRED, text or None, asked, metadata, refusal)
            if until is not None:
                return await self._first(branch, asked, until)
            message = await self._next_message(branch, asked)
        assert message is not None  # it has no deadline
        return await self._run.with_files(message)

    async def _ask(
        self,
        branch: Branch,
        asked: Asked,
        word: Any,
        metadata: Metadata | None,
        refusal: A2AError | None,
    ) -> Message | None:
        """Ask, and return the answer; None if the deadline passes first."""
        run = self._run
        was_asked = run.history is not None and run.history.expires_ms(branch.path, asked.n) > 0
        if was_asked and asked.expires_ms <= run.clock.now_ms():  # it passed while nobody was there
            self._end_late(branch, asked)
            return None
        if not asked.expires_ms:
            self._say(TaskState.INPUT_REQUIRED, self._word(asked, word), asked, metadata, refusal)
            return await self._next_message(branch, asked)
        self._activity.add_due(asked.expires_ms)
        try:
            self._say(TaskState.INPUT_REQUIRED, self._word(asked, word), asked, metadata, refusal)
            return await self._next_message(branch, asked)
        finally:
            self._activity.remove_due(asked.expires_ms)

    async def _ask_watching(
        self,
        branch: Branch,
        asked: Asked,
        word: Any,
        metadata: Metadata | None,
        refusal: A2AError | None,
        until: Awaitable[Any],
    ) -> Message | None:
        """Ask what another agent asks, which alone decides whether an answer comes in time. None if
        it goes on without one.
        """
        now_ms = self._run.clock.now_ms()
        asked.is_watching = True
        theirs = Question.read(word).expires_ms if isinstance(word, Message) else 0
        due_ms = now_ms + WATCH_MS  # it may go on at any time, also long before its deadline
        if theirs > now_ms:
            due_ms = min(due_ms, theirs + _PASSED_MS)
        self._activity.add_due(due_ms)
        try:
            self._say(TaskState.INPUT_REQUIRED, self._word(asked, word), asked, metadata, refusal)
            found: Message | None = await self._first(branch, asked, until, theirs)
            return found
        finally:
            self._activity.remove_due(due_ms)

    def _word(self, asked: Asked, word: Any) -> Message | None:
        """Return a question as its client gets it, with its id and its deadline. Those of another
        agent's question are passed on as they are.
        """
        if not word:
            return None
        return identified(self._run, word, (asked.branch, str(asked.n)), asked.expires_ms)

    async def _first(
        self, branch: Branch, asked: Asked, until: Awaitable[Any], theirs_ms: int = 0
    ) -> Any:
        """Return the next message or the result of `until`, whichever comes first."""
        message = asyncio.ensure_future(
            self._next_message(branch, asked, is_watching=True, theirs_ms=theirs_ms)
        )
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

    def _recorded(self, asked: Asked) -> Answered | AskLeft | AskExpired | None:
        """Return what an earlier run got as its answer; None if it has to be asked."""
        history = self._run.history
        if history is None:
            return None
        return history.answer(asked.branch, asked.n, asked.text, asked.type, asked.is_named)

    def _taken(self, answered: Answered) -> Turn:
        run = self._run
        assert run.history is not None  # it has the answer
        run.take(Turn(answered.turn, run.history.message(answered.turn)))
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
        write = run.output.state_to_store()
        if run.output.conversation is not None:
            run.output.conversation.question_follows()
        self._newest_id = question_named(word) if isinstance(word, Message) else ""
        run.output.status(state, word, metadata, refusal=refusal)
        self._activity.show_due()
        asked.worked_s = round(run.life.worked_s, 3)
        run.note(asked)
        run.output.store_state(write)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Ask one question at a time. A branch whose question waits for another one counts as
        waiting for the client.
        """
        if self._asking.locked():
            self._activity.pause()
            try:
                await self._asking.acquire()
            finally:
                self._activity.resume()
        else:
            await self._asking.acquire()  # at once: a branch that is about to ask does not wait
        try:
            yield
        finally:
            self._asking.release()

    async def _next_message(
        self, branch: Branch, asked: Asked, *, is_watching: bool = False, theirs_ms: int = 0
    ) -> Message | None:
        """Return the next message that is accepted now that the question is stored; None if its
        deadline passes first.
        """
        run = self._run
        question = self._open = _Open(branch, asked, run.loop.create_future())
        question.is_watching, question.theirs_ms = is_watching, theirs_ms
        if asked.expires_ms:
            question.timer = run.loop.create_task(self._end_in_time(question))
        self._activity.pause()
        try:
            turn = await question.answer
            return turn.message if turn is not None else None
        except asyncio.CancelledError:
            if not run.is_stopping and not run.is_over:
                self._leave(question)
                run.output.status(TaskState.WORKING)
                if not is_watching and "#" not in branch.path:
                    self._activity.was_left(f"ctx.ask (question {asked.n})")
            raise
        finally:
            if question.timer is not None:
                question.timer.cancel()
                question.timer = None  # it holds the question: a circle that would stay for long
            self._open = None
            self._activity.resume()

    def _leave(self, question: _Open) -> None:
        """Record that the function has stopped waiting. If another agent asked, and its deadline
        has passed, who answers now gets that as the reason, after a restart too.
        """
        run, theirs_ms = self._run, question.theirs_ms
        passed_ms = theirs_ms if 0 < theirs_ms <= run.clock.now_ms() else 0
        run.note(AskLeft(question.branch.path, question.asked.n, passed_ms))
        if passed_ms:
            run.log.expired_ms = passed_ms

    async def _end_in_time(self, question: _Open) -> None:
        """End a question when its deadline has passed."""
        await self._run.clock.sleep_until(question.asked.expires_ms)
        while self._open is question and not self.end_if_late():  # noqa: ASYNC110  nobody says when
            await asyncio.sleep(_AGAIN_S)

    def end_if_late(self) -> bool:
        """End the question that is open if its deadline has passed. Return whether it has."""
        run, question = self._run, self._open
        if question is None or question.answer.done() or run.is_stopping:
            return False
        if not question.asked.expires_ms or question.asked.expires_ms > run.clock.now_ms():
            return False
        if not run.is_sure:
            return False  # another process may have taken the answer
        self._end_late(question.branch, question.asked)
        question.answer.set_result(None)
        return True

    def _end_late(self, branch: Branch, asked: Asked) -> None:
        """Record that nobody has answered in time."""
        run = self._run
        run.note(AskExpired(branch.path, asked.n))
        run.log.expired_ms = asked.expires_ms
        run.output.status(TaskState.WORKING)

    def deliver(self, turn: Turn) -> bool:
        """Take a message, if one is waited for."""
        question = self._open
        if question is None or question.answer.done():
            return False
        self._take(question.branch, question.asked.n, turn)
        question.answer.set_result(turn)
        return True

    def _take(self, branch: Branch, n: int, turn: Turn) -> None:
        run = self._run
        run.take(turn)
        run.log.turns.append(turn.number)
        run.note(Answered(branch.path, n, turn.number))
        # In the commit that stores the message: nobody is shown the old question.
        run.output.status(TaskState.WORKING)


def _late(asked: Asked, default: Any) -> Any:
    """Return what `ask` returns if nobody has answered in time, or raise Expired."""
    if default is not NO_DEFAULT:
        return default
    what = "nobody has given an answer"
    if not asked.expires_ms:
        raise Expired(what)
    raise expired(what, asked.expires_ms)


def identified(run: "Run", word: Any, place: tuple[str, ...], expires_ms: int = 0) -> Message:
    """Return a question as a message with an id, which an answer may name. It is the same every
    time the question is asked at this place of the function.
    """
    message = agent_message(word, *run.log.ids)
    if question_named(message):
        return message
    id_ = question_id(run.task_id, str(run.turn), *place)
    metadata = question_metadata(id_, expires_ms)
    return replace(message, metadata={**(message.metadata or {}), **metadata})


def parts_of(question: str | Message, type_: Any) -> list[Part]:
    """Return what the client is shown of a question: its text, and the schema of an answer if
    that is not just any text.
    """
    parts = list(question.parts) if isinstance(question, Message) else [Part(text=question)]
    if type_ is not None and type_ not in (str, Message, File):
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
