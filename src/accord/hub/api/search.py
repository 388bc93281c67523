"""Routes of search: by GET with filters, and in the form of ARD for other registries' clients."""

from typing import Any, Literal

import msgspec

from ...model import InvalidParams
from ..access import Principals
from ..find import AgentHit, Finder, SearchFilters, SearchResult
from ..registry import HEALTH_STATES, UNTRUSTED
from .router import ApiCall, ApiRoute

__all__ = ["SearchRoutes"]

PAGE, MOST = 10, 100
_FILTERS = tuple(SearchFilters.__struct_fields__)


class SearchView(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `untrusted` holds what the agents' makers wrote."""

    meaning: str  # on, or off: then only words count
    why_off: str
    total: int
    notice: str  # what a model has to know of the texts below
    untrusted: list[AgentHit]


class SearchRoutes:
    """Search for agents."""

    def __init__(
        self,
        finder: Finder,
        principals: Principals,
    ) -> None:
        self._finder = finder
        self._principals = principals

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                *("GET", "/search", "guest", self._search, "Find agents by what is wanted of them"),
                gives=SearchView,
                query=("text", "q", *_FILTERS, "order", "expand", "limit"),
            ),
        )

    async def _search(self, call: ApiCall) -> Any:
        found = await self._found(call, call.query.get("text") or call.query.get("q") or "")
        return SearchView(
            meaning=found.meaning,
            why_off=found.why_off,
            total=found.total,
            notice=UNTRUSTED,
            untrusted=found.agents,
        )

    async def _found(self, call: ApiCall, text: str) -> SearchResult:
        """Search as a request's query says."""
        given: dict[str, Any] = {name: call.query[name] for name in _FILTERS if name in call.query}
        if "min_score" in given:
            given["min_score"] = call.number("min_score", 0, 100)
        if team := given.get("team"):
            call.check_among("team", team, call.known_teams(self._principals.teams))
        for state in (word.strip() for word in given.get("state", "").split(",")):
            if state:
                call.check_among("state", state, HEALTH_STATES)
        if language := given.get("language"):
            call.check_among("language", language.lower()[:2], ("en", "zh"))
        order = call.query.get("order", "proven")
        if order not in ("proven", "relevance"):
            raise InvalidParams("order is proven or relevance")
        wanted: Literal["proven", "relevance"] = "relevance" if order == "relevance" else "proven"
        return await self._finder.search(
            call.caller,
            text,
            SearchFilters(**given),
            limit=call.number("limit", PAGE, MOST, least=1),
            order=wanted,
            with_schema=call.query.get("expand") == "schema",
        )
