"""A log of what is sent and received over HTTP, for debugging: `logging.getLogger("accord.wire")`
at DEBUG. Credentials are left out.
"""

import logging
import re
from collections.abc import Iterable, Mapping

from .url import safe_url

__all__ = ["log_body", "log_request", "log_rpc", "log_status", "shows_wire", "wire"]

wire = logging.getLogger("accord.wire")

_SHOWN = 16 << 10  # bytes of a body
# Any other header may be a credential, whatever it is called.
_HARMLESS = {
    "a2a-extensions",
    "a2a-version",
    "accept",
    "accept-encoding",
    "content-length",
    "content-type",
    "last-event-id",
    "traceparent",
    "tracestate",
    "user-agent",
}
_SECRET = re.compile(
    r'("(?:[a-z_]*token|[a-z_]*secret|credentials|password|device_code|code|assertion)"\s*:\s*)'
    r'"(?:[^"\\]|\\.)*"',
    re.IGNORECASE,
)


def shows_wire() -> bool:
    """Return whether anybody reads this log."""
    return wire.isEnabledFor(logging.DEBUG)


def log_request(verb: str, url: str, headers: Mapping[str, str], body: bytes | None) -> None:
    wire.debug("> %s %s", verb, safe_url(url))
    for name, value in headers.items():
        wire.debug("> %s: %s", name, value if name.lower() in _HARMLESS else "<redacted>")
    if body is not None:
        is_form = "form" in headers.get("Content-Type", "")
        wire.debug("> %s", f"<form of {len(body)} bytes>" if is_form else _readable(body))


def log_rpc(rpc: str, metadata: Iterable[tuple[str, str]], message: bytes) -> None:
    """A call of gRPC; its message is shown as JSON."""
    wire.debug("> %s", rpc)
    for name, value in metadata:
        wire.debug("> %s: %s", name, value if name in _HARMLESS else "<redacted>")
    wire.debug("> %s", _readable(message))


def log_status(status: int) -> None:
    wire.debug("< %s", status)


def log_body(body: bytes) -> None:
    if body:
        wire.debug("< %s", _readable(body))


def _readable(body: bytes) -> str:
    text = body[:_SHOWN].decode("utf-8", "replace").rstrip()
    more = f" ... ({len(body)} bytes in all)" if len(body) > _SHOWN else ""
    return _SECRET.sub(r'\1"<redacted>"', text) + more
