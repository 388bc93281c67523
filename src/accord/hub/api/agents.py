"""Routes of the agents: list, add, read, change, and what becomes of their cards."""

from collections.abc import Callable
from typing import Any

import msgspec

from ...model import AgentCard, PermissionDenied, whole_number
from ...protocol import lenient
from ...server import HttpResponse
from ..access import Policy, Principals
from ..errors import HubError
from ..registry import (
    AgentAdmission,
    CardVersion,
    CardVersions,
    Entry,
    EntrySettings,
    EntryState,
    HealthRecords,
    Registry,
    Visibility,
    sanitize_skill,
    sanitize_text,
)
from ..settings import why_wrong
from .router import ApiCall, ApiRoute

__all__ = ["AgentRoutes", "AgentView", "AgentViews", "NewAgent", "health_of"]

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


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    leaving: bool = False


class AgentViews:
    """Entries as the REST interface gives them."""

    def __init__(self, policy: Policy, address: Callable[[], str]) -> None:
        self._policy = policy
        self._address = address

    def of(self, entry: Entry, call: ApiCall) -> AgentView:
        """Return an entry as it is given out: to its owner and admins with all there is."""
        is_own = call.owns(entry)
        skills = [
            msgspec.convert(sanitize_skill(skill), SkillView)
            for skill in entry.card.skills
            if self._policy.decide(call.caller, entry, skill.id, "see").is_allowed
        ]
        return AgentView(
            name=entry.name,
            state=entry.state,
            visibility=entry.visibility,
            description=sanitize_text(entry.settings.description or entry.card.description),
            url=f"{self._address()}/agents/{entry.name}/",
            version=sanitize_text(entry.card.version, 80),
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
        raise HubError(f"{text[:40]!r} is not a version", fix="give its number, or latest")
    return number


_A = "/agents/{name}"


class AgentRoutes:
    """The entries, and their cards."""

    def __init__(
        self,
        registry: Registry,
        admission: AgentAdmission,
        versions: CardVersions,
        health: HealthRecords,
        views: AgentViews,
        principals: Principals,
    ) -> None:
        self._registry = registry
        self._admission = admission
        self._versions = versions
        self._health = health
        self._views = views
        self._principals = principals

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                *("GET", "/agents", "guest", self._list, "List the agents this caller may see"),
                gives=AgentPage,
                query=("state", "team", "visibility", "cursor", "limit"),
            ),
            ApiRoute(
                *(
                    "POST",
                    "/agents",
                    "publisher",
                    self._add,
                    "Add an agent by its address or its card",
                ),
                takes=NewAgent,
                gives=AgentView,
                status=201,
            ),
            ApiRoute("GET", _A, "guest", self._read, "Read an entry", gives=AgentView),
            ApiRoute(
                *("PATCH", _A, "owner", self._change, "Change visibility, team or settings"),
                takes=AgentChange,
                gives=AgentView,
            ),
            ApiRoute("DELETE", _A, "owner", self._retire, "Retire an entry, for good", status=204),
            ApiRoute(
                "POST", _A + ":suspend", "admin", self._suspend, "Stop calls", gives=AgentView
            ),
            ApiRoute(
                "POST", _A + ":resume", "admin", self._resume, "Allow calls again", gives=AgentView
            ),
            ApiRoute(
                "POST",
                _A + ":refresh",
                "owner",
                self._refresh,
                "Fetch the card now",
                gives=AgentView,
            ),
            ApiRoute(
                *(
                    "POST",
                    _A + "/heartbeat",
                    "owner",
                    self._heartbeat,
                    "Say that the agent lives, or goes",
                ),
                takes=Heartbeat,
                gives=AgentView,
            ),
            ApiRoute("GET", _A + "/cards", "owner", self._cards, "List the versions of the card"),
            ApiRoute(
                *(
                    "GET",
                    _A + "/cards/{n}",
                    "owner",
                    self._card,
                    "Read a version, and what differs in it",
                ),
                gives=CardView,
                query=("raw",),
            ),
            ApiRoute(
                *(
                    "POST",
                    _A + "/cards/{n}:approve",
                    "admin",
                    self._approve,
                    "Use this version from now on",
                ),
                gives=AgentView,
            ),
            ApiRoute(
                *("POST", _A + "/cards/{n}:reject", "admin", self._reject, "Refuse this version"),
                gives=AgentView,
            ),
            ApiRoute(
                *(
                    "DELETE",
                    _A + "/members",
                    "owner",
                    self._remove_member,
                    "Remove an address of equals",
                ),
                gives=AgentView,
                query=("url",),
            ),
        )

    def _answer(self, call: ApiCall, entry: Entry) -> AgentView:
        call.headers = ((b"etag", entry.etag.encode()),)
        return self._views.of(entry, call)

    async def _list(self, call: ApiCall) -> Any:
        found = self._registry.visible_to(call.caller)
        for field, known in (
            ("state", list(EntryState)),
            ("visibility", list(Visibility)),
            ("team", call.known_teams(self._principals.teams)),
        ):
            if wanted := call.query.get(field):
                call.check_among(field, wanted, known)
                found = [entry for entry in found if getattr(entry, field) == wanted]
        after, limit = call.query.get("cursor", ""), call.number("limit", PAGE, MOST, least=1)
        rest = [entry for entry in found if entry.name > after]
        page = rest[:limit]
        more = page[-1].name if page and len(rest) > len(page) else ""
        return AgentPage([self._views.of(entry, call) for entry in page], more, len(found))

    async def _add(self, call: ApiCall) -> Any:
        new: NewAgent = call.body
        entry = await self._admission.add(
            call.principal,
            caller=call.caller,
            url=new.url,
            card=_raw(new.card),
            name=new.name,
            visibility=new.visibility,
            team=new.team,
            settings=new.settings,
        )
        call.headers = ((b"location", f"/api/v1/agents/{entry.name}".encode()),)
        return self._views.of(entry, call)

    async def _read(self, call: ApiCall) -> Any:
        entry = call.entry()
        if call.request.headers.get(b"if-none-match", b"").decode("latin-1") == entry.etag:
            return HttpResponse(304, headers=((b"etag", entry.etag.encode()),))
        return self._answer(call, entry)

    async def _change(self, call: ApiCall) -> Any:
        entry, change = call.own_entry(), call.body
        if change.team and not call.principal.is_admin and change.team not in call.principal.teams:
            raise PermissionDenied(
                f"only members of team {change.team[:80]!r} share entries with it"
            )
        if_revision, settings = call.if_match(entry), None
        if change.settings is not None:
            merged = msgspec.to_builtins(entry.settings) | change.settings
            try:
                settings = msgspec.convert(merged, EntrySettings)
            except msgspec.ValidationError as error:
                wrong = why_wrong(EntrySettings, merged) or str(lenient.bad_field(error))
                fix = f"settings are {', '.join(EntrySettings.__struct_fields__)}"
                raise HubError(f"these settings do not fit: {wrong}", fix=fix) from None
        fields = {"visibility": change.visibility, "team": change.team, "settings": settings}
        if change.card is msgspec.UNSET:
            changed = await self._registry.change(
                call.principal, entry.name, if_revision=if_revision, **fields
            )
        else:  # all of it or nothing
            also = self._registry.prepared(call.principal, entry, **fields)
            changed = await self._versions.paste(
                entry.name, _raw(change.card), if_revision=if_revision, also=also
            )
        return self._answer(call, changed)

    async def _retire(self, call: ApiCall) -> Any:
        await self._registry.retire(call.principal, call.own_entry().name)

    async def _suspend(self, call: ApiCall) -> Any:
        return self._answer(call, await self._registry.suspend(call.principal, call.entry().name))

    async def _resume(self, call: ApiCall) -> Any:
        return self._answer(call, await self._registry.resume(call.principal, call.entry().name))

    async def _refresh(self, call: ApiCall) -> Any:
        return self._answer(call, await self._versions.refresh(call.own_entry().name))

    async def _heartbeat(self, call: ApiCall) -> Any:
        entry = call.own_entry()
        return self._answer(
            call, await self._health.heartbeat(entry.name, is_leaving=call.body.leaving)
        )

    async def _cards(self, call: ApiCall) -> Any:
        entry = call.own_entry()
        versions = await self._registry.versions(entry)
        return {"cards": [_card_view(version) for version in versions], "approved": entry.approved}

    async def _card(self, call: ApiCall) -> Any:
        entry = call.own_entry()
        version = await self._registry.version(entry, _number(call))
        if call.query.get("raw"):
            return HttpResponse(200, version.raw)
        return _card_view(version, with_card=True)

    async def _approve(self, call: ApiCall) -> Any:
        entry = call.entry()
        if not call.path["n"].strip("0") or call.path["n"] == "latest":
            raise HubError(
                "name the version by its number: the latest may not be the one you have seen",
                fix=f"accord hub diff {entry.name} shows it",
            )
        return self._answer(
            call, await self._versions.approve(call.principal, entry.name, _number(call))
        )

    async def _reject(self, call: ApiCall) -> Any:
        entry = call.entry()
        return self._answer(
            call, await self._versions.reject(call.principal, entry.name, _number(call))
        )

    async def _remove_member(self, call: ApiCall) -> Any:
        entry = call.own_entry()
        url = call.query.get("url", "")
        return self._answer(call, await self._admission.remove_member(call.principal, entry, url))
