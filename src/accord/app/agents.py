"""The agents below paths of an app, beside the one at its root."""

from ..auth import Authenticator, Caller
from ..engine.skills import AgentDefinition
from ..operations import Service
from ..server.http import Router
from .endpoints import AgentEndpoints, AgentRouter, ServerContext
from .telemetry import Telemetry

__all__ = ["AgentsBelow"]


class _Tenants:
    """The agents below paths of an app: `Tenants`."""

    def __init__(self) -> None:
        self.services: dict[str, Service] = {}  # by the last segment of their paths

    def service_of(self, name: str) -> Service | None:
        return self.services.get(name)

    async def find(self, name: str) -> Service | None:
        return self.services.get(name)

    def names(self, caller: Caller) -> list[str]:
        """Return the names of those whose cards everybody may read."""
        return [name for name, one in self.services.items() if one.agent.is_card_public]

    def path_of(self, name: str) -> str:
        return self.services[name].path


class AgentsBelow:
    """Puts agents below paths of an app. The last segment of a path is the agent's tenant too."""

    def __init__(
        self, app: Router, root: Service, context: ServerContext, telemetry: Telemetry
    ) -> None:
        self._app = app
        self._root = root
        self._context = context
        self._telemetry = telemetry
        self._tenants = _Tenants()
        self._paths: dict[str, str] = {}  # of agents, by their names

    @property
    def routers(self) -> dict[str, AgentRouter]:
        """Return the routers, by the agents' paths."""
        found = self._app.routers.items()
        return {path[1:]: one for path, one in found if isinstance(one, AgentRouter)}

    def path_of(self, name: str) -> str:
        """Return the path of the agent of this name; empty for the one at the root."""
        return self._paths.get(name, "")

    def check(self, agent: AgentDefinition, path: str) -> None:
        """Raise ValueError if the path is taken."""
        if path.rpartition("/")[2] in self._tenants.services or self._app.has_path(f"/{path}"):
            raise ValueError(
                f"the path /{path} is taken, so agent {agent.name!r} can't be there; give it "
                "another name"
            )

    def put(
        self, agent: AgentDefinition, path: str, authenticator: Authenticator | None
    ) -> AgentEndpoints:
        """Serve an agent below a path."""
        router = self.router_for(agent, path, authenticator)
        self._app.routers[f"/{path}"] = router
        self._tenants.services[path.rpartition("/")[2]] = router.endpoints.service
        self._root.tenants = self._tenants
        return router.endpoints

    def router_for(
        self, agent: AgentDefinition, path: str, authenticator: Authenticator | None
    ) -> AgentRouter:
        """Return what answers for an agent as if it were below a path."""
        endpoints = AgentEndpoints(agent, self._context, authenticator, path)
        endpoints.service.card = endpoints.card(self._context.address.below(path))
        self._paths[agent.name] = path
        router = AgentRouter(self._app, endpoints, self._context)
        router.observer = self._telemetry.observer(agent.name)
        return router

    def remove(self, path: str) -> AgentDefinition | None:
        """Serve the agent below a path no more, and return it; None if there is none."""
        router = self._app.routers.pop(f"/{path}", None)
        if not isinstance(router, AgentRouter):
            return None
        self._tenants.services.pop(path.rpartition("/")[2], None)
        return router.endpoints.agent

    def observe(self) -> None:
        """Give each router the observer of its agent."""
        for router in self.routers.values():
            router.observer = self._telemetry.observer(router.endpoints.agent.name)

    def write_cards(self) -> None:
        """Write the cards again: the address of the app, or its gRPC port, is another now."""
        for path, router in self.routers.items():
            endpoints = router.endpoints
            endpoints.service.card = endpoints.card(self._context.address.below(path))
