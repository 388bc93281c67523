"""Catalogs: the entries as an AI Catalog, taken from one, and search in the form of ARD.

Both are drafts. An AI Catalog is a list of entries at /.well-known/ai-catalog.json; its readers of
before May 2026 call an entry's `type` `mediaType`, so both are written and read. ARD adds a search.
"""

import re
from typing import Any
from urllib.parse import urljoin

import msgspec

from ...auth import Caller
from ...model import A2AError, InvalidParams, whole_number
from ...net import AgentFault, Request, host_of
from ..access import GUEST
from ..errors import CannotAdd
from ..find import AgentHit, SearchFilters
from ..registry import Entry, Visibility, fence_card, fence_text
from .router import ApiCall, ApiRoute

__all__ = ["A2A_TYPES", "ARD_ROUTES", "CATALOG_ROUTES", "ROUTES", "catalog_of", "entries_in"]

A2A = "application/a2a-agent-card+json"
CATALOG = "application/ai-catalog+json"
REGISTRY = "application/ai-registry+json"
A2A_TYPES = (A2A, "application/agent-card+json", "application/a2a+json")
DEPTH = 4  # how deep catalogs may be nested
MOST = 1000  # agents taken by one import
CATALOGS = 50  # fetched by one import: each may name many others
READ = 10_000  # entries of any kind looked at by one import
_BYTES = 4 << 20
_LAST_RESULT = 100_000  # where a page of a search may begin
_PAGE, _PAGE_MOST = 10, 100


class Found(msgspec.Struct, frozen=True):
    """An A2A entry of a catalog: an address, or the card itself."""

    name: str
    url: str = ""
    card: Any = None


# Out


def catalog_of(call: ApiCall, entries: list[Entry], reader: Caller) -> dict[str, Any]:
    """Return entries as an AI Catalog, with the skills its reader may see. Texts of strangers are
    fenced.
    """
    base = call.hub.address
    domain = host_of(base) or "localhost"
    listed = [_entry(call, entry, domain, reader) for entry in entries]
    itself = {
        "identifier": f"urn:air:{domain}:registry:hub",
        "displayName": call.hub.settings.name,
        "type": REGISTRY,
        "mediaType": REGISTRY,
        "url": f"{base}/ard",
        "description": "Search over the agents of this hub.",
    }
    return {
        "specVersion": "1.0",
        "host": {"displayName": call.hub.settings.name, "identifier": domain},
        "entries": [itself, *listed],
    }


def _entry(call: ApiCall, entry: Entry, domain: str, reader: Caller) -> dict[str, Any]:
    shown = _shown(call, entry, reader)
    tags = dict.fromkeys(tag for skill in shown["skills"] for tag in skill["tags"])
    queries = dict.fromkeys(text for skill in shown["skills"] for text in skill["examples"])
    return {
        "identifier": urn_of(entry, domain),
        "displayName": shown["name"],
        "type": A2A,
        "mediaType": A2A,
        "url": f"{call.hub.address}/agents/{entry.name}/.well-known/agent-card.json",
        "description": fence_text(entry.settings.description) or shown["description"],
        "tags": [*tags][:20],
        "representativeQueries": [*queries][:5],
        "capabilities": [skill["id"] for skill in shown["skills"]][:50],
        "version": shown["version"],
        "metadata": {"name": entry.name, "health": entry.health.state},
    }


def _shown(call: ApiCall, entry: Entry, reader: Caller) -> dict[str, Any]:
    """What an agent says of itself, with the skills a reader may see."""
    policy = call.hub.policy
    seen = [
        skill
        for skill in entry.card.skills
        if policy.decide(reader, entry, skill.id, "see").is_allowed
    ]
    return fence_card(msgspec.structs.replace(entry.card, skills=seen))


def urn_of(entry: Entry, domain: str) -> str:
    team = re.sub(r"[^a-z0-9-]+", "-", entry.team.lower()).strip("-") or "agents"
    return f"urn:air:{domain}:{team}:{entry.name}"


async def _public(call: ApiCall) -> Any:
    visible = call.hub.registry.visible_to(GUEST)
    public = [one for one in visible if one.visibility is Visibility.PUBLIC and one.is_callable]
    return catalog_of(call, public, GUEST)  # the same for everybody, as it can be cached


