"""The console of an agent or a hub, at `/console`."""

import msgspec

from ..app import App
from ..auth import Caller
from ..model import A2AError, InvalidParams, MethodNotAllowed
from ..protocol.v1 import codec as v1
from ..server import HttpRequest, HttpResponse, StreamingResponse, opaque
from .api import Api
from .exchanges import Exchanges
from .login import HEADER, BrowserSessions, is_same_origin
from .pages import SECURITY, Pages

__all__ = ["PATH", "Console", "link_of"]

PATH = "/console"


class Console:
    """Serves the page, its login and what it reads; put on an app with `attach`."""

    def __init__(
        self,
        app: App,
        *,
        has_exchanges: bool = True,
        is_hub: bool = False,
        makes_link: bool = True,
    ) -> None:
        """Args:
        app: The app that the console shows.
        has_exchanges: Whether the last requests are kept in memory, for Live.
        is_hub: Whether the app is a hub.
        makes_link: Whether to make a link when the app is opened.
        """
        agents = [app.agent, *(served.agent for served in app.agents.values())]
        skills = [skill for agent in agents for skill in agent.skills.values()]
        scopes = {scope for skill in skills for scope in skill.scopes}
        self._operator = Caller("console", scopes=frozenset(scopes), scheme="console")
        self.logins = BrowserSessions(app.engine.tasks.store.logins)
        self._makes_link = makes_link
        self._key = ""
        shown = {name.encode("latin-1") for agent in agents for name in agent.headers}
        self._exchanges = Exchanges(shown) if has_exchanges else None
        self._pages = Pages()
        self._api = Api(app, self.logins, self._exchanges, operator=self._operator, is_hub=is_hub)

    def attach(self, app: App) -> None:
        """Serve the console beside the agent."""
        app.mount(PATH, self.answer)
        app.sessions = self
        for router in app.routers.values():
            router.sessions = self
            if self._exchanges is not None:
                router.on_exchange = self._exchanges.add
        app.add_part(self)
        if self._exchanges is not None:
            app.on_exchange = self._exchanges.add

    # A part of the app, opened with it

    async def open(self) -> None:
        if self._makes_link:
            self._key = await self.logins.new_link()

    async def drain(self) -> None:
        """There is nothing to wait for."""

    async def close(self) -> None:
        """There is nothing to close."""

    @property
    def trouble(self) -> str:
        return ""

    # The sessions of the app's router

    def shows(self, request: HttpRequest) -> bool:
        return self.logins.shows(request)

    async def caller(self, request: HttpRequest) -> Caller | None:
        """The page calls the agent as the operator, whatever the agent asks of others."""
        return self._operator if await self.logins.session(request) is not None else None

    def link(self, address: str) -> str:
        """Return the address that opens the console, once. Only while the app is open."""
        return link_of(address, self._key)

    async def answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request below `/console`."""
        path = request.target.path.removeprefix(PATH).lstrip("/")
        if request.target.path == PATH:
            return _moved(f"{PATH}/")
        if path.startswith("api/"):
            return await self._read(request, path.removeprefix("api/"))
        if request.target.verb not in ("GET", "HEAD"):
            return HttpResponse(405, b"", headers=((b"allow", b"GET, HEAD"), *SECURITY))
        # The page itself is the same for everybody. It reads what it shows from the API.
        found = self._pages.file(path, request)
        if found is None and path.startswith("assets/"):
            # A page of an older release asks for a file of its own; the index would be wrong.
            return HttpResponse(404, b"", headers=((b"cache-control", b"no-store"), *SECURITY))
        return found or self._pages.index(request)

    async def _read(self, request: HttpRequest, path: str) -> HttpResponse | StreamingResponse:
        try:
            if path == "login":
                return await self._log_in(request)
            session = await self.logins.session(request)
            if session is not None:
                return await self._api.answer(request, path, session)
            if await self._is_ticketed(request):
                return await self._api.part(request, path)
        except A2AError as error:
            return _failed(error)
        except Exception:
            return _failed(opaque())
        return _locked("not logged in: open a link that `accord console link` prints")

    async def _log_in(self, request: HttpRequest) -> HttpResponse:
        """Log a browser in with the key of a link. The page sends the key, so programs that only
        fetch the address, for a preview, do not use it up.
        """
        # A form of another site can't send the header.
        if not is_same_origin(request) or request.headers.get(HEADER) is None:
            return _locked("log in from the page itself")
        if request.target.verb != "POST":
            raise MethodNotAllowed("use POST", allow="POST")
        opened = await self.logins.open(_key_in(request.body), request)
        if opened is None:
            return _locked("the link was used, or is too old: `accord console link` prints another")
        headers = ((b"set-cookie", opened.cookie), (b"cache-control", b"no-store"), *SECURITY)
        return HttpResponse(200, v1.encode({"secret": opened.secret}), headers=headers)

    async def _is_ticketed(self, request: HttpRequest) -> bool:
        if request.target.verb != "GET" or not is_same_origin(request):
            return False
        query, _, ticket = request.target.query.decode("latin-1").rpartition("ticket=")
        path = request.target.raw.removeprefix(f"{PATH}/api/")
        address = "?".join(one for one in (path, query.rstrip("&")) if one)
        return bool(ticket) and await self.logins.is_ticketed(address, ticket)


def link_of(address: str, key: str) -> str:
    """Return the address that opens the console with the key of a link."""
    return f"{address}{PATH}/?key={key}"


def _key_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Login).key
    except msgspec.MsgspecError:
        raise InvalidParams('send {"key": ...}, the key of a link') from None


class _Login(msgspec.Struct):
    key: str


def _moved(where: str) -> HttpResponse:
    return HttpResponse(303, headers=((b"location", where.encode()), *SECURITY))


def _locked(why: str) -> HttpResponse:
    return HttpResponse(403, v1.encode({"error": why, "reason": "LOCKED"}), headers=SECURITY)


def _failed(error: A2AError) -> HttpResponse:
    what = {"error": str(error), "reason": error.reason}
    return HttpResponse(error.status, v1.encode(what), headers=SECURITY)
