"""Which headers of a request are recorded with its task, so that a skill sees them."""

from collections.abc import Collection, Mapping

__all__ = ["ORDINARY_HEADERS", "recorded_headers"]

MAX_BYTES = 8 << 10  # of all of them; beyond that none is recorded, since it would be in every task

# What every request has, or what has its own place. No credentials are in them.
ORDINARY_HEADERS = frozenset(
    b"""
    :authority :method :path :scheme a2a-extensions a2a-version accept accept-charset
    accept-encoding accept-language cache-control connection content-encoding content-length
    content-type date expect grpc-accept-encoding grpc-encoding grpc-timeout host idempotency-key
    keep-alive last-event-id origin pragma priority range referer te trailer transfer-encoding
    traceparent tracestate upgrade user-agent via x-a2a-extensions
    """.split()
)


def recorded_headers(
    headers: Mapping[bytes, bytes], names: Collection[bytes]
) -> tuple[tuple[str, str], ...]:
    """Return those headers of a request that the agent asks for.

    Args:
        headers: Of the request, their names in lower case.
        names: What the agent asks for, in lower case.
    """
    shown = tuple(
        (name.decode("latin-1"), headers[name].decode("latin-1"))
        for name in names
        if name in headers
    )
    return shown if sum(len(name) + len(value) for name, value in shown) <= MAX_BYTES else ()
