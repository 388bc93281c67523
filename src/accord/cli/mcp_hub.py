"""The agents of a hub, for `accord mcp --hub`."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from ..client import AgentFault, ApiKey, Client, connect
from ..hub import HubRefused, RestClient
from ..integrations.mcp import DirectoryFailed
from ..model import A2AError

__all__ = ["HubDirectory"]

_MAX_FOUND = 10


class HubDirectory:
    """Finds agents by the search of a hub, and asks them through the hub.

    Args:
        url: The hub.
        key: To show to it; empty for none.
        opened: Closes the clients of the agents that were asked.
    """

    def __init__(self, url: str, key: str, opened: AsyncExitStack) -> None:
        self._rest = RestClient(url, key)
        self._key = key
        self._opened = opened
        self._clients: dict[str, Client] = {}
        self._opening = asyncio.Lock()

    async def find(self, query: str) -> list[str]:
        found = await self._call("/search", {"text": query, "limit": str(_MAX_FOUND)})
        return [_line(one) for one in found["untrusted"] if one["callable"]]

    async def client(self, name: str) -> Client | None:
        async with self._opening:
            if name not in self._clients:
                try:
                    await self._call(f"/agents/{name}", {})
                except DirectoryFailed as error:
                    if isinstance(error.__cause__, HubRefused) and error.__cause__.status == 404:
                        return None
                    raise
                place = f"{self._rest.url}/agents/{name}"
                client = connect(place, auth=ApiKey(self._key) if self._key else None)
                try:
                    self._clients[name] = await self._opened.enter_async_context(client)
                except (A2AError, AgentFault) as error:
                    raise DirectoryFailed(f"the hub can't reach {name}: {error}") from error
            return self._clients[name]

    async def _call(self, path: str, query: dict[str, str]) -> Any:
        try:
            return await self._rest.call("GET", path, query=query)
        except HubRefused as error:
            raise DirectoryFailed(f"the hub refuses: {error}") from error
        except AgentFault as error:
            raise DirectoryFailed(f"the hub gave no answer: {error}") from error


def _line(found: dict[str, Any]) -> str:
    skills = ", ".join(skill["id"] for skill in found["skills"])
    return f"{found['agent']}: {found['description']} Skills: {skills}"
