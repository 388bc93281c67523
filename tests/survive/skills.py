"""Two skills that several agents here have: one that is done at once, and one that waits for its
client.
"""

from accord import Agent, Context

__all__ = ["talkative"]


def talkative(agent: Agent) -> None:
    @agent.skill
    async def echo(text: str) -> str:
        return text

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        return await ctx.ask("and then?")