async def _visible(call: ApiCall) -> Any:
    found = [one for one in call.hub.registry.visible_to(call.caller) if one.is_callable]
    return catalog_of(call, found, call.caller)


# In


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


async def _take(call: ApiCall) -> Any:
    given: NewCatalog = call.body
    if bool(given.url) == (given.catalog is not None):
        raise InvalidParams("give the catalog's url, or the catalog itself")
    found, others = await entries_in(call, given.url, given.catalog)
    added: list[str] = []
    failed: dict[str, str] = {}
    for one in found:
        try:
            entry = await call.hub.registry.add(
                call.person,
                caller=call.caller,
                url=one.url,
                card=b"" if one.url else msgspec.json.encode(one.card),
                name=_free(call, one),
                visibility=given.visibility,
                team=given.team,
            )
        except A2AError as error:
            failed[fence_text(one.name, 120)] = str(error)
        else:
            added.append(entry.name)
    return TakenCatalog(added, failed, others)


def _free(call: ApiCall, one: Found) -> str:
    """The name of a new entry; empty if it can't be had: then the card decides."""
    fits = re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", one.name) is not None
    is_taken = call.hub.registry.get_visible(one.name, call.caller) is not None
    return one.name if fits and not is_taken else ""


class _Reading:
    """What one import has read so far, over all the catalogs in it."""

    def __init__(self) -> None:
        self._catalogs = self._entries = 0

    def count_catalog(self) -> None:
        self._catalogs += 1
        if self._catalogs > CATALOGS:
            raise CannotAdd(f"it names more than {CATALOGS} catalogs", fix="import parts of it")

    def count_entry(self) -> None:
        self._entries += 1
        if self._entries > READ:
            raise CannotAdd(f"the catalog has more than {READ} entries", fix="import parts of it")


async def entries_in(
    call: ApiCall,
    url: str,
    catalog: dict[str, Any] | None,
    depth: int = 1,
    reading: _Reading | None = None,
) -> tuple[list[Found], int]:
    """Return the A2A entries of a catalog and of those in it, and how many others there are.

    Raises CannotAdd, also for one that has more than an import may read: then nothing is added.
    """
    reading = reading or _Reading()
    if catalog is None:
        reading.count_catalog()
        catalog = await _fetch(call, url)
    listed = catalog.get("entries")
    if not isinstance(listed, list):
        raise CannotAdd(
            "this is no AI Catalog: it has no list of entries",
            fix="give the address of an ai-catalog.json",
        )
    found: list[Found] = []
    others = 0
    for one in listed:
        reading.count_entry()
        if not isinstance(one, dict):
            others += 1
            continue
        kind = str(one.get("type") or one.get("mediaType") or "").partition(";")[0].strip().lower()
        address, data = one.get("url"), one.get("data")
        where = urljoin(url, address) if isinstance(address, str) and address else ""
        name = _name(one)
        if kind in A2A_TYPES and (where or isinstance(data, dict)):
            found.append(Found(name, where, None if where else data))
        elif kind == CATALOG and depth < DEPTH and (where or isinstance(data, dict)):
            inner = data if not where and isinstance(data, dict) else None
            more, rest = await entries_in(call, where or url, inner, depth + 1, reading)
            found, others = found + more, others + rest
        else:
            others += 1
        if len(found) > MOST:
            raise CannotAdd(f"the catalog has more than {MOST} agents", fix="import parts of it")
    return found, others


def _name(entry: dict[str, Any]) -> str:
    metadata = entry.get("metadata")
    named = metadata.get("name") if isinstance(metadata, dict) else None
    return str(named or str(entry.get("identifier") or "").rpartition(":")[2])[:200]


async def _fetch(call: ApiCall, url: str) -> dict[str, Any]:
    """Fetch a catalog through the guard."""
    try:
        call.hub.networks.guard().check_url(url)
    except ValueError as error:
        raise CannotAdd(
            f"{url[:200]} can't be called: {error}",
            fix="an admin allows private networks with: accord hub network add HOST",
        ) from None
    http = call.hub.cards.http()
    request = Request("GET", url, timeout_s=15.0, headers={"Accept": "application/json"})
    try:
        answer = await http.fetch(request, limit=_BYTES)
    except AgentFault as error:
        raise CannotAdd(f"the catalog can't be had: {error}", fix="check the address") from None
    finally:
        await http.close()
    if answer.status != 200:
        raise CannotAdd(f"{url[:200]} answers HTTP {answer.status}", fix="check the address")
    try:
        value = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CannotAdd(f"{url[:200]} is not JSON", fix="check the address") from None
    if not isinstance(value, dict):
        raise CannotAdd(f"{url[:200]} is no AI Catalog", fix="check the address")
    return value


