"""Faults of a part of a store, while the rest of it works.

An outage of the whole store is said by who writes to it: one line when it begins, and one when it
ends. Reads that fail in it add nothing. But a store that can be written and not read has to say so
too: what still fails at the second heartbeat that was stored is said, once. At the first one after
an outage the other parts may not have tried again yet.
"""

import logging

__all__ = ["Faults"]

log_ = logging.getLogger("accord")


class Faults:
    """What fails now, by the part that fails."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}
        self._seen: set[str] = set()  # they failed when a heartbeat was stored
        self._said: set[str] = set()

    def failed(self, part: str, why: str) -> None:
        log_.debug("%s fails: %s", part, why)
        self._why.setdefault(part, why)

    def works(self, part: str) -> None:
        self._seen.discard(part)
        if self._why.pop(part, None) is not None and part in self._said:
            self._said.discard(part)
            log_.warning("%s works again", part)

    def say(self) -> None:
        """The store could be written just now: say what can't be done all the same."""
        for part, why in self._why.items():
            if part not in self._seen:
                self._seen.add(part)
            elif part not in self._said:
                self._said.add(part)
                log_.error("%s fails, though the store can be written; trying again: %s", part, why)
