"""Who is calling: asked once for each request, whatever its binding."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from ..model import (
    A2AError,
    Limits,
    PermissionDenied,
    TooManyRequests,
    Unauthenticated,
)
from ..net import Rate, TokenBuckets
from .anyone import Anyone
from .caller import Caller
from .forwarded import TrustedProxies, counted_as
from .schemes import Auth, Challenge, Credentials, InvalidCredentials, Resources, Scheme

__all__ = ["Authenticator"]

log_ = logging.getLogger("accord")

SOURCES = 10_000  # addresses and callers that are counted; the oldest are forgotten
USERS = 10  # times the failures of one user, an address may have for all of them
LOGGED_S = 60.0  # how long the same refusal of the same address is not logged again


class Authenticator:
    """Authenticates the callers of one agent, and counts what they ask for.

    A right key or token is let in, whatever others at the same address do: only failures are
    limited. Passwords can be guessed, so attempts for one user from one address are limited before
    they are checked. So are those for all users from one address: each check takes a while, and
    whoever makes up names must not keep others waiting.
    """

    def __init__(
        self, auth: Auth, realm: str, limits: Limits, trusted_proxies: Iterable[str] = ()
    ) -> None:
        self.auth = auth
        self.schemes = tuple(auth.schemes.values())
        self._ways = [
            (way, frozenset().union(*(scheme.scopes for scheme in way)))
            for way in auth.alternatives
            if not way[0].is_open
        ]
        if not self._ways:
            raise ValueError(
                "auth=Anyone() alone authenticates nobody: leave auth= out, or add a scheme: "
                "ApiKeys() | Anyone()"
            )
        self._anyone = next((one for one in self.schemes if isinstance(one, Anyone)), None)
        # Where credentials may be, also of schemes we do not have. Other cookies are harmless.
        self._secret_headers = {"authorization"}.union(
            *(scheme.secret_headers for scheme in self.schemes)
        ) - {"cookie"}
        self._realm = _quotable(realm)
        self._logins = _Logins(limits.failed_logins)
        self._sprays = _Logins(limits.failed_logins * USERS)
        self._failures = _Counts(limits.failed_logins, limits.failed_logins / 60)
        self._failed_logins = limits.failed_logins
        self._proxies = TrustedProxies(trusted_proxies)
        self._logged = _Logged()
        self._calls = _Counts(limits.calls_burst, limits.calls_per_s)
        # Hashes of passwords that were valid: their owners are not shut out by others at the same
        # address who guess.
        self._known: set[int] = set()
        self._calls_per_s = limits.calls_per_s

    async def open(self, resources: Resources) -> None:
        """Get ready. Raises RuntimeError for a scheme that can't be enforced."""
        for scheme in self.schemes:
            await scheme.open(resources)

    async def close(self) -> None:
        for scheme in self.schemes:
            await scheme.close()

    def precheck(self, credentials: Credentials, metadata: str = "") -> A2AError | None:
        """Return the error for a request without any credentials, when only its headers have come;
        None if the request has to be checked.
        """
        if self._anyone is not None:
            return None
        try:
            if any(scheme.read(credentials) for scheme in self.schemes):
                return None
        except InvalidCredentials:
            return None  # counted when it is authenticated
        return self._unauthenticated(metadata, "", {})

    def recall(self, credentials: Credentials) -> Caller | None:
        """Return who sent a request, if one scheme was enough and has seen these credentials a
        moment ago; None if `authenticate` has to say. Most calls of a client are of this kind.
        """
        try:
            for way, scopes in self._ways:
                shown = way[0].read(credentials) if len(way) == 1 else ""
                caller = way[0].recall(shown) if shown else None
                if caller is not None and scopes <= caller.scopes:
                    return caller if not self._take_call(caller, credentials) else None
            if self._anyone is not None and not self._shows_any(credentials):
                caller = self._anyone.caller
                return caller if not self._take_call(caller, credentials) else None
        except InvalidCredentials:
            pass
        return None

    async def authenticate(
        self, credentials: Credentials, metadata: Callable[[], str] = str
    ) -> Caller:
        """Return who sent a request. `metadata` gives the address of the resource metadata.

        Raises:
            Unauthenticated: No credentials, or none that are valid.
            PermissionDenied: They lack a scope every caller needs.
            TooManyRequests: Too many calls, or too many failed logins from this address.
        """
        attempt = _Attempt()
        try:
            return await self._find(credentials, attempt, metadata)
        finally:
            for logins, name in attempt.logins:
                logins.end(name)

    async def _find(
        self, credentials: Credentials, attempt: "_Attempt", metadata: Callable[[], str]
    ) -> Caller:
        for way, scopes in self._ways:
            caller = await self._join(way, credentials, attempt)
            if caller is None:
                continue
            if scopes <= caller.scopes:
                self._check_calls(caller, credentials)
                return caller
            attempt.missing = attempt.missing or scopes - caller.scopes
        if attempt.missing:
            raise self.denied(attempt.missing, metadata())
        if attempt.failed:
            self._count_failure(self._proxies.client_of(credentials), attempt)
            raise self._unauthenticated(metadata(), "invalid_token", attempt.descriptions)
        if self._anyone is not None and not self._shows_any(credentials):
            self._check_calls(self._anyone.caller, credentials)
            return self._anyone.caller
        raise self._unauthenticated(metadata(), "", {})

    def _shows_any(self, credentials: Credentials) -> bool:
        """Return whether a request has credentials, also of schemes we do not have."""
        try:
            return any(credentials.header(name) for name in self._secret_headers) or any(
                scheme.read(credentials) for scheme in self.schemes
            )
        except InvalidCredentials:  # sent more than once
            return True

    def is_authenticated(self, caller: Caller) -> bool:
        """Return whether a caller has shown credentials."""
        scheme = self.auth.schemes.get(caller.scheme)
        return not caller.is_anonymous and (scheme is None or not scheme.is_open)

    def challenges(self) -> tuple[str, ...]:
        """Return what `WWW-Authenticate` says to a caller without credentials."""
        return self._challenges("", "", frozenset(), {})

    def _count_failure(self, source: str, attempt: "_Attempt") -> None:
        reasons = "; ".join(attempt.failed)
        is_new = self._logged.is_new(source, reasons)
        level = logging.WARNING if is_new else logging.DEBUG
        log_.log(level, "a request from %s was not authenticated: %s", source or "?", reasons)
        for logins, name in attempt.logins:
            logins.fail(name)
        if attempt.is_guess and not attempt.logins:
            wait_s = self._failures.take(counted_as(source))
            if wait_s:
                raise _too_many_failures(self._failed_logins, wait_s)

    async def _join(
        self, way: tuple[Scheme, ...], credentials: Credentials, attempt: "_Attempt"
    ) -> Caller | None:
        """Return who shows credentials of all schemes of a way; None if one of them is missing."""
        callers: list[Caller] = []
        for scheme in way:
            if scheme not in attempt.found:
                try:
                    attempt.found[scheme] = await self._authenticate(scheme, credentials, attempt)
                except InvalidCredentials as reason:
                    attempt.found[scheme] = None
                    attempt.failed.append(f"{scheme.name}: {reason}")
                    attempt.descriptions[scheme.name] = reason.description
                    attempt.is_guess = attempt.is_guess or scheme.is_guessable
            found = attempt.found[scheme]
            if found is None:
                return None
            callers.append(found)
        return callers[0] if len(callers) == 1 else _joined(callers)

    async def _authenticate(
        self, scheme: Scheme, credentials: Credentials, attempt: "_Attempt"
    ) -> Caller | None:
        shown = scheme.read(credentials)
        if not shown:
            return None
        user = scheme.user_of(shown)
        if not user:
            return await scheme.authenticate(shown, credentials)
        known = hash(shown) if scheme.reads_all else None
        if known not in self._known and not attempt.logins:
            source = counted_as(self._proxies.client_of(credentials))
            counted = ((self._sprays, source), (self._logins, f"{source} {hash(user)}"))
            for logins, name in counted:
                await logins.begin(name)
                attempt.logins.append((logins, name))
        caller = await scheme.authenticate(shown, credentials)
        if known is not None and known not in self._known:
            if len(self._known) >= SOURCES:
                self._known.clear()
            self._known.add(known)
        return caller

    def denied(self, missing: frozenset[str], metadata: str = "") -> PermissionDenied:
        """The error for a caller without these scopes."""
        names = " ".join(sorted(missing))
        error = PermissionDenied(f"these credentials lack the scope {names}", scope=names)
        error.challenges = self._challenges(metadata, "insufficient_scope", missing, {})
        return error

    def _unauthenticated(
        self, metadata: str, why: str, descriptions: Mapping[str, str]
    ) -> Unauthenticated:
        described = "; ".join(text for text in descriptions.values() if text)
        error = Unauthenticated(
            f"the credentials are not valid{f': {described}' if described else ''}"
            if why
            else "this agent needs credentials; its card says which"
        )
        error.challenges = self._challenges(metadata, why, frozenset(), descriptions)
        return error

    def _challenges(
        self, metadata: str, error: str, scopes: frozenset[str], descriptions: Mapping[str, str]
    ) -> tuple[str, ...]:
        found = (
            s.challenge(
                Challenge(self._realm, metadata, error, descriptions.get(s.name, ""), scopes)
            )
            for s in self.schemes
        )
        return tuple(dict.fromkeys(text for text in found if text))

    def _take_call(self, caller: Caller, credentials: Credentials) -> int:
        """Count a call of a caller, or of an address if it is anonymous; return the wait in s."""
        return self._calls.take(caller.identity or counted_as(self._proxies.client_of(credentials)))

    def _check_calls(self, caller: Caller, credentials: Credentials) -> None:
        wait_s = self._take_call(caller, credentials)
        if wait_s:
            raise TooManyRequests(
                f"more than {self._calls_per_s:g} calls per second of one caller",
                retry_after_s=wait_s,
                limit="calls_per_s",
            )


