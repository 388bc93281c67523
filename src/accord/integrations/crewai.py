"""Agents, crews and flows of CrewAI.

An agent's history is its messages, and a flow's is its state: both are kept in `ctx.state`. A crew
has none: each turn is a new run. A method of a flow with `@human_feedback` pauses the run, and the
next message is the feedback. `Flow.ask` and tasks with `human_input=True` wait inside the run:
after a restart it begins anew, models are called again, and the answer is found.
"""

import asyncio
import functools
from collections.abc import AsyncGenerator
from typing import Any

from ..agent import Agent
from ..engine.skills import Context
from ..model import InvalidParams
from ..schema import to_builtins
from .crewai_turn import CrewTurn, crew_turn, streaming
from .turns import FrameworkTurn, HumanPause, Options, add_ask_skill

__all__ = ["add_skills"]

_HISTORY = "messages"
_FLOW = "flow"
_ACCEPTED = frozenset({"", "yes", "y", "ok", "true"})


def add_skills(agent: Agent, obj: Any, options: Options) -> None:
    """Raises TypeError for a crew that has nothing to do."""
    if hasattr(obj, "tasks"):
        if not obj.tasks:
            raise TypeError("this crew has no tasks")
        returns = obj.tasks[-1].output_pydantic or obj.tasks[-1].output_json
        add_ask_skill(agent, obj, _run_crew, options, returns=returns)
    elif hasattr(obj, "method_outputs"):
        _ask_for_feedback()
        add_ask_skill(agent, obj, _run_flow, options)
    else:
        add_ask_skill(agent, obj, _run_agent, options)


