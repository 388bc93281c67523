"""Server objects of the package `fastmcp`, which only its own client can reach in this process."""

from typing import Any, Self

import mcp_types as mcp
from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT

from ..wrapping import kind_of

__all__ = ["FastMcpClient", "is_fastmcp"]


def is_fastmcp(server: Any) -> bool:
    """Whether it is such an object. Nothing is imported to find out."""
    is_theirs = any(class_.__module__.startswith("fastmcp.") for class_ in type(server).__mro__)
    return is_theirs and bool(kind_of(server))


class FastMcpClient:
    """FastMCP's client, with those methods of the SDK's client that are used here.

    Args:
        server: The server object.
        elicitation_callback: Answers what the server asks, as the SDK's does.
        options: Other options of `fastmcp.Client`.
    """

    def __init__(self, server: Any, elicitation_callback: ElicitationFnT, **options: Any) -> None:
        from fastmcp import Client

        async def elicited(
            _: str, __: Any, params: mcp.ElicitRequestParams, context: ClientRequestContext
        ) -> Any:
            answer = await elicitation_callback(context, params)
            if isinstance(answer, mcp.ErrorData):
                raise RuntimeError(answer.message)
            return answer

        # With the handshake, for only then may a tool ask in the middle of a call.
        given = {"elicitation_handler": elicited, "mode": "legacy"} | options
        self._client = Client(server, **given)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        await self._client.__aexit__(*failure)

    @property
    def server_info(self) -> mcp.Implementation | None:
        found: mcp.Implementation | None = self._client.server_info
        return found

    async def list_tools(self, *, cursor: str | None = None) -> mcp.ListToolsResult:
        found: mcp.ListToolsResult = await self._client.list_tools_mcp(cursor=cursor)
        return found

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, progress_callback: Any = None
    ) -> mcp.CallToolResult:
        result: mcp.CallToolResult = await self._client.call_tool_mcp(
            name, arguments, progress_handler=progress_callback
        )
        return result
