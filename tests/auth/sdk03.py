"""The Python client of 0.3 calls a protected agent with its own credential service, and prints what
it saw. Run by the interpreter of an environment of its own.
"""

import asyncio
import json
import sys
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, InMemoryContextCredentialStore
from a2a.client.middleware import ClientCallContext
from a2a.types import Message, Part, Role, TextPart


async def main(url: str, transport: str, scheme: str, credential: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    async with httpx.AsyncClient(timeout=10, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        store = InMemoryContextCredentialStore()
        await store.set_credentials("ours", scheme, credential)
        config = ClientConfig(
            streaming=False,
            httpx_client=http,
            supported_transports=[transport],
            use_client_preference=True,
        )
        client = ClientFactory(config).create(card, interceptors=[AuthInterceptor(store)])
        parts = [Part(root=TextPart(text="hello"))]
        message = Message(message_id="py-1", role=Role.user, parts=parts)
        state: dict[str, Any] = {"sessionId": "ours"}
        if transport != "JSONRPC":  # where this client asks no credential service
            header = ("X-API-Key", credential)
            if scheme == "bearer":
                header = ("Authorization", f"Bearer {credential}")
            state["http_kwargs"] = {"headers": dict([header])}
        context = ClientCallContext(state=state)
        async for event in client.send_message(message, context=context):
            task = event[0]
            seen["text"] = task.artifacts[0].parts[0].root.text
        try:
            async for _ in client.send_message(message):
                seen["without"] = "answered"
        except Exception as error:
            seen["without"] = getattr(error, "status_code", type(error).__name__)
        full = await client.get_card(context=context)
        seen["card"] = full.description
    return seen


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
