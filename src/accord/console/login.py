"""Who may use the console: whoever opened a link that was made for it.

A link works once. It leaves two halves of a secret in the browser, and a request needs both: a
cookie, which scripts can't read, and a value that the page sends as a header. The cookie alone
proves nothing: browsers send it to every port of a host, and any web page can make them send it.
The other half is stored under the page's origin, which includes the port.
"""

import contextlib
import hashlib
import hmac
import secrets
import time
from typing import Any, NamedTuple

from ..auth import read_cookie
from ..model import now_ms, whole_number
from ..server import HttpRequest
from ..store import CommitFailed, LoginStore, StoredLogin

__all__ = ["HEADER", "BrowserSessions", "Opened", "is_same_origin"]

HEADER = b"x-accord-session"
IDLE_MS = 12 * 3600 * 1000
LONGEST_MS = 7 * 24 * 3600 * 1000
LINK_MS = 24 * 3600 * 1000  # how long a link that nobody opened is valid
USED_MS = 60 * 1000  # the time a session was last used is stored this often
TICKET_MS = 60 * 1000
MOST = 100
KNOWN_S = 1.0  # how long a session is cached: other processes may accept a closed one that long


class Opened(NamedTuple):
    """What a browser gets when it opens a link."""

    cookie: bytes  # the value of Set-Cookie
    secret: str  # what the page sends with every request


class BrowserSessions:
    """The links, and the browsers that opened them. They are in the store, so that all processes of
    an agent know them.
    """

    def __init__(self, store: LoginStore) -> None:
        self._store = store
        self._known: dict[bytes, tuple[float, StoredLogin]] = {}

    async def new_link(self) -> str:
        """Make a link and return its key. Browsers that are logged in stay so."""
        await self._tidy()
        id_, key = _new_id(), secrets.token_urlsafe(18)
        now = now_ms()
        await self._store.add(StoredLogin(id_, _digest(key), now, now, is_link=True))
        return f"{id_}.{key}"

    async def open(self, key: str, request: HttpRequest) -> Opened | None:
        """Log a browser in; None if the link was used, is too old, or never was one."""
        id_, _, rest = key.partition(".")
        link = await self._store.find(id_) if id_.isalnum() else None
        if link is None or not link.is_link or not _is_living(link):
            return None
        if not hmac.compare_digest(link.digest, _digest(rest)):
            return None
        if not await self._store.remove(id_):
            return None  # another was faster
        await self._tidy()
        own, secret = _new_id(), secrets.token_urlsafe(32)
        cookie = f"{own}.{secrets.token_urlsafe(32)}"
        browser = request.headers.get(b"user-agent", b"").decode("latin-1")[:200]
        now = now_ms()
        digest = _digest(cookie, secret)
        await self._store.add(StoredLogin(own, digest, now, now, browser=browser))
        secure = "; Secure" if request.server_url().scheme == "https" else ""
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
        if not self.shows(request) or not is_same_origin(request):
            return None
        cookie = _cookie(request)
        digest = _digest(cookie, request.headers[HEADER].decode("latin-1"))
        found = await self._found(cookie.partition(".")[0], digest)
        if found is None or found.is_link or not _is_living(found):
            return None
        if not hmac.compare_digest(found.digest, digest):
            return None
        if now_ms() - found.seen_ms > USED_MS:
            self._known.pop(digest, None)
            with contextlib.suppress(CommitFailed):  # the next request notes it
                await self._store.use(found.id, now_ms())
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

    def ticket(self, session: StoredLogin, address: str) -> str:
        """Return a ticket that lets the browser read this address for a minute without the page's
        header: a frame, or a file that is saved, can't send one.
        """
        until = now_ms() + TICKET_MS
        return f"{session.id}.{until}.{_signed(session, address, until)}"

    async def is_ticketed(self, address: str, ticket: str) -> bool:
        """Return whether a ticket was made for this address and is still valid."""
        id_, number, signature = (*ticket.split("."), "", "", "")[:3]
        until = whole_number(number)
        if until is None or until < now_ms():
            return False
        found = await self._store.find(id_)
        if found is None or found.is_link or not _is_living(found):
            return False
        return hmac.compare_digest(signature.encode(), _signed(found, address, until).encode())

    async def close(self, id: str) -> bool:
        """Log a browser out."""
        self._known.clear()
        return await self._store.remove(id)

    async def shown(self, own: StoredLogin) -> list[dict[str, Any]]:
        """Return all sessions, for the page."""
        return [
            {
                "id": one.id,
                "agent": one.browser,
                "since": one.created_ms,
                "seen": one.seen_ms,
                "own": one.id == own.id,
            }
            for one in await self._store.list()
            if not one.is_link and _is_living(one)
        ]

    async def _tidy(self) -> None:
        """Delete what has expired, and the oldest if there are too many."""
        all_ = await self._store.list()
        living = [one for one in all_ if _is_living(one)]
        kept = {one.id for one in living[-(MOST - 1) :]}
        for one in all_:
            if one.id not in kept:
                await self._store.remove(one.id)


def cookie_name(request: HttpRequest) -> str:
    """Browsers share cookies between the ports of a host, so the name has the port in it."""
    _, (_, port), _ = request.server_url()
    return f"accord-{port}"


def is_same_origin(request: HttpRequest) -> bool:
    """Return whether the browser says that a page of our own origin made a request."""
    headers = request.headers
    site = headers.get(b"sec-fetch-site")
    if site is not None and site not in (b"same-origin", b"none"):
        return False
    origin = headers.get(b"origin")
    if origin is None:
        return True
    scheme = request.server_url().scheme.encode()
    return origin == b"%b://%b" % (scheme, headers.get(b"host", b""))


def _is_living(login: StoredLogin) -> bool:
    now = now_ms()
    if login.is_link:
        return now - login.created_ms < LINK_MS
    return now - login.seen_ms < IDLE_MS and now - login.created_ms < LONGEST_MS


def _cookie(request: HttpRequest) -> str:
    header = request.headers.get(b"cookie", b"").decode("latin-1")
    return read_cookie(header, cookie_name(request))


def _new_id() -> str:
    return secrets.token_hex(8)


def _digest(*secret: str) -> bytes:
    return hashlib.sha256(" ".join(secret).encode()).digest()


def _signed(session: StoredLogin, address: str, until: int) -> str:
    return hmac.digest(session.digest, f"{until} {address}".encode(), "sha256").hex()
