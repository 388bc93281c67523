"""The agent of the deployment examples; put your own in its place."""

import asyncio
from collections.abc import AsyncIterator

from accord import Agent, Context
from accord.auth import ApiKeys

agent = Agent("Clerk", description="Copies texts, slowly.", auth=ApiKeys())


@agent.skill
async def echo(text: str) -> str:
    """Repeat a text."""
    return text


@agent.skill
async def spell(text: str) -> AsyncIterator[str]:
    """Stream a text, letter by letter."""
    for letter in text:
        yield letter
        await asyncio.sleep(0.2)


async def copy_page(page: int) -> str:
    await asyncio.sleep(0.5)
    return f"page {page}"


@agent.skill(durable=True)
async def copy(pages: int, ctx: Context) -> str:
    """Copy pages one by one. A crash or a deploy in between loses none."""
    done = [await ctx.step(copy_page, page) for page in range(1, pages + 1)]
    return ", ".join(done)
