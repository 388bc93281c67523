"""The gateway: `/agents/{name}` is an agent, whatever version and binding the one behind it speaks.

A call is answered by a relay (`accord.relay`) on the hub's own engine and store. So ids are the
hub's, callers who share the hub's credential at an agent don't see each other's tasks, and what is
stored can be read while the agent is away.
"""

import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...agent import Agent
from ...auth import Caller
from ...model import (
    A2AError,
    AgentCard,
    AgentExtension,
    AgentSkill,
    ContentTypeNotSupported,
    InvalidParams,
    PermissionDenied,
    SendMessageRequest,
    TooManyRequests,
    now_ms,
)
from ...operations import Admission, Call, Service
from ...served import AgentRouter
from ...server import HttpRequest, HttpResponse, StreamingResponse, opaque
from ...server.http import CardEndpoint
from ...store import Ages
from ..access import HubRole
from ..errors import EntryNotFound
from ..registry import Entry, fence_line, fence_skill, fence_text, skill_id
from .quota import CallQuota
from .upstream import SWEEP_S, Upstreams, key_of

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["VIA", "Gate"]

log_ = logging.getLogger("accord.hub")

PREFIX = "/agents"
VIA = "urn:accord:via:1"  # a card of a gateway: which the original is, and whose it was
FORGET_S = 10.0  # between two looks for tasks that are not to be kept
FORGET_MOST = 200  # at once
_SENDS = ("SendMessage", "SendStreamingMessage")
_STREAMS = ("SendStreamingMessage", "SubscribeToTask")
_ORIGINAL_HEADERS = ((b"cache-control", b"private, max-age=60"),)  # not everybody gets it


class _ServedEntry:
    """What answers for an entry, as long as its approved card is the same."""

    def __init__(self, version: tuple[Any, ...], make: Callable[[], AgentRouter]) -> None:
        self.version = version
        self.cards: dict[tuple[str, ...], CardEndpoint] = {}  # by the skills a reader may call
        self._make = make

    @functools.cached_property
    def router(self) -> AgentRouter:
        """Made when the entry is first called: most of a large hub's entries are not."""
        return self._make()


