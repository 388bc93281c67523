"""The Python client of 0.3 does all it can with the agent at a URL, over one transport, and prints
what it saw.

Run by the interpreter of an environment of its own: a2a-sdk 0.3 and 1.x are the same package.
"""

import asyncio
import base64
import json
import sys
from typing import Any

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    FilePart,
    FileWithBytes,
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendConfiguration,
    Part,
    PushNotificationConfig,
    Role,
    Task,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)

_ids = iter(range(10**6))


def say(text: str, *more: Part, **fields: Any) -> Message:
    return Message(
        message_id=f"py-{next(_ids)}",
        role=Role.user,
        parts=[Part(root=TextPart(text=text)), *more],
        **fields,
    )


def text_of(task: Task) -> str:
    parts = [part.root for artifact in task.artifacts or [] for part in artifact.parts]
    return "".join(part.text for part in parts if isinstance(part, TextPart))


async def refusal(call: Any) -> Any:
    """What an error says: the code of JSON-RPC, the status of HTTP."""
    try:
        await call
    except Exception as error:
        if isinstance(error, grpc.aio.AioRpcError):
            return str(error.details()).partition(":")[0]
        code = getattr(getattr(error, "error", None), "code", None)
        return code or getattr(error, "status_code", None) or type(error).__name__
    return "answered"


async def main(url: str, transport: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    async with httpx.AsyncClient(timeout=10, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        old_place = await A2ACardResolver(
            http, url, agent_card_path="/.well-known/agent.json"
        ).get_agent_card()
        seen["card"] = [card.name, card.protocol_version, card == old_place]
        common = {
            "httpx_client": http,
            "supported_transports": [transport],
            "use_client_preference": True,
        }
        if transport == "GRPC":
            common["grpc_channel_factory"] = grpc.aio.insecure_channel
        one = ClientFactory(ClientConfig(streaming=False, **common)).create(card)
        live = ClientFactory(ClientConfig(streaming=True, **common)).create(card)

        async def send(message: Message, **configuration: Any) -> Any:
            chosen = MessageSendConfiguration(**configuration) if configuration else None
            [answer] = [event async for event in one.send_message(message, configuration=chosen)]
            return answer[0] if isinstance(answer, tuple) else answer

        task = await send(say("hello"))
        seen["send"] = [task.status.state.value, text_of(task)]
        reply = await send(say("reply", metadata={"skill": "greet"}))
        said = text_of(reply) if isinstance(reply, Task) else reply.parts[0].root.text
        seen["reply"] = [reply.kind, said]
        events = [update async for _, update in live.send_message(say("hello"))]
        seen["stream"] = [update.kind if update else "task" for update in events]
        seen["final"] = [
            update.final for update in events if update and update.kind == "status-update"
        ]
        got = await one.get_task(TaskQueryParams(id=task.id, history_length=5))
        seen["get"] = [got.status.state.value, text_of(got), got.history[0].parts[0].root.text]
        asked = await send(say("ask"))
        answered = await send(say("noon", task_id=asked.id, context_id=asked.context_id))
        seen["ask"] = [asked.status.state.value, answered.status.state.value, text_of(answered)]
        waiting = await send(say("wait"), blocking=False)
        following = live.resubscribe(TaskIdParams(id=waiting.id)).__aiter__()
        first, _ = await anext(following)
        canceled = await one.cancel_task(TaskIdParams(id=waiting.id))
        *_, (ended, _) = [event async for event in following]
        seen["resubscribe"] = [first.id == waiting.id, ended.status.state.value]
        seen["cancel"] = canceled.status.state.value
        seen["cancel twice"] = await refusal(one.cancel_task(TaskIdParams(id=waiting.id)))
        seen["unknown"] = await refusal(one.get_task(TaskQueryParams(id="nobody")))
        seen["send to nobody"] = await refusal(send(say("hi", task_id="nobody")))
        seen["follow nobody"] = await refusal(
            anext(live.resubscribe(TaskIdParams(id="nobody")).__aiter__())
        )
        hook = TaskPushNotificationConfig(
            task_id=task.id,
            push_notification_config=PushNotificationConfig(id="c", url="https://x.y/z"),
        )
        seen["push set"] = await refusal(one.set_task_callback(hook))
        asking = GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="c")
        seen["push get"] = await refusal(one.get_task_callback(asking))
        content = base64.b64encode(b"hello").decode()
        file = Part(
            root=FilePart(
                file=FileWithBytes(
                    bytes=content, name="a.bin", mime_type="application/octet-stream"
                )
            )
        )
        sized = await send(say("size", file))
        seen["file"] = [text_of(sized), sized.history[0].parts[1].root.file.bytes == content]
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
