"""FastMCP's client."""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main(place: Any) -> dict[str, Any]:
    asked: list[Any] = []
    said: list[Any] = []

    async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
        asked.append([message, params.requested_schema])
        return {"answer": 2}

    async def on_progress(progress: float, total: Any, message: Any) -> None:
        said.append(message)

    target = place if isinstance(place, str) else StdioTransport(place[0], place[1:])
    async with Client(target, elicitation_handler=elicit, progress_handler=on_progress) as client:
        tools = [tool.name for tool in await client.list_tools()]
        result = await client.call_tool(tools[0], {"message": "Rome"})
    text = result.content[0].text
    return {"version": "", "tools": tools, "text": text, "asked": asked, "said": said}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
