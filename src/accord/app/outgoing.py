"""The calls of a server to others: addresses that callers and issuers give, other agents, files."""

import logging
from typing import IO, TYPE_CHECKING

from ..engine.durable import Delegates
from ..model import MAX_FETCHED, InvalidParams
from ..net import AgentFault, Guard, fetch_file, safe_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..delegate import ClientDelegates
    from ..net import Network

__all__ = ["Outgoing"]

_log = logging.getLogger("accord")


class Outgoing:
    """Calls to addresses of strangers, by one guard and one proxy. Made when first needed."""

    def __init__(self, allow_hosts: "Sequence[str]", egress_proxy: str) -> None:
        self.guard = Guard(allow_hosts, proxy=egress_proxy)
        self.egress_proxy = egress_proxy
        self._delegating: ClientDelegates | None = None
        self._files: Network | None = None
        if allow_hosts:
            _log.warning(
                "URLs that callers name may point to %s, even if the address is private",
                ", ".join(allow_hosts),
            )

    async def open_url(self, url: str, limit: int | None) -> IO[bytes]:
        """Fetch a file that a caller names by its URL."""
        if self._files is None:
            from ..net import Network  # brings aiohttp, which many agents never need

            self._files = Network(connect_s=10.0, lost_s=30.0, guard=self.guard)
        try:
            return await fetch_file(self._files, url, MAX_FETCHED if limit is None else limit)
        except AgentFault as error:
            what = f"the file at {safe_url(url)} can't be had: {error.fault}"
            raise InvalidParams(what, violations=(("message.parts", what),)) from None

    def delegates(self) -> Delegates:
        """Return what calls other agents for `ctx.delegate`."""
        if self._delegating is None:
            from ..delegate import ClientDelegates  # brings the client, which most never need

            self._delegating = ClientDelegates(self.egress_proxy)
        return self._delegating

    async def close(self) -> None:
        if self._delegating is not None:
            await self._delegating.close()
        if self._files is not None:
            await self._files.close()