async def _run_agent(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    said = [*ctx.state.get(_HISTORY, []), {"role": "user", "content": turn.text}]
    run = CrewTurn(ctx)
    if turn.options.get("response_format") is None:
        run.is_answer = lambda event: event.agent_id == str(obj.id)

    async def work() -> Any:
        with streaming([obj.llm]):
            return await obj.kickoff_async(said, **turn.options)

    async for text in run.texts(work):
        yield text
    ctx.state[_HISTORY] = [*said, {"role": "assistant", "content": run.result.raw}]
    yield _output(run)


async def _run_crew(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from crewai.core.providers.human_input import set_provider

    run = CrewTurn(ctx)
    given = {"inputs": _inputs(obj, turn)} | turn.options

    async def work() -> Any:
        crew = obj.copy()  # a crew remembers its last run
        crew.stream = False  # its tokens come by the event bus
        for task in crew.tasks:
            task.callback = _chained(task.callback, ctx)
        last = crew.tasks[-1]
        # What a person may still have changed is no answer yet: it is in the question.
        if not (last.output_pydantic or last.output_json or last.human_input):
            run.is_answer = lambda event: event.task_id == str(last.id)
        set_provider(_human_input())
        with streaming(member.llm for member in crew.agents):
            return await crew.akickoff(**given)

    async for text in run.texts(work):
        yield text
    yield _output(run)


async def _run_flow(obj: Any, turn: FrameworkTurn, ctx: Context) -> AsyncGenerator[Any, None]:
    from crewai.flow.async_feedback import HumanFeedbackPending

    run = CrewTurn(ctx)
    run.is_answer = lambda event: True
    state_id = None
    kept = None
    if obj.persistence is not None:  # the user's own
        state_id = "/".join(part for part in (ctx.caller.identity, ctx.context_id) if part)
    elif turn.paused is not None:
        kept = _kept()(**turn.paused["kept"])
    else:
        kept = _kept()(state=ctx.state.get(_FLOW))
        state_id = kept.state["id"] if kept.state is not None else None
    is_chat = getattr(obj, "conversational", False)
    inputs = {} if is_chat or turn.paused is not None else _flow_inputs(obj, turn)
    if state_id is not None:
        inputs["id"] = state_id

    async def work() -> Any:
        flow_id = None if turn.paused is None else turn.paused["flow_id"]
        flow = run.flow = _flow(obj, kept or obj.persistence, flow_id)
        if flow_id is not None:
            return await flow.resume_async(turn.answer)
        if not is_chat:
            return await flow.kickoff_async(**{"inputs": inputs} | turn.options)
        with streaming([getattr(flow.conversational_config, "llm", None)]):
            given = {"session_id": state_id} | turn.options
            return await asyncio.to_thread(flow.handle_turn, turn.text, **given)

    async for text in run.texts(work):
        yield text
    if isinstance(run.result, HumanFeedbackPending):
        state = {"flow_id": run.result.context.flow_id, "kept": kept and kept.model_dump()}
        yield HumanPause(_question(run.result.context), None, to_builtins(state))
        return
    if kept is not None:
        ctx.state[_FLOW] = _state_of(run.flow.state)
    yield _output(run)


def _flow(obj: Any, persistence: Any, paused: str | None) -> Any:
    """A flow like this one, for one turn: it holds one run. `paused` is the id of one that waits
    for feedback.
    """
    from crewai.flow import Flow

    fields = {name: getattr(obj, name) for name in obj.model_fields_set}
    fields |= {"persistence": persistence, "stream": False}
    definition = obj._definition if type(obj) is Flow else None  # one that is no class
    if paused is not None:
        flow = type(obj).from_pending(paused, definition=definition, **fields)
    elif definition is not None:
        flow = Flow.from_declaration(contents=definition, **fields)
    else:
        flow = type(obj)(**fields)
    if flow.input_provider is None:
        flow.input_provider = _Asker()
    return flow


def _output(run: CrewTurn) -> Any:
    """The result of a run: text that was not streamed, or data."""
    result = run.result
    for name in ("pydantic", "json_dict"):
        if (data := getattr(result, name, None)) is not None:
            return data
    text = getattr(result, "raw", result)
    if isinstance(text, str):
        return run.rest(text)
    return "" if text is None else text


def _chained(callback: Any, ctx: Context) -> Any:
    """Say when a task is done, beside what its own callback does."""

    def done(output: Any) -> None:
        ctx.status(f"{output.agent.strip()} is done with: {output.name or output.description}")
        if callback is not None:
            callback(output)

    return done


def _inputs(obj: Any, turn: FrameworkTurn) -> dict[str, Any]:
    """Return what fills the placeholders of a crew: the fields of a data part, or the text if there
    is one placeholder.

    Raises:
        InvalidParams: There are several, and the message has no data.
    """
    for part in turn.message.parts:
        if isinstance(part.data, dict):
            return part.data
    names = sorted(obj.fetch_inputs())
    if len(names) > 1:
        raise InvalidParams(f"send a data part with the fields {', '.join(names)}")
    return {names[0]: turn.text} if names else {}


def _flow_inputs(flow: Any, turn: FrameworkTurn) -> dict[str, Any]:
    """Return what a message sets in the state of a flow: the fields of a data part; or its text, as
    `input` or as the only field.

    Raises:
        InvalidParams: There are several fields and none is called input, and there is no data.
    """
    for part in turn.message.parts:
        if isinstance(part.data, dict):
            return {name: value for name, value in part.data.items() if name != "id"}
    names = ["input"]
    if not isinstance(flow.state, dict):
        names = [name for name in type(flow.state).model_fields if name != "id"]
        if "input" in names:
            names = ["input"]
    if len(names) > 1:
        raise InvalidParams(f"send a data part with fields of {', '.join(names)}")
    return {names[0]: turn.text} if names else {}


def _question(context: Any) -> str:
    """Return the question for a person: the message, what it is about, and the choices."""
    output = context.method_output
    shown = [context.message]
    if output not in (None, ""):
        shown.append(output if isinstance(output, str) else str(to_builtins(output)))
    if context.emit:
        shown.append(f"One of: {', '.join(context.emit)}")
    return "\n".join(shown)


def _state_of(state: Any) -> Any:
    return state.model_dump(mode="json") if hasattr(state, "model_dump") else to_builtins(state)


class _Asker:
    """Ask the client what `Flow.ask` asks."""

    def request_input(self, message: str, flow: Any, metadata: Any = None) -> str:
        turn = crew_turn()
        assert turn is not None  # it is given to flows of turns only
        return turn.ask_from_thread(message)


@functools.cache
def _ask_for_feedback() -> None:
    """Have flows pause where they would ask on the terminal, if a turn runs them."""
    from crewai.flow import flow_config
    from crewai.flow.async_feedback import ConsoleProvider, HumanFeedbackPending

    class Feedback:
        def request_feedback(self, context: Any, flow: Any) -> str:
            if crew_turn() is None:
                return str(ConsoleProvider().request_feedback(context, flow))
            raise HumanFeedbackPending(context)

    if flow_config.hitl_provider is None:
        flow_config.hitl_provider = Feedback()


@functools.cache
def _human_input() -> Any:
    """Return what asks the client for tasks with `human_input=True`."""
    from crewai.core.providers.human_input import SyncHumanInputProvider

    def question(answer: Any) -> str:
        output = SyncHumanInputProvider._get_output_string(answer)
        return f"{output}\n\nAnswer yes if that is right, or say what to change."

    def name(context: Any) -> str:
        return f"feedback {context.task.key}"  # the answer may be another after a restart

    class Asker(SyncHumanInputProvider):  # type: ignore[misc]  # it comes without types here
        def handle_feedback(self, formatted_answer: Any, context: Any) -> Any:
            turn, answer = crew_turn(), formatted_answer
            assert turn is not None
            while context.ask_for_human_input:
                feedback = turn.ask_from_thread(question(answer), name=name(context))
                if is_accepted(feedback, context):
                    break
                answer = context._invoke_loop()
            return answer

        async def handle_feedback_async(self, formatted_answer: Any, context: Any) -> Any:
            turn, answer = crew_turn(), formatted_answer
            assert turn is not None
            while context.ask_for_human_input:
                feedback = await turn.ask(question(answer), name=name(context))
                if is_accepted(feedback, context):
                    break
                answer = await context._ainvoke_loop()
            return answer

    def is_accepted(feedback: str, context: Any) -> bool:
        if feedback.strip().lower() in _ACCEPTED:
            context.ask_for_human_input = False
            return True
        context.messages.append(context._format_feedback_message(feedback))
        return False

    return Asker()


@functools.cache
def _kept() -> Any:
    """A class of CrewAI's that keeps a flow, for `ctx.state`."""
    from crewai.flow.async_feedback import PendingFeedbackContext
    from crewai.flow.persistence import FlowPersistence

    class StateOfConversation(FlowPersistence):  # type: ignore[misc]  # it comes without types here
        state: Any = None
        pending: Any = None

        def init_db(self) -> None:
            pass

        def save_state(self, flow_uuid: str, method_name: str, state_data: Any) -> None:
            self.state = _state_of(state_data)

        def load_state(self, flow_uuid: str) -> Any:
            return self.state

        def save_pending_feedback(self, flow_uuid: str, context: Any, state_data: Any) -> None:
            self.state = _state_of(state_data)
            self.pending = context.to_dict()

        def load_pending_feedback(self, flow_uuid: str) -> Any:
            return self.state, PendingFeedbackContext.from_dict(self.pending)

        def clear_pending_feedback(self, flow_uuid: str) -> None:
            self.pending = None

    return StateOfConversation
