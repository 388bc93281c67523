"""Catalogs: the entries as an AI Catalog, taken from one, and search in the form of ARD.

Both are drafts. An AI Catalog is a list of entries at /.well-known/ai-catalog.json; its readers of
before May 2026 call an entry's `type` `mediaType`, so both are written and read. ARD adds a search.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ...auth import Caller
from ...client.discovery import CARD_TYPES, CatalogFault, ListedAgent, walk_catalog
from ...model import A2AError, InvalidParams, whole_number
from ...net import AgentFault, Request, host_of
from ..access import GUEST, Networks, Policy
from ..errors import CannotAdd, address_fix
from ..find import AgentHit, Finder, SearchFilters
from ..registry import (
    AgentAdmission,
    CardReader,
    Entry,
    Registry,
    Visibility,
    sanitize_card,
    sanitize_text,
)
from .router import ApiCall, ApiRoute

__all__ = ["ArdRoutes", "CatalogRoutes", "CatalogViews"]

A2A = CARD_TYPES[0]
REGISTRY = "application/ai-registry+json"
MOST = 1000  # agents taken by one import
_BYTES = 4 << 20
_LAST_RESULT = 100_000  # where a page of a search may begin
_PAGE, _PAGE_MOST = 10, 100


def urn_of(entry: Entry, domain: str) -> str:
    team = re.sub(r"[^a-z0-9-]+", "-", entry.team.lower()).strip("-") or "agents"
    return f"urn:air:{domain}:{team}:{entry.name}"


class NewCatalog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A catalog to take agents from: its address, or itself."""

    url: str = ""
    catalog: dict[str, Any] | None = None
    visibility: Visibility = Visibility.PUBLIC
    team: str = ""


class TakenCatalog(msgspec.Struct, frozen=True):
    added: list[str]
    failed: dict[str, str]  # what was not added, and why
    passed_over: int  # entries of other kinds


class ArdQuery(msgspec.Struct, frozen=True):
    text: str = ""
    filter: dict[str, Any] = {}


class ArdRequest(msgspec.Struct, frozen=True, rename="camel"):
    query: ArdQuery
    page_size: int = _PAGE
    page_token: str = ""
    federation: str = "none"


class CatalogViews:
    """Entries as an AI Catalog and ARD write them. Texts of strangers are sanitized."""

    def __init__(self, policy: Policy, name: str, address: Callable[[], str]) -> None:
        self._policy = policy
        self._name = name  # of the hub
        self._address = address

    @property
    def search_url(self) -> str:
        """Where ARD clients search."""
        return f"{self._address()}/ard"

    @property
    def _domain(self) -> str:
        return host_of(self._address()) or "localhost"

    def catalog(self, entries: list[Entry], reader: Caller) -> dict[str, Any]:
        """Return entries as an AI Catalog, with the skills its reader may see."""
        itself = {
            "identifier": f"urn:air:{self._domain}:registry:hub",
            "displayName": self._name,
            "type": REGISTRY,
            "mediaType": REGISTRY,
            "url": self.search_url,
            "description": "Search over the agents of this hub.",
        }
        return {
            "specVersion": "1.0",
            "host": {"displayName": self._name, "identifier": self._domain},
            "entries": [itself, *(self.entry(one, reader) for one in entries)],
        }

    def entry(self, entry: Entry, reader: Caller) -> dict[str, Any]:
        """Return one entry of a catalog."""
        shown = self.card(entry, reader)
        tags = dict.fromkeys(tag for skill in shown["skills"] for tag in skill["tags"])
        queries = dict.fromkeys(text for skill in shown["skills"] for text in skill["examples"])
        return {
            "identifier": urn_of(entry, self._domain),
            "displayName": shown["name"],
            "type": A2A,
            "mediaType": A2A,
            "url": f"{self._address()}/agents/{entry.name}/.well-known/agent-card.json",
            "description": sanitize_text(entry.settings.description) or shown["description"],
            "tags": [*tags][:20],
            "representativeQueries": [*queries][:5],
            "capabilities": [skill["id"] for skill in shown["skills"]][:50],
            "version": shown["version"],
            "metadata": {"name": entry.name, "health": entry.health.state},
        }

    def card(self, entry: Entry, reader: Caller) -> dict[str, Any]:
        """Return what an agent says of itself, with the skills a reader may see."""
        seen = [
            skill
            for skill in entry.card.skills
            if self._policy.decide(reader, entry, skill.id, "see").is_allowed
        ]
        return sanitize_card(msgspec.structs.replace(entry.card, skills=seen))


