"""What every object of the model shares: JSON names, presence, ids and time."""

import os
import time
from typing import Any, TypeAlias

import msgspec

__all__ = ["Metadata", "Model", "new_id", "now_ms", "timestamp"]

Metadata: TypeAlias = dict[str, Any]


class Model(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """An A2A 1.0 object.

    Members at their default are not written. Unknown members are refused here and dropped by `codec.lenient`,
    so that a misspelt or snake_case member is noticed instead of lost.
    """


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def timestamp(ms: int) -> str:
    """Return `ms` since 1970 as the protocol writes time: UTC, milliseconds, Z."""
    global _second, _prefix
    second, rest = divmod(ms, 1000)
    if second != _second:
        _prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _second = second
    return f"{_prefix}.{rest:03d}Z"


# The text of the current second: formatting it anew for every status costs more than the rest of the status.
_second = -1
_prefix = ""


def new_id() -> str:
    """Return a fresh UUID (version 7): unguessable, and in order of time so that indexes stay compact."""
    ms = now_ms()
    rand = int.from_bytes(os.urandom(10), "big")
    return "%08x-%04x-7%03x-%04x-%012x" % (
        ms >> 16,
        ms & 0xFFFF,
        rand >> 68,
        0x8000 | (rand >> 54 & 0x3FFF),
        rand & 0xFFFFFFFFFFFF,
    )
