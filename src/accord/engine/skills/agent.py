"""An agent: a name, skills, and which of them a message is for."""

import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatch
from typing import Any, TypeVar, overload

from ...auth import Auth, Caller, as_auth
from ...model import (
    AgentCard,
    AgentExtension,
    AgentProvider,
    AgentSkill,
    ContentTypeNotSupported,
    Event,
    InvalidParams,
    Message,
    Metadata,
    SendMessageRequest,
    Task,
)
from .lifespan import Lifespan
from .middleware import Middleware
from .skill import Skill

__all__ = ["AgentBase", "skill_named"]

F = TypeVar("F", bound=Callable[..., Any])


def skill_named(request: SendMessageRequest) -> Any:
    """The skill a request asks for in its metadata; None if it names none."""
    return _named(request.message.metadata) or _named(request.metadata)


def _named(metadata: Metadata | None) -> Any:
    return metadata.get("skill") if metadata is not None else None


_WORDS = {"file": "*", "data": "application/json"}  # modes of the first versions of A2A
_ANSWER_MODES = ("text/plain", "application/json")
HEADERS = ("X-Request-Id", "X-Correlation-Id")  # recorded by default
_CREDENTIALS = frozenset(["authorization", "cookie", "proxy-authorization", "set-cookie"])


def _recorded(headers: Sequence[str], auth: Auth | None) -> tuple[str, ...]:
    """Return the names of headers to record, in lower case.

    Raises:
        ValueError: One of them holds credentials.
    """
    if isinstance(headers, str):
        raise TypeError(f"headers is a list of names; write headers=[{headers!r}]")
    names = tuple(dict.fromkeys(name.strip().lower() for name in headers))
    schemes = auth.schemes.values() if auth is not None else ()
    secret = _CREDENTIALS.union(*(scheme.secret_headers for scheme in schemes)) & set(names)
    if secret:
        raise ValueError(
            f"the header {min(secret)} holds credentials, which are not stored; a skill sees who "
            "calls in ctx.caller"
        )
    return names


def is_of_mode(kind: str, mode: str) -> bool:
    """Whether a media type is one of a mode: `text/csv`, `text/*`, or a word as in the first
    versions: `text`, `data`, `file`.
    """
    mode = mode.partition(";")[0].strip().lower()
    mode = _WORDS.get(mode, mode)
    return fnmatch(kind, mode if "/" in mode or mode == "*" else f"{mode}/*")


