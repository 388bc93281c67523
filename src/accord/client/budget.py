"""The limits of what we read from an agent, and of how long we wait. Agents are strangers, so
everything has a limit.
"""

import msgspec

from ..model import ParseError
from ..protocol import text

__all__ = ["Budget", "check_depth"]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limit what is read from an agent. Sizes are in bytes, times in seconds."""

    card_bytes: int = 1 << 20
    card_depth: int = 32
    card_s: float = 10.0
    answer_bytes: int = 64 << 20
    event_bytes: int = 16 << 20
    depth: int = 64
    connect_s: float = 10.0
    call_s: float = 60.0  # one call that has only to look something up
    work_s: float = 600.0  # one send, from the first byte to the settled task
    idle_s: float = 90.0  # an SSE stream without a byte, keep-alives included, is taken for cut
    poll_s: float | None = None  # between two looks at a task; None: grows from 0.1 s to 2 s
    lost_s: float = (
        60.0  # a connection whose other side is gone without a word, whoever waits on it
    )


def check_depth(raw: bytes, limit: int) -> None:
    """Raise ParseError if `raw` is nested deeper than `limit`. Text with few brackets is not looked
    at any closer.
    """
    if raw.count(b"{") + raw.count(b"[") > limit and text.depth(raw) > limit:
        raise ParseError(f"nested deeper than {limit} levels")
