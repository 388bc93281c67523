"""OnboardingPro: finds who does each piece of work, hands it out, collects what was made.

It is given a hub's address and asks there who does what, or the agents themselves. A question of
any of them reaches the hiring manager through us; so does their progress.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from accord import Agent, Context, Message, Part, connect
from accord.model import Role, new_id

from .person import EXAMPLE, Person

WORK = ("createEmployee", "setupEmailAccount", "orderHardware", "assignDesk", "generateBadge")


def onboarding_agent(departments: Sequence[Any] = (), *, hub: str = "") -> Agent:
    """Return the agent that coordinates departments: those a hub finds, or these (URLs, or agents
    in the same process).
    """
    agent = Agent("OnboardingPro", description="Gets new colleagues ready for their first day.")

    @agent.skill(tags=["onboarding"], examples=[EXAMPLE])
    async def onboard(person: Person, ctx: Context):
        """Onboard a new colleague: record, mail account, laptop, desk and badge."""
        async with AsyncExitStack() as stack:
            able = {}
            for place in departments or await who_does(hub):
                client = await stack.enter_async_context(connect(place))
                able |= {skill.id: client for skill in client.card.skills}
            missing = [work for work in WORK if work not in able]
            if missing:
                ctx.fail(f"no agent offers {', '.join(missing)}")
            for work in WORK:
                reply = await ctx.delegate(able[work], order(work, person))
                for artifact in reply.task.artifacts:
                    await ctx.artifact(
                        *artifact.parts, name=artifact.name, metadata={"from": able[work].card.name}
                    )
        return f"{person.name} is ready to start."

    return agent


async def who_does(hub: str) -> list[str]:
    """Ask a hub for the agents that do our work; return where they are."""
    names: dict[str, None] = {}
    async with connect(hub) as directory:
        for work in WORK:
            found = await directory.call("find", query=work)
            names |= {
                agent["agent"]: None
                for agent in found["untrusted"]
                if any(skill["id"] == work for skill in agent["skills"])
            }
    return [f"{hub}/agents/{name}" for name in names]


def order(work: str, person: Person) -> Message:
    """The message that asks a department for one piece of work."""
    data = {
        "name": person.name,
        "role": person.role,
        "start": person.start,
        "laptop": person.laptop,
    }
    return Message(
        message_id=new_id(), role=Role.USER, parts=[Part(data=data)], metadata={"skill": work}
    )
