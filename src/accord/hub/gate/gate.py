"""The gateway: `/agents/{name}` is an agent, whatever version and binding the one behind it speaks.

A call is answered by a relay (`accord.relay`) on the hub's own engine and store. So ids are the
hub's, callers who share the hub's credential at an agent don't see each other's tasks, and what is
stored can be read while the agent is away.
"""

import functools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from ...agent import Agent
from ...app import AgentRouter, App
from ...auth import Auth, Caller
from ...engine.skills import definition_of
from ...model import A2AError, AgentCard, SendMessageRequest
from ...operations import Admission, Call, Service, no_agent
from ...server import HttpRequest, HttpResponse, StreamingResponse, opaque
from ...server.http import CardEndpoint
from ...store import Ages
from ..access import Callers
from ..errors import EntryNotFound
from ..registry import Entry, Registry
from .cards import card_out, with_skills
from .limits import CallLimits
from .permits import Permits
from .upstream import Upstreams, key_of

__all__ = ["FORGET_S", "Gate"]

log_ = logging.getLogger("accord.hub")

PREFIX = "/agents"
FORGET_S = 10.0  # between two looks for tasks that are not to be kept
FORGET_MOST = 200  # at once
_SENDS = ("SendMessage", "SendStreamingMessage")
_STREAMS = ("SendStreamingMessage", "SubscribeToTask")
_ORIGINAL_HEADERS = ((b"cache-control", b"private, max-age=60"),)  # not everybody gets it


class _EntryEndpoints:
    """Hold what answers for an entry, as long as its approved card is the same."""

    def __init__(self, version: tuple[Any, ...], make: Callable[[], AgentRouter]) -> None:
        self.version = version
        self.cards: dict[tuple[str, ...], CardEndpoint] = {}  # by the skills a reader may call
        self._make = make

    @functools.cached_property
    def router(self) -> AgentRouter:
        """Return its router, made when the entry is first called: most of a large hub's are not."""
        return self._make()


