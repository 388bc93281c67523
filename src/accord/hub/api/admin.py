"""Routes of people, rules, keys, networks, the inbox and the audit log."""

from typing import Any

import msgspec

from ...auth import Caller
from ...model import InvalidParams, now_ms
from ..access import GUEST, KEYS, HubRole, May, PolicyRule, applies, honours_skill
from ..errors import EntryNotFound
from ..registry import Entry
from ..teams import team_name
from .router import ApiCall, ApiRoute

__all__ = ["ROUTES"]


class Me(msgspec.Struct, frozen=True):
    """Who the hub takes a caller for."""

    name: str
    role: HubRole
    teams: list[str]


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made. What it may do has to be said: there is no usual role."""

    name: str
    role: HubRole
    teams: tuple[str, ...] = ()
    expires_days: float | None = None


class UserChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    role: HubRole = HubRole.USER
    teams: tuple[str, ...] = ()


class NewTeam(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    description: str = ""


class NewTrustedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key whose signatures on cards count: one of jwk, pem and url."""

    name: str
    jwk: dict[str, Any] | None = None  # a JWK, or a JWK set
    pem: str = ""
    url: str = ""
    expires_days: float | None = None


class NewNetwork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    what: str  # 10.20.0.0/16, hr.corp.example, *.corp.example
    why: str = ""


