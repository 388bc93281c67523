"""The trace a request belongs to (W3C trace context), carried along to whatever it leads to."""

import contextvars
import os
import re

__all__ = ["child", "current", "enter"]

_PARENT = re.compile(r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})")

# A run and its threads start in the context of their request, so they find what its door put here.
_current: contextvars.ContextVar[str] = contextvars.ContextVar("accord-traceparent", default="")


def enter(traceparent: str) -> None:
    """This request belongs to that trace. What is no traceparent is ignored, as the standard
    asks.
    """
    if _PARENT.fullmatch(traceparent):
        _current.set(traceparent)


def current() -> str:
    return _current.get()


def child() -> str:
    """Return the traceparent of a call made for the current request: its trace, or a new one, and a
    span of its own.
    """
    match = _PARENT.fullmatch(_current.get())
    trace, flags = (match["trace"], match["flags"]) if match else (os.urandom(16).hex(), "01")
    return f"00-{trace}-{os.urandom(8).hex()}-{flags}"
