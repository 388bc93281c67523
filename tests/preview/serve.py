"""A server with the preview: `serve.py PORT STORE`."""

import asyncio
import sys

from accord import Agent, Context

agent = Agent("Replicated")


@agent.skill(durable=True)
async def question(text: str, ctx: Context) -> str:
    if text == "forever":
        await ctx.step(work, name="work")
    return await ctx.ask(f"{text}?")


async def work() -> None:
    """Take longer than the process lives: the next one begins it again, and it is over."""
    await asyncio.sleep(2)


if __name__ == "__main__":
    agent.run(port=int(sys.argv[1]), store=sys.argv[2], previews=["1.1"], push=False)
