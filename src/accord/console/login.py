"""Who may use the console: whoever opened a link that was made for it, or logged in with OpenID
Connect, which makes such a link.

A link works once. It leaves two halves of a secret in the browser, and a request needs both: a
cookie, which scripts can't read, and a value that the page sends as a header. The cookie alone
proves nothing: browsers send it to every port of a host, and any web page can make them send it.
The other half is stored under the page's origin, which includes the port.
"""

import contextlib
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ..auth import read_cookie
from ..model import A2AError, whole_number
from ..server import HttpRequest
from ..store import CommitFailed, LoginStore, StoredLogin

__all__ = ["HEADER", "BrowserSessions", "Opened", "cookie_name"]

log_ = logging.getLogger("accord")

HEADER = b"x-accord-session"
IDLE_MS = 12 * 3600 * 1000
LONGEST_MS = 7 * 24 * 3600 * 1000
PERSON_MS = 12 * 3600 * 1000  # after which somebody has to log in again with their provider
LINK_MS = 24 * 3600 * 1000  # how long a link that nobody opened is valid,
PERSON_LINK_MS = 10 * 60 * 1000  # and one that logs in somebody who showed who they are
USED_MS = 60 * 1000  # the time a session was last used is stored this often
TICKET_MS = 60 * 1000
MOST = 1000
KNOWN_S = 1.0  # how long a session is cached: other processes may accept a closed one that long


class Opened(NamedTuple):
    """What a browser gets when it opens a link."""

    cookie: bytes  # the value of Set-Cookie
    secret: str  # what the page sends with every request


