"""Our client and our own server meet the contract that agents of other libraries are held to, in
both versions these speak.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from accord import Agent, Context
from tests.client.clerk import Contract
from tests.drive import serving


async def talk(text: str, ctx: Context):
    """`ask` asks, `wait` waits to be canceled, a number counts in chunks, everything else is
    echoed.
    """
    if text == "ask":
        text = await ctx.ask("How many days?")
    if text == "wait":
        await asyncio.Event().wait()
    for i in range(int(text)) if text.isdigit() else ():
        yield f"{i} "
    if not text.isdigit():
        yield f"heard {text}"


class TestOurs(Contract):
    """What is true of others is true of us."""

    @pytest.fixture
    async def url(self) -> AsyncIterator[str]:
        agent = Agent("Clerk")
        agent.skill(talk)
        app = agent.app(grpc_port=0)
        async with serving(app, app.close) as url:
            await app.open()
            yield url

    @pytest.fixture(
        params=[
            (binding, version)
            for version in ("1.0", "0.3")
            for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
        ],
        ids="-".join,
    )
    def door(self, request) -> tuple[str, str]:
        return request.param
