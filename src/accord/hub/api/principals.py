"""Routes of keys, users and teams."""

from collections.abc import Callable
from typing import Any

import msgspec

from ..access import HubRole, Principals
from .router import ApiCall, ApiRoute, expires_ms

__all__ = ["PrincipalRoutes"]


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


class PrincipalRoutes:
    """Keys, users and teams."""

    def __init__(
        self,
        principals: Principals,
        now_ms: Callable[[], int],
    ) -> None:
        self._principals = principals
        self._now_ms = now_ms

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute("GET", "/me", "guest", self._me, "Say who the hub takes you for", gives=Me),
            ApiRoute("GET", "/keys", "admin", self._keys, "List keys, without the keys themselves"),
            ApiRoute(
                "POST", "/keys", "admin", self._new_key, "Make a key", takes=NewKey, status=201
            ),
            ApiRoute("DELETE", "/keys/{id}", "admin", self._revoke, "Revoke a key", status=204),
            ApiRoute("GET", "/users", "admin", self._users, "List people whose role was set"),
            ApiRoute(
                "PUT",
                "/users/{name}",
                "admin",
                self._set_user,
                "Set role and teams",
                takes=UserChange,
            ),
            ApiRoute(
                *(
                    "DELETE",
                    "/users/{name}",
                    "admin",
                    self._remove_user,
                    "Leave role and teams to claims",
                ),
                status=204,
            ),
            ApiRoute("GET", "/teams", "user", self._teams, "List teams"),
            ApiRoute(
                "POST", "/teams", "admin", self._new_team, "Make a team", takes=NewTeam, status=201
            ),
            ApiRoute(
                "DELETE", "/teams/{name}", "admin", self._remove_team, "Remove a team", status=204
            ),
        )

    async def _me(self, call: ApiCall) -> Any:
        return Me(call.principal.name, call.principal.role, sorted(call.principal.teams))

    async def _keys(self, call: ApiCall) -> Any:
        found = [
            {
                "id": key.id,
                "name": key.name,
                "role": key.role,
                "teams": list(key.teams),
                "created_ms": key.created_ms,
                "expires_ms": key.expires_ms,
                "used_ms": key.used_ms,
                "revoked_ms": key.revoked_ms,
            }
            for key in await self._principals.keys.list()
        ]
        return {"keys": found}

    async def _new_key(self, call: ApiCall) -> Any:
        new: NewKey = call.body
        id_, text = await self._principals.new_key(
            call.principal,
            new.name,
            new.role,
            new.teams,
            expires_ms(self._now_ms(), new.expires_days),
        )
        return {"id": id_, "key": text}

    async def _revoke(self, call: ApiCall) -> Any:
        await self._principals.revoke_key(call.principal, call.path["id"])

    async def _users(self, call: ApiCall) -> Any:
        return {"users": self._principals.users}

    async def _set_user(self, call: ApiCall) -> Any:
        await self._principals.set_user(
            call.principal, call.path["name"], call.body.role, call.body.teams
        )
        return {"name": call.path["name"], "role": call.body.role, "teams": call.body.teams}

    async def _remove_user(self, call: ApiCall) -> Any:
        await self._principals.remove_user(call.principal, call.path["name"])

    async def _teams(self, call: ApiCall) -> Any:
        return {"teams": self._principals.teams}

    async def _new_team(self, call: ApiCall) -> Any:
        await self._principals.add_team(call.principal, call.body.name, call.body.description)
        return {"name": call.body.name, "description": call.body.description}

    async def _remove_team(self, call: ApiCall) -> Any:
        await self._principals.remove_team(call.principal, call.path["name"])
