"""Finding an agent's card: at its well-known places, at a URL of its own, in a file, or handed
over.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urljoin

import msgspec

from ...model import (
    MAX_SIGNATURES,
    AgentCard,
    InvalidParams,
    ParseError,
    PermissionDenied,
    Unauthenticated,
    whole_number,
)
from ...net import Http, Request, Response, host_of, parse_url, safe_url
from ...protocol import NEWEST, lenient, status_error, text
from ..bindings import seconds
from ..budget import Budget, check_depth
from ..errors import AgentFault, BadAnswer, BadCard, UntrustedCard
from .catalog import CATALOG_PLACE, CatalogFault, ListedAgent, is_catalog, walk_catalog
from .repair import NoInterface, read_card

if TYPE_CHECKING:
    from ...auth import PublicKey, Trust

__all__ = [
    "PLACES",
    "CardFile",
    "Cards",
    "card_of",
    "fetch_card",
    "get_card",
    "get_catalog",
    "open_card",
    "read_json",
    "verify_card",
]

PLACES = ("/.well-known/agent-card.json", "/.well-known/agent.json")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_REDIRECTS = 3
_NOT_NOW = (429, 502, 503, 504)
_KEEP_S = 3600.0
_DOMAIN = "a2a-protocol.org"  # of the reasons of errors
_SAID = 300  # characters of what a server says

_json = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode

# Returns what counts of a card, given as JSON with the place it was found at.
Verify: TypeAlias = Callable[[Any, str], Awaitable[Any]]


class _RefusalDetails(msgspec.Struct):
    details: list[dict[str, Any]]
    message: str = ""


class _Refusal(msgspec.Struct):
    """An error over HTTP+JSON, as far as it is read here."""

    error: _RefusalDetails


class _CachedCard(msgspec.Struct):
    body: bytes
    etag: str
    modified: str
    until: float
    server: str


class Cards:
    """Cards fetched before: used again while they are fresh, asked for by their tag after that (of
    RFC 9111, what matters).
    """

    def __init__(
        self,
        limit: int = 256,
        clock: Callable[[], float] = time.monotonic,
        *,
        trusts_loopback: bool = True,
    ) -> None:
        # On one's own machine agents come and go, and the next one may have the port: there a card
        # is asked for each time.
        self._trusts_loopback = trusts_loopback
        self._cached: OrderedDict[str, _CachedCard] = OrderedDict()
        self._limit = limit
        self._clock = clock

    def fresh(self, url: str) -> bytes | None:
        cached = self._cached.get(url)
        if cached is None or self._clock() >= cached.until:
            return None
        return cached.body if self._trusts_loopback or host_of(url) not in LOOPBACK else None

    def server(self, url: str) -> str:
        """Return the `Server` header that came with a cached card."""
        cached = self._cached.get(url)
        return cached.server if cached is not None else ""

    def conditions(self, url: str) -> dict[str, str]:
        """The headers that ask whether a card has changed."""
        cached = self._cached.get(url)
        if cached is None:
            return {}
        return (
            {"If-None-Match": cached.etag}
            if cached.etag
            else {"If-Modified-Since": cached.modified}
        )

    def take(self, url: str, answer: Response) -> bytes:
        """Return the card of an answer, an unchanged one included, and keep it if that is
        allowed.
        """
        cached = self._cached.get(url)
        rules = _directives(answer.headers.get("Cache-Control") or "")
        age_s = whole_number(rules.get("max-age", "")) or 0
        until = self._clock() + min(age_s, _KEEP_S)
        if answer.status == 304 and cached is not None:
            cached.until = until
            return cached.body
        etag, modified = answer.headers.get("ETag") or "", answer.headers.get("Last-Modified") or ""
        if "no-store" not in rules and (etag or modified or age_s):
            self._cached[url] = _CachedCard(
                answer.body, etag, modified, until, answer.headers.get("Server") or ""
            )
            self._cached.move_to_end(url)
            if len(self._cached) > self._limit:
                self._cached.popitem(last=False)
        else:
            self._cached.pop(url, None)
        return answer.body


def _directives(header: str) -> dict[str, str]:
    pairs = (item.strip().partition("=") for item in header[:1000].split(","))
    return {name.lower(): value.strip('"') for name, _, value in pairs}


async def fetch_card(
    url: str,
    http: Http,
    budget: Budget,
    cards: Cards | None,
    notes: list[str],
    verified: Verify | None = None,
) -> tuple[AgentCard, str]:
    """Return the card of the agent at `url`, and what the server that gave it calls itself; empty
    if it does not say.

    Raises:
        BadCard: There is none, or none that can be used.
        AgentFault: The agent can't be reached.
        Unavailable, TooManyRequests: Not now.
        Unauthenticated, PermissionDenied: The card is not for everyone.
    """
    found = await get_card(url, http, budget, cards, notes)
    value = read_json(found.body, found.place, budget)
    if verified is not None:
        value = await verified(value, found.place)
    return card_of(value, found.place, notes), found.server


class CardFile(NamedTuple):
    """A card as its server gave it."""

    place: str  # its URL
    body: bytes
    server: str  # what gave it calls itself; empty if it does not say


async def get_card(
    url: str, http: Http, budget: Budget, cards: Cards | None, notes: list[str]
) -> CardFile:
    """Return the card of the agent at `url`, not read yet. Raises as `fetch_card`."""
    tried: list[str] = []
    not_now: Response | None = None
    for place in _places(url):
        if not_now is not None and _is_of_host(place, url):
            break  # the agent is there, and what is for it must not be sent to another
        answer = await _get(place, http, budget, cards)
        if answer.status == 200 and _may_be_card(answer, place, url):
            if tried:
                notes.append(f"no card at {tried[0]}; found at {safe_url(place)}")
            return CardFile(place, answer.body, answer.headers.get("Server") or "")
        if answer.status == 401:
            raise Unauthenticated(
                f"{safe_url(place)}: the card needs authentication; connect with auth="
            )
        if answer.status == 403:
            raise PermissionDenied(
                f"{safe_url(place)}: the agent refuses these credentials for its card"
            )
        if (said := _no_agent(answer)) is not None:
            # The card of the host itself is that of another agent, which must not be sent what is
            # for this one.
            what = "its server says that no agent is there" + (f": {said}" if said else "")
            raise BadCard(safe_url(url), what, cause="missing")
        tried.append(f"{safe_url(place)} (HTTP {answer.status})")
        if answer.status in _NOT_NOW:
            not_now = answer
    if not_now is None and (found := await _in_catalog(url, http, budget, tried)) is not None:
        notes.append(f"no card at {tried[0]}; found in the catalog of {safe_url(url)}")
        return found
    what = "no agent card there; looked at " + ", ".join(tried)
    if not_now is not None:
        refused = status_error(
            not_now.status, f"{safe_url(url)}: {what}", seconds(not_now.headers.get("Retry-After"))
        )
        assert refused is not None  # that is what `_NOT_NOW` lists
        raise refused
    raise BadCard(safe_url(url), what, cause="missing")


def _no_agent(answer: Response) -> str | None:
    """Return what a server of several agents says if there is none at an address; None for another
    answer. Most servers that answer with 404 know nothing of agents.
    """
    try:
        error = msgspec.json.decode(answer.body, type=_Refusal).error
    except msgspec.MsgspecError:
        return None
    is_said = answer.status == 404 and any(
        (one.get("reason"), one.get("domain")) == ("NOT_FOUND", _DOMAIN) for one in error.details
    )
    return error.message[:_SAID] if is_said else None


async def _in_catalog(url: str, http: Http, budget: Budget, tried: list[str]) -> CardFile | None:
    """Return the card of the one agent that the catalog of this host lists; None if it lists none.

    Raises:
        BadCard: It lists several, or `url` has a path, so that the one may be another agent; names
          them.
    """
    where = parse_url(url)
    if where.path.endswith(".json") or "/.well-known/" in where.path:
        return None
    catalog = await get_catalog(url, http, budget)
    place, listed = catalog.place, catalog.agents
    if catalog.status != 200:
        tried.append(f"{safe_url(place)} (HTTP {catalog.status})")
        return None
    if not listed:
        tried.append(f"{safe_url(place)} (which lists no agent)")
        return None
    if len(listed) > 1 or where.path.rstrip("/"):
        names = ", ".join(f"{agent.name!r} ({safe_url(agent.url)[:200]})" for agent in listed[:20])
        more = f" and {len(listed) - 20} more" if len(listed) > 20 else ""
        raise BadCard(
            safe_url(url),
            f"its catalog lists {len(listed)} agent{'s' * (len(listed) > 1)}: {names}{more}; "
            "connect to the card of one of them",
            cause="several",
        )
    if listed[0].card is not None:
        return CardFile(place, _encode(listed[0].card), catalog.server)
    found = await _get(listed[0].url, http, budget, None)
    if found.status != 200:
        tried.append(f"{safe_url(listed[0].url)} (HTTP {found.status})")
        return None
    return CardFile(listed[0].url, found.body, found.headers.get("Server") or "")


class HostCatalog(NamedTuple):
    """The AI Catalog of a host, as it was answered."""

    place: str  # its URL
    status: int
    agents: list[ListedAgent]
    server: str  # what gave it calls itself; empty if it does not say


async def get_catalog(url: str, http: Http, budget: Budget) -> HostCatalog:
    """Return the catalog of the host of `url`, with the agents of those it names. It lists no agent
    if there is none that can be read.

    Raises:
        AgentFault: The host can't be reached; BadCard: a catalog that it names can't be read.
    """
    place = str(parse_url(url)._replace(path=CATALOG_PLACE, query=""))
    answer = await _get(place, http, budget, None)
    agents: list[ListedAgent] = []
    if answer.status == 200:
        try:
            async with asyncio.timeout(budget.card_s):
                agents = [agent async for agent in _listed_in(answer.body, place, http, budget)]
        except CatalogFault as error:
            raise BadCard(safe_url(place), str(error)) from None
        except TimeoutError:
            what = f"the catalogs it names were not read within {budget.card_s:g} s"
            raise BadCard(safe_url(place), what) from None
    return HostCatalog(place, answer.status, agents, answer.headers.get("Server") or "")


async def _listed_in(
    body: bytes, place: str, http: Http, budget: Budget
) -> AsyncIterator[ListedAgent]:
    """Yield the agents of a catalog that have a card; none if it is something else."""

    async def fetch(inner: str) -> Any:
        found = await _get(inner, http, budget, None)
        if found.status != 200:
            raise BadCard(safe_url(inner), f"the catalog can't be read: HTTP {found.status}")
        return read_json(found.body, inner, budget)

    try:
        catalog = read_json(body, place, budget)
    except BadCard:  # many servers answer any path with a page
        return
    if not is_catalog(catalog):
        return
    async for agent in walk_catalog(fetch, place, catalog):
        if agent is not None and (agent.url or agent.card):
            yield agent


def read_json(body: bytes, url: str, budget: Budget) -> Any:
    """Return the JSON value in `body`, which may be a card. Raises BadCard."""
    where = safe_url(url) if url else "the card given"
    if len(body) > budget.card_bytes:
        raise BadCard(where, f"the card is larger than {budget.card_bytes} bytes")
    try:
        check_depth(body, budget.card_depth)
        return _json.decode(body)
    except ParseError as error:
        raise BadCard(where, f"the card is {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = f"the card is not JSON: {text.parse_error(error)}"
        raise BadCard(where, what, cause="not JSON") from None


def open_card(body: bytes, url: str, budget: Budget, notes: list[str]) -> AgentCard:
    """Return the card in `body`. Raises BadCard."""
    return card_of(read_json(body, url, budget), url, notes)


async def verify_card(
    value: Any, url: str, trust: "Trust", origin: str, http: Http | None
) -> "tuple[Any, PublicKey]":
    """Return the part of a card that is signed, as JSON, and the key it is signed with. What else
    is in the card counts for nothing.

    Raises:
        UntrustedCard: No signature that counts is on it.
        BadCard: It is no card.
    """
    from ...auth import InvalidSignature, IssuerUnavailable  # what most clients never need

    where = safe_url(url) if url else "the card given"
    if not isinstance(value, dict):
        raise BadCard(where, "the card is not a JSON object")
    is_old = "supportedInterfaces" not in value and "supported_interfaces" not in value
    try:
        # A card of before 1.0 is signed as it stands; of it the signatures are read, and no more.
        card = lenient.convert(
            _SIGNED_ONLY | {"signatures": value.get("signatures") or []} if is_old else value,
            AgentCard,
        )
    except (InvalidParams, RecursionError) as error:
        raise BadCard(where, f"the card can't be verified: {error}") from None
    try:
        key = await trust.verify(card, raw=value, origin=origin, http=http)
    except InvalidSignature as error:
        raise UntrustedCard(where, f"the card is not trusted: {error}") from error
    except IssuerUnavailable as error:
        raise UntrustedCard(where, f"the card can't be verified: {error}") from None
    return (value if is_old else msgspec.to_builtins(card)), key


_SIGNED_ONLY: dict[str, Any] = {
    "name": "",
    "description": "",
    "supportedInterfaces": [],
    "version": "",
    "capabilities": {},
    "defaultInputModes": [],
    "defaultOutputModes": [],
    "skills": [],
}


def card_of(value: Any, url: str, notes: list[str]) -> AgentCard:
    """Return the card in a JSON value. Raises BadCard."""
    where = safe_url(url) if url else "the card given"
    if (
        isinstance(value, dict)
        and isinstance(value.get("signatures"), list)
        and len(value["signatures"]) > MAX_SIGNATURES
    ):
        raise BadCard(where, f"the card has more than {MAX_SIGNATURES} signatures")
    try:
        return read_card(value, url, notes)
    except NoInterface as error:
        raise BadCard(where, str(error), cause="no interface") from None
    except (ValueError, RecursionError) as error:
        raise BadCard(where, str(error)) from None


def _places(url: str) -> list[str]:
    """Where the card of `url` may be, the likeliest first."""
    where = parse_url(url)
    if where.path.endswith(".json") or "/.well-known/" in where.path:
        return [url]
    path = where.path.rstrip("/")
    roots = [path, ""] if path else [""]
    found = [str(where._replace(path=root + place, query="")) for root in roots for place in PLACES]
    if path:
        found.insert(2, url)
    return found


def _is_of_host(place: str, url: str) -> bool:
    """Return whether a place is one of the host itself, and `url` an address below it."""
    return parse_url(place).path in PLACES and bool(parse_url(url).path.rstrip("/"))


def _may_be_card(answer: Response, place: str, url: str) -> bool:
    """The agent's own address may answer with anything; only JSON counts there."""
    return (
        place != url
        or "json" in (answer.headers.get("Content-Type") or "")
        or place.endswith(".json")
    )


