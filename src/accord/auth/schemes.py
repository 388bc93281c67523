"""Schemes: what a request shows them, and how they are combined."""

import abc
import base64
import binascii
import dataclasses
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from ..model import SecurityRequirement, SecurityScheme, StringList
from ..net import Guard
from .caller import ANONYMOUS, Caller
from .cookies import read_cookie

if TYPE_CHECKING:
    from ..store import KeyStore

__all__ = [
    "Auth",
    "CallerCache",
    "Challenge",
    "Credentials",
    "InvalidCredentials",
    "Resources",
    "Scheme",
    "as_auth",
    "basic_user",
    "headers_of_key",
    "scheme",
]


class InvalidCredentials(Exception):
    """Raised when a request has credentials that are not valid.

    The reason is for the log and never holds the credentials. The client learns only that they are
    not valid, and `description`: what helps a client whose credentials were valid once, and nobody
    else.
    """

    def __init__(self, reason: str, description: str = "") -> None:
        super().__init__(reason)
        self.description = description


class Challenge(NamedTuple):
    """Hold what a scheme may say in `WWW-Authenticate`."""

    realm: str
    metadata: str  # the address of the resource's metadata (RFC 9728)
    error: str = ""  # one of RFC 6750; empty if no credentials were shown
    description: str = ""  # why, where the client may know it
    scopes: frozenset[str] = frozenset()


