"""An `AgentExecutor` of a2a-sdk as an agent: its `execute` is called where a skill would be."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ...agent import Agent
from ...auth import Caller
from ...engine.skills import Cancellation, Context, definition_of
from ...model import (
    FINAL,
    INTERRUPTED,
    AgentCapabilities,
    AgentCard,
    ArtifactUpdate,
    Message,
    SendConfiguration,
    SendMessageRequest,
    StatusUpdate,
    Task,
    TaskState,
)
from .generations import Said, SdkGeneration, a2a_error, installed

__all__ = ["add_skills", "agent_of"]

log_ = logging.getLogger("accord")

CANCEL_S = 3.0  # what an executor's `cancel` may take; then its `execute` is cancelled


def agent_of(executor: Any, card: Any = None, *, name: str = "", description: str = "") -> Agent:
    """Return an agent that runs an `AgentExecutor`, unchanged.

    Args:
        executor: Of a2a-sdk 0.2, 0.3 or 1.x, whichever is installed.
        card: The SDK's card. Its skills become the agent's, and all of them run the executor.
        name: What people call it, if there is no card; the executor's class by default.
        description: What it is for, likewise.
    """
    sdk = installed()
    sdk_card = _no_card() if card is None else sdk.card(card)
    agent = Agent(
        name or sdk_card.name or type(executor).__name__,
        description=description or sdk_card.description,
        version=sdk_card.version or "0.1.0",
        provider=sdk_card.provider,
        documentation_url=sdk_card.documentation_url,
        icon_url=sdk_card.icon_url,
        input_modes=sdk_card.default_input_modes or None,
        output_modes=sdk_card.default_output_modes or None,
        extensions=sdk_card.capabilities.extensions,
        strict_modes=False,  # a2a-sdk leaves it to the executor what it takes
    )
    runner = _Runner(executor, sdk)
    for skill in sdk_card.skills:
        agent.skill(
            id=skill.id,
            name=skill.name,
            description=skill.description,
            tags=skill.tags,
            examples=skill.examples,
            input_modes=skill.input_modes,
            output_modes=skill.output_modes,
            first_word=True,
        )(runner.run)
    if not sdk_card.skills:
        agent.skill(id="execute", description=agent.description, first_word=True)(runner.run)
    for made in definition_of(agent).skills.values():
        made.on_cancel = runner.cancel_waiting

    @agent.card
    def secured(made: AgentCard) -> AgentCard:
        """What the program's own middleware enforces is declared as the program declares it."""
        made.security_schemes = sdk_card.security_schemes or made.security_schemes
        made.security_requirements = sdk_card.security_requirements or made.security_requirements
        return made

    return agent


def add_skills(agent: Agent, executor: Any, options: Any = None) -> None:
    """Give an agent one skill that runs an executor, for `Agent.wrap`. An executor has no run call
    that takes options.
    """
    if options is not None:
        raise TypeError("an AgentExecutor takes no options; give them to its constructor")
    runner = _Runner(executor, installed())
    agent.skill(id="execute", description=agent.description, first_word=True)(runner.run)
    definition_of(agent).skills["execute"].on_cancel = runner.cancel_waiting


def _no_card() -> AgentCard:
    return AgentCard("", "", [], "", AgentCapabilities(), [], [], [])


