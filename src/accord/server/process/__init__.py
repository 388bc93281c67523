"""The process that serves: its loop, its signals, its watchdog and its end."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .main import is_loopback as is_loopback
    from .main import serve as serve
    from .signals import hearing as hearing

__getattr__ = lazy(
    __name__,
    {
        "hearing": "signals",
        "is_loopback": "main",
        "serve": "main",
    },
)
