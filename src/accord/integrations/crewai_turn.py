"""A turn of CrewAI: what its event bus tells of it, and questions from its threads.

CrewAI calls models and tools in threads, and has one event bus for the whole process. A context
variable, which it hands on to its threads, says which turn an event is of.
"""

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any

from ..engine.skills import Context

__all__ = ["CrewTurn", "crew_turn"]

_TURN: "contextvars.ContextVar[CrewTurn | None]" = contextvars.ContextVar(
    "accord_crewai_turn", default=None
)
_ANSWER = "Final Answer:"
_THOUGHTS = ("Thought:", "Action:", _ANSWER)  # of models that are prompted to reason in text


def crew_turn() -> "CrewTurn | None":
    """The turn that this code is called by, in whatever thread."""
    return _TURN.get()


class CrewTurn:
    """One run of CrewAI's.

    Args:
        ctx: Of the turn.
        is_answer: Whether the tokens that an event tells of are the answer's.
        flow: The flow that is run, whose methods are told as status.
    """

    def __init__(self, ctx: Context, is_answer: Callable[[Any], bool], *, flow: Any = None) -> None:
        self.result: Any = None
        self.flow = flow
        self._ctx = ctx
        self._is_answer = is_answer
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        self._is_over = False
        self._failure: Exception | None = None
        self._call_id = ""
        self._call = ""  # what the model has said in this call
        self._shown = 0  # how much of it was shown
        self._begins: int | None = None  # where the answer begins in it, if that is known
        _listen()

    async def texts(
        self, work: Coroutine[Any, Any, Any], models: Iterable[Any] = ()
    ) -> AsyncGenerator[str, None]:
        """Run CrewAI's coroutine and give the tokens of the answer as they come.

        Args:
            work: Its return value is `result` afterwards.
            models: Those that shall stream, unless they are set not to.
        """
        context = contextvars.copy_context()
        running = self._loop.create_task(self._run(work, list(models)), context=context)
        running.add_done_callback(lambda done: self._texts.put_nowait(None))
        try:
            while (text := await self._texts.get()) is not None:
                yield text
            self.result = await running
        finally:
            self._is_over = True
            running.cancel()
            await asyncio.wait([running])
        if self._failure is not None:
            raise self._failure

    def rest(self, answer: str) -> str:
        """What of an answer was not streamed: all of it if the model does not stream, or if
        something changed it afterwards.
        """
        streamed = self._call[self._begins :].strip() if self._begins is not None else ""
        if not self._shown:
            return answer
        if streamed.startswith(answer.strip()):
            return ""
        if answer.startswith(streamed):
            return answer[len(streamed) :]
        return f"\n\n{answer}"

    async def ask(self, question: str, *, name: str = "") -> str:
        return await self._ctx.ask(question, name=name)

    def ask_from_thread(self, question: str, *, name: str = "") -> str:
        """Ask, and wait for the answer in this thread."""
        if threading.get_ident() == self._thread:
            self._failure = RuntimeError(
                "this asks a person and waits, which would stop the event loop: "
                "ask in a method that is not async"
            )
            raise self._failure
        return asyncio.run(self.ask(question, name=name))

    async def _run(self, work: Coroutine[Any, Any, Any], models: list[Any]) -> Any:
        from crewai.events import crewai_event_bus
        from crewai.llms.base_llm import call_stream_override

        _TURN.set(self)
        with contextlib.ExitStack() as streaming:
            for model in models:
                if getattr(model, "stream", False) is None:  # neither on nor off
                    streaming.enter_context(call_stream_override(model, True))
            result = await work
        await asyncio.to_thread(crewai_event_bus.flush)  # handlers run in threads too
        return result

    def heard_token(self, event: Any) -> None:
        """Called in the thread of the model, between two tokens."""
        if self._is_over:
            # The one way to stop a model in a thread: its next token can't be delivered.
            raise asyncio.CancelledError
        if event.tool_call is None and event.chunk and self._is_answer(event):
            self._loop.call_soon_threadsafe(self._show, event.call_id, event.chunk)

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
            shown = max(self._shown, self._begins)
            self._texts.put_nowait(self._call[shown:])
            self._shown = len(self._call)


def _beginning(text: str) -> int | None:
    """Where the answer begins in what a model says; None if that can't be told yet."""
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
