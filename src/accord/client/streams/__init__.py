"""Streams that survive a lost connection."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .resume import Stream as Stream
    from .resume import StreamEvent as StreamEvent
    from .seen import Gap as Gap
    from .seen import catch_up as catch_up
    from .seen import message_arrived as message_arrived

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