class Gate:
    """Serves the approved entries, each to those who may see and call it."""

    def __init__(
        self,
        app: App,
        auth: Auth,
        registry: Registry,
        callers: Callers,
        permits: Permits,
        limits: CallLimits,
        upstreams: Upstreams,
    ) -> None:
        self._app = app
        self._auth = auth
        self._registry = registry
        self._callers = callers
        self._permits = permits
        self._limits = limits
        self.upstreams = upstreams
        self.keep_none_s = 60.0  # how long ended tasks of entries with `keep=none` can be read
        self._endpoints: dict[str, _EntryEndpoints] = {}  # by name
        registry.on_change(self._changed)
        app.mount(PREFIX, self.answer)
        app.use_tenants(self)

    # Entries

    def _changed(self, entry: Entry) -> None:
        """Have the agent of a callable entry ready: what a dead process left is taken up."""
        known = self._registry.get(entry.name)
        if known is None:
            self._endpoints.pop(entry.name, None)
        elif known.id == entry.id and entry.approved:
            version = (entry.id, entry.approved, entry.settings.description)
            before = self._endpoints.get(entry.name)
            if before is None or before.version != version:
                agent = self._agent(entry)
                self._app.engine.add(definition_of(agent), replaces=True)
                make = functools.partial(self._router, agent, entry.name)
                self._endpoints[entry.name] = _EntryEndpoints(version, make)

    def _agent(self, entry: Entry) -> Agent:
        agent = Agent.proxy(
            entry.card,
            name=key_of(entry),
            auth=self._auth,
            connect=functools.partial(self.upstreams.connect, key_of(entry)),
        )
        agent.card(functools.partial(card_out, entry))
        definition_of(agent).extend_card = functools.partial(self._card_for, entry.name)
        return agent

    def _router(self, agent: Agent, name: str) -> AgentRouter:
        router = self._app.router_for(definition_of(agent), f"{PREFIX[1:]}/{name}")
        service = router.endpoints.service
        service.admit = functools.partial(self._admit, name)
        service.admit_upload = functools.partial(self._admit_upload, name)
        return router

    def service_of(self, tenant: str) -> Service | None:
        """The service of an entry, by its name; whoever calls."""
        found = self._endpoints.get(tenant)
        return found.router.endpoints.service if found is not None else None

    # Tenants

    async def find(self, name: str) -> Service | None:
        """Return the service of an entry, also of one that another hub added a moment ago."""
        if name not in self._endpoints:
            await self._registry.catch_up()
        return self.service_of(name)

    def names(self, caller: Caller) -> Iterator[str]:
        return self._registry.names(caller)

    def path_of(self, name: str) -> str:
        return f"{PREFIX[1:]}/{name}"

    async def forget(self) -> None:
        """Delete tasks that have ended, as their entries' settings say: `keep=none` a minute after
        the end, else after `tasks_days`, if that is sooner than the hub's own retention.
        """
        store = self._app.engine.tasks.store
        for entry in self._registry.all():
            settings = entry.settings
            days_s = settings.tasks_days * 24 * 3600
            age_s = self.keep_none_s if settings.keep == "none" else days_s
            if age_s >= self._app.engine.retention.tasks_s:
                continue
            age_ms = int(age_s * 1000)
            ages = Ages(age_ms, age_ms, agent=key_of(entry))
            while await store.purge(ages, FORGET_MOST) >= FORGET_MOST:
                pass

    # HTTP

    async def answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request below `/agents`."""
        watcher, since_s = self._app.on_exchange, time.monotonic()
        answer = await self._answer(request)
        return answer if watcher is None else watcher(request, answer, since_s)

    async def _answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        name, _, rest = request.target.raw.removeprefix(f"{PREFIX}/").partition("/")
        inner = request.below(f"{PREFIX}/{name}")
        try:
            if name == ".well-known":
                place = f"{self._app.address}{PREFIX}/NAME"
                raise EntryNotFound(
                    f"no agent is at {PREFIX} itself. A client that resolves addresses against "
                    f"{place} leaves out the name: give it {place}/ with the slash"
                )
            caller = await self._callers.of(request)
            entry, endpoints = self._registry.get_visible(name, caller), self._endpoints.get(name)
            if entry is None or endpoints is None:  # another hub may have added it a moment ago
                await self._registry.catch_up()
                entry, endpoints = self._registry.find(name, caller), self._endpoints.get(name)
            if endpoints is None:
                raise EntryNotFound.of_agent(name)
            if rest == "card/original" and request.target.verb in ("GET", "HEAD"):
                return self._original(entry, caller)
            router = endpoints.router
            if inner.target.path in router.card_paths and request.target.verb in ("GET", "HEAD"):
                return self._card_endpoint(endpoints, entry, caller)(inner)
        except A2AError as error:
            return self._app.refusal(inner, error)
        except Exception:
            return self._app.refusal(inner, opaque())
        return await router.answer_as(inner, caller)

    # Cards

    def _original(self, entry: Entry, caller: Caller) -> HttpResponse:
        """The approved card as it came. It names the agent's own addresses."""
        if not self._permits.owns(caller, entry):
            raise EntryNotFound(
                f"the original card of {entry.name} is for its owner and for admins",
                fix=f"read {PREFIX}/{entry.name}/.well-known/agent-card.json",
            )
        return HttpResponse(200, entry.card_raw, headers=_ORIGINAL_HEADERS)

    def _card_endpoint(
        self, endpoints: _EntryEndpoints, entry: Entry, caller: Caller
    ) -> CardEndpoint:
        """Return the card as this caller sees it: with the skills they may see and call."""
        skills = tuple(self._permits.skills(entry, caller))
        found = endpoints.cards.get(skills)
        if found is None:
            router = endpoints.router

            def card(base: str) -> AgentCard:
                return with_skills(router.endpoints.card(base), skills)

            found = endpoints.cards[skills] = router.card_endpoint_of(card)
        return found

    def _card_for(self, name: str, card: AgentCard, caller: Caller) -> AgentCard:
        entry = self._registry.get(name)
        return card if entry is None else with_skills(card, self._permits.skills(entry, caller))

    # Calls

    async def _admit(self, name: str, operation: str, call: Call, request: Any) -> Admission:
        """Decide on a call, once for every binding and version, before anything is done."""
        entry = self._registry.get_visible(name, call.caller)
        if entry is None:  # the same as for a tenant that is not there
            await self._registry.catch_up()
            entry = self._registry.get_visible(name, call.caller)
        if entry is None:
            raise no_agent(name, self.names(call.caller))
        release = self._limits.take_stream(entry) if operation in _STREAMS else None
        try:
            if operation in _SENDS:
                request = self._admit_send(entry, call, request)
        except BaseException:
            if release is not None:
                release()
            raise
        return Admission(request, release)

    def _admit_upload(self, name: str, caller: Caller) -> None:
        """Decide on a file that is uploaded for a message to come."""
        self._permits.permit_upload(self._registry.find(name, caller), caller)

    def _admit_send(
        self, entry: Entry, call: Call, request: SendMessageRequest
    ) -> SendMessageRequest:
        message = request.message
        metadata = (request.metadata or {}) | (message.metadata or {})
        named = metadata.get("skill")
        modes = request.configuration.accepted_output_modes if request.configuration else []
        skill = self._permits.permit_entry(
            entry, call.caller, named if isinstance(named, str) else "", modes
        )
        if skill and skill != named:
            message.metadata = {**(message.metadata or {}), "skill": skill}
        return request
