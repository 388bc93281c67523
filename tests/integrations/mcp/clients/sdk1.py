"""The client of the MCP SDK 1.x: asked in the middle of a call."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def main(place: Any) -> dict[str, Any]:
    asked: list[Any] = []
    said: list[Any] = []

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        asked.append([params.message, params.requestedSchema])
        return types.ElicitResult(action="accept", content={"answer": 2})

    async def on_progress(progress: float, total: Any, message: Any) -> None:
        said.append(message)

    async with AsyncExitStack() as opened:
        if isinstance(place, str):
            streams = await opened.enter_async_context(streamablehttp_client(place))
        else:
            server = StdioServerParameters(command=place[0], args=place[1:])
            streams = await opened.enter_async_context(stdio_client(server))
        session = await opened.enter_async_context(
            ClientSession(streams[0], streams[1], elicitation_callback=elicit)
        )
        version = (await session.initialize()).protocolVersion
        tools = [tool.name for tool in (await session.list_tools()).tools]
        result = await session.call_tool(
            tools[0], {"message": "Rome"}, progress_callback=on_progress
        )
    text = result.content[0].text
    return {"version": version, "tools": tools, "text": text, "asked": asked, "said": said}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
