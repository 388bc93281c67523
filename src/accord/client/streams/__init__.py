"""Streams that survive a lost connection."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .resume import Stream as Stream
    from .resume import StreamEvent as StreamEvent
    from .seen import Gap as Gap
    from .seen import has_come as has_come

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__ = lazy(
        __name__,
        {
            "Gap": "seen",
            "Stream": "resume",
            "StreamEvent": "resume",
            "has_come": "seen",
        },
    )
