"""The agents of a server as an AI Catalog (a draft): where clients look that know only its host."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...model import AgentCard
from ...protocol.v1 import codec as v1
from ...slug import slug_of
from ..request import JSON, HttpResponse

__all__ = ["CATALOG_PATH", "CatalogEntry", "catalog_answer"]

CATALOG_PATH = "/.well-known/ai-catalog.json"

_SPEC_VERSION = "1.0"
_CARD_TYPE = "application/a2a-agent-card+json"
_CACHE = ((b"cache-control", b"public, max-age=60"),)


class CatalogEntry(NamedTuple):
    """An agent, and where its card is."""

    card: AgentCard
    url: str


def catalog_answer(name: str, base: str, entries: Sequence[CatalogEntry]) -> HttpResponse:
    """Return the catalog of a server at this address."""
    domain = urlsplit(base).hostname or "localhost"
    catalog = {
        "specVersion": _SPEC_VERSION,
        "host": {"displayName": name, "identifier": domain},
        "entries": [_written(entry, domain) for entry in entries],
    }
    return HttpResponse(200, v1.encode(catalog), JSON, _CACHE)


def _written(entry: CatalogEntry, domain: str) -> dict[str, Any]:
    card, url = entry
    tags = dict.fromkeys(tag for skill in card.skills for tag in skill.tags)
    queries = dict.fromkeys(text for skill in card.skills for text in skill.examples)
    return {
        "identifier": f"urn:air:{domain}:agents:{slug_of(card.name)}",
        "displayName": card.name,
        "type": _CARD_TYPE,
        "mediaType": _CARD_TYPE,  # what the draft called it until May 2026
        "url": url,
        "description": card.description,
        "tags": [*tags][:20],
        "representativeQueries": [*queries][:5],
        "capabilities": [skill.id for skill in card.skills][:50],
        "version": card.version,
    }
