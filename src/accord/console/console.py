"""The console of an agent or a hub, at `/console`."""

from collections.abc import Callable

import msgspec

from ..app import App
from ..auth import Caller
from ..model import A2AError, InvalidParams, MethodNotAllowed, Unauthenticated
from ..protocol.v1 import codec as v1
from ..server import HttpRequest, HttpResponse, StreamingResponse, opaque
from ..store import StoredLogin
from .api import Api
from .attempts import Attempts
from .exchanges import Exchanges
from .login import HEADER, BrowserSessions, cookie_name
from .openid import OpenIdLogin
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
        openid: OpenIdLogin | None = None,
        is_operator: Callable[[Caller], bool] = lambda caller: False,
    ) -> None:
        """Args:
        app: The app that the console shows.
        has_exchanges: Whether the last requests are kept in memory, for Live.
        is_hub: Whether the app is a hub.
        makes_link: Whether to make a link when the app is opened.
        openid: How people log in, beside links.
        is_operator: Whether somebody who logged in so may see what all callers do, as whoever
          opened a link may.
        """
        agents = [app.agent, *(served.agent for served in app.agents.values())]
        skills = [skill for agent in agents for skill in agent.skills.values()]
        scopes = {scope for skill in skills for scope in skill.scopes}
        self._operator = Caller("console", scopes=frozenset(scopes), scheme="console")
        self.logins = BrowserSessions(app.engine.tasks.store.logins, lambda: app.address)
        self._makes_link = makes_link
        self._openid = openid
        self._is_operator = is_operator
        self._key = ""
        shown = {name.encode("latin-1") for agent in agents for name in agent.headers}
        self._exchanges = Exchanges(shown) if has_exchanges else None
        # As with requests: of several processes each would know only its own attempts.
        self._attempts = Attempts() if has_exchanges else None
        self._pages = Pages()
        self._api = Api(
            app,
            self.logins,
            self._exchanges,
            self._attempts,
            operator=self._operator,
            is_hub=is_hub,
        )

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
        if self._attempts is not None and app.notifier is not None:
            app.notifier.deliverer.on_attempt = self._attempts.add

    # A part of the app, opened with it

    async def open(self) -> None:
        if self._makes_link:
            self._key = await self.logins.first_link()
        self._api.sampler.start()

    async def drain(self) -> None:
        """There is nothing to wait for."""

    async def settle(self) -> None:
        """Store no more samples: the store is closed next."""
        await self._api.sampler.stop()

    async def close(self) -> None:
        await self._api.sampler.stop()

    @property
    def trouble(self) -> str:
        return ""

    # The sessions of the app's router

    def shows(self, request: HttpRequest) -> bool:
        return self.logins.shows(request)

    async def caller(self, request: HttpRequest) -> Caller | None:
        """The page calls the agent as who is logged in: the operator, whatever the agent asks of
        others, or a person.
        """
        session = await self.logins.session(request)
        return None if session is None else self._caller_of(session)

    def _caller_of(self, session: StoredLogin) -> Caller:
        if not session.caller:
            return self._operator
        return msgspec.json.decode(session.caller, type=Caller)

    def link(self, address: str) -> str:
        """Return the address that opens the console, once; empty if there is none. Only while the
        app is open.
        """
        return link_of(address, self._key)

    async def answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request below `/console`."""
        path = request.target.path.removeprefix(PATH).lstrip("/")
        if request.target.path == PATH:
            return _moved(f"{PATH}/")
        if path.startswith("api/"):
            return await self._read(request, path.removeprefix("api/"))
        if path in ("login", "login/callback") and self._openid is not None:
            return await self._log_in_with(self._openid, request, is_back=path != "login")
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
                return await self._api_for(session).answer(request, path, session)
            if await self._is_ticketed(request):
                return await self._api.part(request, path)
        except A2AError as error:
            return _failed(error)
        except Exception:
            return _failed(opaque())
        return _locked(
            "not logged in: open a link that `accord console link` prints",
            login=f"{PATH}/login" if self._openid is not None else "",
        )

    def _api_for(self, session: StoredLogin) -> Api:
        if not session.caller:
            return self._api
        caller = self._caller_of(session)
        return self._api.seen_by(caller, lambda: self._is_operator(caller))

    async def _log_in_with(
        self, openid: OpenIdLogin, request: HttpRequest, *, is_back: bool
    ) -> HttpResponse:
        """Send a browser to the provider; or, when it comes back, give it a link to the page."""
        if request.target.verb != "GET":
            return HttpResponse(405, b"", headers=((b"allow", b"GET"), *SECURITY))
        name = f"{cookie_name(request)}-login"
        try:
            if not is_back and not openid.is_at(self.logins.origin_of(request)):
                # The provider sends the browser to that address, where the cookie has to be.
                return _moved(openid.start)
            if not is_back:
                where, cookie = await openid.begin(name)
                return _moved(where, cookie)
            caller = await openid.finish(request, name)
            key = await self.logins.new_link(msgspec.json.encode(caller).decode())
            return _moved(f"{PATH}/?key={key}", openid.forget(name))
        except A2AError as error:
            status = 403 if isinstance(error, Unauthenticated) else error.status
            text = f"You are not logged in: {error}\nTry again: {openid.start}\n"
            headers = ((b"content-type", b"text/plain; charset=utf-8"), *SECURITY)
            return HttpResponse(status, text.encode(), headers=headers)

    async def _log_in(self, request: HttpRequest) -> HttpResponse:
        """Log a browser in with the key of a link. The page sends the key, so programs that only
        fetch the address, for a preview, do not use it up.
        """
        # A form of another site can't send the header.
        if not self.logins.is_same_origin(request) or request.headers.get(HEADER) is None:
            return _locked("log in from the page itself")
        if request.target.verb != "POST":
            raise MethodNotAllowed("use POST", allow="POST")
        opened = await self.logins.open(_key_in(request.body), request)
        if opened is None:
            return _locked("the link was used, or is too old: `accord console link` prints another")
        headers = ((b"set-cookie", opened.cookie), (b"cache-control", b"no-store"), *SECURITY)
        return HttpResponse(200, v1.encode({"secret": opened.secret}), headers=headers)

    async def _is_ticketed(self, request: HttpRequest) -> bool:
        if request.target.verb != "GET" or not self.logins.is_same_origin(request):
            return False
        query, _, ticket = request.target.query.decode("latin-1").rpartition("ticket=")
        path = request.target.raw.removeprefix(f"{PATH}/api/")
        address = "?".join(one for one in (path, query.rstrip("&")) if one)
        return bool(ticket) and await self.logins.is_ticketed(address, ticket)


def link_of(address: str, key: str) -> str:
    """Return the address that opens the console with the key of a link; empty without a key."""
    return f"{address}{PATH}/?key={key}" if key else ""


def _key_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Login).key
    except msgspec.MsgspecError:
        raise InvalidParams('send {"key": ...}, the key of a link') from None


class _Login(msgspec.Struct):
    key: str


def _moved(where: str, cookie: bytes = b"") -> HttpResponse:
    cookies = ((b"set-cookie", cookie),) if cookie else ()
    fresh = (b"cache-control", b"no-store")
    return HttpResponse(303, headers=((b"location", where.encode()), fresh, *cookies, *SECURITY))


def _locked(why: str, login: str = "") -> HttpResponse:
    """The answer to who is not logged in; `login` is the path where people can."""
    what = {"error": why, "reason": "LOCKED", "login": login}
    return HttpResponse(403, v1.encode(what), headers=SECURITY)


def _failed(error: A2AError) -> HttpResponse:
    what = {"error": str(error), "reason": error.reason}
    return HttpResponse(error.status, v1.encode(what), headers=SECURITY)