class BrowserSessions:
    """The links, and the browsers that opened them. They are in the store, so that all processes of
    an agent know them.
    """

    def __init__(self, store: LoginStore, address: Callable[[], str] = lambda: "") -> None:
        """`address`: where people reach the server, if that is known."""
        self._store = store
        self._address = address
        self._known: dict[bytes, tuple[float, StoredLogin]] = {}

    async def new_link(self, caller: str = "", *, since_ms: int | None = None) -> str:
        """Make a link and return its key. Browsers that are logged in stay so.

        It logs in the operator; or the `caller`, as a login stores it, who logged in with their
        provider at `since_ms`, or now.
        """
        await self._tidy()
        id_, key = _new_id(), secrets.token_urlsafe(18)
        now = self._store.now_ms()
        made = now if since_ms is None or not caller else since_ms
        link = StoredLogin(id_, _digest(key), made, now, is_link=True, caller=caller)
        await self._store.add(link)
        return f"{id_}.{key}"

    async def first_link(self) -> str:
        """Make the link that is shown at the start and return its key; empty if the store can't be
        used now: the agent is served all the same.
        """
        try:
            return await self.new_link()
        except (CommitFailed, A2AError) as error:
            log_.warning(
                "there is no link to the console now: %s. Make one later: accord console link",
                error,
            )
            return ""

    async def open(self, key: str, request: HttpRequest) -> Opened | None:
        """Log a browser in; None if the link was used, is too old, or never was one."""
        id_, _, rest = key.partition(".")
        link = await self._store.find(id_) if id_.isalnum() else None
        if link is None or not link.is_link or not _is_living(link, self._store.now_ms()):
            return None
        if not hmac.compare_digest(link.digest, _digest(rest)):
            return None
        if not await self._store.remove(id_):
            return None  # another was faster
        await self._tidy()
        own, secret = _new_id(), secrets.token_urlsafe(32)
        cookie = f"{own}.{secrets.token_urlsafe(32)}"
        browser = request.headers.get(b"user-agent", b"").decode("latin-1")[:200]
        now = self._store.now_ms()
        digest = _digest(cookie, secret)
        since = link.created_ms if link.caller else now  # a link does not prolong a login
        login = StoredLogin(own, digest, since, now, browser=browser, caller=link.caller)
        await self._store.add(login)
        secure = "; Secure" if self.origin_of(request).startswith("https:") else ""
        header = (
            f"{cookie_name(request)}={cookie}; Path=/; HttpOnly; SameSite=Strict; "
            f"Max-Age={LONGEST_MS // 1000}{secure}"
        )
        return Opened(header.encode(), secret)

    def shows(self, request: HttpRequest) -> bool:
        """Return whether a request shows a session. `session` says whether it is valid."""
        return bool(request.headers.get(HEADER)) and bool(_cookie(request))

    async def session(self, request: HttpRequest) -> StoredLogin | None:
        """Return the session of a request; None if it has none that counts."""
        if not self.shows(request) or not self.is_same_origin(request):
            return None
        cookie = _cookie(request)
        digest = _digest(cookie, request.headers[HEADER].decode("latin-1"))
        found = await self._found(cookie.partition(".")[0], digest)
        if found is None or found.is_link or not _is_living(found, self._store.now_ms()):
            return None
        if not hmac.compare_digest(found.digest, digest):
            return None
        if self._store.now_ms() - found.seen_ms > USED_MS:
            self._known.pop(digest, None)
            with contextlib.suppress(CommitFailed):  # the next request notes it
                await self._store.use(found.id, self._store.now_ms())
        return found

    async def _found(self, id: str, digest: bytes) -> StoredLogin | None:
        known = self._known.get(digest)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        found = await self._store.find(id)
        if len(self._known) >= MOST:
            self._known.clear()
        if found is not None and hmac.compare_digest(found.digest, digest):
            self._known[digest] = (time.monotonic() + KNOWN_S, found)
        return found

    def origin_of(self, request: HttpRequest) -> str:
        """Return our own origin as the browser of a request has it. A proxy in front may speak TLS,
        so at the name where people reach the server it is what they are told.
        """
        host = request.headers.get(b"host", b"").decode("latin-1")
        scheme, _, rest = self._address().partition("://")
        is_there = rest.partition("/")[0].lower().removesuffix(":443") == host.lower()
        return f"{scheme if host and is_there else request.server_url().scheme}://{host}"

    def is_same_origin(self, request: HttpRequest) -> bool:
        """Return whether the browser says that a page of our own origin made a request."""
        site = request.headers.get(b"sec-fetch-site")
        if site is not None and site not in (b"same-origin", b"none"):
            return False
        origin = request.headers.get(b"origin")
        return origin is None or origin == self.origin_of(request).encode("latin-1")

    def ticket(self, session: StoredLogin, address: str) -> str:
        """Return a ticket that lets the browser read this address for a minute without the page's
        header: a frame, or a file that is saved, can't send one.
        """
        until = self._store.now_ms() + TICKET_MS
        return f"{session.id}.{until}.{_signed(session, address, until)}"

    async def is_ticketed(self, address: str, ticket: str) -> bool:
        """Return whether a ticket was made for this address and is still valid."""
        # Nothing may follow the ticket: it would be read as a part of the address, unsigned.
        id_, number, signature = parts if len(parts := ticket.split(".")) == 3 else ("", "", "")
        until = whole_number(number)
        if until is None or until < self._store.now_ms():
            return False
        found = await self._store.find(id_)
        if found is None or found.is_link or not _is_living(found, self._store.now_ms()):
            return False
        return hmac.compare_digest(signature.encode(), _signed(found, address, until).encode())

    async def close(self, id: str) -> bool:
        """Log a browser out."""
        self._known.clear()
        return await self._store.remove(id)

    async def shown(self, own: StoredLogin) -> list[dict[str, Any]]:
        """Return all sessions, for the page."""
        now = self._store.now_ms()
        return [
            {
                "id": one.id,
                "agent": one.browser,
                "since": one.created_ms,
                "seen": one.seen_ms,
                "own": one.id == own.id,
            }
            for one in await self._store.list()
            if not one.is_link and _is_living(one, now)
        ]

    async def _tidy(self) -> None:
        """Delete what has expired, and the oldest if there are too many."""
        all_, now = await self._store.list(), self._store.now_ms()
        living = [one for one in all_ if _is_living(one, now)]
        kept = {one.id for one in living[-(MOST - 1) :]}
        for one in all_:
            if one.id not in kept:
                await self._store.remove(one.id)


def cookie_name(request: HttpRequest) -> str:
    """Browsers share cookies between the ports of a host, so the name has the port in it: the one
    that the browser knows, which is that of a proxy if there is one.
    """
    port = request.headers.get(b"host", b"").rpartition(b":")[2].decode("latin-1")
    return f"accord-{port if whole_number(port) is not None else 'usual'}"


def _is_living(login: StoredLogin, now: int) -> bool:
    if login.is_link and not login.caller:
        return now - login.created_ms < LINK_MS
    if login.is_link:  # it was made at `seen_ms`, perhaps long after the login
        return now - login.seen_ms < PERSON_LINK_MS and now - login.created_ms < PERSON_MS
    longest_ms = PERSON_MS if login.caller else LONGEST_MS
    return now - login.seen_ms < IDLE_MS and now - login.created_ms < longest_ms


def _cookie(request: HttpRequest) -> str:
    header = request.headers.get(b"cookie", b"").decode("latin-1")
    return read_cookie(header, cookie_name(request))


def _new_id() -> str:
    return secrets.token_hex(8)


def _digest(*secret: str) -> bytes:
    return hashlib.sha256(" ".join(secret).encode()).digest()


def _signed(session: StoredLogin, address: str, until: int) -> str:
    return hmac.digest(session.digest, f"{until} {address}".encode(), "sha256").hex()
