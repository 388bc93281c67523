"""AI Catalogs: an address may list its agents at `/.well-known/ai-catalog.json` (a draft)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urljoin

from ...net import parse_url

__all__ = [
    "CARD_TYPES",
    "CATALOG_PLACE",
    "CATALOG_TYPE",
    "CatalogFault",
    "ListedAgent",
    "is_catalog",
    "walk_catalog",
]

CATALOG_PLACE = "/.well-known/ai-catalog.json"
CATALOG_TYPE = "application/ai-catalog+json"
CARD_TYPES = (
    "application/a2a-agent-card+json",
    "application/agent-card+json",
    "application/a2a+json",
)
# Of a catalog that names other catalogs: how deep they are nested, how many of them are fetched,
# and how many entries of any kind are looked at in all.
DEPTH, CATALOGS, ENTRIES = 4, 50, 10_000

Fetch = Callable[[str], Awaitable[Any]]


class CatalogFault(ValueError):
    """A document is no AI Catalog, or has more than is read of one."""


class ListedAgent(NamedTuple):
    """An agent that a catalog lists: the address of its card, or the card itself. Both may be
    missing.
    """

    identifier: str
    title: str
    short_name: str  # as a hub writes it, else the end of the identifier
    url: str
    card: dict[str, Any] | None

    @property
    def name(self) -> str:
        return self.title or self.identifier


class _Entry(NamedTuple):
    """An entry of a catalog: an agent, another catalog, or neither."""

    agent: ListedAgent | None = None
    catalog: dict[str, Any] | None = None  # that stands in it
    catalog_url: str = ""


def is_catalog(value: Any) -> bool:
    """Whether a document is an AI Catalog."""
    return isinstance(value, dict) and isinstance(value.get("entries"), list)


async def walk_catalog(
    fetch: Fetch, place: str, catalog: Any = None
) -> AsyncIterator[ListedAgent | None]:
    """Yield the agents of the catalog at `place`, and of those it names; None for an entry of
    another kind.

    Args:
        fetch: Returns the JSON at an address, or raises.
        place: The address of the catalog, or its file.
        catalog: The catalog, if it is known.

    Raises:
        CatalogFault: One of them is no catalog, or there is more in them than is read.
    """
    fetched = looked_at = 0
    waiting: list[tuple[str, Any, int]] = [(place, catalog, 1)]
    while waiting:
        place, catalog, depth = waiting.pop()
        if catalog is None:
            fetched += 1
            if fetched > CATALOGS:
                raise CatalogFault(f"it names more than {CATALOGS} catalogs")
            catalog = await fetch(place)
        inner: list[tuple[str, Any, int]] = []
        for listed in _entries(catalog):
            looked_at += 1
            if looked_at > ENTRIES:
                raise CatalogFault(f"the catalog has more than {ENTRIES} entries")
            entry = _read(listed, place)
            if depth < DEPTH and entry.catalog_url:
                inner.append((entry.catalog_url, None, depth + 1))
            elif depth < DEPTH and entry.catalog is not None:
                inner.append((place, entry.catalog, depth + 1))
            else:
                yield entry.agent
        waiting += reversed(inner)


def _entries(catalog: Any) -> list[Any]:
    if not is_catalog(catalog):
        raise CatalogFault("this is not an AI Catalog: it has no list of entries")
    entries: list[Any] = catalog["entries"]
    return entries


def _read(entry: Any, place: str) -> _Entry:
    if not isinstance(entry, dict):
        return _Entry()
    # Until May 2026 the draft called it `mediaType`.
    kind = str(entry.get("type") or entry.get("mediaType") or "").partition(";")[0].strip().lower()
    url, data = entry.get("url"), entry.get("data")
    address = _address(place, url) if isinstance(url, str) and url else ""
    inside = data if isinstance(data, dict) and not address else None
    if kind == CATALOG_TYPE:
        return _Entry(catalog=inside, catalog_url=address)
    if kind not in CARD_TYPES:
        return _Entry()
    identifier = str(entry.get("identifier") or "")[:200]
    title = str(entry.get("displayName") or "")[:120]
    metadata = entry.get("metadata")
    short = metadata.get("name") if isinstance(metadata, dict) else None
    end = identifier.replace("/", ":").rpartition(":")[2]
    return _Entry(ListedAgent(identifier, title, str(short or end)[:200], address, inside))


def _address(place: str, url: str) -> str:
    """Return the address that a catalog at `place` names; empty if it is none to follow. What a
    file names is up to its owner.
    """
    if "://" not in place:
        return url
    try:
        address = urljoin(place, url[:2000])
        target = parse_url(address)
    except ValueError:
        return ""
    # As with redirects: what came by TLS does not lead away from it.
    is_unsafe = place.startswith("https") and target.scheme == "http"
    return "" if is_unsafe else address
