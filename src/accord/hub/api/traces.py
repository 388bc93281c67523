"""Routes of traces: which task led to which."""

from typing import Any

from ..trace import Traces
from .router import ApiCall, ApiRoute

__all__ = ["TraceRoutes"]


def _whose(call: ApiCall) -> str | None:
    """None for admins, who see all."""
    return None if call.principal.is_admin else call.caller.identity


class TraceRoutes:
    """Which task led to which."""

    def __init__(
        self,
        traces: Traces,
    ) -> None:
        self._traces = traces

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                *(
                    "GET",
                    "/traces",
                    "user",
                    self._newest,
                    "List the newest traces that went through the hub",
                ),
                query=("limit", "task"),
            ),
            ApiRoute(
                "GET",
                "/traces/{id}",
                "user",
                self._trace,
                "The tasks of a trace, and what led to what",
            ),
        )

    async def _newest(self, call: ApiCall) -> Any:
        limit, task = call.number("limit", 50, 500, least=1), call.query.get("task", "")
        return {"traces": await self._traces.newest(_whose(call), limit, task)}

    async def _trace(self, call: ApiCall) -> Any:
        id_, whose = call.path["id"], _whose(call)
        spans = await self._traces.spans(id_, whose)
        return {"id": id_, "title": await self._traces.title(id_, whose), "spans": spans}
