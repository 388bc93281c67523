"""Which headers of a request a skill may see, and which are recorded with its task."""

import re
from collections.abc import Collection, Iterable, Mapping

__all__ = ["ORDINARY_HEADERS", "is_secret_header", "visible_headers"]

MAX_BYTES = 8 << 10  # of all of them; beyond that none is recorded, since it would be in every task

# What every request has, or what has its own place: nobody looks for it among the headers.
ORDINARY_HEADERS = frozenset(
    b"""
    :authority :method :path :scheme a2a-extensions a2a-version accept accept-charset
    accept-encoding accept-language cache-control connection content-encoding content-length
    content-type date expect grpc-accept-encoding grpc-encoding grpc-timeout host idempotency-key
    keep-alive last-event-id origin pragma priority range referer te trailer transfer-encoding
    traceparent tracestate upgrade user-agent via x-a2a-extensions
    """.split()
)
# A header with one of these words in its name may be a credential.
_SECRET = re.compile(
    rb"(?:^|-)(?:auth[a-z]*|apikey|api|bearer|cert|certificate|cookie[a-z0-9]*|credential|"
    rb"credentials|csrf|jwt|key|passwd|password|secret|session|sid|signature|token|xsrf)(?:-|$)"
)


def is_secret_header(name: bytes, secret: Collection[bytes] = ()) -> bool:
    """Whether a header may be a credential.

    Args:
        name: In lower case.
        secret: Names that this agent's own credentials go by.
    """
    if name in secret:
        return True
    return name not in ORDINARY_HEADERS and _SECRET.search(name) is not None


def visible_headers(
    headers: Mapping[bytes, bytes], secret: Iterable[bytes] = ()
) -> tuple[tuple[str, str], ...]:
    """Return the headers without those of HTTP itself, and without credentials.

    Args:
        headers: Of the request, their names in lower case.
        secret: Names that this agent's own credentials go by.
    """
    if headers.keys() <= ORDINARY_HEADERS:
        return ()
    hidden = frozenset(secret)
    shown = tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers.items()
        if name not in ORDINARY_HEADERS
        and not is_secret_header(name, hidden)
        and not name.startswith((b":", b"sec-", b"proxy-"))
        and not name.endswith(b"-bin")
    )
    return shown if sum(len(name) + len(value) for name, value in shown) <= MAX_BYTES else ()
