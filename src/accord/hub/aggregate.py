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

from ..auth import Caller, Credentials
from ..engine.skills import Context
from ..model import A2AError, AgentCard, AgentSkill, Message
from ..relay import Errand, Relay
from ..server import HttpRequest, HttpResponse, StreamingResponse
from ..server.http import CardEndpoint
from .access import GUEST
from .registry import UNTRUSTED, fence_line, fence_skill

if TYPE_CHECKING:
    from ..client import Client
    from .hub import Hub

__all__ = ["AggregateAgent", "Route"]

LISTED = 200  # skills in the card; `find` covers the rest
SURE = 60  # the score from which on a candidate may be used unasked,
LEAD = 1.3  # if it is so many times that of the next
CHOICES = 5
_CARDS = 64

# Says which `agent/skill` a message is for; None for the usual way.
Route: TypeAlias = Callable[[Message, Caller], Any]


class AggregateAgent:
    """The hub's own agent, which stands for all others."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self.route: Route | None = None
        self._relay = Relay(self._connect, check=self._check)
        self._cards: OrderedDict[tuple[str, ...], CardEndpoint] = OrderedDict()
        agent = hub.agent
        agent.skill(self.find, tags=["search"], examples=["who can order a laptop?"])
        agent.skill(
            self.do, id="do", name="Do", default=True, durable=True, first_word=True, run_s=math.inf
        )
        agent.skills["do"].on_cancel = self._relay.cancel
        agent.takes_any_skill = True
        agent.extend_card = self._card_for

    # Skills

    async def find(self, query: str, caller: Caller, limit: int = 10) -> dict[str, Any]:
        """Find agents for something: which skills fit, and how well. What their makers wrote stands
        below `untrusted`.
        """
        found = await self._hub.finder.search(
            caller, query, limit=max(1, min(limit, 50)), with_schema=True
        )
        result: dict[str, Any] = msgspec.to_builtins(found)
        agents = result.pop("agents")
        return {**result, "notice": UNTRUSTED, "untrusted": agents}

    async def do(self, message: Message, ctx: Context) -> None:
        """Have the agent do it that a message names (`metadata.skill = "agent/skill"`), or the one
        that fits its words. Asks if several do.
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
            key, skill = await self._hub.gate.permit(name, ctx.caller, skill)
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
        found = await self._hub.finder.search(caller, text, limit=CHOICES)
        hits = [
            [f"{agent.agent}/{skill.id}", skill.score, fence_line(skill.description, 200)]
            for agent in found.agents
            if agent.callable
            for skill in agent.skills
        ]
        return sorted(hits, key=lambda hit: -hit[1])

    def _nothing(self, caller: Caller) -> str:
        known = [skill.id for skill in self._skills(caller)]
        some = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        return f"No agent here does that. There is: {some or 'none that you may call'}"

    async def _connect(self, errand: Errand) -> "Client":
        key, _, member = errand.member.partition(" ")
        inner = Errand(caller=errand.caller, tenant=errand.tenant, member=member)
        client = await self._hub.gate.upstreams.connect(key, inner)
        errand.member = f"{key} {inner.member}"
        return client

    async def _check(self, errand: Errand, message: Message, first: Message) -> None:
        """Decide on a later message of a task as on the first: its agent may be suspended, and the
        rules may be others by now.
        """
        name, _, _ = errand.member.partition(" ")[0].partition(".")
        asked = [(one.metadata or {}).get("skill") for one in (first, message)]
        skills = {one.removeprefix(f"{name}/") for one in asked if isinstance(one, str)}
        for skill in skills or {""}:
            await self._hub.gate.permit(name, errand.caller, skill)

    # Its card

    async def card(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """The hub's card, with the skills of all agents its reader may call."""
        skills = self._skills(await self._reader(request))
        key = tuple(skill.id for skill in skills)
        found = self._cards.get(key)
        if found is None:
            app = self._hub.app

            def card(base: str) -> AgentCard:
                own = app.card(base)
                return msgspec.structs.replace(own, skills=[*own.skills, *skills])

            found = self._cards[key] = app.card_endpoint_of(card)
            if len(self._cards) > _CARDS:
                self._cards.popitem(last=False)
        return found(request)

    def forget_cards(self) -> None:
        """An entry has changed: what its skills say may have too."""
        self._cards.clear()

    async def _reader(self, request: HttpRequest) -> Caller:
        """Who reads a card, which is for everybody: whoever shows nothing valid is a guest."""
        try:
            return await self._hub.authenticator.authenticate(
                Credentials(request.headers, request.pairs, request.target.query, request.peer)
            )
        except A2AError:
            return GUEST

    def _card_for(self, card: AgentCard, caller: Caller) -> AgentCard:
        return msgspec.structs.replace(card, skills=[*card.skills, *self._skills(caller)])

    def _skills(self, caller: Caller) -> list[AgentSkill]:
        hub = self._hub
        found = []
        for entry in hub.registry.visible_to(caller):
            for skill in entry.card.skills:
                if (
                    hub.policy.decide(caller, entry, skill.id, "call").is_allowed
                    and hub.policy.decide(caller, entry, skill.id, "see").is_allowed
                ):
                    shown: dict[str, Any] = fence_skill(skill)
                    id_ = f"{entry.name}/{shown['id']}"
                    found.append(msgspec.convert(shown | {"id": id_}, AgentSkill))
                if len(found) == LISTED:
                    return found
        return found