class _Attempt:
    """What came of the schemes that were asked about one request."""

    __slots__ = ("descriptions", "failed", "found", "is_guess", "logins", "missing")

    def __init__(self) -> None:
        self.found: dict[Scheme, Caller | None] = {}
        self.failed: list[str] = []
        self.descriptions: dict[str, str] = {}  # by scheme: what the client may know of the reason
        self.is_guess = False
        # The try for a password: where it is counted as under way, and as what
        self.logins: list[tuple[_Logins, str]] = []
        self.missing: frozenset[str] = frozenset()


def _joined(callers: list[Caller]) -> Caller:
    """Of several credentials the first names the caller; all add their scopes."""
    first = callers[0]
    return Caller(
        first.name,
        next((c.tenant for c in callers if c.tenant), ""),
        frozenset().union(*(c.scopes for c in callers)),
        first.claims,
        first.scheme,
    )


def _quotable(text: str) -> str:
    """Text for a quoted string of a header: printable ASCII without quotes."""
    return "".join(c if " " <= c <= "~" and c not in '"\\' else "?" for c in text)


class _Counts:
    """Counts what each name does against one rate."""

    def __init__(self, most: float, per_s: float) -> None:
        self._rate = Rate(most, per_s)
        self._buckets = TokenBuckets(SOURCES)

    def wait_s(self, name: str, more: int = 0) -> int:
        """Return after how many seconds there is room for one, after `more` others; 0 if now."""
        return _whole_s(self._buckets.wait_s(name, self._rate, 1 + more))

    def take(self, name: str) -> int:
        """Take one, if there is room; else return after how many seconds there is."""
        return _whole_s(self._buckets.take(name, self._rate))


