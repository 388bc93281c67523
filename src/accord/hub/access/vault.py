"""Credentials of agents: sealed, bound to an entry, a scheme, an owner and the entry's origins.

A credential is never read back. It goes to the origins the entry had when the credential was given
and still has; a card that moved needs it given again.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from ...auth import Caller
from ...client import ApiKey, BadCard, Basic, Bearer, ClientCredentials, card_at_origin
from ...model import AgentCard, InvalidParams
from ...store import Database, SqlRow
from ..errors import EntryNotFound
from ..records import Audit, Change, Changes
from ..registry import Entry
from .principals import Principal

if TYPE_CHECKING:
    from ...auth import Keyring

__all__ = ["CredentialView", "NewCredential", "Vault"]

Kind: TypeAlias = Literal["api_key", "basic", "bearer", "client_credentials"]
SHARED = ""  # the owner of a credential that all callers use
PLACES = 10_000  # cards whose origin is remembered


class NewCredential(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A credential, as its owner gives it: an API key, a user and password, a token, or the id and
    secret of an OAuth client.
    """

    kind: Kind
    secret: str  # the key, the password, the token, or the client's secret
    user: str = ""  # of a password, or the id of the client
    issuer: str = ""  # where an OAuth client gets its tokens; by default the card says
    scopes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.secret or any(ord(char) < 32 for char in self.secret):
            raise ValueError("secret: give a text that is not empty and has no control characters")
        if self.kind in ("basic", "client_credentials") and not self.user:
            raise ValueError("user: a password needs its user, an OAuth secret the client's id")

    def __repr__(self) -> str:
        return f"NewCredential({self.kind})"


class _Sealed(msgspec.Struct, frozen=True):
    credential: NewCredential
    origins: tuple[str, ...]


class CredentialView(msgspec.Struct, frozen=True):
    """What is shown of a credential: all but the secret."""

    scheme: str
    kind: str
    owner: str  # empty: all callers use it
    created_ms: int


