"""The trace a request belongs to (W3C Trace Context), carried along to whatever the request leads
to.
"""

import contextvars
import os
import re
from typing import NamedTuple

__all__ = ["NO_TRACE", "Trace", "child", "current", "current_trace", "enter", "outgoing"]

_PARENT = re.compile(r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})")
_STATE_LENGTH = 512  # characters that everybody has to pass on (Trace Context, section 3.3.1.5)
_STATE = re.compile(r"[\t\x20-\x7e]*")


class Trace(NamedTuple):
    """The two headers of a trace."""

    traceparent: str = ""
    tracestate: str = ""

    @property
    def trace_id(self) -> str:
        return self.traceparent[3:35]

    @property
    def span_id(self) -> str:
        return self.traceparent[36:52]

    @property
    def is_sampled(self) -> bool:
        return bool(self.traceparent) and bool(int(self.traceparent[53:55], 16) & 1)


NO_TRACE = Trace()

# A run and its threads start in the context of their request, so they find what its endpoint put
# here.
_current: contextvars.ContextVar[Trace] = contextvars.ContextVar("accord-trace", default=NO_TRACE)


def enter(traceparent: str, tracestate: str = "") -> None:
    """Say which trace the current request belongs to.

    An invalid traceparent is ignored, and with it the tracestate. An invalid or overlong tracestate
    is left out (Trace Context, section 3.3).
    """
    match = _PARENT.fullmatch(traceparent)
    if match is None or match["trace"] == "0" * 32 or match["span"] == "0" * 16:
        return
    is_kept = len(tracestate) <= _STATE_LENGTH and _STATE.fullmatch(tracestate)
    _current.set(Trace(traceparent, tracestate.strip() if is_kept else ""))


def current() -> str:
    """Return the traceparent of the current request; empty if it belongs to no trace."""
    return _current.get().traceparent


def current_trace() -> Trace:
    """Return both headers of the current request; `NO_TRACE` if it belongs to no trace."""
    return _current.get()


def child() -> str:
    """Return the traceparent of a call made for the current request: its trace, or a new one, and a
    span of its own.
    """
    match = _PARENT.fullmatch(_current.get().traceparent)
    trace, flags = (match["trace"], match["flags"]) if match else (os.urandom(16).hex(), "01")
    return f"00-{trace}-{os.urandom(8).hex()}-{flags}"


def outgoing() -> Trace:
    """Return the headers of a call made for the current request; `NO_TRACE` outside of a trace."""
    trace = _current.get()
    return Trace(child(), trace.tracestate) if trace.traceparent else NO_TRACE
