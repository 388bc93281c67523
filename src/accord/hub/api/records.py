"""Routes of the inbox and the audit log."""

from typing import Any

from ...model import InvalidParams
from ..records import Audit, Inbox
from .router import ApiCall, ApiRoute

__all__ = ["RecordRoutes"]


class RecordRoutes:
    """The inbox and the audit log."""

    def __init__(
        self,
        inbox: Inbox,
        audit: Audit,
    ) -> None:
        self._inbox = inbox
        self._audit = audit

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                "GET", "/inbox", "publisher", self._list_alerts, "List what waits for a person"
            ),
            ApiRoute(
                "POST", "/inbox/{id}:dismiss", "admin", self._dismiss, "Close an alert", status=204
            ),
            ApiRoute(
                *("POST", "/inbox:dismiss", "admin", self._dismiss_all),
                "Close every alert of a kind (`health`, for one)",
                query=("kind",),
            ),
            ApiRoute(
                *("GET", "/audit", "admin", self._list_rows, "List who did what, the newest first"),
                query=("before", "limit", "what", "find"),
            ),
            ApiRoute(
                *("GET", "/audit:verify", "admin", self._verify_audit),
                "Check the audit log, or a piece of it: go on with `after` until it is done",
                query=("after",),
            ),
        )

    async def _list_alerts(self, call: ApiCall) -> Any:
        owner = None if call.principal.is_admin else call.principal.identity
        kinds = await self._inbox.count_by_kind(owner=owner)
        return {
            "alerts": await self._inbox.open_alerts(owner=owner),
            "total": sum(kinds.values()),
            "kinds": kinds,
        }

    async def _dismiss(self, call: ApiCall) -> Any:
        await self._inbox.dismiss(call.principal, call.path["id"])

    async def _dismiss_all(self, call: ApiCall) -> Any:
        kind = call.query.get("kind", "")
        if not kind:
            raise InvalidParams("kind is missing; name the kind of alerts to close, as kind=health")
        return {"closed": await self._inbox.dismiss_all(call.principal, kind)}

    async def _list_rows(self, call: ApiCall) -> Any:
        rows = await self._audit.rows(
            before=call.number("before", 0, 1 << 60),
            limit=call.number("limit", 100, 1000, least=1),
            what=call.query.get("what", ""),
            find=call.query.get("find", ""),
        )
        return {"rows": rows, "next": rows[-1].n if rows and rows[-1].n > 1 else 0}

    async def _verify_audit(self, call: ApiCall) -> Any:
        checked = await self._audit.check(call.number("after", 0, 1 << 53))
        return {
            "whole": not checked.trouble and checked.is_done,
            "trouble": checked.trouble,
            "upto": checked.upto,
            "done": checked.is_done,
        }