class Try(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether somebody may do something, and which rule says so."""

    agent: str
    skill: str = ""
    may: May = "call"
    name: str = ""  # of the caller; empty for a guest
    role: HubRole = HubRole.USER
    teams: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    effect: str
    reason: str
    rule: PolicyRule | None
    note: str = ""


async def _me(call: ApiCall) -> Any:
    return Me(call.person.name, call.person.role, sorted(call.person.teams))


async def _keys(call: ApiCall) -> Any:
    found = [
        {
            "id": key.id,
            "name": key.name,
            "scopes": list(key.scopes),
            "created_ms": key.created_ms,
            "expires_ms": key.expires_ms,
            "used_ms": key.used_ms,
            "revoked_ms": key.revoked_ms,
        }
        for key in await call.hub.people.keys.list()
    ]
    return {"keys": found}


async def _new_key(call: ApiCall) -> Any:
    new: NewKey = call.body
    id_, text = await call.hub.people.new_key(
        call.person, new.name, new.role, new.teams, _expires(new.expires_days)
    )
    return {"id": id_, "key": text}


async def _revoke(call: ApiCall) -> Any:
    await call.hub.people.revoke_key(call.person, call.path["id"])


async def _users(call: ApiCall) -> Any:
    return {"users": call.hub.people.users}


async def _set_user(call: ApiCall) -> Any:
    await call.hub.people.set_user(call.person, call.path["name"], call.body.role, call.body.teams)
    return {"name": call.path["name"], "role": call.body.role, "teams": call.body.teams}


async def _teams(call: ApiCall) -> Any:
    return {"teams": call.hub.people.teams}


async def _new_team(call: ApiCall) -> Any:
    await call.hub.people.add_team(call.person, call.body.name, call.body.description)
    return {"name": call.body.name, "description": call.body.description}


async def _remove_team(call: ApiCall) -> Any:
    await call.hub.people.remove_team(call.person, call.path["name"])


async def _policies(call: ApiCall) -> Any:
    return {"policies": call.hub.policy.rules}


async def _add_policy(call: ApiCall) -> Any:
    rule = await call.hub.policy.add(call.person, call.body)
    held = [entry for entry in call.hub.registry.all() if _binds_badly(rule, entry)]
    note = ""
    if held:
        names = ", ".join(entry.name for entry in held[:10])
        note = (
            f"{names} can't be held to a skill: a caller whom this rule keeps from some of its "
            "skills may not call it at all. Set honours_skill if it does what metadata.skill says."
        )
    return msgspec.to_builtins(rule) | {"note": note}


def _binds_badly(rule: PolicyRule, entry: Entry) -> bool:
    """Whether a rule is about some skills of an agent that does not keep to metadata.skill."""
    if rule.effect == "allow" or rule.may != "call" or honours_skill(entry):
        return False
    hit = [applies(rule, entry, skill.id) for skill in entry.card.skills]
    return any(hit) and not all(hit)


async def _remove_policy(call: ApiCall) -> Any:
    await call.hub.policy.remove(call.person, call.path["id"])


async def _try(call: ApiCall) -> Any:
    asked: Try = call.body
    entry = call.hub.registry.get(asked.agent)
    if entry is None:
        raise EntryNotFound.of_agent(asked.agent)
    teams = (f"team:{team_name(team)}" for team in asked.teams)
    scopes = frozenset([f"role:{asked.role}", *teams])
    caller = Caller(asked.name, scopes=scopes, scheme=KEYS) if asked.name else GUEST
    decision = call.hub.policy.decide(caller, entry, asked.skill or None, asked.may)
    note = ""
    if asked.may == "call":
        choice = call.hub.policy.choose_skill(caller, entry, asked.skill)
        if choice.decision.effect != decision.effect:
            decision, note = (
                choice.decision,
                "for a message that names "
                + (f"the skill {asked.skill}" if asked.skill else "no skill"),
            )
    return Verdict(decision.effect, decision.reason, decision.rule, note)


async def _trusted(call: ApiCall) -> Any:
    return {"trusted_keys": call.hub.trusted.keys}


async def _trust(call: ApiCall) -> Any:
    new: NewTrustedKey = call.body
    return await call.hub.trusted.add(
        call.person,
        new.name,
        jwks=new.jwk,
        pem=new.pem,
        url=new.url,
        expires_ms=_expires(new.expires_days),
    )


async def _distrust(call: ApiCall) -> Any:
    await call.hub.trusted.remove(call.person, call.path["id"])


async def _networks(call: ApiCall) -> Any:
    return {"networks": call.hub.networks.listed()}


async def _add_network(call: ApiCall) -> Any:
    await call.hub.networks.add(call.person, call.body.what, call.body.why)
    return {"what": call.body.what, "why": call.body.why}


async def _remove_network(call: ApiCall) -> Any:
    await call.hub.networks.remove(call.person, call.query.get("what", ""))


async def _inbox(call: ApiCall) -> Any:
    owner = None if call.person.is_admin else call.person.identity
    return {
        "alerts": await call.hub.inbox.open_alerts(owner=owner),
        "total": await call.hub.inbox.count_open(owner=owner),
    }


async def _dismiss(call: ApiCall) -> Any:
    await call.hub.inbox.dismiss(call.path["id"])


async def _audit(call: ApiCall) -> Any:
    rows = await call.hub.audit.rows(
        before=call.number("before", 0, 1 << 60),
        limit=call.number("limit", 100, 1000),
        what=call.query.get("what", ""),
    )
    return {"rows": rows, "next": rows[-1].n if rows and rows[-1].n > 1 else 0}


async def _verify_audit(call: ApiCall) -> Any:
    trouble = await call.hub.audit.verify()
    return {"whole": not trouble, "trouble": trouble}


async def _rekey(call: ApiCall) -> Any:
    return {"sealed": await call.hub.vault.rekey(call.person)}


def _expires(days: float | None) -> int:
    if days is None:
        return 0
    if not 0 < days < 36_500:
        raise InvalidParams("expires_days is a number of days, more than 0")
    return now_ms() + int(days * 86_400_000)


ROUTES = (
    ApiRoute("GET", "/me", "guest", _me, "Say who the hub takes you for", gives=Me),
    ApiRoute("GET", "/keys", "admin", _keys, "List keys, without the keys themselves"),
    ApiRoute("POST", "/keys", "admin", _new_key, "Make a key", takes=NewKey, status=201),
    ApiRoute("DELETE", "/keys/{id}", "admin", _revoke, "Revoke a key", status=204),
    ApiRoute("GET", "/users", "admin", _users, "List people whose role was set"),
    ApiRoute("PUT", "/users/{name}", "admin", _set_user, "Set role and teams", takes=UserChange),
    ApiRoute("GET", "/teams", "user", _teams, "List teams"),
    ApiRoute("POST", "/teams", "admin", _new_team, "Make a team", takes=NewTeam, status=201),
    ApiRoute("DELETE", "/teams/{name}", "admin", _remove_team, "Remove a team", status=204),
    ApiRoute("GET", "/policies", "admin", _policies, "List the rules"),
    ApiRoute(
        *("POST", "/policies", "admin", _add_policy, "Add a rule"), takes=PolicyRule, status=201
    ),
    ApiRoute("DELETE", "/policies/{id}", "admin", _remove_policy, "Remove a rule", status=204),
    ApiRoute(
        *("POST", "/policies:try", "admin", _try, "Ask what the rules say of somebody"),
        takes=Try,
        gives=Verdict,
    ),
    ApiRoute("GET", "/trusted-keys", "admin", _trusted, "List keys whose signatures count"),
    ApiRoute(
        *("POST", "/trusted-keys", "admin", _trust, "Trust a key"), takes=NewTrustedKey, status=201
    ),
    ApiRoute("DELETE", "/trusted-keys/{id}", "admin", _distrust, "Trust no more", status=204),
    ApiRoute("GET", "/networks", "admin", _networks, "List private networks that are allowed"),
    ApiRoute(
        *("POST", "/networks", "admin", _add_network, "Allow a private network or host"),
        takes=NewNetwork,
        status=201,
    ),
    ApiRoute(
        *("DELETE", "/networks", "admin", _remove_network, "Allow it no more"),
        query=("what",),
        status=204,
    ),
    ApiRoute("GET", "/inbox", "publisher", _inbox, "List what waits for a person"),
    ApiRoute("POST", "/inbox/{id}:dismiss", "admin", _dismiss, "Close an alert", status=204),
    ApiRoute(
        *("GET", "/audit", "admin", _audit, "List who did what, the newest first"),
        query=("before", "limit", "what"),
    ),
    ApiRoute("GET", "/audit:verify", "admin", _verify_audit, "Check the chain of the audit log"),
    ApiRoute("POST", "/credentials:rekey", "admin", _rekey, "Seal all with the newest key"),
)