class CatalogRoutes:
    """The AI Catalog of the hub, and agents taken from others'."""

    def __init__(
        self,
        registry: Registry,
        views: CatalogViews,
        admission: AgentAdmission,
        cards: CardReader,
        networks: Networks,
    ) -> None:
        self._registry = registry
        self._views = views
        self._admission = admission
        self._cards = cards
        self._networks = networks

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                "GET", "/ai-catalog.json", "guest", self._visible, "The agents this caller sees"
            ),
            ApiRoute(
                *(
                    "POST",
                    "/import/catalog",
                    "publisher",
                    self._take,
                    "Add the agents of an AI Catalog",
                ),
                takes=NewCatalog,
                gives=TakenCatalog,
            ),
        )

    def well_known(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                "GET", "/.well-known/ai-catalog.json", "guest", self._public, "The public agents"
            ),
        )

    async def _public(self, call: ApiCall) -> Any:
        visible = self._registry.visible_to(GUEST)
        public = [one for one in visible if one.visibility is Visibility.PUBLIC and one.is_callable]
        return self._views.catalog(public, GUEST)  # the same for everybody, as it can be cached

    async def _visible(self, call: ApiCall) -> Any:
        found = [one for one in self._registry.visible_to(call.caller) if one.is_callable]
        return self._views.catalog(found, call.caller)

    async def _take(self, call: ApiCall) -> Any:
        given: NewCatalog = call.body
        if bool(given.url) == (given.catalog is not None):
            raise InvalidParams("give the catalog's url, or the catalog itself")
        found, others = await self._agents_in(given.url, given.catalog)
        added: list[str] = []
        failed: dict[str, str] = {}
        for one in found:
            try:
                entry = await self._admission.add(
                    call.principal,
                    caller=call.caller,
                    url=one.url,
                    card=b"" if one.url else msgspec.json.encode(one.card),
                    name=self._free(call, one),
                    visibility=given.visibility,
                    team=given.team,
                )
            except A2AError as error:
                failed[sanitize_text(one.short_name or one.name, 120)] = str(error)
            else:
                added.append(entry.name)
        return TakenCatalog(added, failed, others)

    def _free(self, call: ApiCall, one: ListedAgent) -> str:
        """The name of a new entry; empty if it can't be had: then the card decides."""
        fits = re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", one.short_name) is not None
        is_taken = self._registry.get_visible(one.short_name, call.caller) is not None
        return one.short_name if fits and not is_taken else ""

    async def _agents_in(
        self, url: str, catalog: dict[str, Any] | None
    ) -> tuple[list[ListedAgent], int]:
        """Return the agents of a catalog and of those in it, and how many other entries there are.

        Raises CannotAdd, also for one that has more than an import may read: then nothing is added.
        """
        found: list[ListedAgent] = []
        others = 0
        try:
            async for agent in walk_catalog(self._fetch, url, catalog):
                if agent is None or not (agent.url or agent.card):
                    others += 1
                    continue
                found.append(agent)
                if len(found) > MOST:
                    raise CatalogFault(f"the catalog has more than {MOST} agents")
        except CatalogFault as error:
            fix = "give the address of an ai-catalog.json, or import parts of it"
            raise CannotAdd(str(error), fix=fix) from None
        return found, others

    async def _fetch(self, url: str) -> Any:
        """Fetch a catalog through the guard."""
        try:
            self._networks.guard().check_url(url)
        except ValueError as error:
            raise CannotAdd(
                f"{url[:200]} can't be called: {error}",
                fix=address_fix(url),
            ) from None
        http = self._cards.http()
        request = Request("GET", url, timeout_s=15.0, headers={"Accept": "application/json"})
        try:
            answer = await http.fetch(request, limit=_BYTES)
        except AgentFault as error:
            raise CannotAdd(f"can't fetch the catalog: {error}", fix="check the address") from None
        finally:
            await http.close()
        if answer.status != 200:
            raise CannotAdd(f"{url[:200]} answers HTTP {answer.status}", fix="check the address")
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise CannotAdd(f"{url[:200]} is not JSON", fix="check the address") from None


