"""A client on a2a-sdk 0.2, as its documentation showed one: both cards, a send and a stream."""

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, A2AClient
from a2a.types import MessageSendParams, SendMessageRequest, SendStreamingMessageRequest


async def main(base_url: str) -> None:
    async with httpx.AsyncClient() as http:
        resolver = A2ACardResolver(httpx_client=http, base_url=base_url)
        card = await resolver.get_agent_card()
        print(json.dumps(["card", card.name, card.version, len(card.skills)]))
        if card.supportsAuthenticatedExtendedCard:
            card = await resolver.get_agent_card(
                relative_card_path="/agent/authenticatedExtendedCard",
                http_kwargs={"headers": {"Authorization": "Bearer dummy-token"}},
            )
            print(json.dumps(["extended", card.name, card.version, len(card.skills)]))
        client = A2AClient(httpx_client=http, agent_card=card)
        payload = {
            "message": {
                "role": "user",
                "parts": [{"kind": "text", "text": "hello"}],
                "messageId": uuid4().hex,
            }
        }
        params = MessageSendParams(**payload)
        answer = await client.send_message(SendMessageRequest(id=str(uuid4()), params=params))
        print(json.dumps(["send", answer.model_dump(mode="json", exclude_none=True)["result"]]))
        request = SendStreamingMessageRequest(id=str(uuid4()), params=params)
        async for chunk in client.send_message_streaming(request):
            told = chunk.model_dump(mode="json", exclude_none=True)
            print(json.dumps(["stream", told["result"]]))


asyncio.run(main(sys.argv[1]))
