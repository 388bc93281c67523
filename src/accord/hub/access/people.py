"""Who asks: their role and teams.

A key names its role and teams in its scopes (`role:publisher`, `team:hr`). People who come with a
token have the role an admin gave them, `user` unless told otherwise, and teams by hand or by a
claim of the token. What a token's scopes say of roles is not read: whoever asks for a token
chooses them.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from ...auth import OIDC, Anyone, ApiKeys, Auth, Caller, digest_of, new_api_key
from ...model import InvalidParams, now_ms
from ...store import KeyStore, StoredApiKey
from ..errors import EntryNotFound
from ..settings import HubSettings
from ..storage import Audit, Changes, Database
from ..teams import is_team_name, team_name

__all__ = ["GUEST", "SYSTEM", "HubRole", "People", "Person"]

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


class Person(msgspec.Struct, frozen=True):
    """A caller as the hub sees them: a person or a program."""

    name: str
    identity: str  # what they own is stored under this
    role: HubRole
    teams: frozenset[str] = frozenset()

    @property
    def is_admin(self) -> bool:
        return self.role is HubRole.ADMIN

    def owns(self, owner: str) -> bool:
        """Whether what is stored under this owner is theirs; to admins all is."""
        return self.is_admin or (bool(owner) and owner == self.identity)


class User(msgspec.Struct, frozen=True):
    """What an admin said of somebody."""

    name: str
    role: HubRole
    teams: tuple[str, ...] = ()


GUEST = Caller(GUESTS, scheme=GUESTS)
SYSTEM = Person("hub", "hub", HubRole.ADMIN)  # what the hub does by itself


class People:
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
        """What the hub asks of callers."""
        found: Auth = ApiKeys(name=KEYS)
        if self._settings.oidc:
            audience = self._settings.oidc_audience or self._settings.url
            if not audience:
                raise ValueError(
                    "tokens have to name the hub they are for: give --oidc-audience, or --url"
                )
            found = found | OIDC(self._settings.oidc, audience=audience)
        if self.guests == "off":
            return found
        return found | Anyone(name=GUESTS, caller=GUEST)

    def person(self, caller: Caller) -> Person:
        """Return the role and teams of a caller."""
        if caller.is_anonymous or caller.scheme == GUESTS:
            return Person("guest", "", HubRole.GUEST)
        if caller.scheme == CONSOLE:  # a browser that opened the admin's link
            return Person(caller.name, caller.identity, HubRole.ADMIN)
        if caller.scheme == KEYS:  # the hub itself wrote these scopes
            role = _role(scope[5:] for scope in caller.scopes if scope.startswith("role:"))
            teams = frozenset(s[5:] for s in caller.scopes if s.startswith("team:"))
            return Person(caller.name, caller.identity, role, teams)
        user = self._users.get(caller.identity) or self._users.get(caller.name)
        claimed = caller.claims.get(self._settings.team_claim)
        groups = claimed if isinstance(claimed, list) else []
        return Person(
            caller.name,
            caller.identity,
            user.role if user is not None else HubRole.USER,
            frozenset(
                [
                    *(group for group in groups if isinstance(group, str) and is_team_name(group)),
                    *(user.teams if user is not None else ()),
                ]
            ),
        )

    async def new_key(
        self,
        by: Person,
        name: str,
        role: HubRole,
        teams: Iterable[str] = (),
        expires_ms: int = 0,
        scopes: tuple[str, ...] = (),  # beside those of role and teams
    ) -> tuple[str, str]:
        """Make a key; return its id and the key itself, which is stored nowhere.

        Raises:
            InvalidParams: The caller's name, or a team's, is none.
        """
        if not name.strip() or not name.isprintable():
            raise InvalidParams("the name of a caller is printable text")
        id_, text = new_api_key()
        named = sorted({team_name(team) for team in teams})
        # Keys are in the store of tasks, the log is not. So the row comes first: there may be a row
        # of a key that was never made, but no key without a row.
        detail = {"id": id_, "role": role, "teams": named, "expires_ms": expires_ms}
        await self._audit.write(by.name, "key.new", name, detail)
        scopes = (f"role:{role}", *(f"team:{team}" for team in named), *scopes)
        await self.keys.add(
            StoredApiKey(id_, name, digest_of(text), now_ms(), "", scopes, expires_ms)
        )
        return id_, text

    async def revoke_key(self, by: Person, id: str) -> None:
        """Revoke a key.

        Raises:
            EntryNotFound: There is none that is not revoked.
        """
        known = await self.keys.find(id)
        if known is None or known.revoked_ms:
            raise EntryNotFound(f"there is no valid key {id[:80]!r}", fix="accord hub key list")
        await self._audit.write(by.name, "key.revoke", id, {"name": known.name})
        await self.keys.revoke(id, now_ms())

    @property
    def users(self) -> list[User]:
        return list(self._users.values())

    @property
    def teams(self) -> list[dict[str, str]]:
        return self._teams

    async def set_user(self, by: Person, name: str, role: HubRole, teams: Iterable[str]) -> None:
        """Say what somebody who comes with a token may do; `name` is their name or identity."""
        named = sorted({team_name(team) for team in teams})
        async with self._changes.transaction() as db:
            await db.execute(
                "INSERT INTO users (name, role, teams) VALUES (?,?,?) "
                "ON CONFLICT (name) DO UPDATE SET role = excluded.role, teams = excluded.teams",
                *(name, role, " ".join(named)),
            )
            detail = {"role": role, "teams": named}
            await self._audit.write(by.name, "user.set", name, detail, within=db)

    async def add_team(self, by: Person, name: str, description: str) -> None:
        team_name(name)
        async with self._changes.transaction() as db:
            await db.execute(
                "INSERT INTO teams (name, description) VALUES (?,?) "
                "ON CONFLICT (name) DO UPDATE SET description = excluded.description",
                *(name, description),
            )
            await self._audit.write(by.name, "team.add", name, within=db)

    async def remove_team(self, by: Person, name: str) -> None:
        async with self._changes.transaction() as db:
            if not await db.execute("DELETE FROM teams WHERE name = ?", name):
                raise EntryNotFound(f"there is no team {name[:80]!r}", fix="accord hub team list")
            await self._audit.write(by.name, "team.remove", name, within=db)

    async def _load(self) -> None:
        self._teams = await self._db.fetch("SELECT name, description FROM teams ORDER BY name")
        rows = await self._db.fetch("SELECT name, role, teams FROM users")
        self._users = {
            row["name"]: User(row["name"], HubRole(row["role"]), tuple(row["teams"].split()))
            for row in rows
        }


def _role(words: Iterable[str]) -> HubRole:
    """The one role that is named. A key that names none, or several, may do what a guest may."""
    named = list(words)
    return HubRole(named[0]) if len(named) == 1 and named[0] in list(HubRole) else HubRole.GUEST