class ArdRoutes:
    """Search in the form of ARD."""

    def __init__(
        self,
        registry: Registry,
        views: CatalogViews,
        finder: Finder,
    ) -> None:
        self._registry = registry
        self._views = views
        self._finder = finder

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute("POST", "/ard/search", "guest", self._ard_search, "Search", takes=ArdRequest),
            ApiRoute("POST", "/ard/explore", "guest", self._ard_explore, "What there is, by tag"),
            ApiRoute(
                "GET",
                "/ard/agents",
                "guest",
                self._ard_agents,
                "All agents",
                query=("pageSize", "pageToken"),
            ),
        )

    async def _ard_search(self, call: ApiCall) -> Any:
        asked: ArdRequest = call.body
        kinds = asked.query.filter.get("type")
        wanted = kinds if isinstance(kinds, list) else [kinds] if kinds else []
        if wanted and not any(kind in CARD_TYPES for kind in wanted):
            return {"results": [], "referrals": []}
        tags = asked.query.filter.get("tags")
        tag = tags[0] if isinstance(tags, list) and tags else tags
        start = whole_number(asked.page_token or "0", _LAST_RESULT)
        if start is None:
            what = "is not a token this hub gave; start again without one"
            raise InvalidParams(f"pageToken: {what}", violations=(("pageToken", what),))
        size = min(max(asked.page_size, 1), _PAGE_MOST)
        found = await self._finder.search(
            call.caller,
            asked.query.text,
            SearchFilters(tag=tag if isinstance(tag, str) else ""),
            limit=start + size,
        )
        results = [self._result(call, hit) for hit in found.agents[start:]]
        more = {"nextPageToken": str(start + size)} if found.total > start + size else {}
        return {"results": [one for one in results if one], "referrals": [], **more}

    def _result(self, call: ApiCall, hit: AgentHit) -> dict[str, Any]:
        entry = self._registry.get(hit.agent)
        if entry is None:
            return {}
        shown = self._views.entry(entry, call.caller)
        return {**shown, "score": hit.score, "source": self._views.search_url}

    async def _ard_agents(self, call: ApiCall) -> Any:
        found = [one for one in self._registry.visible_to(call.caller) if one.is_callable]
        start = call.number("pageToken", 0, 10**9)
        size = call.number("pageSize", _PAGE, _PAGE_MOST) or _PAGE
        page = [self._views.entry(entry, call.caller) for entry in found[start : start + size]]
        more = {"nextPageToken": str(start + size)} if len(found) > start + size else {}
        return {"results": page, **more}

    async def _ard_explore(self, call: ApiCall) -> Any:
        """How many agents there are by tag: what a client shows before anything is asked for."""
        counts: dict[str, int] = {}
        for entry in self._registry.visible_to(call.caller):
            skills = self._views.card(entry, call.caller)["skills"]
            for tag in {tag for skill in skills for tag in skill["tags"]}:
                counts[tag] = counts.get(tag, 0) + 1
        top = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:50]
        return {"facets": {"tags": [{"value": tag, "count": count} for tag, count in top]}}
