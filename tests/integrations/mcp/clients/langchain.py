"""langchain-mcp-adapters: the tools of an MCP server as LangChain's."""

import asyncio
import json
import sys
from typing import Any

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult


async def main(place: Any) -> dict[str, Any]:
    asked: list[Any] = []
    said: list[Any] = []

    async def elicit(_: Any, params: Any, context: Any) -> ElicitResult:
        asked.append([params.message, params.requestedSchema])
        return ElicitResult(action="accept", content={"answer": 2})

    async def on_progress(progress: float, total: Any, message: Any, context: Any) -> None:
        said.append(message)

    server: dict[str, Any] = (
        {"transport": "streamable_http", "url": place}
        if isinstance(place, str)
        else {"transport": "stdio", "command": place[0], "args": place[1:]}
    )
    client = MultiServerMCPClient(
        {"agents": server},
        callbacks=Callbacks(on_elicitation=elicit, on_progress=on_progress),
    )
    tools = await client.get_tools()
    content = await tools[0].ainvoke({"message": "Rome"})
    text = content if isinstance(content, str) else content[0]["text"]
    names = [tool.name for tool in tools]
    return {"version": "", "tools": names, "text": text, "asked": asked, "said": said}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
