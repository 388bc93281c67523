"""How much is stored for each caller. It is looked at now and then: to count it with every send
would cost more than the send.
"""

import time

from ..model import TooManyRequests
from ..store import Namespace, Store

__all__ = ["Quota"]

LOOK_S = 5.0
CALLERS = 10_000
RETRY_S = 60


class Quota:
    """Refuses messages of callers whose tasks take more than they may."""

    def __init__(self, store: Store, most: int) -> None:
        self._store = store
        self._most = most
        self._stored: dict[str, tuple[float, int]] = {}  # by caller: until when it counts, bytes

    async def check(self, namespace: Namespace) -> None:
        """Raise TooManyRequests if as much is stored for a caller as may be."""
        found = self._stored.get(namespace.caller)
        if found is None or found[0] < time.monotonic():
            size = await self._store.stored(namespace.agent, namespace.caller)
            if len(self._stored) >= CALLERS:
                self._stored.clear()
            found = self._stored[namespace.caller] = (time.monotonic() + LOOK_S, size)
        if found[1] >= self._most:
            raise TooManyRequests(
                f"{found[1]} bytes are stored for you, the most allowed is {self._most}",
                retry_after_s=RETRY_S,
                limit="stored_per_caller",
            )