def _whole_s(wait_s: float) -> int:
    return math.ceil(min(wait_s, 3600.0))


class _Logins:
    """Failed logins of each user and address, and logins under way, any of which may fail.

    Both together are never more than the limit: else one could make any number of guesses by making
    them at once. A login that finds no room waits for those under way, which may well succeed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._failed = _Counts(most, most / 60)
        self._under_way: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def begin(self, source: str) -> None:
        """Count a login as under way, until `end`. Raises TooManyRequests."""
        under_way = self._under_way.get(source, 0)
        wait_s = self._failed.wait_s(source, under_way)
        if not wait_s:
            self._under_way[source] = under_way + 1
            return
        if not under_way:
            raise self._too_many(wait_s)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(source, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.end(source)  # it was our turn already
            raise

    def fail(self, source: str) -> None:
        self._failed.take(source)

    def end(self, source: str) -> None:
        """Let those who wait take the place; if none is under way that could make room, refuse."""
        under_way = self._under_way.pop(source) - 1
        waiting = self._waiting.get(source, deque())
        wait_s = self._failed.wait_s(source, under_way)
        while waiting and not (wait_s and under_way):
            turn = waiting.popleft()
            if turn.done():  # cancelled
                continue
            if wait_s:
                turn.set_exception(self._too_many(wait_s))
                continue
            turn.set_result(None)
            under_way += 1
            wait_s = self._failed.wait_s(source, under_way)
        if not waiting:
            self._waiting.pop(source, None)
        if under_way:
            self._under_way[source] = under_way

    def _too_many(self, wait_s: int) -> TooManyRequests:
        return _too_many_failures(self._most, wait_s)


def _too_many_failures(most: int, wait_s: int) -> TooManyRequests:
    return TooManyRequests(
        f"more than {most} failed logins per minute from this address",
        retry_after_s=wait_s,
        limit="failed_logins",
    )


class _Logged:
    """Refusals that were logged a moment ago."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def is_new(self, source: str, reasons: str) -> bool:
        """Return whether this was not logged within the last minute, and remember it as logged."""
        key, now = hash((source, reasons)), time.monotonic()
        if self._until.get(key, 0.0) > now:
            return False
        if len(self._until) >= SOURCES:
            self._until.clear()
        self._until[key] = now + LOGGED_S
        return True