class _Runner:
    """Calls the executor for every message."""

    def __init__(self, executor: Any, sdk: SdkGeneration) -> None:
        self._executor = executor
        self._sdk = sdk

    async def run(self, message: Message, ctx: Context) -> None:
        """Run the executor."""
        task = ctx.task
        # An executor announces a new task if it is given none, so the first turn has none.
        given = None if len(task.history) <= 1 and not task.artifacts else task
        queue = _queue(self._sdk, ctx.say, given)
        context = self._context(message, ctx, given)
        # A child: when the task is cancelled, the executor's own `cancel` comes first.
        executing = asyncio.ensure_future(self._executor.execute(context, queue))
        try:
            await asyncio.shield(executing)
        except asyncio.CancelledError:
            if not executing.done():
                if ctx.is_canceled:
                    await self._cancel(context, queue)
                executing.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await executing
            raise
        except Exception as error:
            refusal = a2a_error(error)
            if refusal is None:
                raise
            raise refusal from error
        if not queue.has_said:
            log_.warning(
                "%s returned without an event; its task is completed",
                type(self._executor).__name__,
            )
        elif not queue.is_settled:
            log_.warning("%s left its task working; it is completed", type(self._executor).__name__)

    async def cancel_waiting(self, cancellation: Cancellation) -> Message | None:
        """Call the executor's `cancel` for a task that waits for its client, so that `execute` does
        not run. Return what it says.
        """
        if cancellation.running is not None:
            return None  # `run` calls it
        task, sender = cancellation.task, cancellation.sender
        call = _call_context(
            sender.caller, dict(sender.headers), sender.extensions, cancellation.tenant
        )
        context = self._sdk.request_context(None, task, task.id, task.context_id, call)
        words: list[Message] = []

        async def say(event: Any) -> None:
            if isinstance(event, StatusUpdate) and event.status.state is TaskState.CANCELED:
                words.extend(filter(None, [event.status.message]))

        await self._cancel(context, _queue(self._sdk, say, task))
        return words[0] if words else None

    async def _cancel(self, context: Any, queue: Any) -> None:
        try:
            await asyncio.wait_for(self._executor.cancel(context, queue), CANCEL_S)
        except TimeoutError:
            log_.warning("%s.cancel took too long", type(self._executor).__name__)
        except Exception as error:  # "not supported", in most programs: its work is cancelled
            log_.info("%s.cancel: %s", type(self._executor).__name__, error)

    def _context(self, message: Message, ctx: Context, task: Task | None) -> Any:
        call = _call_context(ctx.caller, ctx.headers, ctx.extensions, ctx.tenant)
        request = SendMessageRequest(
            message=message,
            configuration=SendConfiguration(accepted_output_modes=list(ctx.accepted_output_modes)),
            metadata=message.metadata,
        )
        return self._sdk.request_context(request, task, ctx.task_id, ctx.context_id, call)


def _call_context(
    caller: Caller, headers: dict[str, str], extensions: Iterable[str], tenant: str
) -> Any:
    from a2a.server.context import ServerCallContext

    facts = {
        "state": {"headers": headers},
        "user": _User(caller.name, not caller.is_anonymous),
        "requested_extensions": set(extensions),
        "tenant": tenant,
    }
    known = getattr(ServerCallContext, "model_fields", {})
    return ServerCallContext(**{name: facts[name] for name in facts if name in known})


def _User(name: str, is_authenticated: bool) -> Any:  # noqa: N802  it makes an object of a class
    from a2a.auth.user import User

    class CallingUser(User):  # type: ignore[misc]  # other releases have other types
        """The caller, as the SDK's programs see it."""

        @property
        def is_authenticated(self) -> bool:
            return is_authenticated

        @property
        def user_name(self) -> str:
            return name

    return CallingUser()


def _queue(sdk: SdkGeneration, say: Callable[[Any], Awaitable[None]], given: Task | None) -> Any:
    """The SDK's `EventQueue`, but what is put into it is said at once."""
    from a2a.server.events import EventQueue

    class RunQueue(EventQueue):  # type: ignore[misc]  # other releases have other types
        def __init__(self) -> None:
            self.has_said = False
            self.is_settled = False  # it has said how its turn ends
            self._is_over = False

        async def enqueue_event(self, event: Any) -> None:
            if self._is_over:
                return
            for said in _said(sdk.event(event), given, is_first=not self.has_said):
                state = said.status.state if isinstance(said, StatusUpdate) else None
                self._is_over = isinstance(said, Message) or state in FINAL
                self.is_settled = self._is_over or state in INTERRUPTED
                self.has_said = True
                await say(said)

        def is_closed(self) -> bool:
            return self._is_over

        async def close(self, immediate: bool = False) -> None:
            pass

        def task_done(self) -> None:
            pass

    return RunQueue()


def _said(said: Said, given: Task | None, *, is_first: bool) -> list[Any]:
    """What is new in an executor's event. A whole task is its artifacts and its status, without
    those of the task that was given to it: executors put that into the queue again. That a task is
    submitted is news only at first.
    """
    events: list[Any] = [said]
    if isinstance(said, Task):
        known = [] if given is None else given.artifacts
        events = [
            ArtifactUpdate(said.id, said.context_id, artifact, last_chunk=True)
            for artifact in said.artifacts
            if artifact not in known
        ]
        if given is None or said.status.state is not given.status.state or said.status.message:
            events.append(StatusUpdate(said.id, said.context_id, said.status))
    is_new = is_first and given is None and len(events) == 1
    return [event for event in events if is_new or not _is_submitted(event)]


def _is_submitted(event: Any) -> bool:
    return isinstance(event, StatusUpdate) and event.status.state is TaskState.SUBMITTED
