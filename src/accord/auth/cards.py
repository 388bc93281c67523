"""Signatures of agent cards: JWS over the card's canonical JSON (RFC 8785).

The canonical form is made of the 1.0 card: members at their default are left out unless they are
required, or optional and set. Some implementations leave out everything that is empty. Where the
two differ a card is signed in both forms, and verified in either.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import rfc8785

from ..model import MAX_SIGNATURES, AgentCard, AgentCardSignature
from ..net import Guard, Http, Url, origin_of, parse_url, safe_url
from .issuer import FileKeys, KeySource, RemoteKeys
from .jose import InvalidSignature, PublicKey, SigningKey, UnknownKey, base64url, header_of, verify

__all__ = ["Trust", "canonical_card", "sign_card"]

_DEPTH = 64
_KEY_URLS = 64


def canonical_card(card: AgentCard) -> bytes:
    """Return the canonical JSON of a card without its signatures.

    Raises:
        ValueError: It has none: a number that JSON can't hold exactly, or a text that is not
          Unicode.
    """
    return _canonical(_members(card))


def _members(card: AgentCard) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(card)
    members.pop("signatures", None)
    return members


def _unsigned(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in value.items() if name != "signatures"}


def _canonical(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise ValueError(f"the card has no canonical form: {error}") from None


def _without_empty(value: Any, depth: int = 0) -> Any:
    """The value without empty texts, lists and objects; None if nothing is left."""
    if depth > _DEPTH:
        raise ValueError("the card is nested too deeply")
    if isinstance(value, dict):
        left = {name: _without_empty(item, depth + 1) for name, item in value.items()}
        return {name: item for name, item in left.items() if item is not None} or None
    if isinstance(value, list):
        items = (_without_empty(item, depth + 1) for item in value)
        return [item for item in items if item is not None] or None
    return None if value == "" else value


def sign_card(
    card: AgentCard,
    key: SigningKey,
    *,
    key_url: str = "",
    served: Mapping[str, Any] | None = None,
) -> AgentCard:
    """Return the card with one more signature (two, where implementations differ about its form).

    Args:
        card: The card; signatures it has are kept, so that keys can be rotated.
        key: What to sign with.
        key_url: Where the public key is published, as a JWK set (`jku`).
        served: The JSON that readers get, if it holds more than the card. It gets a signature of
          its own: some readers canonicalize what they received, others the card in it.

    Raises:
        ValueError: The card can't be signed, and why.
    """
    header = {"typ": "JOSE"} | ({"jku": key_url} if key_url else {})
    members = _members(card)
    forms = [_canonical(members), _canonical(_without_empty(members) or {})]
    if served is not None:
        forms.append(_canonical(_unsigned(served)))
    added = [_signature(key.sign(form, header)) for form in dict.fromkeys(forms)]
    if len(card.signatures) + len(added) > MAX_SIGNATURES:
        raise ValueError(f"a card with more than {MAX_SIGNATURES} signatures is refused by readers")
    return msgspec.structs.replace(card, signatures=[*card.signatures, *added])


def _signature(compact: str) -> AgentCardSignature:
    protected, _, signature = compact.split(".")
    return AgentCardSignature(protected=protected, signature=signature)


class Trust:
    """Say whose signatures on agent cards are trusted.

    Trust("keys.json")                                        # a JWK set: a file, a URL, a value
    Trust(key_urls=["https://keys.corp.example/"])            # where cards may say their keys are
    Trust(at_origin=True)                                     # keys at the agent's own origin

    One valid signature is enough. Keys that a card names are fetched only from addresses that are
    allowed here.

    Args:
        keys: A JWK set: its URL, a file, or the set itself.
        key_urls: Addresses of JWK sets, or, ending in a slash, all below them; https only, except
          on this machine.
        at_origin: Trust keys published at the agent's own origin. This proves as much as TLS does,
          also for a card that somebody else passed on.
        guard: What addresses of JWK sets are looked at with, where a stranger may have given them.
    """

    def __init__(
        self,
        keys: str | Path | Mapping[str, Any] | None = None,
        *,
        key_urls: Sequence[str] = (),
        at_origin: bool = False,
        guard: Guard | None = None,
    ) -> None:
        if keys is None and not key_urls and not at_origin:
            raise ValueError("say whose signatures to trust: keys, key_urls= or at_origin=True")
        self._guard = guard
        self._keys = _source(keys, guard) if keys is not None else None
        self._key_urls = [_allowed(url) for url in key_urls]
        self._at_origin = at_origin
        self._by_url: dict[str, RemoteKeys] = {}

    async def verify(
        self,
        card: AgentCard,
        *,
        raw: Mapping[str, Any] | None = None,
        origin: str = "",
        http: Http | None = None,
    ) -> PublicKey:
        """Return the key whose signature on a card holds.

        Args:
            card: The card as it was written: read as 1.0, and not repaired.
            raw: The card as it was received, as JSON. Before 1.0 this is what was signed; in 1.0
              it may be.
            origin: Where the agent was asked for; empty if its card was handed over.
            http: Connects to `origin` as the user wants it.

        Raises:
            InvalidSignature: It has no signature that is trusted; the error says why.
            IssuerUnavailable: The keys can't be fetched.
        """
        if not card.signatures:
            raise InvalidSignature("the card is not signed")
        if len(card.signatures) > MAX_SIGNATURES:
            raise InvalidSignature(f"the card has more than {MAX_SIGNATURES} signatures")
        # Beside the loop: a stranger's card may be large, and have several signatures.
        forms = await asyncio.to_thread(_forms, card, raw)
        why: InvalidSignature | None = None
        for signature in card.signatures:
            try:
                keys = await self._keys_for(header_of(signature.protected), origin, http)
                return await asyncio.to_thread(_verified, signature, forms, keys)
            except InvalidSignature as error:
                why = error if why is None or isinstance(why, UnknownKey) else why
        assert why is not None
        raise why

    async def _keys_for(
        self, header: dict[str, Any], origin: str, http: Http | None
    ) -> list[PublicKey]:
        kid = header.get("kid")
        if not isinstance(kid, str) or not kid:
            raise InvalidSignature("the header does not say with which key (kid)")
        found = await self._keys.keys(kid) if self._keys is not None else []
        url = header.get("jku")
        if any(key.id == kid for key in found) or not isinstance(url, str):
            return found
        if not self._is_allowed(url, origin):
            return found
        if url not in self._by_url:
            if len(self._by_url) >= _KEY_URLS:
                self._by_url.clear()
            self._by_url[url] = RemoteKeys(url, guard=self._guard)
        source = self._by_url[url]
        source.http = http if origin and origin_of(url) == origin else None
        return [*found, *await source.keys(kid)]

    def _is_allowed(self, url: str, origin: str) -> bool:
        try:
            parts = parse_url(url)
        except ValueError:
            return False
        # `..` would lead out of the folder that was allowed
        if ".." in parts.path or "%" in parts.path or "@" in url:
            return False
        if self._at_origin and origin and parts.origin == origin and _is_secure(parts):
            return True
        return any(
            url == known or (known.endswith("/") and url.startswith(known))
            for known in self._key_urls
        )


def _source(keys: str | Path | Mapping[str, Any], guard: Guard | None) -> KeySource:
    if isinstance(keys, str) and keys.startswith(("http://", "https://")):
        origin_of(keys)
        return RemoteKeys(keys, guard=guard)
    return FileKeys(keys)


def _allowed(url: str) -> str:
    parts = parse_url(url)
    if not _is_secure(parts):
        raise ValueError(f"keys must come over https, not from {safe_url(url)}")
    if not parts.path:
        raise ValueError(
            f"{safe_url(url)} is only a host; add a slash to allow everything below it"
        )
    return url


def _is_secure(url: Url) -> bool:
    """Nobody on the way can have changed what comes from there."""
    return url.scheme == "https" or url.host in ("localhost", "127.0.0.1", "::1")


def _forms(card: AgentCard, raw: Mapping[str, Any] | None) -> list[bytes]:
    """Return the forms of a card that a signature may be for. Before 1.0 that is the JSON as it was
    served. In 1.0 it is the card that was read from it, or the JSON, by implementations that
    canonicalize what they received.
    """
    values = [_unsigned(raw)] if raw is not None else []
    if raw is None or card.supported_interfaces:
        values.append(_members(card))
    try:
        forms = [
            form
            for value in values
            for form in (_canonical(value), _canonical(_without_empty(value) or {}))
        ]
        return list(dict.fromkeys(forms))
    except ValueError as error:
        raise InvalidSignature(str(error)) from None


def _verified(
    signature: AgentCardSignature, forms: list[bytes], keys: list[PublicKey]
) -> PublicKey:
    """The unprotected header is not read: nobody has signed it."""
    why: InvalidSignature | None = None
    for form in forms:
        try:
            compact = f"{signature.protected}.{base64url(form)}.{signature.signature}"
            return verify(compact, keys)[2]
        except InvalidSignature as error:
            why = error
    assert why is not None
    raise why