class Credentials:
    """Hold what a request says about its caller: headers, query, cookies and the client
    certificate.

    The same for every binding: gRPC's metadata are the headers, and what other bindings take from
    the query is metadata there too.
    """

    __slots__ = ("_headers", "_pairs", "_peer", "_query")

    def __init__(
        self,
        headers: Mapping[bytes, bytes],
        pairs: Iterable[tuple[bytes, bytes]],
        query: bytes | None,
        peer: Callable[[], tuple[str, Mapping[str, Any] | None]],
    ) -> None:
        self._headers = headers
        self._pairs = pairs
        self._query = query  # None if there can be none
        self._peer = peer

    def header(self, name: str) -> str:
        """Return a header; empty if there is none.

        Raises:
            InvalidCredentials: It is there twice: whoever reads it next may take the other one.
        """
        key = name.lower().encode("latin-1")
        value = self._headers.get(key)
        if value is None:
            return ""
        if [other for other, _ in self._pairs].count(key) > 1:
            raise InvalidCredentials(f"the header {name} was sent more than once")
        return value.decode("latin-1").strip()

    def headers(self, name: str) -> list[str]:
        """Return the items of a header that is a list, also if it was sent more than once."""
        key = name.lower().encode("latin-1")
        given = b",".join(value for other, value in self._pairs if other == key)
        return given.decode("latin-1").split(",") if given else []

    def query(self, name: str) -> str:
        """Return a parameter of the query; empty if there is none. Raises as `header` does."""
        if self._query is None:
            return self.header(name)
        if not self._query:
            return ""
        values = parse_qs(self._query.decode("latin-1"), keep_blank_values=True).get(name, [""])
        if len(values) > 1:
            raise InvalidCredentials(f"the parameter {name} was sent more than once")
        return values[0]

    def cookie(self, name: str) -> str:
        """Return a cookie; empty if there is none."""
        text = b"; ".join(value for key, value in self._pairs if key == b"cookie")
        return read_cookie(text.decode("latin-1"), name)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The certificate of the client, verified by TLS, as `ssl.SSLSocket.getpeercert` gives it;
        None if it showed none.
        """
        return self._peer()[1]

    @property
    def address(self) -> str:
        """The address the request came from."""
        return self._peer()[0]


class CallerCache:
    """Callers by the credentials they showed, for a while."""

    def __init__(self, seconds: float, most: int = 10_000) -> None:
        self._seconds = seconds
        self._most = most
        self._callers: dict[str, tuple[float, Caller]] = {}

    def get(self, shown: str) -> Caller | None:
        found = self._callers.get(shown)
        return found[1] if found is not None and found[0] > time.monotonic() else None

    def add(self, shown: str, caller: Caller) -> None:
        if len(self._callers) >= self._most:
            self._callers.clear()
        self._callers[shown] = (time.monotonic() + self._seconds, caller)


@dataclasses.dataclass
class Resources:
    """Hold what the app has for its schemes when it opens."""

    agent: str
    keys: "KeyStore"
    guard: Guard


class Auth(abc.ABC):
    """Say who may call: one scheme, or several with `|` (one is enough) or `&` (all are needed)."""

    @property
    @abc.abstractmethod
    def alternatives(self) -> "tuple[tuple[Scheme, ...], ...]":
        """Ways to authenticate: all schemes of one of them are needed (OR of ANDs)."""

    @property
    def schemes(self) -> "dict[str, Scheme]":
        """All schemes, by their names in the card."""
        return {scheme.name: scheme for way in self.alternatives for scheme in way}

    def __or__(self, other: Any) -> "Auth":
        return _Ways((*self.alternatives, *as_auth(other).alternatives))

    def __ror__(self, other: Any) -> "Auth":
        return as_auth(other) | self

    def __and__(self, other: Any) -> "Auth":
        others = as_auth(other).alternatives
        return _Ways(
            tuple(tuple(dict.fromkeys((*a, *b))) for a in self.alternatives for b in others)
        )

    def __rand__(self, other: Any) -> "Auth":
        return as_auth(other) & self

    def requirements(self, scopes: Iterable[str] = ()) -> list[SecurityRequirement]:
        """Return the card's entries: what a caller needs, and these scopes beside the scheme's.

        Callers without credentials have no scopes, so `Anyone` has no entry if scopes are required.
        """
        return [
            SecurityRequirement(
                {
                    scheme.name: StringList(sorted({*scheme.scopes, *scopes}))
                    for scheme in way
                    if not scheme.is_open
                }
            )
            for way in self.alternatives
            if not (scopes and way[0].is_open)
        ]

    def check(self) -> None:
        """Raise ValueError for schemes with the same name, or that make no sense together."""
        found: dict[str, Scheme] = {}
        for way in self.alternatives:
            if len(way) > 1 and any(one.is_open for one in way):
                raise ValueError(
                    "Anyone() & another scheme would ask for credentials; write ... | Anyone()"
                )
            for one in way:
                if found.setdefault(one.name, one) is not one:
                    raise ValueError(
                        f"two security schemes are called {one.name!r}; give one of them name="
                    )


class _Ways(Auth):
    def __init__(self, ways: "tuple[tuple[Scheme, ...], ...]") -> None:
        self._ways = ways
        self.check()

    @property
    def alternatives(self) -> "tuple[tuple[Scheme, ...], ...]":
        return self._ways


class Scheme(Auth):
    """Define one security scheme: its entry in the card, and how it is enforced."""

    # A browser sends these credentials by itself, also for a page of somebody else's.
    is_ambient = False
    issuer = ""  # where tokens come from
    is_guessable = True  # whoever fails too often gets 429 for the failures
    reads_all = True  # what `read` returns is the whole credentials: no others look the same
    needs_certificate = False
    # Headers its credentials come in, in lower case: never recorded, never shown.
    secret_headers: frozenset[str] = frozenset(["authorization"])
    is_open = False  # it lets callers without credentials in, and the card does not name it

    def __init__(self, name: str, scopes: Iterable[str] = ()) -> None:
        if not name:
            raise ValueError("a security scheme needs a name")
        if isinstance(scopes, str):
            raise TypeError(f"scopes is a list of names; write scopes=[{scopes!r}]")
        self.name = name
        self.scopes = frozenset(scopes)  # that every caller needs

    @property
    def alternatives(self) -> "tuple[tuple[Scheme, ...], ...]":
        return ((self,),)

    @abc.abstractmethod
    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        """Return its entry in the card; `scopes` are all that callers of the agent may need."""

    @abc.abstractmethod
    def read(self, credentials: Credentials) -> str:
        """Return the credentials of this scheme that a request shows, as they were sent; empty if
        it shows none. Raises InvalidCredentials.
        """

    def user_of(self, shown: str) -> str:
        """Return the user whose password these credentials hold; empty if nobody could guess the
        secrets of this scheme.

        The number of attempts is limited for each user, before a password is checked.
        """
        return ""

    def recall(self, shown: str) -> Caller | None:
        """Return the caller of these credentials if they were checked a moment ago; else None."""
        return None

    @abc.abstractmethod
    async def authenticate(self, shown: str, credentials: Credentials) -> Caller:
        """Return who shows these credentials; `shown` is what `read` returned.

        Raises:
            InvalidCredentials: They are not valid.
        """

    def challenge(self, why: Challenge) -> str:
        """Return the scheme's part of `WWW-Authenticate`; empty if it has none."""
        return ""

    async def open(self, resources: Resources) -> None:
        """Prepare the scheme. Raises RuntimeError if it can't be enforced here."""

    async def close(self) -> None:
        """Release what `open` has made."""


