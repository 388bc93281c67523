"""Agents by their name in a catalog: `catalog:NAME`, looked up in an AI Catalog (a file, or the
document an address serves at `/.well-known/ai-catalog.json`).
"""

import asyncio
import atexit
import functools
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from ..client.discovery import CATALOG_PLACE, ByOrigin, CatalogFault, ListedAgent, walk_catalog
from ..net import AgentFault, Guard, Http, Network, Proxies, Request, client_tls, origin_of
from .advice import Failure

__all__ = ["CATALOG", "ResolvedCard", "resolve_reference"]

CATALOG = "catalog:"
MAX_BYTES = 8 << 20
TIMEOUT_S = 10.0


class ResolvedCard(NamedTuple):
    """The card that a catalog names: its address, or a file; and which addresses may be connected
    to for it.
    """

    place: str
    guard: Guard | None = None


def resolve_reference(reference: str, catalog: str, ca: str | None = None) -> ResolvedCard:
    """Return the card that an entry of the catalog names. Anything but `catalog:NAME` is returned
    as it is, and sent nowhere.

    Raises:
        click.UsageError: No catalog is set.
        Failure: It can't be read, or has no such agent; says which it has.
    """
    if not reference.startswith(CATALOG):
        return ResolvedCard(reference)
    name = reference.removeprefix(CATALOG)
    if not catalog:
        raise click.UsageError(
            f"{reference} is an entry of a catalog; name the catalog with --catalog or "
            "A2ACLI_CATALOG"
        )
    agents, guard = asyncio.run(_agents(catalog, ca))
    found = [agent for agent in agents if name.lower() in _names(agent)]
    if not found:
        have = ", ".join(sorted(map(_shown, agents))) or "none"
        raise Failure(
            f"{catalog} has no agent {name!r}; it has {have}", code="A2ACLI_ERR_CARD_NOT_FOUND"
        )
    if len(found) > 1:
        ids = ", ".join(agent.identifier for agent in found)
        raise Failure(
            f"{catalog} has several agents {name!r}; give one's identifier: {ids}",
            code="A2ACLI_ERR_CARD_NOT_FOUND",
        )
    is_at_catalog = bool(found[0].url) and _has_origin(found[0].url, catalog)
    return ResolvedCard(_card_of(found[0], catalog), None if is_at_catalog else guard)


def _has_origin(url: str, catalog: str) -> bool:
    """Whether an agent is at the address that the user gave for the catalog."""
    return "://" in catalog and origin_of(url) == origin_of(catalog)


def _card_of(agent: ListedAgent, catalog: str) -> str:
    if agent.url:
        return agent.url
    if agent.card is None:
        raise Failure(
            f"{catalog}: the entry {_shown(agent)} has neither url nor data that can be used",
            code="A2ACLI_ERR_CARD_INVALID",
        )
    with tempfile.NamedTemporaryFile(
        "w", prefix="accord-card-", suffix=".json", delete=False, encoding="utf-8"
    ) as file:
        json.dump(agent.card, file)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name


def _names(agent: ListedAgent) -> set[str]:
    """What an agent may be called: its identifier, the end of that, or its name."""
    names = (agent.identifier, agent.short_name, agent.title)
    return {name.lower() for name in names if name}


def _shown(agent: ListedAgent) -> str:
    return agent.name or "(no name)"


async def _agents(catalog: str, ca: str | None) -> tuple[list[ListedAgent], Guard | None]:
    """The agents of a catalog and of those it names, and what their addresses are checked with. A
    catalog of a public host is a stranger's word: what it names is in no private network. What a
    file names is up to its owner.
    """
    tls = client_tls(ca) if ca is not None else None

    def network(**options: Any) -> Network:
        return Network(connect_s=TIMEOUT_S, lost_s=30.0, tls=tls, **options)

    http = ByOrigin(network(proxies=Proxies.from_environment()), lambda guard: network(guard=guard))
    place = _address(catalog)
    try:
        if "://" in place:
            http.origin = origin_of(place)
        found = walk_catalog(functools.partial(_read, http), place)
        agents = [agent async for agent in found if agent is not None]
        return agents, await http.guard() if http.origin else None
    except CatalogFault as error:
        raise Failure(f"{catalog}: {error}", code="A2ACLI_ERR_CARD_INVALID") from None
    except AgentFault as error:
        raise Failure(str(error), code="A2ACLI_ERR_UNREACHABLE") from None
    finally:
        await http.close()


async def _read(http: Http, place: str) -> Any:
    if "://" not in place:
        try:
            text = await asyncio.to_thread(lambda: Path(place).expanduser().read_bytes())
        except OSError as error:
            raise Failure(
                f"the catalog {place} can't be read: {error.strerror}",
                code="A2ACLI_ERR_CARD_NOT_FOUND",
            ) from None
    else:
        answer = await http.fetch(Request("GET", place, TIMEOUT_S), limit=MAX_BYTES)
        if answer.status != 200:
            raise Failure(
                f"the catalog {place} answers with HTTP status {answer.status}",
                code="A2ACLI_ERR_CARD_NOT_FOUND",
            )
        text = answer.body
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise CatalogFault("this is not an AI Catalog: it is not JSON") from None


def _address(place: str) -> str:
    """A catalog's own address, where only that of its host was given."""
    if "://" in place and urlsplit(place).path in ("", "/"):
        return place.rstrip("/") + CATALOG_PLACE
    return place