class Gate:
    """Serves the approved entries, each to those who may see and call it."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self.upstreams = Upstreams(hub)
        self.quota = CallQuota()
        self.keep_none_s = 60.0  # how long ended tasks of entries with `keep=none` can be read
        self._served: dict[str, _ServedEntry] = {}  # by name
        self._streams: Counter[str] = Counter()  # open, by the entry's id
        hub.registry.on_change(self._changed)
        hub.app.mount(PREFIX, self.answer)
        hub.app.find_tenants(self.service_of)
        hub.every(FORGET_S, self.forget)
        hub.every(SWEEP_S, self.upstreams.sweep)

    async def close(self) -> None:
        await self.upstreams.close()

    # Entries

    def _changed(self, entry: Entry) -> None:
        """An entry that can be called has its agent ready: what a dead process left is taken up."""
        known = self._hub.registry.get(entry.name)
        if known is None:
            self._served.pop(entry.name, None)
        elif known.id == entry.id and entry.approved:
            version = (entry.id, entry.approved, entry.settings.description)
            before = self._served.get(entry.name)
            if before is None or before.version != version:
                agent = self._agent(entry)
                self._hub.app.engine.add(agent, replaces=True)
                make = functools.partial(self._router, agent, entry.name)
                self._served[entry.name] = _ServedEntry(version, make)

    def _agent(self, entry: Entry) -> Agent:
        agent = Agent.proxy(
            entry.card,
            name=key_of(entry),
            auth=self._hub.agent.auth,
            connect=functools.partial(self.upstreams.connect, key_of(entry)),
        )
        agent.card(functools.partial(card_out, entry))
        agent.extend_card = functools.partial(self._card_for, entry.name)
        return agent

    def _router(self, agent: Agent, name: str) -> AgentRouter:
        router = self._hub.app.router_for(agent, f"{PREFIX[1:]}/{name}")
        router.served.service.admit = functools.partial(self._admit, name)
        return router

    def service_of(self, tenant: str) -> Service | None:
        """The service of an entry, by its name; whoever calls."""
        found = self._served.get(tenant)
        return found.router.served.service if found is not None else None

    async def forget(self) -> None:
        """Delete tasks that have ended, as their entries' settings say: `keep=none` a minute after
        the end, else after `tasks_days`, if that is sooner than the hub's own retention.
        """
        store, now = self._hub.app.engine.tasks.store, now_ms()
        for entry in self._hub.registry.all():
            settings = entry.settings
            days_s = settings.tasks_days * 24 * 3600
            age_s = self.keep_none_s if settings.keep == "none" else days_s
            if age_s >= self._hub.app.engine.retention.tasks_s:
                continue
            before_ms = now - int(age_s * 1000)
            ages = Ages(before_ms, before_ms, keys_ms=0, agent=key_of(entry))
            while await store.purge(ages, FORGET_MOST) >= FORGET_MOST:
                pass

    # HTTP

    async def answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request below `/agents`."""
        watcher, since_s = self._hub.app.on_exchange, time.monotonic()
        answer = await self._answer(request)
        return answer if watcher is None else watcher(request, answer, since_s)

    async def _answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        name, _, rest = request.target.raw.removeprefix(f"{PREFIX}/").partition("/")
        inner = request.below(f"{PREFIX}/{name}")
        try:
            if name == ".well-known":
                place = f"{self._hub.address}{PREFIX}/NAME"
                raise EntryNotFound(
                    f"no agent is at {PREFIX} itself. A client that resolves addresses against "
                    f"{place} leaves out the name: give it {place}/ with the slash"
                )
            caller = await self._hub.caller_of(request)
            entry = self._hub.registry.get_visible(name, caller)
            served = self._served.get(name)
            if entry is None or served is None:
                raise self._hub.missing(caller, name)
            if rest == "card/original" and request.target.verb in ("GET", "HEAD"):
                return self._original(entry, caller)
            router = served.router
            if inner.target.path in router.card_paths and request.target.verb in ("GET", "HEAD"):
                return self._card_endpoint(served, entry, caller)(inner)
        except A2AError as error:
            return self._hub.app.refusal(inner, error)
        except Exception:
            return self._hub.app.refusal(inner, opaque())
        return await router.answer_as(inner, caller)

    # Cards

    def _original(self, entry: Entry, caller: Caller) -> HttpResponse:
        """The approved card as it came. It names the agent's own addresses."""
        if not self._hub.people.person(caller).owns(entry.owner):
            raise EntryNotFound(
                f"the original card of {entry.name} is for its owner and for admins",
                fix=f"read {PREFIX}/{entry.name}/.well-known/agent-card.json",
            )
        return HttpResponse(200, entry.card_raw, headers=_ORIGINAL_HEADERS)

    def _card_endpoint(self, served: _ServedEntry, entry: Entry, caller: Caller) -> CardEndpoint:
        """The card as this caller sees it: with the skills they may see and call."""
        skills = tuple(self._allowed(entry, caller))
        found = served.cards.get(skills)
        if found is None:
            router = served.router

            def card(base: str) -> AgentCard:
                return _with_skills(router.served.card(base), skills)

            found = served.cards[skills] = router.card_endpoint_of(card)
        return found

    def _card_for(self, name: str, card: AgentCard, caller: Caller) -> AgentCard:
        entry = self._hub.registry.get(name)
        return card if entry is None else _with_skills(card, self._allowed(entry, caller))

    def _allowed(self, entry: Entry, caller: Caller) -> list[str]:
        policy = self._hub.policy
        return [
            skill.id
            for skill in entry.card.skills
            if policy.decide(caller, entry, skill.id, "call").is_allowed
            and policy.decide(caller, entry, skill.id, "see").is_allowed
        ]

    # Calls

    async def _admit(self, name: str, operation: str, call: Call, request: Any) -> Admission:
        """Decide on a call, once for every binding and version, before anything is done."""
        entry = self._hub.registry.get_visible(name, call.caller)
        if entry is None:
            what = f"no agent {name!r:.80} here"  # as of a tenant that is not there
            raise InvalidParams(what, violations=(("tenant", what),))
        release = self._take_stream(entry) if operation in _STREAMS else None
        try:
            if operation in _SENDS:
                request = await self._admit_send(entry, call, request)
        except BaseException:
            if release is not None:
                release()
            raise
        return Admission(request, release)

    async def _admit_send(
        self, entry: Entry, call: Call, request: SendMessageRequest
    ) -> SendMessageRequest:
        message = request.message
        metadata = (request.metadata or {}) | (message.metadata or {})
        named = metadata.get("skill")
        modes = request.configuration.accepted_output_modes if request.configuration else []
        skill = await self._permit(
            entry, call.caller, named if isinstance(named, str) else "", modes
        )
        if skill and skill != named:
            message.metadata = {**(message.metadata or {}), "skill": skill}
        return request

    async def permit(self, name: str, caller: Caller, skill: str) -> tuple[str, str]:
        """Decide on a message to an entry, for whoever sends it another way. Return the entry's
        `key_of`, and the skill the message may use; empty for any.

        Raises:
            InvalidParams: There is no such agent, or none for this caller.
            PermissionDenied, TooManyRequests, ContentTypeNotSupported
        """
        entry = self._hub.registry.get_visible(name, caller)
        if entry is None:
            what = f"no agent {name!r:.80} here; name a skill as agent/skill"
            raise InvalidParams(what, violations=(("message.metadata.skill", what),))
        return key_of(entry), await self._permit(entry, caller, skill, ())

    async def _permit(self, entry: Entry, caller: Caller, named: str, modes: Sequence[str]) -> str:
        choice = self._hub.policy.choose_skill(caller, entry, skill_id(entry.card, named))
        if not choice.decision.is_allowed:
            person, reason = self._hub.people.person(caller), choice.decision.reason
            if person.role is HubRole.GUEST:
                self._hub.refused_guests.count(entry.name)
            else:
                await self._hub.audit.write(person.name, "call.refused", entry.name, reason)
            raise PermissionDenied(reason)
        self._check_limits(entry, caller, choice.decision.limit)
        _check_modes(entry, choice.skill, modes)
        return choice.skill

    def _take_stream(self, entry: Entry) -> Callable[[], None]:
        """Count a stream from before it begins: those that come together are counted too. Return
        what to call when it has ended.
        """
        streams, id_ = self._streams, entry.id
        most = entry.settings.limits.get("open_streams", 0)
        if most and streams[id_] >= most:
            raise TooManyRequests(
                f"agent {entry.name!r} has {most} open streams, as many as it may",
                retry_after_s=5,
                limit="open_streams of the entry",
            )
        streams[id_] += 1

        def release() -> None:
            streams[id_] -= 1
            if not streams[id_]:
                del streams[id_]

        return release

    def _check_limits(self, entry: Entry, caller: Caller, of_rule: int) -> None:
        limits, who, name = entry.settings.limits, caller.identity, entry.name
        of_caller = self._hub.settings.calls_per_minute
        if of_caller and self._hub.people.person(caller).role is not HubRole.ADMIN:
            self.quota.take(
                ("caller", who), of_caller, "calls_per_minute of a caller", "agents of this hub"
            )
        if most := limits.get("calls_per_minute", 0):
            self.quota.take(
                ("entry", entry.id), most, "calls_per_minute of the entry", f"agent {name!r}"
            )
        if of_rule:
            self.quota.take(
                ("rule", entry.id, who), of_rule, "limit of a rule", f"agent {name!r} by you"
            )
        if most := limits.get("open_tasks", 0):
            runs = self._hub.app.engine.runs.running()
            if sum(run.log.namespace.agent == key_of(entry) for run in runs) >= most:
                raise TooManyRequests(
                    f"agent {name!r} has {most} open tasks, as many as it may",
                    retry_after_s=5,
                    limit="open_tasks of the entry",
                )


