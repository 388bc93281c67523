"""The Python client of 0.3 registers webhooks with the agent at a URL, and prints what it got back.

Run by the interpreter of an environment of its own: a2a-sdk 0.3 and 1.x are the same package.
"""

import asyncio
import json
import sys
from typing import Any

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    TaskPushNotificationConfig,
    TextPart,
)


def say(text: str, **fields: Any) -> Message:
    return Message(
        message_id=f"py-{text}", role=Role.user, parts=[Part(root=TextPart(text=text))], **fields
    )


async def main(url: str, transport: str, hook: str) -> dict[str, Any]:
    async with httpx.AsyncClient(timeout=10, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        inline = PushNotificationConfig(id="inline", url=hook + "/inline", token="t-inline")
        config = ClientConfig(
            httpx_client=http,
            streaming=False,
            supported_transports=[transport],
            grpc_channel_factory=grpc.aio.insecure_channel,
            push_notification_configs=[inline],
        )
        client = ClientFactory(config).create(card)

        async def send(message: Message) -> Any:
            async for event in client.send_message(message):
                return event[0] if isinstance(event, tuple) else event

        task = await send(say("ask"))
        made = await client.set_task_callback(
            TaskPushNotificationConfig(
                task_id=task.id,
                push_notification_config=PushNotificationConfig(id="set", url=hook + "/set"),
            )
        )
        got = await client.get_task_callback(
            GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="set")
        )
        done = await send(say("noon", task_id=task.id, context_id=task.context_id))
        return {
            "made": made.push_notification_config.url.rpartition("/")[2],
            "got": [got.task_id == task.id, got.push_notification_config.id],
            "state": done.status.state.value,
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
