"""Routes of probes and checks: make one now, and what the last ones found."""

from typing import Any

import msgspec

from ...model import now_ms
from ..errors import EntryNotFound
from .agents import AgentView, health_of, view_of
from .router import ApiCall, ApiRoute

__all__ = ["ROUTES"]

_OLD_MS = 48 * 3600 * 1000
_DAY_MS = 24 * 3600 * 1000


class HealthView(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is and was."""

    name: str
    health: dict[str, Any]
    score: int | None
    is_old: bool  # nobody has looked for 48 hours
    hours: list[dict[str, int]]


async def _probe(call: ApiCall) -> Any:
    entry = call.own_entry()
    entry = await call.hub.prober.reach_now(entry)
    if call.query.get("message"):
        entry = await call.hub.prober.message_now(entry)
    return view_of(entry, call)


async def _check(call: ApiCall) -> Any:
    report = await call.hub.prober.check_now(call.own_entry())
    return report.to_dict()


async def _health(call: ApiCall) -> Any:
    entry = call.entry()
    days = call.number("days", 7, 400)
    hours = await call.hub.prober.results.hours(entry.id, now_ms() - days * _DAY_MS)
    return HealthView(
        name=entry.name,
        health=health_of(entry, is_own=call.owns(entry)),
        score=entry.score,
        is_old=now_ms() - entry.health.at_ms > _OLD_MS,
        hours=[msgspec.to_builtins(hour) for hour in hours],
    )


async def _checks(call: ApiCall) -> Any:
    entry = call.own_entry()
    found = await call.hub.prober.results.last_checks(entry.id)
    if found is None:
        raise EntryNotFound(
            f"{entry.name} has not been checked yet", fix=f"accord hub check {entry.name}"
        )
    return found


_A = "/agents/{name}"
ROUTES = (
    ApiRoute(
        *("POST", _A + ":probe", "owner", _probe, "Look now how the agent is"),
        gives=AgentView,
        query=("message",),
    ),
    ApiRoute("POST", _A + ":check", "owner", _check, "Run the conformance checks now"),
    ApiRoute(
        *("GET", _A + "/health", "guest", _health, "Health, and its history by hour"),
        gives=HealthView,
        query=("days",),
    ),
    ApiRoute("GET", _A + "/checks", "owner", _checks, "The last checks, with evidence"),
)