# ARD


class ArdQuery(msgspec.Struct, frozen=True):
    text: str = ""
    filter: dict[str, Any] = {}


class ArdRequest(msgspec.Struct, frozen=True, rename="camel"):
    query: ArdQuery
    page_size: int = _PAGE
    page_token: str = ""
    federation: str = "none"


async def _ard_search(call: ApiCall) -> Any:
    asked: ArdRequest = call.body
    kinds = asked.query.filter.get("type")
    wanted = kinds if isinstance(kinds, list) else [kinds] if kinds else []
    if wanted and not any(kind in A2A_TYPES for kind in wanted):
        return {"results": [], "referrals": []}
    tags = asked.query.filter.get("tags")
    tag = tags[0] if isinstance(tags, list) and tags else tags
    start = whole_number(asked.page_token or "0", _LAST_RESULT)
    if start is None:
        what = "is not a token this hub gave; start again without one"
        raise InvalidParams(f"pageToken: {what}", violations=(("pageToken", what),))
    size = min(max(asked.page_size, 1), _PAGE_MOST)
    found = await call.hub.finder.search(
        call.caller,
        asked.query.text,
        SearchFilters(tag=tag if isinstance(tag, str) else ""),
        limit=start + size,
    )
    results = [_result(call, hit) for hit in found.agents[start:]]
    more = {"nextPageToken": str(start + size)} if found.total > start + size else {}
    return {"results": [one for one in results if one], "referrals": [], **more}


def _result(call: ApiCall, hit: AgentHit) -> dict[str, Any]:
    entry = call.hub.registry.get(hit.agent)
    if entry is None:
        return {}
    shown = _entry(call, entry, host_of(call.hub.address) or "localhost", call.caller)
    return {**shown, "score": hit.score, "source": f"{call.hub.address}/ard"}


async def _ard_agents(call: ApiCall) -> Any:
    domain = host_of(call.hub.address) or "localhost"
    found = [one for one in call.hub.registry.visible_to(call.caller) if one.is_callable]
    start = call.number("pageToken", 0, 10**9)
    size = call.number("pageSize", _PAGE, _PAGE_MOST) or _PAGE
    page = [_entry(call, entry, domain, call.caller) for entry in found[start : start + size]]
    more = {"nextPageToken": str(start + size)} if len(found) > start + size else {}
    return {"results": page, **more}


async def _ard_explore(call: ApiCall) -> Any:
    """How many agents there are by tag: what a client shows before anything is asked for."""
    counts: dict[str, int] = {}
    for entry in call.hub.registry.visible_to(call.caller):
        tags = {
            tag for skill in _shown(call, entry, call.caller)["skills"] for tag in skill["tags"]
        }
        for tag in tags:
            counts[tag] = counts.get(tag, 0) + 1
    top = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:50]
    return {"facets": {"tags": [{"value": tag, "count": count} for tag, count in top]}}


ROUTES = (
    ApiRoute("GET", "/ai-catalog.json", "guest", _visible, "The agents this caller sees"),
    ApiRoute(
        *("POST", "/import/catalog", "publisher", _take, "Add the agents of an AI Catalog"),
        takes=NewCatalog,
        gives=TakenCatalog,
    ),
)
CATALOG_ROUTES = (
    ApiRoute("GET", "/.well-known/ai-catalog.json", "guest", _public, "The public agents"),
)
ARD_ROUTES = (
    ApiRoute("POST", "/ard/search", "guest", _ard_search, "Search", takes=ArdRequest),
    ApiRoute("POST", "/ard/explore", "guest", _ard_explore, "What there is, by tag"),
    ApiRoute("GET", "/ard/agents", "guest", _ard_agents, "All agents", query=("pageSize",)),
)
