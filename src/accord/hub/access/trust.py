"""Whose signatures on cards count, and what is known of those on a card."""

import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from ...auth import InvalidSignature, Trust, UnknownKey, header_of, public_jwk
from ...client import BadCard, UntrustedCard
from ...client.discovery import verify_card
from ...model import MAX_SIGNATURES, InvalidParams
from ...net import Guard
from ...store import Database
from ..errors import EntryNotFound
from ..records import Audit, Change, Changes
from ..registry import SignatureReport, sanitize_line
from .principals import Principal

__all__ = ["TrustedKey", "TrustedKeys"]


class TrustedKey(msgspec.Struct, frozen=True):
    """Keys whose signatures count: a JWK set, or the address of one."""

    id: str
    name: str
    jwks: str  # JSON; empty if there is a URL
    url: str
    expires_ms: int  # 0: never
    created_ms: int


class TrustedKeys:
    """The keys an admin trusts."""

    def __init__(
        self, db: Database, changes: Changes, audit: Audit, guard: Callable[[], Guard]
    ) -> None:
        self._db = db
        self._changes = changes
        self._audit = audit
        self._guard = guard
        self._keys: dict[str, tuple[TrustedKey, Trust]] = {}
        self._looked_with = guard()  # what addresses of the keys are looked at with
        changes.watch(self._load)

    @property
    def keys(self) -> list[TrustedKey]:
        return [key for key, _ in self._keys.values()]

    async def report(self, card: Any, url: str) -> tuple[SignatureReport, Any]:
        """Return what is known of the signatures on a card, given as JSON, and what of the card
        counts: of one that is trusted, what is signed.
        """
        signatures = card.get("signatures") if isinstance(card, dict) else None
        if not signatures:
            return SignatureReport(), card
        unknown, why = True, ""
        for key, trust in self._living():
            try:
                signed, by = await verify_card(card, url, trust, "", None)
            except UntrustedCard as error:
                if not isinstance(error.__cause__, UnknownKey):
                    unknown, why = False, error.fault
            except BadCard as error:
                return SignatureReport(status="invalid", why=sanitize_line(error.fault, 300)), card
            else:
                report = SignatureReport(
                    status="trusted",
                    key_id=sanitize_line(by.id, 200),
                    thumbprint=by.thumbprint,
                    key_from=key.url or f"the trusted key {key.name}",
                )
                return report, signed
        fault = "" if unknown else why
        if not fault:
            fault = _malformed(signatures)
        if fault:
            return SignatureReport(status="invalid", why=sanitize_line(fault, 300)), card
        return SignatureReport(status="unknown key", named=_named(signatures)), card

    def refusal(self, report: SignatureReport, policy: str) -> str:
        """Why a card may not be used; empty if it may."""
        if policy == "off" or report.status == "trusted":
            return ""
        if report.status == "invalid":
            return f"its signature is {report.sentence}"
        if policy == "require":
            return f"it is {report.sentence}, and this hub takes only cards signed by a trusted key"
        return ""

    async def add(
        self,
        by: Principal,
        name: str,
        *,
        jwks: Any = None,
        pem: str = "",
        url: str = "",
        expires_ms: int,
    ) -> TrustedKey:
        """Trust a key: a JWK or JWK set, a public key in PEM, or the address of a JWK set."""
        if sum(bool(one) for one in (jwks, pem, url)) != 1:
            raise InvalidParams("give one of jwk, pem and url")
        try:
            keys = _jwk_set(jwks, pem) if not url else None
            key = TrustedKey(
                secrets.token_hex(6),
                name,
                msgspec.json.encode(keys).decode() if keys is not None else "",
                url,
                expires_ms,
                self._db.now_ms(),
            )
            self._trust(key)
        except ValueError as error:
            raise InvalidParams(f"this key can't be trusted: {error}") from None

        async def write(db: Change) -> None:
            await db.execute(
                "INSERT INTO trusted_keys (id, name, jwks, url, expires_ms, created_ms) "
                "VALUES (?,?,?,?,?,?)",
                *(key.id, key.name, key.jwks, key.url, key.expires_ms, key.created_ms),
            )
            await self._audit.write(by.name, "trust.add", key.id, name, within=db)

        await self._changes.write(write)
        return key

    async def remove(self, by: Principal, id: str) -> None:
        async def write(db: Change) -> None:
            if not await db.execute("DELETE FROM trusted_keys WHERE id = ?", id):
                raise EntryNotFound(
                    f"no key {id[:80]!r} is trusted",
                    fix="see which there are with: accord hub trust list",
                )
            await self._audit.write(by.name, "trust.remove", id, within=db)

        await self._changes.write(write)

    async def _load(self) -> None:
        rows = await self._db.fetch("SELECT * FROM trusted_keys ORDER BY created_ms, id")
        found = [msgspec.convert(row, TrustedKey) for row in rows]
        guard = self._guard()
        known = self._keys if guard is self._looked_with else {}  # networks may have changed
        self._keys = {key.id: known.get(key.id) or (key, self._trust(key)) for key in found}
        self._looked_with = guard

    def _living(self) -> list[tuple[TrustedKey, Trust]]:
        now = self._db.now_ms()
        return [
            (key, trust)
            for key, trust in self._keys.values()
            if not key.expires_ms or key.expires_ms > now
        ]

    def _trust(self, key: TrustedKey) -> Trust:
        if key.jwks:
            return Trust(msgspec.json.decode(key.jwks))
        # The set itself, for signatures that only name a key; and signatures that name this set.
        return Trust(key.url, key_urls=[key.url], guard=self._guard())


def _jwk_set(jwks: Any, pem: str) -> dict[str, Any]:
    if pem:
        jwks = public_jwk(pem)
    if not isinstance(jwks, dict):
        raise ValueError("a JWK is a JSON object")
    return jwks if "keys" in jwks else {"keys": [jwks]}


def _named(signatures: list[Any]) -> str:
    """Return the keys that signatures name. Nobody verified them: show them, never compare them."""
    found = []
    for one in signatures[:MAX_SIGNATURES]:
        try:
            kid = header_of(one["protected"]).get("kid")
        except (InvalidSignature, TypeError, KeyError):
            continue
        if isinstance(kid, str):
            found.append(sanitize_line(kid, 200))
    return ", ".join(dict.fromkeys(found))


def _malformed(signatures: Any) -> str:
    """What is wrong with signatures of unknown keys, as far as can be seen without the key."""
    if not isinstance(signatures, list):
        return "signatures is not a list"
    why = ""
    for one in signatures:
        try:
            header = header_of(one["protected"])
        except (InvalidSignature, TypeError, KeyError):
            why = why or "a signature without a header that can be read"
            continue
        if not isinstance(header.get("kid"), str):
            why = why or "the header does not say with which key (kid)"
        elif str(header.get("alg", "")).lower() == "none" or str(header["alg"]).startswith("HS"):
            why = why or f"the algorithm {header['alg']!r:.20} is not one that is accepted"
        else:
            return ""
    return why
