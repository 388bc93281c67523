"""The agent as its author declares it: a name, the fields of its card, and decorators."""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from ...auth import Auth
from ...model import AgentExtension, AgentProvider, AgentSkill
from .definition import HEADERS, AgentDefinition
from .lifespan import Lifespan
from .middleware import Middleware
from .skill import Skill
from .unawaited import refuse_unawaited

__all__ = ["Agent", "definition_of"]

F = TypeVar("F", bound=Callable[..., Any])


def _in_words(skill_id: str) -> str:
    """Return the name of a skill made of its id: `orderHardware` is "Order hardware"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", skill_id.replace("_", " "))
    return words.strip().capitalize()


class Agent:
    """Declare an agent: `accord.Agent` without the ways to serve it."""

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        version: str = "0.1.0",
        provider: AgentProvider | None = None,
        documentation_url: str | None = None,
        icon_url: str | None = None,
        input_modes: list[str] | None = None,
        output_modes: list[str] | None = None,
        extensions: list[AgentExtension] | None = None,
        strict_modes: bool | None = None,
        auth: Any = None,
        card: Literal["public", "authenticated"] = "public",
        headers: Sequence[str] = HEADERS,
    ) -> None:
        self._definition = AgentDefinition(
            name,
            description=description,
            version=version,
            provider=provider,
            documentation_url=documentation_url,
            icon_url=icon_url,
            input_modes=input_modes,
            output_modes=output_modes,
            extensions=extensions,
            strict_modes=strict_modes,
            auth=auth,
            card=card,
            headers=headers,
        )

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self._definition.name

    @property
    def description(self) -> str:
        """The description in the agent card."""
        return self._definition.description

    @property
    def auth(self) -> Auth | None:
        """The scheme by which callers authenticate; None if everybody may call."""
        return self._definition.auth

    @property
    def headers(self) -> Sequence[str]:
        """The names of request headers that are stored with a task, in lower case."""
        return self._definition.headers

    @headers.setter
    def headers(self, names: Sequence[str]) -> None:
        self._definition.headers = names

    @property
    def slug(self) -> str:
        """The name in paths and file names: lower-case letters, digits and hyphens.

        What can't be written so is left out. If that are letters of another script than Latin,
        eight digits follow that only this name has: `天气` is `agent-4d947325`.
        """
        return self._definition.slug

    @overload
    def skill(
        self,
        function: F,
        *,
        id: str = "",
        name: str = "",
        description: str = "",
        tags: list[str] | None = None,
        examples: list[str] | None = None,
        input_modes: list[str] | None = None,
        output_modes: list[str] | None = None,
        default: bool = False,
        durable: bool = False,
        alone: bool = False,
        first_word: bool = False,
        run_s: float = ...,
        idle_s: float | None = ...,
    ) -> F: ...

    @overload
    def skill(
        self,
        *,
        id: str = "",
        name: str = "",
        description: str = "",
        tags: list[str] | None = None,
        examples: list[str] | None = None,
        input_modes: list[str] | None = None,
        output_modes: list[str] | None = None,
        default: bool = False,
        durable: bool = False,
        alone: bool = False,
        first_word: bool = False,
        run_s: float = ...,
        idle_s: float | None = ...,
        scopes: list[str] | None = ...,
    ) -> Callable[[F], F]: ...

    def skill(
        self,
        function: Callable[..., Any] | None = None,
        *,
        id: str = "",
        name: str = "",
        description: str = "",
        tags: list[str] | None = None,
        examples: list[str] | None = None,
        input_modes: list[str] | None = None,
        output_modes: list[str] | None = None,
        default: bool = False,
        durable: bool = False,
        alone: bool = False,
        first_word: bool = False,
        run_s: float = 24 * 3600,
        idle_s: float | None = None,
        scopes: list[str] | None = None,
    ) -> Any:
        """Add a function as a skill.

        The function's name, docstring and annotations make the skill's id, description and
        schemas.

        Args:
            function: The function, when used as a bare `@agent.skill`.
            id: The id that messages name in `metadata.skill`; by default the function's name.
            name: The name that people see; made from the id by default.
            description: What the skill does; by default the docstring.
            tags: Words to find the skill by; by default the id.
            examples: Messages to try it with.
            input_modes: The media types it accepts; by default the agent's.
            output_modes: The media types it returns; by default the agent's.
            default: Use this skill for messages that name none. Without it, that is the first
              skill.
            durable: Continue after a crash, which would otherwise fail the run. The function is
              called again and what it had recorded is replayed, so put side effects into
              `ctx.step`.
            alone: Stop the function when the server has lost its database for so long that another
              server may soon take over the task, so that the two never work at the same time. What
              was recorded stays. A durable skill continues from there; any other fails. Without
              `alone` both may work for a while, and a function can check `ctx.is_sure`.
            first_word: Let the first output decide whether there is a task. If it is a `Reply` or a
              Message, the sender gets that and no task is made. Anything else starts a task. An
              error before the first output is returned to the sender. Until then nothing is
              acknowledged or stored.
            run_s: Fail a run that has worked for so many seconds, all attempts together. Time spent
              waiting in `ctx.ask` does not count.
            idle_s: Fail a run that has sent nothing and finished no step for so many seconds. Time
              spent waiting in `ctx.ask` does not count.
            scopes: The scopes that a caller needs. The agent must have `auth`.

        Raises:
            TypeError: A plain `def` uses a method of its Context that has to be awaited.
        """
        if isinstance(scopes, str):
            raise TypeError(f"scopes is a list of names; write scopes=[{scopes!r}]")
        # So that annotations may name types local to the caller.
        names = dict(sys._getframe(1).f_locals)

        def add(function: F) -> F:
            refuse_unawaited(function)
            skill_id = id or function.__name__
            if skill_id in self._definition.skills:
                raise ValueError(
                    f"agent {self.name!r} already has a skill {skill_id!r}; give one of them id="
                )
            title = name or _in_words(skill_id)
            card = AgentSkill(
                id=skill_id,
                name=title,
                description=description or inspect.getdoc(function) or title,
                tags=tags or [skill_id],
                examples=examples or [],
                input_modes=input_modes or [],
                output_modes=output_modes or [],
            )
            self._definition.skills[skill_id] = Skill(
                function,
                card,
                is_default=default,
                is_durable=durable,
                is_alone=alone,
                has_first_word=first_word,
                run_s=run_s,
                idle_s=idle_s,
                scopes=scopes or (),
                names=names,
                middleware=self._definition.middleware,
            )
            return function

        return add if function is None else add(function)

    def route(self, function: F) -> F:
        """Choose the skill for messages that name none.

        The function gets the message and returns a skill's id, or None for the default skill.
        """
        self._definition.router = function
        return function

    def on_task(self, function: F) -> F:
        """Call a function for each new task and each change of a task's state.

            @agent.on_task
            async def count(task: Task): print(task.id, task.state)

        The function gets the task as it was then. It is called after the change is stored, in the
        process that works on the task; a plain function in a thread. What it raises is logged and
        changes nothing.
        """
        self._definition.task_hooks.append(function)
        return function

    def on_event(self, function: F) -> F:
        """Call a function for each event of each task: what a stream shows. See `on_task`.

        @agent.on_event
        def audit(event): print(event)

        """
        self._definition.event_hooks.append(function)
        return function

    @overload
    def middleware(self, function: F) -> F: ...

    @overload
    def middleware(self, *, required: bool = False) -> Callable[[F], F]: ...

    def middleware(self, function: Any = None, *, required: bool = False) -> Any:
        """Run an `async def` around every call of a skill. The first one defined is the outermost.

            @agent.middleware
            async def timing(call: SkillCall, next):
                began = time.monotonic()
                result = await next()
                print(call.skill, time.monotonic() - began)
                return result

        It may read and change the arguments (`call.values`), change what the skill sends
        (`call.rewrite`), refuse the call (`call.ctx.reject`, or an A2A error) or return another
        result. Returning None keeps the result.

        Args:
            function: The function, when used as a bare `@agent.middleware`.
            required: Fail the task if the function raises. Use it for policies and redaction.
              Without it the error is logged and the skill is called anyway.
        """

        def add(function: F) -> F:
            self._definition.middleware.append(Middleware.of(function, required))
            return function

        return add if function is None else add(function)

    def lifespan(self, function: F) -> F:
        """Open what skills need before the first call, and close it after the last.

            import sqlite3
            from collections.abc import AsyncIterator

            @agent.lifespan
            async def life() -> AsyncIterator[sqlite3.Connection]:
                database = sqlite3.connect("invoices.db")
                yield database
                database.close()

            @agent.skill
            async def count(request: str, database: sqlite3.Connection) -> int:
                return database.execute("SELECT count(*) FROM invoices").fetchone()[0]

        The value it yields is `ctx.resources`. A skill's parameter that is annotated with the class
        of that value, or with the type of one of its fields, gets it and is not part of the skill's
        input. The lifespan is opened once per server, worker and `connect(agent)`. If it raises
        before the yield, the server does not start.
        """
        if self._definition.life is not None:
            raise ValueError(
                f"agent {self.name!r} already has a lifespan, {self._definition.life.name}; "
                "open both there"
            )
        self._definition.life = Lifespan(function, dict(sys._getframe(1).f_locals))
        return function

    def card(self, function: F) -> F:
        """Change the agent card before it is served.

        The function gets the finished card. It changes it, or returns another one. The cards of
        older protocol versions are made from the result.
        """
        self._definition.edit_card = function
        return function

    def extended_card(self, function: F) -> F:
        """Make the extended card, which only authenticated callers get.

        The function gets the public card and the caller. It returns the card for this caller, or
        None for the public one.

        agent = Agent("Shop", auth=ApiKeys() | Anyone())  # open to all, and more for some

        @agent.extended_card
        async def extended(card: AgentCard, caller: Caller) -> AgentCard:
            card.description += f" Prices are those of {caller.tenant or caller.name}."
            card.skills.append(AgentSkill("refund", "Refund", "Give money back", ["refund"]))
            return card
        """
        if self.auth is None:
            raise ValueError(
                f"agent {self.name!r} has no auth=, and the extended card is for authenticated "
                "callers only; if all may call: auth=ApiKeys() | Anyone()"
            )
        self._definition.extend_card = function
        return function


def definition_of(agent: Agent) -> AgentDefinition:
    """Return what was declared, as the engine uses it."""
    return agent._definition
