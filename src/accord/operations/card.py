"""GetExtendedAgentCard, and 0.3's GetAgentCard."""

from ..model import AgentCard, GetExtendedCardRequest, UnsupportedOperation
from .call import Call
from .service import Service

__all__ = ["get_card", "get_extended_card"]


async def get_extended_card(service: Service, call: Call, request: GetExtendedCardRequest) -> None:
    """This agent has no extended card, and its card says so (spec GEN-7)."""
    raise UnsupportedOperation(
        "this agent has no extended card; the public one is at /.well-known/agent-card.json"
    )


async def get_card(service: Service, call: Call, request: GetExtendedCardRequest) -> AgentCard:
    """Return the card this caller may see: the extended one if there is one, else the public
    one.
    """
    return service.card
