"""The number of a namespace: made of its names, so nobody has to be asked for it."""

import functools
import hashlib

import msgspec

from ..contract import Namespace

__all__ = ["NumberTaken", "number"]


class NumberTaken(ValueError):
    """Another namespace has this number already."""


@functools.lru_cache(maxsize=65_536)
def number(namespace: Namespace) -> int:
    """Return the number a namespace has in all tables, the same in every process.

    Two namespaces with one number would be refused when the second is first written: the table has
    each number once, and each triple of names.
    """
    digest = hashlib.sha256(msgspec.json.encode(namespace)).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
