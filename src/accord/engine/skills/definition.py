"""What an agent's author declared, and which skill a message is for."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatch
from typing import Any, Literal

from ...auth import Auth, Caller, as_auth
from ...model import (
    AgentCard,
    AgentExtension,
    AgentProvider,
    ContentTypeNotSupported,
    Event,
    InvalidParams,
    Message,
    Metadata,
    SendMessageRequest,
    Task,
)
from ...slug import slug_of
from .lifespan import Lifespan
from .middleware import Middleware
from .skill import Skill

__all__ = ["HEADERS", "AgentDefinition", "skill_named"]


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


class AgentDefinition:
    """Hold what an agent's author declared, and choose the skill that a message is for.

    The engine and the bindings use it. Authors see `accord.Agent`, which fills it.
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
        card: Literal["public", "authenticated"] = "public",
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
        self.has_input_modes = bool(input_modes)  # given, so messages are checked against them
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
        self.middleware: list[Middleware] = []
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
        """The name in paths and file names: lower-case letters, digits and hyphens."""
        return slug_of(self.name)

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
        is_checked = self.strict_modes or self.has_input_modes
        return skill.card.input_modes or (self.input_modes if is_checked else [])

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
