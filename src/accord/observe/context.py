"""The trace a request belongs to (W3C Trace Context), carried along to whatever the request leads
to.
"""

import contextvars
import random
import re
from typing import NamedTuple

from .switch import tracing

__all__ = [
    "NO_TRACE",
    "Trace",
    "Unsampled",
    "child",
    "child_of",
    "current",
    "current_trace",
    "enter",
    "is_unsampled",
    "outgoing",
    "recorded_trace",
    "replaced",
    "set_current",
]

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


class Unsampled:
    """A trace of which nothing is recorded, and that begins here. Its ids are made when somebody
    asks for them, which is seldom.
    """

    __slots__ = ("_number", "_trace")

    def __init__(self, number: int) -> None:
        self._number = number  # the trace id
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        if self._trace is None:
            self._trace = Trace(f"00-{self._number:032x}-{_random_hex(64)}-00")
        return self._trace


# A run and its threads start in the context of their request, so they find what its endpoint put
# here.
_current: contextvars.ContextVar[Trace | Unsampled] = contextvars.ContextVar(
    "accord-trace", default=NO_TRACE
)


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
    return current_trace().traceparent


def current_trace() -> Trace:
    """Return both headers of the current request; `NO_TRACE` if it belongs to no trace."""
    found = _current.get()
    return found.trace if isinstance(found, Unsampled) else found


def recorded_trace() -> Trace:
    """Return what is stored of the trace with a task: nothing, if it began here unsampled."""
    found = _current.get()
    return NO_TRACE if isinstance(found, Unsampled) else found


def is_unsampled() -> bool:
    """Whether what happens now is left out of all traces, as was decided here."""
    return type(_current.get()) is Unsampled


def set_current(trace: Trace | Unsampled) -> "contextvars.Token[Trace | Unsampled]":
    """Go on in this trace; the token is for `replaced`."""
    return _current.set(trace)


def replaced(token: "contextvars.Token[Trace | Unsampled]") -> None:
    """Go back to the trace before."""
    _current.reset(token)


def child() -> str:
    """Return the traceparent of a call made for the current request: its trace, or a new one, and a
    span of its own.
    """
    match = _PARENT.fullmatch(current())
    trace, flags = (match["trace"], match["flags"]) if match else (_random_hex(128), "01")
    return f"00-{trace}-{_random_hex(64)}-{flags}"


def _random_hex(bits: int) -> str:
    """Ids have to differ, not to be secret: this needs no call of the system."""
    return f"{random.getrandbits(bits) or 1:0{bits // 4}x}"


def outgoing() -> Trace:
    """Return the headers of a call made for the current request; `NO_TRACE` outside of a trace."""
    trace = current_trace()
    if not trace.traceparent:
        return NO_TRACE
    # While spans are made, the current one is ours, and the parent of what is called.
    return trace if tracing() is not None else child_of(trace)


def child_of(trace: Trace) -> Trace:
    """Return the headers of a call made in a trace: a span of its own; `NO_TRACE` for none."""
    if not trace.traceparent:
        return NO_TRACE
    flags = trace.traceparent[53:55]
    return Trace(f"00-{trace.trace_id}-{_random_hex(64)}-{flags}", trace.tracestate)
