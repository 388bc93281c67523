"""Who sends a request to the hub."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...auth import ANONYMOUS, Authenticator, Caller, Credentials
from ...model import A2AError
from .principals import GUEST, Principals

if TYPE_CHECKING:
    from ...server import HttpRequest
    from ...server.http import PageSessions

__all__ = ["Callers"]


class Callers:
    """Finds out who sends a request: by the console's session, or by what the request shows."""

    def __init__(
        self,
        principals: Principals,
        authenticator: "Callable[[], Authenticator]",
        sessions: "Callable[[], PageSessions | None]",
    ) -> None:
        self.principals = principals
        self._authenticator = authenticator
        self._sessions = sessions

    async def of(self, request: "HttpRequest") -> Caller:
        """Return the caller. Raises Unauthenticated."""
        sessions = self._sessions()
        session = await sessions.caller(request) if sessions is not None else None
        if session is not None:
            return session
        return await self._authenticated(request)

    async def reader(self, request: "HttpRequest") -> Caller:
        """Return who reads what is for everybody: whoever shows nothing valid is a guest."""
        try:
            return await self._authenticated(request)
        except A2AError:
            return GUEST

    async def _authenticated(self, request: "HttpRequest") -> Caller:
        """Return who has shown the credentials of a request. The app has counted the call, and
        knows whose it is, if it has seen them a moment ago.
        """
        if request.caller is not ANONYMOUS:
            return request.caller
        return await self._authenticator().authenticate(_credentials(request))


def _credentials(request: "HttpRequest") -> Credentials:
    return Credentials(request.headers, request.pairs, request.target.query, request.peer)
