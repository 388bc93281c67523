"""The Python client of 0.3 sends files to the agent at a URL, over one transport, and prints what
came back of each, in every way.

Run by the interpreter of an environment of its own. The contents are given as hex.
"""

import asyncio
import base64
import json
import sys
from typing import Any

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import FilePart, FileWithBytes, Message, Part, Role, TaskQueryParams


def told(parts: list[Part]) -> list[str]:
    """The text and the file of an artifact: what the agent says came, and what it gives back."""
    return [
        base64.b64decode(p.root.file.bytes).hex() if isinstance(p.root, FilePart) else p.root.text
        for p in parts
    ]


async def main(url: str, transport: str, *contents: str) -> list[Any]:
    seen = []
    async with httpx.AsyncClient(timeout=10, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        common = {
            "httpx_client": http,
            "supported_transports": [transport],
            "use_client_preference": True,
        }
        if transport == "GRPC":
            common["grpc_channel_factory"] = grpc.aio.insecure_channel
        one = ClientFactory(ClientConfig(streaming=False, **common)).create(card)
        live = ClientFactory(ClientConfig(streaming=True, **common)).create(card)
        for content in contents:
            encoded = base64.b64encode(bytes.fromhex(content)).decode()
            part = Part(
                root=FilePart(
                    file=FileWithBytes(bytes=encoded, mime_type="application/octet-stream")
                )
            )
            message = Message(message_id=f"py-{len(seen)}", role=Role.user, parts=[part])
            [(task, _)] = [event async for event in one.send_message(message)]
            got = await one.get_task(TaskQueryParams(id=task.id))
            *_, (streamed, _) = [event async for event in live.send_message(message)]
            found = [told(t.artifacts[0].parts) for t in (task, got, streamed)]
            seen.append([content, *found, told(got.history[0].parts)])
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