def card_out(entry: Entry, card: AgentCard) -> AgentCard:
    """A card of the gateway: the agent's, with the hub's addresses and what the hub provides."""
    card.name = fence_line(entry.card.name, 120)
    card.description = fence_text(entry.settings.description or entry.card.description)
    card.version = fence_line(entry.card.version, 80)
    card.skills = [_fenced(skill) for skill in entry.card.skills]
    params = {"sha256": entry.card_sha256}
    if entry.signature.key_id:
        params |= {"signedBy": entry.signature.key_id, "thumbprint": entry.signature.thumbprint}
    card.capabilities.extended_agent_card = True
    card.capabilities.extensions.append(
        AgentExtension(
            uri=VIA,
            description="A gateway: the owner of the agent finds its own card at card/original.",
            params=params,
        )
    )
    return card


def _fenced(skill: AgentSkill) -> AgentSkill:
    """A skill in words that hide nothing. Its id stays: callers name it."""
    words = fence_skill(skill)
    return msgspec.structs.replace(
        skill,
        name=words["name"],
        description=words["description"],
        tags=words["tags"],
        examples=words["examples"],
        security_requirements=[],
    )


def _with_skills(card: AgentCard, allowed: Any) -> AgentCard:
    skills = [skill for skill in card.skills if skill.id in allowed]
    return msgspec.structs.replace(card, skills=skills)


def _check_modes(entry: Entry, skill: str, wanted: Sequence[str]) -> None:
    """Raise ContentTypeNotSupported if the agent gives nothing the caller takes."""
    card = entry.card
    given = {
        mode
        for one in card.skills
        if not skill or one.id == skill
        for mode in one.output_modes or card.default_output_modes
    }
    if not wanted or not given or "*/*" in (*wanted, *given) or given & set(wanted):
        return
    raise ContentTypeNotSupported(
        f"you take {', '.join(wanted)}; agent {entry.name!r} gives {', '.join(sorted(given))}",
        parameter="configuration.acceptedOutputModes",
    )
