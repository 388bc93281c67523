"""The agents at one address, as others find them: an agent that lists them, an index, a catalog."""

from collections.abc import Callable, Mapping

from ..engine.skills import Agent, AgentDefinition, definition_of
from ..protocol.v1 import codec as v1
from ..server import HttpRequest, HttpResponse
from ..server.http import CARD_PATH, CatalogEntry, catalog_answer
from .address import PublicAddress
from .endpoints import AgentEndpoints

__all__ = ["AgentListing"]


class AgentListing:
    """Lists the agents of an app whose cards everybody may read."""

    def __init__(
        self,
        agents: Callable[[], Mapping[str, AgentEndpoints]],
        address: PublicAddress,
    ) -> None:
        """`agents` gives those below a path, by that path."""
        self._agents = agents
        self._address = address

    def entries(self, base: str) -> list[dict[str, str]]:
        return [
            {
                "name": endpoints.agent.name,
                "description": endpoints.agent.description,
                "card": f"{base}/{path}{CARD_PATH}",
            }
            for path, endpoints in self._agents().items()
            if endpoints.agent.is_card_public
        ]

    def agent(self) -> AgentDefinition:
        """Return the agent at the address itself, where others have paths."""
        directory = Agent("Directory", description="Lists the agents served at this address.")

        @directory.skill
        def agents() -> dict[str, list[dict[str, str]]]:
            """List the agents served at this address, and where their cards are."""
            return {"agents": self.entries(self._address.base)}

        return definition_of(directory)

    def index(self, base: Callable[[HttpRequest], str], request: HttpRequest) -> HttpResponse:
        """Answer `/` with the agents."""
        return HttpResponse(200, v1.encode({"agents": self.entries(base(request))}))

    def catalog(
        self, root: AgentEndpoints, base: Callable[[HttpRequest], str], request: HttpRequest
    ) -> HttpResponse:
        """Answer with an AI Catalog: the agents below paths, or else the one at the root."""
        address = base(request)
        below = {f"/{path}": endpoints for path, endpoints in self._agents().items()}
        listed = [
            CatalogEntry(endpoints.card(address + path), f"{address}{path}{CARD_PATH}")
            for path, endpoints in (below or {"": root}).items()
            if endpoints.agent.is_card_public
        ]
        return catalog_answer(root.agent.name, address, listed)
