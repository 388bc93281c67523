"""Who may use the console: whoever opened the link that was printed when the server started.

The link works once and leaves a cookie. Any web page can make a browser send requests to a server
on this machine, so a cookie alone proves nothing: see `is_from_our_page`.
"""

import hashlib
import hmac
import logging
import os
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any

import msgspec

from ..server import HttpRequest

__all__ = ["BrowserSessions", "is_from_our_page"]

log_ = logging.getLogger("accord")

IDLE_S = 12 * 3600.0
LONGEST_S = 7 * 24 * 3600.0
MOST = 100


class BrowserSession(msgspec.Struct):
    """One browser that opened the link."""

    id: str
    digest: bytes  # of the cookie: the cookie itself is not kept
    agent: str  # the browser, as it calls itself
    since_s: float
    seen_s: float


class BrowserSessions:
    """The link, and the browsers that opened it."""

    def __init__(self, file: Path | None = None) -> None:
        """Args:
        file: Where sessions are kept over a restart; in memory alone without it.
        """
        self._file = file
        self._key = secrets.token_urlsafe(18)
        self._sessions: list[BrowserSession] = self._read()

    @property
    def key(self) -> str:
        """What the next link has; empty once it was used."""
        return self._key

    def renew(self) -> str:
        """Make a new link. Browsers that opened the old one stay logged in."""
        self._key = secrets.token_urlsafe(18)
        return self._key

    def open(self, key: str, request: HttpRequest) -> bytes | None:
        """Log a browser in and return its cookie; None if the link was used, or never was one."""
        if not self._key or not hmac.compare_digest(key.encode(), self._key.encode()):
            return None
        self._key = ""
        token = secrets.token_urlsafe(32)
        now = time.time()
        agent = request.headers.get(b"user-agent", b"").decode("latin-1")[:200]
        session = BrowserSession(secrets.token_hex(8), _digest(token), agent, now, now)
        self._sessions = [*self._living(now), session][-MOST:]
        self._write()
        secure = "; Secure" if request.server_url().scheme == "https" else ""
        return (
            f"{cookie_name(request)}={token}; Path=/; HttpOnly; SameSite=Strict; "
            f"Max-Age={int(LONGEST_S)}{secure}"
        ).encode()

    def session(self, request: HttpRequest) -> BrowserSession | None:
        """Return the session of a request; None if it has none that counts."""
        try:
            cookies = SimpleCookie(request.headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return None
        cookie = cookies.get(cookie_name(request))
        if cookie is None:
            return None
        now, digest = time.time(), _digest(cookie.value)
        for session in self._living(now):
            if hmac.compare_digest(session.digest, digest):
                session.seen_s = now
                return session
        return None

    def close(self, id: str) -> bool:
        """Log a browser out."""
        left = [session for session in self._sessions if session.id != id]
        was_there = len(left) < len(self._sessions)
        self._sessions = left
        self._write()
        return was_there

    def shown(self, own: BrowserSession) -> list[dict[str, Any]]:
        """Return all sessions, for the page."""
        return [
            {
                "id": session.id,
                "agent": session.agent,
                "since": int(session.since_s * 1000),
                "seen": int(session.seen_s * 1000),
                "own": session is own,
            }
            for session in self._living(time.time())
        ]

    def _read(self) -> list[BrowserSession]:
        if self._file is None or not self._file.exists():
            return []
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[BrowserSession])
        except (OSError, msgspec.MsgspecError):
            log_.warning("%s can't be read: browsers have to log in again", self._file)
            return []

    def _write(self) -> None:
        """Cookies are kept as digests: who reads the file can't log in with it."""
        if self._file is None:
            return
        try:
            with open(self._file, "wb", opener=_private) as file:
                file.write(msgspec.json.encode(self._sessions))
        except OSError as error:
            log_.warning(
                "%s can't be written, so logins end with this process: %s", self._file, error
            )

    def _living(self, now: float) -> list[BrowserSession]:
        self._sessions = [
            session
            for session in self._sessions
            if now - session.seen_s < IDLE_S and now - session.since_s < LONGEST_S
        ]
        return self._sessions


def cookie_name(request: HttpRequest) -> str:
    """Browsers share cookies between the ports of a host, so the name has the port in it."""
    _, (_, port), _ = request.server_url()
    return f"accord-{port}"


def is_from_our_page(request: HttpRequest) -> bool:
    """Whether a request with our cookie was made by our own page, not by another site."""
    headers = request.headers
    site = headers.get(b"sec-fetch-site")
    if site is not None and site not in (b"same-origin", b"none"):
        return False
    origin = headers.get(b"origin")
    if origin is not None:
        scheme = request.server_url().scheme.encode()
        if origin != b"%b://%b" % (scheme, headers.get(b"host", b"")):
            return False
    if request.target.verb in ("GET", "HEAD"):
        return True
    return headers.get(b"x-accord") == b"1"  # a form of another site can't send this


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
