"""Errors of the hub's own: each says what is wrong and what helps."""

from typing import Any

from ..model import A2AError
from ..net import parse_url

__all__ = ["CannotAdd", "Conflict", "EntryNotFound", "HubError", "Outdated", "address_fix"]


class HubError(A2AError):
    """The hub can't do that."""

    status, reason, grpc, code = 400, "INVALID_REQUEST", "INVALID_ARGUMENT", -32600
    fix = ""

    def __init__(self, message: str, *, fix: str = "", **more: Any) -> None:
        super().__init__(message, **more)
        self.fix = fix


class EntryNotFound(HubError):
    """There is none, or none that this caller may see: the two look the same."""

    status, reason, grpc, code = 404, "NOT_FOUND", "NOT_FOUND", -32601
    is_http_level = True

    @classmethod
    def of_agent(cls, name: str, near: str = "") -> "EntryNotFound":
        hint = f"; did you mean {near!r}?" if near else ""
        return cls(
            f"there is no agent {name[:80]!r}{hint}",
            fix="see which there are with: accord hub list",
        )


class Conflict(HubError):
    """It does not go with what is there."""

    status, reason, grpc = 409, "CONFLICT", "FAILED_PRECONDITION"


class Outdated(HubError):
    """Somebody else has changed it meanwhile."""

    status, reason, grpc = 412, "OUTDATED", "FAILED_PRECONDITION"

    @classmethod
    def of_entry(cls, name: str) -> "Outdated":
        return cls(
            f"{name} was changed by somebody else",
            fix="read it again, and send its new ETag as If-Match",
        )


class CannotAdd(HubError):
    """An agent can't be added: its card is not there, can't be read, or is not allowed."""

    status, reason = 422, "CANNOT_ADD"


def address_fix(url: str) -> str:
    """Say what helps if the hub may not call an address."""
    try:
        parse_url(url)
    except ValueError:
        return "write an address like https://hr.corp.example"
    return "an admin allows private networks with: accord hub network add HOST"
