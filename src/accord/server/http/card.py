"""The agent card at its well-known place, cacheable."""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ...model import AgentCard
from ...operations import VERSIONS, Version
from ...protocol import lenient
from ...protocol.v1 import codec as v1
from ..request import JSON, Headers, HttpRequest, HttpResponse, http_date

__all__ = ["CARD_PATH", "CardEndpoint", "CardSigner"]

log_ = logging.getLogger("accord")

# What proxies say about the address a client used. Anyone can send these headers: they are
# compared, never used.
_FORWARDED = frozenset([b"x-forwarded-host", b"x-forwarded-proto"])

CARD_PATH = "/.well-known/agent-card.json"
MAX_AGE_S = 60


class CardSigner(Protocol):
    """Signs cards with the server's key."""

    def key_id(self) -> str:
        """The key that is used now: what others have signed is made anew."""
        ...

    def sign(
        self, card: AgentCard, base: str, served: Mapping[str, Any] | None = None
    ) -> AgentCard:
        """Return the card with signatures; `served` is the JSON it is part of, signed too."""
        ...


class CardEndpoint:
    """Serves the card, with the address the caller used where that can be trusted.

    Without a configured URL the Host header counts only if it names this machine's loopback or the
    address the server is bound to: a card must not send clients wherever a stranger's header says.
    """

    def __init__(
        self,
        card: Callable[[str], AgentCard],
        url: str | None,
        started_s: float,
        versions: Sequence[Version],
        signer: CardSigner | None = None,
    ) -> None:
        self.paths = frozenset(
            [CARD_PATH, *(version.card_path for version in versions if version.card_path)]
        )
        self._versions = versions
        # who names one of these reads the card as it is; so does who names one still to come
        plain = {version.number.partition(".")[0] for version in VERSIONS if version.card is None}
        self._plain = tuple(f"{major}.".encode() for major in plain)
        self._card = card
        self._url = url.rstrip("/") if url else None
        self._modified = http_date(started_s)
        self._signer = signer
        self._has_compared = False
        self._made: dict[tuple[str, bool, str], tuple[bytes, bytes]] = {}

    def __call__(self, request: HttpRequest) -> HttpResponse:
        headers = request.headers
        base = self.base(request)
        if not self._has_compared and not _FORWARDED.isdisjoint(headers):
            self._compare(base, headers)
        body, tag = self._encoded(base, headers.get(b"a2a-version", b"").startswith(self._plain))
        cache = (
            (b"etag", tag),
            (b"cache-control", b"public, max-age=%d" % MAX_AGE_S),
            (b"last-modified", self._modified),
            (b"vary", b"A2A-Version"),
        )
        known = headers.get(b"if-none-match", b"")
        is_same = known == b"*" or tag in [
            item.strip().removeprefix(b"W/") for item in known.split(b",")
        ]
        if is_same or (not known and headers.get(b"if-modified-since") == self._modified):
            return HttpResponse(304, headers=cache)
        return HttpResponse(200, body, JSON, cache)  # to HEAD a server sends the headers alone

    def _compare(self, base: str, headers: Headers) -> None:
        """Say once, behind a proxy, if the card sends clients elsewhere than they came from."""
        self._has_compared = True
        scheme, _, rest = base.partition("://")
        host, _, path = rest.partition("/")
        used_scheme = _first(headers, b"x-forwarded-proto") or scheme
        used_host = _first(headers, b"x-forwarded-host") or host
        used = f"{used_scheme}://{used_host}" + (f"/{path}" if path else "")
        if (used_scheme, used_host.lower()) != (scheme, host.lower()):
            log_.warning(
                "a proxy says that clients use %s, but the agent card names %s; say where clients "
                "reach this server: --url %s",
                *(used, base, used),
            )

    def _encoded(self, base: str, is_plain: bool) -> tuple[bytes, bytes]:
        signed_by = self._signer.key_id() if self._signer is not None else ""
        made = self._made.get((base, is_plain, signed_by))
        if made is None:
            card = self._card(base)
            body = v1.encode(self._pure(card, base) if is_plain else self._union(card, base))
            tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:16].encode()
            if len(self._made) > 64:
                self._made.clear()
            made = self._made[base, is_plain, signed_by] = (body, tag)
        return made

    def _pure(self, card: AgentCard, base: str) -> AgentCard:
        """Return the card as the model has it, for clients that name a version that does too."""
        return self._signer.sign(card, base) if self._signer is not None else card

    def _union(self, card: AgentCard, base: str) -> dict[str, Any]:
        """Return the card with what the readers of every served version need.

        It is signed twice: as 1.0 readers parse it, without members of other versions, and as it
        is served, for readers who canonicalize the JSON they received (8.4.3).
        """
        value: dict[str, Any] = msgspec.to_builtins(card)
        for version in self._versions:
            if version.card is not None:
                version.card(value)
        if self._signer is not None:
            signed = self._signer.sign(lenient.convert(value, AgentCard), base, value)
            value["signatures"] = msgspec.to_builtins(signed.signatures)
        return value

    def base(self, request: HttpRequest) -> str:
        """The address a caller reaches us at."""
        return self._url if self._url is not None else request.base_url()


def _first(headers: Headers, name: bytes) -> str:
    """The first value of a header that proxies add to, without what would upset a log."""
    value = headers.get(name, b"").partition(b",")[0].strip().decode("latin-1")
    return value if value.isprintable() and len(value) <= 255 else ""
