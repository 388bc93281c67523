"""Routes to take all entries elsewhere: an export of one hub is imported in another."""

from typing import Any

import msgspec

from ...model import A2AError, InvalidParams
from ..access import read_rule
from ..registry import EntrySettings, Visibility
from .router import ApiCall, ApiRoute

__all__ = ["ROUTES", "Export"]


class ExportedAgent(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    card_url: str = ""
    card: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # the approved one, as it was
    visibility: Visibility = Visibility.PUBLIC
    team: str = ""
    settings: EntrySettings = EntrySettings()


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, rules and networks of a hub."""

    agents: list[ExportedAgent] = []
    policies: list[dict[str, Any]] = []  # as at /policies
    networks: list[str] = []


class Imported(msgspec.Struct, frozen=True):
    added: list[str]
    failed: dict[str, str]  # what was not added, and why


async def _export(call: ApiCall) -> Any:
    hub = call.hub
    agents = [
        ExportedAgent(
            name=entry.name,
            card_url=entry.card_url,
            card=msgspec.Raw(entry.card_raw),
            visibility=entry.visibility,
            team=entry.team,
            settings=entry.settings,
        )
        for entry in hub.registry.all()
    ]
    networks = [row["what"] for row in hub.networks.listed() if row["created_ms"]]
    rules: list[dict[str, Any]] = msgspec.to_builtins(hub.policy.rules)
    return Export(agents=agents, policies=rules, networks=networks)


async def _import(call: ApiCall) -> Any:
    hub, given = call.hub, call.body
    try:
        rules = [read_rule(one) for one in given.policies]
    except msgspec.ValidationError as error:
        raise InvalidParams(f"policies: {error}") from None
    added: list[str] = []
    failed: dict[str, str] = {}
    for what in given.networks:
        await hub.networks.add(call.person, what, "imported")
    for one in given.agents:
        if hub.registry.get(one.name) is not None:
            failed[one.name] = "there is an entry of this name"
            continue
        try:
            await hub.registry.add(
                call.person,
                url=one.card_url,
                card=b"" if one.card_url or one.card is msgspec.UNSET else bytes(one.card),
                name=one.name,
                visibility=one.visibility,
                team=one.team,
                settings=one.settings,
            )
        except A2AError as error:
            failed[one.name] = str(error)
        else:
            added.append(one.name)
    known = {rule.words for rule in hub.policy.rules}
    for rule in rules:
        if rule.words not in known:
            await hub.policy.add(call.person, rule)
    return Imported(added, failed)


ROUTES = (
    ApiRoute("GET", "/export", "admin", _export, "All entries, without secrets", gives=Export),
    ApiRoute(
        *("POST", "/import", "admin", _import, "Add the entries of an export"),
        takes=Export,
        gives=Imported,
    ),
)
