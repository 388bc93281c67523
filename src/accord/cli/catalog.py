"""Agents by their name in a catalog: `catalog:NAME`, looked up in an AI Catalog (a file, or the
document an address serves at `/.well-known/ai-catalog.json`).
"""

import asyncio
import atexit
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import click

from ..net import AgentFault, Network, Proxies, Request, client_tls
from .advice import Failure

__all__ = ["CATALOG", "resolve_reference"]

CATALOG = "catalog:"
WELL_KNOWN = "/.well-known/ai-catalog.json"
MAX_DEPTH = 4  # of catalogs that name other catalogs
MAX_BYTES = 8 << 20
TIMEOUT_S = 10.0

_CARD_TYPE = "application/a2a-agent-card+json"
_CATALOG_TYPE = "application/ai-catalog+json"


def resolve_reference(reference: str, catalog: str, ca: str | None = None) -> str:
    """Return the card that an entry of the catalog names: its address, or a file. Anything but
    `catalog:NAME` is returned as it is, and sent nowhere.

    Raises:
        click.UsageError: No catalog is set.
        Failure: It can't be read, or has no such agent; says which it has.
    """
    if not reference.startswith(CATALOG):
        return reference
    name = reference.removeprefix(CATALOG)
    if not catalog:
        raise click.UsageError(
            f"{reference} is an entry of a catalog: say where that is with --catalog, or "
            "A2ACLI_CATALOG"
        )
    entries = asyncio.run(_entries(catalog, ca))
    found = [entry for entry in entries if name.lower() in _names(entry)]
    if not found:
        have = ", ".join(sorted(_shown(entry) for entry in entries)) or "none"
        raise Failure(
            f"{catalog} has no agent {name!r}; it has {have}", code="A2ACLI_ERR_CARD_NOT_FOUND"
        )
    if len(found) > 1:
        ids = ", ".join(str(entry.get("identifier")) for entry in found)
        raise Failure(
            f"{catalog} has several agents {name!r}; give one's identifier: {ids}",
            code="A2ACLI_ERR_CARD_NOT_FOUND",
        )
    return _card_of(found[0], catalog)


def _card_of(entry: dict[str, Any], catalog: str) -> str:
    if isinstance(url := entry.get("url"), str) and url:
        return url
    card = entry.get("data")
    if not isinstance(card, dict):
        raise Failure(
            f"{catalog}: the entry {_shown(entry)} has neither url nor data",
            code="A2ACLI_ERR_CARD_INVALID",
        )
    with tempfile.NamedTemporaryFile(
        "w", prefix="accord-card-", suffix=".json", delete=False, encoding="utf-8"
    ) as file:
        json.dump(card, file)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name


def _names(entry: dict[str, Any]) -> set[str]:
    """What an entry may be called: its identifier, the end of that, or its name."""
    identifier, title = str(entry.get("identifier", "")), str(entry.get("displayName", ""))
    end = identifier.replace("/", ":").rpartition(":")[2]
    return {name.lower() for name in (identifier, end, title) if name}


def _shown(entry: dict[str, Any]) -> str:
    return str(entry.get("displayName") or entry.get("identifier") or "(no name)")


async def _entries(catalog: str, ca: str | None) -> list[dict[str, Any]]:
    """The agents of a catalog, and of those it names."""
    network = Network(
        connect_s=TIMEOUT_S,
        lost_s=30.0,
        tls=client_tls(ca) if ca is not None else None,
        proxies=Proxies.from_environment(),
    )
    try:
        return [entry async for entry in _agents(network, catalog, MAX_DEPTH)]
    except AgentFault as error:
        raise Failure(str(error), code="A2ACLI_ERR_UNREACHABLE") from None
    finally:
        await network.close()


async def _agents(
    network: Network, place: str, depth: int, catalog: dict[str, Any] | None = None
) -> AsyncIterator[dict[str, Any]]:
    """The agents of the catalog at a place, or of the one that was found inside another there."""
    catalog = catalog if catalog is not None else await _read(network, place)
    for entry in catalog.get("entries", []):
        if not isinstance(entry, dict):
            continue
        kind = str(entry.get("type") or entry.get("mediaType") or "").partition(";")[0].strip()
        url, data = entry.get("url"), entry.get("data")
        if isinstance(url, str) and "://" in place:
            url = urljoin(_address(place), url)
        if kind == _CARD_TYPE:
            yield {**entry, "url": url}
        elif kind == _CATALOG_TYPE and depth > 1 and isinstance(data, dict):
            async for one in _agents(network, place, depth - 1, data):
                yield one
        elif kind == _CATALOG_TYPE and depth > 1 and isinstance(url, str):
            async for one in _agents(network, url, depth - 1):
                yield one


async def _read(network: Network, place: str) -> dict[str, Any]:
    if "://" not in place:
        try:
            text = await asyncio.to_thread(lambda: Path(place).expanduser().read_bytes())
        except OSError as error:
            raise Failure(
                f"the catalog {place} can't be read: {error.strerror}",
                code="A2ACLI_ERR_CARD_NOT_FOUND",
            ) from None
    else:
        answer = await network.fetch(Request("GET", _address(place), TIMEOUT_S), limit=MAX_BYTES)
        if answer.status != 200:
            raise Failure(
                f"the catalog {_address(place)} answers with HTTP status {answer.status}",
                code="A2ACLI_ERR_CARD_NOT_FOUND",
            )
        text = answer.body
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("entries"), list):
        raise Failure(
            f"{place} is not an AI Catalog: a JSON object with entries",
            code="A2ACLI_ERR_CARD_INVALID",
        )
    return found


def _address(place: str) -> str:
    """A catalog's own address, where only that of its host was given."""
    return place.rstrip("/") + WELL_KNOWN if urlsplit(place).path in ("", "/") else place
