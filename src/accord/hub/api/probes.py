"""Routes of probes and checks: make one now, and what the last ones found."""

from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import EntryNotFound
from ..probe import Prober
from .agents import AgentView, AgentViews, health_of
from .router import ApiCall, ApiRoute

__all__ = ["ProbeRoutes"]

_OLD_MS = 48 * 3600 * 1000
_DAY_MS = 24 * 3600 * 1000


class HealthView(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is and was."""

    name: str
    health: dict[str, Any]
    score: int | None
    is_old: bool  # nobody has looked for 48 hours
    hours: list[dict[str, int]]


_A = "/agents/{name}"


class ProbeRoutes:
    """Probes and checks of agents."""

    def __init__(
        self,
        prober: Prober,
        views: AgentViews,
        now_ms: Callable[[], int],
    ) -> None:
        self._prober = prober
        self._views = views
        self._now_ms = now_ms

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                *("POST", _A + ":probe", "owner", self._probe, "Look now how the agent is"),
                gives=AgentView,
                query=("message",),
            ),
            ApiRoute("POST", _A + ":check", "owner", self._check, "Run the conformance checks now"),
            ApiRoute(
                *("GET", _A + "/health", "guest", self._health, "Health, and its history by hour"),
                gives=HealthView,
                query=("days",),
            ),
            ApiRoute(
                "GET", _A + "/checks", "owner", self._checks, "The last checks, with evidence"
            ),
        )

    async def _probe(self, call: ApiCall) -> Any:
        entry = call.own_entry()
        entry = await self._prober.reach_now(entry)
        if call.query.get("message"):
            entry = await self._prober.message_now(entry)
        return self._views.of(entry, call)

    async def _check(self, call: ApiCall) -> Any:
        report = await self._prober.check_now(call.own_entry())
        return report.to_dict()

    async def _health(self, call: ApiCall) -> Any:
        entry = call.entry()
        days = call.number("days", 7, 400)
        hours = await self._prober.results.hours(entry.id, self._now_ms() - days * _DAY_MS)
        return HealthView(
            name=entry.name,
            health=health_of(entry, is_own=call.owns(entry)),
            score=entry.score,
            is_old=self._now_ms() - entry.health.at_ms > _OLD_MS,
            hours=[msgspec.to_builtins(hour) for hour in hours],
        )

    async def _checks(self, call: ApiCall) -> Any:
        entry = call.own_entry()
        found = await self._prober.results.last_checks(entry.id)
        if found is None:
            raise EntryNotFound(
                f"{entry.name} has not been checked yet", fix=f"accord hub check {entry.name}"
            )
        return found
