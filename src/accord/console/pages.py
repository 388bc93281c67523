"""The files of the page, as the build left them in `static/`: read at the first request."""

import gzip
import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from ..server import HttpRequest, HttpResponse, Pairs

__all__ = ["SECURITY", "Pages", "is_built"]

STATIC = Path(__file__).parent / "static"

# No string can become HTML or script, ours included; nothing is loaded from anywhere else.
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
SECURITY: Pairs = (
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")
_NEVER = (b"cache-control", b"no-store")

_NOT_BUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Accord console</title>
<h1>The console is not built</h1>
<p>The agent is served, and everything but this page works.</p>
<p>In a clone, build it with Node 20 or newer: <code>make console</code>. Then install again
(<code>pip install .</code>) and start the server again.</p>
"""


def is_built() -> bool:
    """Return whether the page is built: that needs Node, which is not everywhere."""
    return (STATIC / "index.html").exists()


class _File(NamedTuple):
    content_type: bytes
    body: bytes
    packed: bytes
    tag: bytes
    is_hashed: bool  # its name changes with its content


class Pages:
    """Serves the page and its files."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._files: dict[str, _File] | None = None

    def file(self, path: str, request: HttpRequest) -> HttpResponse | None:
        """Return a file of the page; None if there is none of this name."""
        found = self._all().get(path)
        if found is None:
            return None
        cache = _FOR_EVER if found.is_hashed else _NEVER
        headers: Pairs = ((b"etag", found.tag), cache, (b"vary", b"accept-encoding"), *SECURITY)
        if request.headers.get(b"if-none-match") == found.tag:
            return HttpResponse(304, headers=headers)
        if b"gzip" in request.headers.get(b"accept-encoding", b""):
            packed = (*headers, (b"content-encoding", b"gzip"))
            return HttpResponse(200, found.packed, found.content_type, packed)
        return HttpResponse(200, found.body, found.content_type, headers)

    def index(self, request: HttpRequest) -> HttpResponse:
        """Return the page itself, whatever of it the address names."""
        return self.file("index.html", request) or HttpResponse(
            200, _NOT_BUILT, b"text/html; charset=utf-8", (_NEVER, *SECURITY)
        )

    def _all(self) -> dict[str, _File]:
        if not self._files:  # looked for again until the page is built
            self._files = {
                str(path.relative_to(self._folder)): _read(path)
                for path in sorted(self._folder.rglob("*"))
                if path.is_file()
            }
        return self._files


def _read(path: Path) -> _File:
    body = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if kind in ("text/html", "text/css", "text/javascript", "application/javascript"):
        kind += "; charset=utf-8"
    tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:16].encode()
    return _File(kind.encode(), body, gzip.compress(body, 9), tag, path.parent.name == "assets")
