"""The IT agent: accounts and laptops."""

import asyncio
from typing import Literal

from accord import Agent, Context

from .person import EXAMPLE, Person

agent = Agent("IT", description="Creates mail accounts and orders laptops.")


@agent.skill(id="setupEmailAccount", tags=["it"], examples=[EXAMPLE])
async def setup_email_account(person: Person) -> dict:
    """Create a mail account and return how to log in for the first time."""
    return {
        "account": f"{person.login}@company.example",
        "first password": "from the service desk, in person",
    }


@agent.skill(id="orderHardware", tags=["it"], examples=[EXAMPLE])
async def order_hardware(person: Person, ctx: Context):
    """Order a laptop, asking which if nobody said, and follow its way here."""
    laptop = person.laptop or await ctx.ask("Which laptop, 13 or 16 inch?", Literal["13", "16"])
    for news in ("laptop ordered", "laptop shipped", "laptop at the front desk"):
        await asyncio.sleep(0.05)
        ctx.status(news)
    ctx.artifact(
        f"{laptop} inch laptop for {person.name}, waiting at the front desk", name="hardware order"
    )
