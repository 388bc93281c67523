"""Routes of the agents: list, add, read, change, and what becomes of their cards."""

from typing import Any

import msgspec

from ...model import AgentCard, PermissionDenied, whole_number
from ...server import HttpResponse
from ..errors import HubError
from ..registry import (
    CardVersion,
    Entry,
    EntrySettings,
    EntryState,
    Visibility,
    fence_skill,
    fence_text,
)
from .router import ApiCall, ApiRoute

__all__ = ["ROUTES", "AgentView", "NewAgent", "view_of"]

PAGE, MOST = 50, 500
_LAST_VERSION = 999_999_999


class SkillView(msgspec.Struct, frozen=True):
    id: str
    name: str
    description: str
    tags: list[str]
    examples: list[str]


class AgentView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry, as the REST interface gives it."""

    name: str
    state: EntryState
    visibility: Visibility
    description: str
    url: str  # where it is called
    version: str
    health: dict[str, Any]
    team: str = ""
    owner: str = ""
    card_url: str = ""
    score: int | None = None
    signature: str = ""
    approved: int = 0
    latest: int = 0
    waiting: bool = False  # a newer card waits for approval
    skills: list[SkillView] = []
    interfaces: list[dict[str, Any]] = []
    members: list[str] = []
    notes: list[str] = []
    settings: dict[str, Any] = {}
    revision: int = 0


class AgentPage(msgspec.Struct, frozen=True):
    agents: list[AgentView]
    next: str = ""  # give it as `cursor` for the agents after these
    total: int = 0


class NewAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be added: an address, or a card."""

    url: str = ""
    card: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    name: str = ""
    visibility: Visibility = Visibility.PUBLIC
    team: str = ""
    settings: EntrySettings = EntrySettings()


class AgentChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed; what is left out stays as it is."""

    visibility: Visibility | None = None
    team: str | None = None
    settings: dict[str, Any] | None = None
    # A new one, for an entry without an address.
    card: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class CardView(msgspec.Struct, frozen=True):
    """A version of a card."""

    n: int
    sha256: str
    decision: str
    signature: str
    notes: tuple[str, ...]
    differences: list[dict[str, Any]]
    first_ms: int
    last_ms: int
    card: AgentCard | None = None


class Beat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    leaving: bool = False


def view_of(entry: Entry, call: ApiCall | None = None) -> AgentView:
    """Return an entry as it is given out: to its owner and admins with all there is."""
    is_own = call is None or call.owns(entry)
    skills = [
        msgspec.convert(fence_skill(skill), SkillView)
        for skill in entry.card.skills
        if call is None or call.hub.policy.decide(call.caller, entry, skill.id, "see").is_allowed
    ]
    return AgentView(
        name=entry.name,
        state=entry.state,
        visibility=entry.visibility,
        description=fence_text(entry.settings.description or entry.card.description),
        url=f"{call.hub.address}/agents/{entry.name}/" if call is not None else "",
        version=fence_text(entry.card.version, 80),
        health=health_of(entry, is_own=is_own),
        team=entry.team,
        owner=entry.owner if is_own else "",
        card_url=entry.card_url if is_own else "",
        score=entry.score,
        signature=entry.signature.sentence if is_own else entry.signature.summary,
        approved=entry.approved,
        latest=entry.latest if is_own else 0,
        waiting=is_own and entry.latest > entry.approved,
        skills=skills,
        interfaces=msgspec.to_builtins(entry.card.supported_interfaces) if is_own else [],
        members=[member.card_url for member in entry.members] if is_own else [],
        notes=list(entry.notes) if is_own else [],
        settings=msgspec.to_builtins(entry.settings) if is_own else {},
        revision=entry.revision,
    )


def health_of(entry: Entry, *, is_own: bool) -> dict[str, Any]:
    """How an agent is. What was found in detail names its addresses, and is for its owner."""
    health: dict[str, Any] = msgspec.to_builtins(entry.health)
    return health if is_own else health | {"sentence": "", "detail": {}}


def _answer(call: ApiCall, entry: Entry) -> AgentView:
    call.headers = ((b"etag", entry.etag.encode()),)
    return view_of(entry, call)


async def _list(call: ApiCall) -> Any:
    found = call.hub.registry.visible_to(call.caller)
    for field, known in (
        ("state", list(EntryState)),
        ("visibility", list(Visibility)),
        ("team", call.hub.teams_known_to(call.caller)),
    ):
        if wanted := call.query.get(field):
            call.check_among(field, wanted, known)
            found = [entry for entry in found if getattr(entry, field) == wanted]
    after, limit = call.query.get("cursor", ""), call.number("limit", PAGE, MOST)
    rest = [entry for entry in found if entry.name > after]
    page = rest[:limit]
    more = page[-1].name if page and len(rest) > len(page) else ""
    return AgentPage([view_of(entry, call) for entry in page], more, len(found))


async def _add(call: ApiCall) -> Any:
    new: NewAgent = call.body
    entry = await call.hub.registry.add(
        call.person,
        caller=call.caller,
        url=new.url,
        card=_raw(new.card),
        name=new.name,
        visibility=new.visibility,
        team=new.team,
        settings=new.settings,
    )
    call.headers = ((b"location", f"/api/v1/agents/{entry.name}".encode()),)
    return view_of(entry, call)


async def _read(call: ApiCall) -> Any:
    entry = call.entry()
    if call.request.headers.get(b"if-none-match", b"").decode("latin-1") == entry.etag:
        return HttpResponse(304, headers=((b"etag", entry.etag.encode()),))
    return _answer(call, entry)


async def _change(call: ApiCall) -> Any:
    entry, change = call.own_entry(), call.body
    if change.team and not call.person.is_admin and change.team not in call.person.teams:
        raise PermissionDenied(f"only members of team {change.team[:80]!r} share entries with it")
    if change.card is not msgspec.UNSET:
        entry = await call.hub.registry.paste(call.person, entry.name, _raw(change.card))
    settings = None
    if change.settings is not None:
        merged = msgspec.to_builtins(entry.settings) | change.settings
        try:
            settings = msgspec.convert(merged, EntrySettings)
        except msgspec.ValidationError as error:
            raise HubError(f"these settings do not fit: {error}") from None
    changed = await call.hub.registry.change(
        call.person,
        entry.name,
        visibility=change.visibility,
        team=change.team,
        settings=settings,
        if_revision=call.if_match(entry),
    )
    return _answer(call, changed)


async def _retire(call: ApiCall) -> Any:
    await call.hub.registry.retire(call.person, call.own_entry().name)


async def _suspend(call: ApiCall) -> Any:
    return _answer(call, await call.hub.registry.suspend(call.person, call.entry().name))


async def _resume(call: ApiCall) -> Any:
    return _answer(call, await call.hub.registry.resume(call.person, call.entry().name))


async def _refresh(call: ApiCall) -> Any:
    return _answer(call, await call.hub.registry.refresh(call.own_entry().name))


async def _beat(call: ApiCall) -> Any:
    entry = call.own_entry()
    return _answer(call, await call.hub.registry.beat(entry.name, is_leaving=call.body.leaving))


async def _cards(call: ApiCall) -> Any:
    entry = call.own_entry()
    versions = await call.hub.registry.versions(entry)
    return {"cards": [_card_view(version) for version in versions], "approved": entry.approved}


async def _card(call: ApiCall) -> Any:
    entry = call.own_entry()
    version = await call.hub.registry.version(entry, _number(call))
    if call.query.get("raw"):
        return HttpResponse(200, version.raw)
    return _card_view(version, with_card=True)


async def _approve(call: ApiCall) -> Any:
    entry = call.entry()
    if not call.path["n"].strip("0") or call.path["n"] == "latest":
        raise HubError(
            "name the version by its number: the latest may not be the one you have seen",
            fix=f"accord hub diff {entry.name} shows it",
        )
    return _answer(call, await call.hub.registry.approve(call.person, entry.name, _number(call)))


async def _reject(call: ApiCall) -> Any:
    entry = call.entry()
    return _answer(call, await call.hub.registry.reject(call.person, entry.name, _number(call)))


async def _remove_member(call: ApiCall) -> Any:
    entry = call.own_entry()
    url = call.query.get("url", "")
    return _answer(call, await call.hub.registry.remove_member(call.person, entry, url))


def _card_view(version: CardVersion, *, with_card: bool = False) -> CardView:
    return CardView(
        version.n,
        version.sha256,
        version.decision,
        version.signature.sentence,
        version.notes,
        [msgspec.to_builtins(one) | {"sentence": one.sentence} for one in version.differences],
        version.first_ms,
        version.last_ms,
        version.card if with_card else None,
    )


def _raw(given: msgspec.Raw | msgspec.UnsetType) -> bytes:
    return bytes(given) if isinstance(given, msgspec.Raw) else b""


def _number(call: ApiCall) -> int:
    text = call.path["n"]
    if text == "latest":
        return call.entry().latest
    number = whole_number(text, _LAST_VERSION)
    if number is None:
        raise HubError(f"{text[:40]!r} is no version", fix="give its number, or latest")
    return number


_A = "/agents/{name}"
ROUTES = (
    ApiRoute(
        *("GET", "/agents", "guest", _list, "List the agents this caller may see"),
        gives=AgentPage,
        query=("state", "team", "visibility", "cursor", "limit"),
    ),
    ApiRoute(
        *("POST", "/agents", "publisher", _add, "Add an agent by its address or its card"),
        takes=NewAgent,
        gives=AgentView,
        status=201,
    ),
    ApiRoute("GET", _A, "guest", _read, "Read an entry", gives=AgentView),
    ApiRoute(
        *("PATCH", _A, "owner", _change, "Change visibility, team or settings"),
        takes=AgentChange,
        gives=AgentView,
    ),
    ApiRoute("DELETE", _A, "owner", _retire, "Retire an entry, for good", status=204),
    ApiRoute("POST", _A + ":suspend", "admin", _suspend, "Stop calls", gives=AgentView),
    ApiRoute("POST", _A + ":resume", "admin", _resume, "Allow calls again", gives=AgentView),
    ApiRoute("POST", _A + ":refresh", "owner", _refresh, "Fetch the card now", gives=AgentView),
    ApiRoute(
        *("POST", _A + "/beat", "owner", _beat, "Say that the agent lives, or goes"),
        takes=Beat,
        gives=AgentView,
    ),
    ApiRoute("GET", _A + "/cards", "owner", _cards, "List the versions of the card"),
    ApiRoute(
        *("GET", _A + "/cards/{n}", "owner", _card, "Read a version, and what differs in it"),
        gives=CardView,
        query=("raw",),
    ),
    ApiRoute(
        *("POST", _A + "/cards/{n}:approve", "admin", _approve, "Use this version from now on"),
        gives=AgentView,
    ),
    ApiRoute(
        *("POST", _A + "/cards/{n}:reject", "admin", _reject, "Refuse this version"),
        gives=AgentView,
    ),
    ApiRoute(
        *("DELETE", _A + "/members", "owner", _remove_member, "Remove an address of equals"),
        gives=AgentView,
        query=("url",),
    ),
)
