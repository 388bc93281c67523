"""GetExtendedAgentCard, and 0.3's GetAgentCard."""

import inspect

import msgspec

from ..model import AgentCard, GetExtendedCardRequest, UnsupportedOperation
from .call import Call
from .service import Service

__all__ = ["get_card", "get_extended_card"]


async def get_extended_card(
    service: Service, call: Call, request: GetExtendedCardRequest
) -> AgentCard:
    """Return the card as this caller may see it, who has to be authenticated."""
    extend = service.agent.extend_card
    if extend is None:
        raise UnsupportedOperation(
            "this agent has no extended card; the public one is at /.well-known/agent-card.json"
        )
    if not service.agent.is_extended_card_public and not service.is_authenticated(call.caller):
        raise service.unauthenticated(
            "the extended card is for authenticated callers; the public card says how"
        )
    # The user's function may change what it is given.
    card = msgspec.convert(msgspec.to_builtins(service.card_for(call)), AgentCard)
    found = extend(card, call.caller)
    if inspect.isawaitable(found):
        found = await found
    if found is None:
        return card
    if not isinstance(found, AgentCard):
        raise TypeError(f"the extended card is a {type(found).__name__}; return an AgentCard")
    return found


async def get_card(service: Service, call: Call, request: GetExtendedCardRequest) -> AgentCard:
    """Return the card this caller may see: the extended one if there is one, else the public
    one.
    """
    if service.agent.extend_card is None or not service.is_authenticated(call.caller):
        return service.card_for(call)
    return await get_extended_card(service, call, request)
