"""A request that is refused is refused in the same words on every binding, in 1.0 as in 1.1, be it
small or large.
"""

import asyncio
from typing import Any

import aiohttp
import pytest

from accord import Agent, Context
from accord.model import FORK, QUESTION
from tests.drive import BINDINGS, PATIENCE_S, Refused, serving
from tests.drive_grpc import Grpc
from tests.preview.doors import DOORS

LARGE = {"of": "x" * 20_000}
VERSIONS: dict[str, Any] = {"1.0": BINDINGS | {"grpc": Grpc}, "1.1": DOORS}
PARTS = [{"text": "hi"}]
# What is wrong with a message. Protobuf can't tell an empty member from one that is not there.
MESSAGES: dict[str, dict[str, Any]] = {
    "nothing": {"messageId": "", "role": "ROLE_UNSPECIFIED", "parts": []},
    "no id": {"messageId": "", "role": "ROLE_USER", "parts": PARTS},
    "no role": {"messageId": "m", "role": "ROLE_UNSPECIFIED", "parts": PARTS},
    "no parts": {"messageId": "m", "role": "ROLE_USER", "parts": []},
    "no parts, and a wrong id": {"messageId": "a\nb", "role": "ROLE_USER", "parts": []},
    "a part of nothing": {"messageId": "m", "role": "ROLE_USER", "parts": [{}]},
    "a fork without the extension": {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [],
        "metadata": {FORK: {"taskId": "t", "at": 1}},
    },
    "no question": {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": PARTS,
        "metadata": {QUESTION: {"id": ""}},
    },
}


async def ask(request: str, ctx: Context) -> str:
    return await ctx.ask(f"{request}?")


@pytest.mark.parametrize("more", [{}, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_bindings_refuse_in_the_same_words(version, more):
    agent = Agent("Test agent")
    agent.skill(ask)
    app = agent.app(previews=["1.1"], grpc_port=0)
    found: dict[str, Any] = {}
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(app, app.close) as url,
        aiohttp.ClientSession(trust_env=False) as http,
    ):
        await app.open()
        for binding, door in VERSIONS[version].items():
            address = (f"127.0.0.1:{app.grpc_port}",) if binding == "grpc" else ()
            client = door(http, url, *address)
            found[binding] = {
                name: await _refusal(client, version, _with(message, more))
                for name, message in MESSAGES.items()
            }
            client.hang_up()
    assert found["grpc"] == found["rest"] == found["jsonrpc"]


def _with(message: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return message | {"metadata": message.get("metadata", {}) | more}


async def _refusal(client: Any, version: str, message: dict[str, Any]) -> Any:
    try:
        await client.send({"message": message}, headers={"A2A-Version": version})
    except Refused as refused:
        return refused.reason, refused.message, refused.violations
    raise AssertionError(f"{message} was taken")
