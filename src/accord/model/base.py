"""What every object of the model shares: JSON names, presence, ids and time."""

import functools
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
    global _ms, _text
    if ms != _ms:
        _text = f"{_second_text(ms // 1000)}.{ms % 1000:03d}Z"
        _ms = ms
    return _text


# The newest text: the statuses of a quick run share it, and formatting costs more than the rest of a status.
_ms = -1
_text = ""


@functools.lru_cache(maxsize=2)
def _second_text(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def new_id() -> str:
    """Return a fresh UUID (version 7): unguessable, and in order of time so that indexes stay compact."""
    global _at, _id_ms, _id_start
    ms = time.time_ns() // 1_000_000
    if ms != _id_ms:
        _id_ms, _id_start = ms, f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7"
    if _at + 19 > len(_pool):
        _refill()
    rand = _pool[_at : _at + 19]
    _at += 19
    return f"{_id_start}{rand[:3]}-{_VARIANT[rand[3]]}{rand[4:7]}-{rand[7:]}"


def _refill() -> None:
    global _pool, _at
    _pool, _at = os.urandom(4096).hex(), 0


_id_ms, _id_start = -1, ""
_pool, _at = "", 0  # random digits of the system, fetched many at a time
_VARIANT = {digit: "89ab"[i & 3] for i, digit in enumerate("0123456789abcdef")}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_refill)  # two processes must not give out the same ids