class Vault:
    """The credentials of all entries, sealed in the database and in memory."""

    def __init__(
        self, db: Database, changes: Changes, audit: Audit, keyring: "Callable[[], Keyring]"
    ) -> None:
        self._db = db
        self._changes = changes
        self._audit = audit
        self._keyring = keyring
        self._rows: dict[tuple[str, str], list[SqlRow]] = {}  # by entry and owner
        self._made: dict[bytes, tuple[Any, tuple[str, ...]]] = {}  # kept for their OAuth tokens
        self._places: dict[int, tuple[AgentCard, str, AgentCard]] = {}  # by the card's id()
        changes.watch(self._load)

    def check(self) -> None:
        """Raise KeyringError, which names the missing key, if something can't be unsealed."""
        self._keyring()
        for rows in self._rows.values():
            for row in rows:
                self._unseal(row)

    def holds(self, ids: Iterable[int]) -> bool:
        """Whether all of some credentials, given by their `id`, are still the ones to be shown."""
        return set(ids) <= {id(credential) for credential, _ in self._made.values()}

    def for_origin(self, entry: Entry, origin: str, caller: Caller | None) -> Any:
        """Return what to give `accord.connect` as `auth` for an agent at `origin`: credentials by
        the names of their schemes, the caller's own before the shared ones. None if there are none
        that may go there.
        """
        if origin not in entry.origins:
            return None
        owners = [SHARED, *([caller.identity] if caller is not None and caller.identity else [])]
        found: dict[str, Any] = {}
        for owner in owners:
            for row in self._rows.get((entry.id, owner), ()):
                credential, origins = self._open(row)
                if origin in origins:
                    found[row["scheme"]] = credential
        if not found:
            return None
        is_named = all(name in entry.card.security_schemes for name in found)
        return found if is_named else list(found.values())

    def for_card(self, entry: Entry, caller: Caller | None) -> tuple[AgentCard, Any]:
        """Return what to give `accord.connect` for an agent: its card, and `auth`. With a
        credential the card has only the interfaces that may be sent it.
        """
        try:
            origin, card = self._place_of(entry.card)
        except BadCard:  # as `connect` will say
            return entry.card, None
        auth = self.for_origin(entry, origin, caller)
        return (card, auth) if auth is not None else (entry.card, None)

    def _place_of(self, card: AgentCard) -> tuple[str, AgentCard]:
        """Return `card_at_origin` of a card, which is asked for with every call."""
        known = self._places.get(id(card))
        if known is None or known[0] is not card:
            if len(self._places) >= PLACES:
                self._places.clear()
            known = self._places[id(card)] = (card, *card_at_origin(card))
        return known[1:]

    def listed(self, entry: Entry, owner: str | None = None) -> list[CredentialView]:
        """Return what there is for an entry; with `owner` only theirs."""
        return [
            CredentialView(row["scheme"], row["kind"], row["owner"], row["created_ms"])
            for (agent, whose), rows in sorted(self._rows.items())
            if agent == entry.id and owner in (None, whose)
            for row in rows
        ]

    async def put(
        self, by: Principal, entry: Entry, scheme: str, new: NewCredential, owner: str = SHARED
    ) -> None:
        """Keep a credential for an entry's scheme, instead of the one there was."""
        schemes = entry.card.security_schemes
        if schemes and scheme not in schemes:
            raise InvalidParams(
                f"the card of {entry.name} has no scheme {scheme[:80]!r}, but "
                + ", ".join(sorted(schemes))[:300]
            )
        row = {"agent": entry.id, "scheme": scheme, "owner": owner}
        data = msgspec.json.encode(_Sealed(new, entry.origins))
        sealed = self._keyring().seal(data, context=_context(row))

        async def write(db: Change) -> None:
            await db.execute(
                "INSERT INTO credentials (agent, scheme, owner, kind, sealed, created_ms) "
                "VALUES (?,?,?,?,?,?) ON CONFLICT (agent, scheme, owner) DO UPDATE SET "
                "kind = excluded.kind, sealed = excluded.sealed, created_ms = excluded.created_ms",
                *(entry.id, scheme, owner, new.kind, sealed, self._db.now_ms()),
            )
            detail = {"scheme": scheme, "kind": new.kind, "owner": owner}
            await self._audit.write(by.name, "credential.put", entry.name, detail, within=db)

        await self._changes.write(write)

    async def remove(self, by: Principal, entry: Entry, scheme: str, owner: str = SHARED) -> None:
        async def write(db: Change) -> None:
            count = await db.execute(
                "DELETE FROM credentials WHERE agent = ? AND scheme = ? AND owner = ?",
                *(entry.id, scheme, owner),
            )
            if not count:
                raise EntryNotFound(f"{entry.name} has no credential for {scheme[:80]!r}")
            detail = {"scheme": scheme, "owner": owner}
            await self._audit.write(by.name, "credential.remove", entry.name, detail, within=db)

        await self._changes.write(write)

    async def rekey(self, by: Principal) -> int:
        """Seal all credentials with the newest key, so that older ones may go. Return how many."""

        async def write(db: Change) -> int:
            rows = await db.fetch("SELECT agent, scheme, owner, sealed FROM credentials")
            for row in rows:
                plain = self._keyring().unseal(bytes(row["sealed"]), context=_context(row))
                await db.execute(
                    "UPDATE credentials SET sealed = ? "
                    "WHERE agent = ? AND scheme = ? AND owner = ?",
                    self._keyring().seal(plain, context=_context(row)),
                    *(row["agent"], row["scheme"], row["owner"]),
                )
            await self._audit.write(by.name, "credential.rekey", "*", len(rows), within=db)
            return len(rows)

        return await self._changes.write(write)

    async def _load(self) -> None:
        rows = await self._db.fetch(
            "SELECT agent, scheme, owner, kind, sealed, created_ms FROM credentials "
            "ORDER BY agent, owner, scheme"
        )
        found: dict[tuple[str, str], list[SqlRow]] = {}
        for row in rows:
            row["sealed"] = bytes(row["sealed"])
            found.setdefault((row["agent"], row["owner"]), []).append(row)
        self._rows = found
        sealed = {row["sealed"] for row in rows}
        self._made = {key: made for key, made in self._made.items() if key in sealed}

    def _open(self, row: SqlRow) -> tuple[Any, tuple[str, ...]]:
        made = self._made.get(row["sealed"])
        if made is None:
            opened = self._unseal(row)
            made = self._made[row["sealed"]] = (_credential(opened.credential), opened.origins)
        return made

    def _unseal(self, row: SqlRow) -> _Sealed:
        plain = self._keyring().unseal(row["sealed"], context=_context(row))
        return msgspec.json.decode(plain, type=_Sealed)


def _context(row: SqlRow) -> str:
    """What a sealed credential is for: in another row it does not open."""
    return msgspec.json.encode(
        ["hub credential", row["agent"], row["scheme"], row["owner"]]
    ).decode()


def _credential(given: NewCredential) -> Any:
    match given.kind:
        case "api_key":
            return ApiKey(given.secret)
        case "basic":
            return Basic(given.user, given.secret)
        case "bearer":
            return Bearer(given.secret)
        case "client_credentials":
            return ClientCredentials(
                given.user, given.secret, issuer=given.issuer, scopes=given.scopes
            )