class _Custom(Scheme):
    """A user's own function, and the scheme it stands for. It is called for requests with
    credentials where the scheme says.
    """

    reads_all = False  # the function may look at more than that

    def __init__(
        self,
        function: Callable[[Credentials], Awaitable[Caller | None]],
        name: str,
        card: SecurityScheme,
        scopes: Iterable[str],
    ) -> None:
        super().__init__(name, scopes)
        self.function = function
        self._card = card
        key = card.api_key_security_scheme
        self.is_ambient = key is not None and key.location == "cookie"
        if key is not None:
            self.secret_headers = headers_of_key(key.location, key.name)

    def __call__(self, credentials: Credentials) -> Awaitable[Caller | None]:
        return self.function(credentials)

    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        return self._card

    def read(self, credentials: Credentials) -> str:
        return _shown(self._card, credentials)

    def user_of(self, shown: str) -> str:
        http = self._card.http_auth_security_scheme
        return basic_user(shown) if http is not None and http.scheme.lower() == "basic" else ""

    async def authenticate(self, shown: str, credentials: Credentials) -> Caller:
        found = await self.function(credentials)
        if found is None:
            raise InvalidCredentials("not accepted")
        if not isinstance(found, Caller):
            raise TypeError(
                f"{self.function.__name__} returned {type(found).__name__}; return a Caller, "
                "ANONYMOUS, or None"
            )
        if found.is_anonymous:
            return ANONYMOUS
        return found if found.scheme else msgspec.structs.replace(found, scheme=self.name)

    def challenge(self, why: Challenge) -> str:
        http = self._card.http_auth_security_scheme
        return f'{http.scheme} realm="{why.realm}"' if http is not None else ""


def headers_of_key(location: str, name: str) -> frozenset[str]:
    """Return the headers a key comes in. gRPC has no query: there its name is a header too."""
    return frozenset(["cookie" if location == "cookie" else name.lower()])


def _shown(card: SecurityScheme, credentials: Credentials) -> str:
    """Return the credentials of a request where a scheme of the card says; empty if none."""
    key = card.api_key_security_scheme
    if key is not None:
        places = {"query": credentials.query, "cookie": credentials.cookie}
        return places.get(key.location, credentials.header)(key.name)
    if card.mtls_security_scheme is not None:
        return "certificate" if credentials.certificate else ""
    http = card.http_auth_security_scheme
    word = http.scheme if http is not None else "Bearer"  # of OAuth 2.0 and OpenID Connect
    given, _, rest = credentials.header("authorization").partition(" ")
    return rest.strip() if given.lower() == word.lower() else ""


def basic_user(shown: str) -> str:
    """Return the user of Basic credentials (RFC 7617); `?` if they can't be read."""
    try:
        text = base64.b64decode(shown, validate=True).decode()
    except (ValueError, binascii.Error):
        return "?"
    return text.partition(":")[0] or "?"


def scheme(
    card: SecurityScheme, *, name: str = "custom", scopes: Iterable[str] = ()
) -> Callable[[Callable[[Credentials], Awaitable[Caller | None]]], Auth]:
    """Make a function a security scheme. It gets what a request shows, and returns its caller,
    ANONYMOUS for one who may call without a name, or None for one who is refused. It is not called
    for requests without credentials where `card` says: those are refused, unless `| Anyone()` lets
    them in.

    @scheme(SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Session")))
    async def session(request: Credentials) -> Caller | None: ...
    """

    def make(function: Callable[[Credentials], Awaitable[Caller | None]]) -> Auth:
        return _Custom(function, name, card, scopes)

    return make


def as_auth(value: Any) -> Auth:
    """Return what a user gave as `auth=`. Raises TypeError for what it can't be."""
    if isinstance(value, Auth):
        return value
    if inspect.isroutine(value):
        raise TypeError(
            f"auth={value.__name__}: the card has to say which security scheme this function "
            "checks; decorate it with @accord.auth.scheme(SecurityScheme(...))"
        )
    raise TypeError(
        f"auth is a {type(value).__name__}; use ApiKeys(), OIDC(...), a function decorated with "
        "@accord.auth.scheme, or several of them with | and &"
    )
