"""Principals: the callers of a hub, with their roles and teams.

A key has its role and teams in its row, which the hub wrote. People who come with a token, or log
in with OpenID Connect, have the role an admin gave them, else the one that the hub's settings give
to a claim, else `user`; and teams by hand or by a claim. What a token's scopes say of roles is not
read: whoever asks for a token chooses them.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from ...auth import OIDC, Anyone, ApiKeys, Auth, Caller, digest_of, new_api_key
from ...model import InvalidParams
from ...store import Database, KeyStore, Sql, SqlRow, StoredApiKey
from ..errors import EntryNotFound
from ..records import Audit, Change, Changes
from ..settings import HubSettings
from ..teams import is_team_name, team_name

__all__ = ["GUEST", "SYSTEM", "HubRole", "Principal", "Principals", "claim_values"]

KEYS, CONSOLE, GUESTS = "apiKey", "console", "guest"


class HubRole(StrEnum):
    ADMIN = "admin"
    PUBLISHER = "publisher"
    USER = "user"
    GUEST = "guest"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {HubRole.GUEST: 0, HubRole.USER: 1, HubRole.PUBLISHER: 2, HubRole.ADMIN: 3}


class Principal(msgspec.Struct, frozen=True):
    """A caller as the hub sees them: a person or a program."""

    name: str
    identity: str  # what they own is stored under this
    role: HubRole
    teams: frozenset[str] = frozenset()

    @property
    def is_admin(self) -> bool:
        return self.role is HubRole.ADMIN

    def owns(self, owner: str) -> bool:
        """Return whether what is stored under this owner is theirs. Admins own everything."""
        return self.is_admin or (bool(owner) and owner == self.identity)


class User(msgspec.Struct, frozen=True):
    """Hold the role and teams that an admin gave somebody."""

    name: str
    role: HubRole
    teams: tuple[str, ...] = ()


GUEST = Caller(GUESTS, scheme=GUESTS)
SYSTEM = Principal("hub", "hub", HubRole.ADMIN)  # what the hub does by itself


class Principals:
    """Callers, users, teams and keys."""

    keys: KeyStore  # of the store of tasks, which the app opens

    def __init__(
        self, db: Database, changes: Changes, audit: Audit, settings: HubSettings, guests: str
    ) -> None:
        self._db = db
        self._changes = changes
        self._audit = audit
        self._settings = settings
        self.guests = guests
        self._users: dict[str, User] = {}
        self._teams: list[dict[str, str]] = []
        changes.watch(self._load)

    def auth(self) -> Auth:
        """Return the authentication that the hub asks of callers."""
        found: Auth = ApiKeys(name=KEYS)
        if self._settings.oidc:
            audience = self._settings.oidc_audience or self._settings.url
            if not audience and not self._settings.oidc_client:
                raise ValueError(
                    "tokens have to name the hub they are for: give --oidc-audience, or --url"
                )
            if audience:  # else people log in to the console, and no tokens are taken
                found = found | OIDC(self._settings.oidc, audience=audience)
        if self.guests == "off":
            return found
        return found | Anyone(name=GUESTS, caller=GUEST)

    def of(self, caller: Caller) -> Principal:
        """Return the role and teams of a caller."""
        if caller.is_anonymous or caller.scheme == GUESTS:
            return Principal("guest", "", HubRole.GUEST)
        if caller.scheme == CONSOLE:  # a browser that opened the admin's link
            return Principal(caller.name, caller.identity, HubRole.ADMIN)
        if caller.scheme == KEYS:  # the key's row says so
            role = caller.claims.get("role", "")
            return Principal(
                caller.name,
                caller.identity,
                HubRole(role) if role in list(HubRole) else HubRole.GUEST,
                frozenset(filter(is_team_name, caller.claims.get("teams", ()))),
            )
        user = self._users.get(caller.identity) or self._users.get(caller.name)
        claimed = caller.claims.get(self._settings.team_claim)
        groups = claimed if isinstance(claimed, list) else [claimed]
        return Principal(
            caller.name,
            caller.identity,
            user.role if user is not None else self._claimed_role(caller),
            frozenset(
                [
                    *(group for group in groups if isinstance(group, str) and is_team_name(group)),
                    *(user.teams if user is not None else ()),
                ]
            ),
        )

    def _claimed_role(self, caller: Caller) -> HubRole:
        """The highest role that the claims of a caller give."""
        values = claim_values(caller, self._settings.role_claim)
        roles = [
            HubRole(role)
            for role, _, value in (one.partition("=") for one in self._settings.map_role)
            if value in values
        ]
        return max(roles, key=lambda role: role.rank, default=HubRole.USER)

    async def new_key(
        self,
        by: Principal,
        name: str,
        role: HubRole,
        teams: Iterable[str] = (),
        expires_ms: int = 0,
        *,
        folder: str = "",
        replaces: str = "",
    ) -> tuple[str, str]:
        """Make a key; return its id and the key itself, which is stored nowhere. With `folder` it
        is the one of a local admin: those of this folder before it are revoked with the same
        transaction, and so is `replaces`.

        Raises:
            InvalidParams: The caller's name, or a team's, is none.
        """
        if not name.strip() or not name.isprintable():
            raise InvalidParams("the name of a caller must be printable text")
        id_, text = new_api_key()
        named = sorted({team_name(team) for team in teams})
        key = StoredApiKey(
            *(id_, name, digest_of(text), self._db.now_ms()),
            expires_ms=expires_ms,
            role=role,
            teams=tuple(named),
            folder=folder,
        )

        async def write(db: Sql) -> None:
            detail = {"id": id_, "role": role, "teams": named, "expires_ms": expires_ms}
            await self._audit.write(by.name, "key.new", name, detail, within=db)
            await self.keys.add(key, within=db)
            for old in await _replaced(db, key, replaces) if folder else ():
                await self._revoke(by, old["id"], old["name"], db)

        await self._db.write(write)
        return id_, text

    async def revoke_key(self, by: Principal, id: str) -> None:
        """Revoke a key.

        Raises:
            EntryNotFound: There is none that is not revoked.
        """
        known = await self.keys.find(id)
        name = known.name if known is not None else ""
        await self._db.write(lambda db: self._revoke(by, id, name, db))

    async def _revoke(self, by: Principal, id: str, name: str, db: Sql) -> None:
        if not await self.keys.revoke(id, self._db.now_ms(), within=db):
            raise EntryNotFound(
                f"there is no valid key {id[:80]!r}",
                fix="see which there are with: accord hub key list",
            )
        await self._audit.write(by.name, "key.revoke", id, {"name": name}, within=db)

    @property
    def users(self) -> list[User]:
        return list(self._users.values())

    @property
    def teams(self) -> list[dict[str, str]]:
        return self._teams

    async def set_user(self, by: Principal, name: str, role: HubRole, teams: Iterable[str]) -> None:
        """Say what somebody who comes with a token may do; `name` is their name or identity."""
        named = sorted({team_name(team) for team in teams})

        async def write(db: Change) -> None:
            await db.execute(
                "INSERT INTO users (name, role, teams) VALUES (?,?,?) "
                "ON CONFLICT (name) DO UPDATE SET role = excluded.role, teams = excluded.teams",
                *(name, role, msgspec.json.encode(named).decode()),
            )
            detail = {"role": role, "teams": named}
            await self._audit.write(by.name, "user.set", name, detail, within=db)

        await self._changes.write(write)

    async def remove_user(self, by: Principal, name: str) -> None:
        """Say nothing of somebody any more: their claims decide again."""

        async def write(db: Change) -> None:
            if not await db.execute("DELETE FROM users WHERE name = ?", name):
                raise EntryNotFound(
                    f"there is no user {name[:80]!r}",
                    fix="see which there are with: accord hub user list",
                )
            await self._audit.write(by.name, "user.remove", name, within=db)

        await self._changes.write(write)

    async def add_team(self, by: Principal, name: str, description: str) -> None:
        team_name(name)

        async def write(db: Change) -> None:
            await db.execute(
                "INSERT INTO teams (name, description) VALUES (?,?) "
                "ON CONFLICT (name) DO UPDATE SET description = excluded.description",
                *(name, description),
            )
            await self._audit.write(by.name, "team.add", name, within=db)

        await self._changes.write(write)

    async def remove_team(self, by: Principal, name: str) -> None:
        async def write(db: Change) -> None:
            if not await db.execute("DELETE FROM teams WHERE name = ?", name):
                raise EntryNotFound(
                    f"there is no team {name[:80]!r}",
                    fix="see which there are with: accord hub team list",
                )
            await self._audit.write(by.name, "team.remove", name, within=db)

        await self._changes.write(write)

    async def _load(self) -> None:
        self._teams = await self._db.fetch("SELECT name, description FROM teams ORDER BY name")
        rows = await self._db.fetch("SELECT name, role, teams FROM users")
        self._users = {
            row["name"]: User(row["name"], HubRole(row["role"]), _words(row["teams"]))
            for row in rows
        }


def claim_values(caller: Caller, claim: str) -> list[str]:
    """Return the values of a claim, as rules and settings write them: a claim is one value or a
    list of them, and a truth value is written as in the token, `true`.
    """
    held = caller.claims.get(claim)
    values = held if isinstance(held, list) else [held]
    return [
        one if isinstance(one, str) else msgspec.json.encode(one).decode()
        for one in values
        if isinstance(one, str | int | float)
    ]


async def _replaced(db: Sql, key: StoredApiKey, also: str) -> list[SqlRow]:
    """Return the valid keys of the same folder, and one more."""
    return await db.fetch(
        "SELECT id, name FROM api_keys WHERE (folder = ? OR id = ?) AND id <> ? AND revoked_ms = 0",
        *(key.folder, also, key.id),
    )


def _words(text: str) -> tuple[str, ...]:
    return msgspec.json.decode(text, type=tuple[str, ...])