def _in_words(skill_id: str) -> str:
    """Return the name of a skill made of its id: `orderHardware` is "Order hardware"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", skill_id.replace("_", " "))
    return words.strip().capitalize()


class AgentBase:
    """An agent made of functions.

    Every field of the agent card has a keyword; what can be derived (skills, modes, interfaces,
    capabilities) is.

    Args:
        name: What people call it.
        description: What it is for; the name, if left out.
        version: Yours, of the agent.
        provider: Who runs it.
        documentation_url: Where people read more.
        icon_url: Its picture.
        input_modes: The media types its skills take, unless they say otherwise; text and JSON by
          default.
        output_modes: The media types they give, likewise.
        extensions: Extensions of the protocol it knows, beside ours.
        strict_modes: Refuse a part whose media type is none of the input modes. By default only
          modes that were given, here or for a skill, are held to; `True` holds to text and JSON
          too, `False` to none: modes are advice then.
        auth: How callers show who they are: `ApiKeys()`, `OIDC(...)` and others of `accord.auth`,
          several of them with `|` and `&`, or a function of yours decorated with
          `accord.auth.scheme`. Without it, everybody may call who can reach the agent.
        card: `"public"`, or `"authenticated"`: only callers who may use the agent see its card.
        headers: Headers of requests that are stored with their tasks, for skills to see in
          `ctx.headers`. Headers with credentials can't be.
    """

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
        card: str = "public",
        headers: Sequence[str] = HEADERS,
    ) -> None:
        if not name.strip():
            raise ValueError("an agent needs a name")
        self.name = name
        self.description = description or name
        self.version = version
        self.provider = provider
        self.documentation_url = documentation_url
        self.icon_url = icon_url
        self.input_modes = input_modes or ["text/plain", "application/json"]
        self.output_modes = output_modes or ["text/plain", "application/json"]
        self.extensions = extensions or []
        self.strict_modes = strict_modes
        self.checks_modes = bool(strict_modes)  # whether any skill refuses a media type
        self.has_input_modes = bool(input_modes)  # given, so they are held to
        self.auth: Auth | None = None if auth is None else as_auth(auth)
        if card not in ("public", "authenticated"):
            raise ValueError(f'card is "public" or "authenticated", not {card!r}')
        if card == "authenticated" and self.auth is None:
            raise ValueError(
                'card="authenticated" needs auth=, which says how callers authenticate'
            )
        self.is_card_public = card == "public"
        self.headers = headers
        self.skills: dict[str, Skill] = {}
        self.task_hooks: list[Callable[[Task], Any]] = []
        self.event_hooks: list[Callable[[Event], Any]] = []
        self._middleware: list[Middleware] = []
        self.router: Callable[[Message], Any] | None = None
        self.life: Lifespan | None = None
        self.edit_card: Callable[[AgentCard], AgentCard | None] | None = None
        self.takes_any_skill = False  # a message may name one we don't have: another agent knows
        self.on_close: list[Callable[[], Awaitable[None]]] = []  # called when it is served no more
        self.extend_card: Callable[[AgentCard, Caller], Any] | None = None
        # True for programs that decide themselves who may see it, before the agent is reached
        self.is_extended_card_public = False

    @property
    def headers(self) -> Sequence[str]:
        """Headers of requests that are stored with their tasks, in lower case."""
        return self._headers

    @headers.setter
    def headers(self, names: Sequence[str]) -> None:
        self._headers = _recorded(names, self.auth)

    @property
    def slug(self) -> str:
        """The name as it stands in paths: small letters, digits and hyphens."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") or "agent"

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
        """Make a function a skill. Its name, docstring and annotations say the rest.

        Args:
            function: The function, when used as a bare `@agent.skill`.
            id: What a message names it by, in `metadata.skill`; the function's name by default.
            name: What people call it; made from the id by default.
            description: What it does; the docstring by default.
            tags: Words to find it by; the id by default.
            examples: Messages to try it with.
            input_modes: The media types it takes; the agent's by default.
            output_modes: The media types it gives; the agent's by default.
            default: Take messages that name no skill, instead of the first one defined.
            durable: Go on after a crash, which otherwise fails the run: the function is called
              again and what is in the log is replayed, so effects belong in `ctx.step`.
            alone: Stop the function when the server has lost the database for so long that another
              one may soon take up its task: the two never work side by side. What had been
              recorded stays; a durable skill goes on from there, another one has failed. Without
              it both may work for a while, and a function can ask `ctx.is_sure`.
            first_word: Let the first output decide whether there is a task. If it is a `Reply` or
              a Message, the sender gets that, and there is none; anything else begins one. An
              error before it is the answer of the call. Until then nothing is acknowledged or
              stored.
            run_s: Fail a run that has worked for so many seconds, in all its attempts; waiting in
              `ctx.ask` does not count.
            idle_s: Fail a run that has said nothing and ended no step for so many seconds; nor does
              it here.
            scopes: Scopes a caller needs to use it. The agent has to have `auth`.
        """
        if isinstance(scopes, str):
            raise TypeError(f"scopes is a list of names; write scopes=[{scopes!r}]")
        names = dict(
            sys._getframe(1).f_locals
        )  # so that annotations may name types local to the caller

        def add(function: F) -> F:
            skill_id = id or function.__name__
            if skill_id in self.skills:
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
            self.skills[skill_id] = Skill(
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
                middleware=self._middleware,
            )
            return function

        return add if function is None else add(function)

    def route(self, function: F) -> F:
        """Let a function choose: it gets the message and returns a skill's id, or None for the
        default skill.
        """
        self.router = function
        return function

    def on_task(self, function: F) -> F:
        """Have a function told of each task that is made, and each change of its state.

        It gets the task as it was then, after that is stored, in the process that works on it. A
        plain function is called in a thread. What it raises is logged and changes nothing.

            @agent.on_task
            async def count(task: Task): print(task.id, task.state)
        """
        self.task_hooks.append(function)
        return function

    def on_event(self, function: F) -> F:
        """Have a function told of each event of each task: of what a stream shows. See `on_task`.

        @agent.on_event
        def audit(event): print(event)

        """
        self.event_hooks.append(function)
        return function

    @overload
    def middleware(self, function: F) -> F: ...

    @overload
    def middleware(self, *, required: bool = False) -> Callable[[F], F]: ...

    def middleware(self, function: Any = None, *, required: bool = False) -> Any:
        """Put an `async def` around every call of a skill. The first one defined is outermost.

            @agent.middleware
            async def timing(call: SkillCall, next):
                began = time.monotonic()
                result = await next()
                print(call.skill, time.monotonic() - began)
                return result

        It may look at and change the arguments (`call.values`), change what the skill says
        (`call.rewrite`), refuse the call (`call.ctx.reject`, or an A2A error) or answer in its
        place.
        Returning None leaves the result as it is.

        Args:
            function: The function, when used as a bare `@agent.middleware`.
            required: Fail the task if the function fails, as a policy or a redaction should.
              Without it what it raises is logged, and the skill is called all the same.
        """

        def add(function: F) -> F:
            self._middleware.append(Middleware.of(function, required))
            return function

        return add if function is None else add(function)

    def lifespan(self, function: F) -> F:
        """Open what skills need before the first of them is called, and close it after the last.

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

        What it yields is `ctx.resources`. A parameter of a skill that is annotated with the type of
        one of its fields, or with its class, gets that, and is no part of the skill's input. It is
        opened once for each server, worker and `connect(agent)`. What it raises before the yield
        keeps the server from starting.
        """
        if self.life is not None:
            raise ValueError(
                f"agent {self.name!r} already has a lifespan, {self.life.name}; open both there"
            )
        self.life = Lifespan(function, dict(sys._getframe(1).f_locals))
        return function

    def card(self, function: F) -> F:
        """Let a function have the last word on the agent card: it gets the finished card and
        returns the one that is served, or changes the one it gets. What old versions of the
        protocol read is made from that.
        """
        self.edit_card = function
        return function

    def extended_card(self, function: F) -> F:
        """Let a function write the extended card, which only authenticated callers get: it is given
        the public card and the caller, and returns the card this caller gets, or None for the
        public one.

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
        self.extend_card = function
        return function

    def resolve(self) -> None:
        """Check all skills. Raises TypeError or ValueError for what a user wrote wrong."""
        if not self.skills:
            raise ValueError(
                f"agent {self.name!r} has no skill yet; decorate a function with @agent.skill"
            )
        if sum(skill.is_default for skill in self.skills.values()) > 1:
            raise ValueError(f"agent {self.name!r} has more than one default skill")
        self.checks_modes = any(self.taken_modes(skill) for skill in self.skills.values())
        if self.life is not None:
            self.life.resolve()
        for skill in self.skills.values():
            skill.resolve(self.life)
            if skill.scopes and self.auth is None:
                raise ValueError(
                    f"skill {skill.id!r} needs scopes, but agent {self.name!r} has no auth=, "
                    "so no caller could have them"
                )
        self.default = next(
            (s for s in self.skills.values() if s.is_default), next(iter(self.skills.values()))
        )

    @property
    def answers_probes(self) -> bool:
        """Whether probes are answered by an echo. Not by a bridge, whose agent behind it is what a
        probe wants to know about.
        """
        return not self.default.has_first_word

    def taken_modes(self, skill: Skill) -> list[str]:
        """The media types a skill refuses all others than; empty if it takes any."""
        if self.strict_modes is False:
            return []
        is_held = self.strict_modes or self.has_input_modes
        return skill.card.input_modes or (self.input_modes if is_held else [])

    def check_modes(self, skill: Skill, message: Message, *, is_first: bool = True) -> None:
        """Raise ContentTypeNotSupported for a part of a type the skill does not take. A part that
        states no type is taken, and so is one of the type that says nothing. After the first
        message of a task, text and JSON are taken too: questions are answered with them.
        """
        taken = self.taken_modes(skill)
        if not taken:
            return
        if not is_first:
            taken = list(dict.fromkeys([*taken, *_ANSWER_MODES]))
        for i, part in enumerate(message.parts):
            kind = part.media_type.partition(";")[0].strip().lower()
            if kind in ("", "application/octet-stream"):
                continue
            if not any(is_of_mode(kind, mode) for mode in taken):
                raise ContentTypeNotSupported(
                    f"part {i} is {kind!r:.80}; this skill takes {', '.join(taken)}",
                    parameter=f"message.parts[{i}].mediaType",
                )

    async def choose(self, request: SendMessageRequest) -> Skill:
        """Return the skill a message is for: the one it names, else the route's choice, else the
        default.
        """
        named = skill_named(request)
        if self.takes_any_skill and request.metadata:  # what stands beside a message goes along
            message = request.message
            message.metadata = {**request.metadata, **(message.metadata or {})}
        if named is None and self.router is not None:
            named = self.router(request.message)
            if inspect.isawaitable(named):
                named = await named
        if named is None:
            return self.default
        skill = self.skills.get(named) if isinstance(named, str) else None
        if skill is None and self.takes_any_skill:
            return self.default
        if skill is None:
            what = f"no skill {named!r:.80}; this agent has {', '.join(self.skills)}"
            raise InvalidParams(what, violations=(("message.metadata.skill", what),))
        return skill
