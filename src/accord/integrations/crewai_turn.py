"""A turn of CrewAI, in a thread: what its event bus reports, and its questions.

CrewAI's coroutines wait for locks, for threads, and sometimes for models, without giving way to
their event loop. So a turn has a thread and a loop of its own. There is one event bus for the whole
process: a context variable, which CrewAI hands on to its threads, says which turn an event is of.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from typing import Any

from ..engine.skills import Context

__all__ = ["CrewTurn", "crew_turn", "streaming"]

_TURN: "contextvars.ContextVar[CrewTurn | None]" = contextvars.ContextVar(
    "accord_crewai_turn", default=None
)
_PARAGRAPH = "\n\n"
_ANSWER = "Final Answer:"
_THOUGHTS = ("Thought:", "Action:", _ANSWER)  # of models that are prompted to reason in text


def crew_turn() -> "CrewTurn | None":
    """The turn that this code is called by, in whatever thread."""
    return _TURN.get()


@contextlib.contextmanager
def streaming(models: Iterable[Any]) -> Iterator[None]:
    """Have models stream here, unless they are set not to."""
    from crewai.llms.base_llm import call_stream_override

    with contextlib.ExitStack() as stack:
        for model in models:
            if getattr(model, "stream", False) is None:  # neither on nor off
                stack.enter_context(call_stream_override(model, True))
        yield


class CrewTurn:
    """One run of CrewAI's."""

    def __init__(self, ctx: Context) -> None:
        self.result: Any = None
        self.is_answer: Callable[[Any], bool] = lambda event: False  # whether a token is shown
        self.flow: Any = None  # the flow that is run, whose methods are reported as status
        self._ctx = ctx
        self._loop = asyncio.get_running_loop()
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        self._is_over = False
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None  # on the loop of the thread
        self._asked: set[concurrent.futures.Future[str]] = set()
        self._has_text = False  # something was shown
        self._call_id = ""
        self._call = ""  # what the model has said in this call
        self._shown = 0  # how much of it was shown
        self._begins: int | None = None  # where the answer begins in it, if that is known
        _listen()

    async def texts(
        self, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> AsyncGenerator[str, None]:
        """Call CrewAI, and give the tokens of the answer as they come. What `work` returns is
        `result` afterwards.
        """
        run = contextvars.copy_context().run
        args = (asyncio.run, self._run(work))
        threading.Thread(target=run, args=args, name="accord-crewai", daemon=True).start()
        try:
            while (text := await self._texts.get()) is not None:
                yield text
        finally:
            self._is_over = True
            for asked in list(self._asked):
                asked.cancel()
            self._stop()
        if self._error is not None:
            raise self._error

    async def _run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        from crewai.events import crewai_event_bus

        self._task = asyncio.current_task()
        _TURN.set(self)
        try:
            if not self._is_over:
                self.result = await work()
                await asyncio.to_thread(crewai_event_bus.flush)  # handlers run in threads too
        except asyncio.CancelledError:
            if not self._is_over:
                self._error = RuntimeError("CrewAI cancelled its run")
        except BaseException as error:
            self._error = error
        finally:
            self._call_in_loop(self._texts.put_nowait, None)

    def _stop(self) -> None:
        """Cancel what the thread does, if it has begun: else it sees that it need not."""
        if (task := self._task) is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                task.get_loop().call_soon_threadsafe(task.cancel)

    def _call_in_loop(self, function: Callable[..., Any], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(function, *args)

    def rest(self, answer: str) -> str:
        """What of an answer was not streamed: all of it if the model does not stream, or if
        something changed it afterwards.
        """
        if not self._has_text:
            return answer
        streamed = self._call[self._begins :].strip() if self._shown else ""
        if streamed and streamed.startswith(answer.strip()):
            return ""
        if streamed and answer.startswith(streamed):
            return answer[len(streamed) :]
        return f"{_PARAGRAPH}{answer}"

    async def ask(self, question: str, *, name: str = "") -> str:
        return await self._ctx.ask(question, name=name)

    def ask_from_thread(self, question: str, *, name: str = "") -> str:
        """Ask, and wait for the answer in this thread."""
        asked = asyncio.run_coroutine_threadsafe(self.ask(question, name=name), self._loop)
        self._asked.add(asked)
        if self._is_over:
            asked.cancel()
        try:
            return asked.result()
        except concurrent.futures.CancelledError:
            raise asyncio.CancelledError from None  # CrewAI takes the other one for no answer
        finally:
            self._asked.discard(asked)

    def heard_token(self, event: Any) -> None:
        """Called in the thread of the model, between two tokens."""
        if self._is_over:
            # The one way to stop a model in a thread: its next token can't be delivered.
            raise asyncio.CancelledError
        if event.tool_call is None and event.chunk and self.is_answer(event):
            self._call_in_loop(self._show, event.call_id, event.chunk)

    def heard_tool(self, event: Any) -> None:
        if not self._is_over:
            self._ctx.status(f"calls {event.tool_name}")

    def heard_method(self, source: Any, event: Any) -> None:
        if source is self.flow and not self._is_over:
            self._ctx.status(f"calls {event.method_name}")

    def may_call_model(self) -> bool:
        return not self._is_over

    def _show(self, call_id: str, chunk: str) -> None:
        """Show a token, unless it is a thought before the answer."""
        if call_id != self._call_id:
            self._call_id, self._call, self._begins, self._shown = call_id, "", None, 0
        self._call += chunk
        if self._begins is None:
            self._begins = _beginning(self._call)
        if self._begins is not None:
            if self._has_text and not self._shown:  # what another call said is before it
                self._texts.put_nowait(_PARAGRAPH)
            self._texts.put_nowait(self._call[max(self._shown, self._begins) :])
            self._shown, self._has_text = len(self._call), True


def _beginning(text: str) -> int | None:
    """Return where the answer begins in what a model says; None if that is not known yet."""
    if _ANSWER in text:
        begins = text.index(_ANSWER) + len(_ANSWER)
        return begins + len(text[begins:]) - len(text[begins:].lstrip())
    start = text.lstrip()
    if any(start.startswith(word) or word.startswith(start) for word in _THOUGHTS):
        return None
    return 0


@functools.cache
def _listen() -> None:
    """Listen to the event bus, once for all turns."""
    from crewai.events import (
        LLMStreamChunkEvent,
        MethodExecutionStartedEvent,
        ToolUsageStartedEvent,
        crewai_event_bus,
    )
    from crewai.hooks import register_before_llm_call_hook

    def token(source: Any, event: Any) -> None:
        if (turn := _TURN.get()) is not None:
            turn.heard_token(event)

    def tool(source: Any, event: Any) -> None:
        if (turn := _TURN.get()) is not None:
            turn.heard_tool(event)

    def method(source: Any, event: Any) -> None:
        if (turn := _TURN.get()) is not None:
            turn.heard_method(source, event)

    def call(context: Any) -> bool | None:
        turn = _TURN.get()
        return False if turn is not None and not turn.may_call_model() else None

    crewai_event_bus.register_handler(LLMStreamChunkEvent, token)
    crewai_event_bus.register_handler(ToolUsageStartedEvent, tool)
    crewai_event_bus.register_handler(MethodExecutionStartedEvent, method)
    register_before_llm_call_hook(call)