async def _get(place: str, http: Http, budget: Budget, cards: Cards | None) -> Response:
    """Fetch a card, a few redirects along, unless the one kept will do."""
    cached = cards.fresh(place) if cards is not None else None
    if cached is not None:
        return Response(
            200,
            {
                "Content-Type": "application/json",
                "Server": cards.server(place) if cards is not None else "",
            },
            cached,
        )
    url = place
    headers = {"Accept": "application/json", "A2A-Version": NEWEST} | (
        cards.conditions(place) if cards is not None else {}
    )
    for _ in range(_REDIRECTS + 1):
        try:
            request = Request("GET", url, budget.card_s, headers)
            answer = await http.fetch(request, limit=budget.card_bytes)
        except BadAnswer as error:
            raise BadCard(safe_url(url), error.fault) from None
        except AgentFault as error:
            error.agent = safe_url(url)
            raise
        location = answer.headers.get("Location")
        if answer.status not in (301, 302, 303, 307, 308) or not location:
            if cards is not None and answer.status in (200, 304):
                return Response(200, answer.headers, cards.take(place, answer))
            return answer
        try:
            target = parse_url(urljoin(url, location))
        except ValueError:
            raise BadCard(
                safe_url(url), f"redirects to {location[:200]!r}, which is not a URL to follow"
            ) from None
        if url.startswith("https") and target.scheme == "http":
            raise BadCard(
                safe_url(url),
                f"redirects to {safe_url(str(target))[:200]}, which is not safe to follow",
            )
        url = str(target)
    raise BadCard(safe_url(place), f"redirects more than {_REDIRECTS} times")
