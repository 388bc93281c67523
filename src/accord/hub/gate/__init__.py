"""The gateway: every entry as an agent at the hub's address."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .breaker import CircuitBreaker as CircuitBreaker
    from .gate import Gate as Gate
    from .quota import CallQuota as CallQuota
    from .upstream import Upstreams as Upstreams

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "CallQuota": "quota",
            "CircuitBreaker": "breaker",
            "Gate": "gate",
            "Upstreams": "upstream",
        },
    )
