"""The hub as one agent: it takes what any agent in the registry takes, and finds who does it.

A message names its skill as `agent/skill` in its metadata, or says in words what it wants. It
guesses nothing: if several agents fit, it asks which.
"""

import functools
import inspect
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from ..agent import Agent
from ..app import App
from ..auth import Caller
from ..engine.skills import Context, definition_of
from ..model import AgentCard, AgentSkill, Message
from ..relay import NO_FORK, Relay, RequestContext
from ..server import HttpRequest, HttpResponse, StreamingResponse
from ..server.http import CardEndpoint
from .access import Callers
from .find import Finder
from .gate import Permits, Upstreams
from .registry import (
    UNTRUSTED,
    Entry,
    Registry,
    sanitize_line,
    sanitize_skill,
    sanitize_text,
)

if TYPE_CHECKING:
    from ..client import Client

__all__ = ["AggregateAgent", "AggregateCard", "Route"]

LISTED = 200  # skills in the card; `find` covers the rest
SURE = 60  # the score from which on a candidate may be used unasked,
LEAD = 1.3  # if it is so many times that of the next
CHOICES = 5
_CARDS = 64

# Says which `agent/skill` a message is for; None for the usual way.
Route: TypeAlias = Callable[[Message, Caller], Any]


class AggregateAgent:
    """The hub's own agent, which stands for all others."""

    def __init__(
        self,
        agent: Agent,
        registry: Registry,
        finder: Finder,
        permits: Permits,
        upstreams: Upstreams,
    ) -> None:
        self._registry = registry
        self._finder = finder
        self._permits = permits
        self._upstreams = upstreams
        self.route: Route | None = None
        self._relay = Relay(self._connect, check=self._check)
        agent.skill(self.list_agents)
        agent.skill(self.find, tags=["search"], examples=["who can order a laptop?"])
        agent.skill(
            self.do, id="do", name="Do", default=True, durable=True, first_word=True, run_s=math.inf
        )
        definition = definition_of(agent)
        definition.skills["do"].on_cancel = self._relay.cancel
        definition.skills["do"].no_fork = NO_FORK
        definition.takes_any_skill = True
        definition.extend_card = self._card_for

    # Skills

    async def list_agents(self, caller: Caller) -> dict[str, Any]:
        """List the agents you may see."""
        await self._registry.catch_up()
        listed = [
            {"name": one.name, "description": sanitize_text(one.card.description)}
            for one in self._registry.visible_to(caller)
        ]
        return {"notice": UNTRUSTED, "untrusted": listed}

    async def find(self, query: str, caller: Caller, limit: int = 10) -> dict[str, Any]:
        """Find agents by what they should do. Returns the skills that fit, and how well. What the
        agents' makers wrote is below `untrusted`.
        """
        await self._registry.catch_up()
        found = await self._finder.search(
            caller, query, limit=max(1, min(limit, 50)), with_schema=True
        )
        result: dict[str, Any] = msgspec.to_builtins(found)
        agents = result.pop("agents")
        return {**result, "notice": UNTRUSTED, "untrusted": agents}

    async def do(self, message: Message, ctx: Context) -> None:
        """Pass the message to the agent that it names (`metadata.skill = "agent/skill"`), or to the
        one whose skills fit its words. Asks if several fit.
        """
        named = (message.metadata or {}).get("skill")
        word = ""
        if not isinstance(named, str) or not named:
            named = await self._routed(message, ctx)
        if not named:
            named, word = await self._chosen(message, ctx)
        name, _, skill = named.partition("/")
        key = ""
        if not self._relay.is_begun:  # else it was decided before a restart
            await self._registry.catch_up()
            key, skill = self._permits.permit(name, ctx.caller, skill)
        metadata = {key: v for key, v in (message.metadata or {}).items() if key != "skill"}
        if skill:
            metadata["skill"] = skill
        outgoing = msgspec.structs.replace(message, metadata=metadata or None)
        if word:
            await ctx.status(word, metadata={"skill": named})
        await self._relay.follow(outgoing, ctx, member=f"{key} ")

    async def _routed(self, message: Message, ctx: Context) -> str:
        if self.route is None:
            return ""
        route, caller = self.route, ctx.caller

        async def choose() -> str:
            found = route(message, caller)
            return str((await found if inspect.isawaitable(found) else found) or "")

        found: str = await ctx.step(choose, name="route")
        return found

    async def _chosen(self, message: Message, ctx: Context) -> tuple[str, str]:
        """Return the skill that fits best, and what to say of that."""
        candidates: list[list[Any]] = await ctx.step(
            functools.partial(self._candidates, ctx.caller, message.text), name="search"
        )
        if not candidates:
            await ctx.status("no agent was found")  # there is a task, which is rejected
            ctx.reject(self._nothing(ctx.caller))
        first, score = candidates[0][0], candidates[0][1]
        if score >= SURE and (len(candidates) == 1 or score >= LEAD * candidates[1][1]):
            return first, f"{first} is asked"
        choices = [name for name, *_ in candidates[:CHOICES]]
        reasons = "\n".join(f"- {name}: {why}" for name, _, why in candidates[:CHOICES])
        choice: Any = Literal[tuple(choices)]
        answer = await ctx.ask(f"Which of these is to do it?\n{reasons}", choice, name="which")
        return answer, ""

    async def _candidates(self, caller: Caller, text: str) -> list[list[Any]]:
        """Skills this caller may call that fit a text: name, score, and why."""
        await self._registry.catch_up()
        found = await self._finder.search(caller, text, limit=CHOICES)
        hits = [
            [f"{agent.agent}/{skill.id}", skill.score, sanitize_line(skill.description, 200)]
            for agent in found.agents
            if agent.callable
            for skill in agent.skills
        ]
        return sorted(hits, key=lambda hit: -hit[1])

    def _nothing(self, caller: Caller) -> str:
        known = [skill.id for skill in self.skills_for(caller)]
        some = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        return f"No agent here does that. There is: {some or 'none that you may call'}"

    async def _connect(self, context: RequestContext) -> "Client":
        key, _, member = context.member.partition(" ")
        inner = RequestContext(caller=context.caller, tenant=context.tenant, member=member)
        client = await self._upstreams.connect(key, inner)
        context.member = f"{key} {inner.member}"
        return client

    async def _check(self, context: RequestContext, message: Message, first: Message) -> None:
        """Decide on a later message of a task as on the first: its agent may be suspended, and the
        rules may be others by now.
        """
        name, _, _ = context.member.partition(" ")[0].partition(".")
        asked = [(one.metadata or {}).get("skill") for one in (first, message)]
        skills = {one.removeprefix(f"{name}/") for one in asked if isinstance(one, str)}
        for skill in skills or {""}:
            self._permits.permit(name, context.caller, skill)

    # Its card

    def _card_for(self, card: AgentCard, caller: Caller) -> AgentCard:
        return msgspec.structs.replace(card, skills=[*card.skills, *self.skills_for(caller)])

    async def catch_up(self) -> None:
        """Read which agents other hubs have added until now."""
        await self._registry.catch_up()

    def skills_for(self, caller: Caller) -> list[AgentSkill]:
        """Return the skills of all agents that a caller may call, as `agent/skill`."""
        found = []
        for entry in self._registry.visible_to(caller):
            allowed = set(self._permits.skills(entry, caller))
            for skill in entry.card.skills:
                if skill.id in allowed:
                    shown: dict[str, Any] = sanitize_skill(skill)
                    id_ = f"{entry.name}/{shown['id']}"
                    found.append(msgspec.convert(shown | {"id": id_}, AgentSkill))
                if len(found) == LISTED:
                    return found
        return found


class AggregateCard:
    """The card of the hub's own agent, with the skills of all agents its reader may call."""

    def __init__(self, app: App, callers: Callers, aggregate: AggregateAgent) -> None:
        self._app = app
        self._callers = callers
        self._aggregate = aggregate
        self._cards: OrderedDict[tuple[str, ...], CardEndpoint] = OrderedDict()

    async def answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request for the card."""
        reader = await self._callers.reader(request)
        await self._aggregate.catch_up()
        skills = self._aggregate.skills_for(reader)
        key = tuple(skill.id for skill in skills)
        found = self._cards.get(key)
        if found is None:

            def card(base: str) -> AgentCard:
                own = self._app.card(base)
                return msgspec.structs.replace(own, skills=[*own.skills, *skills])

            found = self._cards[key] = self._app.card_endpoint_of(card)
            if len(self._cards) > _CARDS:
                self._cards.popitem(last=False)
        return found(request)

    def forget(self, entry: Entry) -> None:
        """An entry has changed, so what its skills say may have too."""
        self._cards.clear()
