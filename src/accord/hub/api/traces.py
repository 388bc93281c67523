"""Routes of traces: which task led to which."""

from typing import Any

from .router import ApiCall, ApiRoute

__all__ = ["ROUTES"]


def _whose(call: ApiCall) -> str | None:
    """None for admins, who see all."""
    return None if call.person.is_admin else call.caller.identity


async def _newest(call: ApiCall) -> Any:
    return {"traces": await call.hub.traces.newest(_whose(call), call.number("limit", 50, 500))}


async def _trace(call: ApiCall) -> Any:
    id_ = call.path["id"]
    return {"id": id_, "spans": await call.hub.traces.spans(id_, _whose(call))}


ROUTES = (
    ApiRoute(
        *("GET", "/traces", "user", _newest, "List the newest traces that went through the hub"),
        query=("limit",),
    ),
    ApiRoute("GET", "/traces/{id}", "user", _trace, "The tasks of a trace, and what led to what"),
)
