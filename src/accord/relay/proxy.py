"""What `Agent.proxy` makes an agent of: the other agent's card and skills, and a client of it."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from ..client import Client, Retry, connect
from ..engine.skills import Skill
from ..model import AgentCard, AgentExtension, AgentSkill
from .relay import Relay
from .remote import OUR_EXTENSIONS, RequestContext

__all__ = ["NO_FORK", "SharedClient", "fetch_card", "relayed_extensions", "relayed_skills"]

NO_FORK = "another agent does the work; fork the task there"

# A client gives up soon: then the relay decides whether to go on trying.
_RETRY = Retry(max_time_s=5.0, first_max_time_s=3.0)


class SharedClient:
    """Give every caller the same client, which is made when it is first needed.

    Args:
        agent: Where the agent is, or its card; see `accord.client.connect`.
        options: Of `connect`.
    """

    def __init__(self, agent: Any, **options: Any) -> None:
        self._agent = agent
        self._options = {"retry": _RETRY} | options
        self._client: Client | None = None

    async def __call__(self, context: RequestContext) -> Client:
        if self._client is None:
            self._client = connect(self._agent, **self._options)
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def fetch_card(agent: Any, **options: Any) -> AgentCard:
    """Return the card of an agent. Waits for it, also where an event loop runs.

    Raises:
        AgentFault: There is none.
    """

    async def fetch() -> AgentCard:
        async with connect(agent, **options) as client:
            return client.card

    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, fetch()).result()


def relayed_skills(card: AgentCard, relay: Relay) -> dict[str, Skill]:
    """Return the skills of the other agent as skills of this one. The other agent does the work."""
    cards = card.skills or [
        AgentSkill(id="relay", name=card.name, description=card.description, tags=["relay"])
    ]
    return {
        one.id: Skill(
            relay.run,
            msgspec.structs.replace(one, security_requirements=[]),
            is_durable=True,
            has_first_word=True,
            run_s=math.inf,
            on_cancel=relay.cancel,
            no_fork=NO_FORK,
        )
        for one in cards
    }


def relayed_extensions(card: AgentCard) -> list[AgentExtension]:
    """Return the extensions that callers may activate at the other agent."""
    return [one for one in card.capabilities.extensions if one.uri not in OUR_EXTENSIONS]
