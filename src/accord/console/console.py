"""The console of an agent or a hub, at `/console`."""

from ..app import App
from ..auth import ApiKeys, Caller
from ..model import A2AError
from ..protocol.v1 import codec as v1
from ..server import HttpRequest, HttpResponse, StreamingResponse, opaque, query_of
from .api import Api
from .exchanges import Exchanges
from .login import BrowserSessions, is_from_our_page
from .pages import SECURITY, Pages

__all__ = ["PATH", "Console"]

PATH = "/console"

_FORBIDDEN = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Accord console</title>
<h1>This link does not open the console</h1>
<p>A link opens the console once, for one browser. Take a new one: in a browser that is logged in,
under Settings; or start the server again, which prints one.</p>
"""


class Console:
    """Serves the page, its login and what it reads; put on an app with `attach`."""

    def __init__(self, app: App, *, has_exchanges: bool = True, is_hub: bool = False) -> None:
        scopes = {scope for skill in app.agent.skills.values() for scope in skill.scopes}
        self._operator = Caller("console", scopes=frozenset(scopes), scheme="console")
        self.logins = BrowserSessions(
            app.folder / "console.json" if app.folder is not None else None
        )
        schemes = app.agent.auth.schemes.values() if app.agent.auth is not None else ()
        secret = [s.key_name.lower().encode() for s in schemes if isinstance(s, ApiKeys)]
        self._exchanges = Exchanges(secret) if has_exchanges else None
        self._pages = Pages()
        self._api = Api(app, self.logins, self._exchanges, operator=self._operator, is_hub=is_hub)

    def attach(self, app: App) -> None:
        """Serve the console beside the agent."""
        app.mount(PATH, self.answer)
        app.session_caller = self._caller
        if self._exchanges is not None:
            app.on_exchange = self._exchanges.add

    def _caller(self, request: HttpRequest) -> Caller | None:
        """The page calls the agent as the operator, whatever the agent asks of others."""
        if b"cookie" not in request.headers or self.logins.session(request) is None:
            return None
        return self._operator if is_from_our_page(request) else None

    def link(self, address: str) -> str:
        """Return the address that opens the console, once."""
        return f"{address}{PATH}/?key={self.logins.key}"

    async def answer(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request below `/console`."""
        path = request.target.path.removeprefix(PATH).lstrip("/")
        if request.target.path == PATH:
            return _moved(f"{PATH}/")
        if path.startswith("api/"):
            return await self._read(request, path.removeprefix("api/"))
        if request.target.verb not in ("GET", "HEAD"):
            return HttpResponse(405, b"", headers=((b"allow", b"GET, HEAD"), *SECURITY))
        key = query_of(request.target).get("key", [""])[-1]
        if key:
            return self._open(key, request)
        return self._pages.file(path, request) or self._page(request)

    def _open(self, key: str, request: HttpRequest) -> HttpResponse:
        cookie = self.logins.open(key, request)
        if cookie is None:
            if self.logins.session(request) is not None:  # the link of a tab that was reloaded
                return _moved(f"{PATH}/")
            return HttpResponse(403, _FORBIDDEN, b"text/html; charset=utf-8", SECURITY)
        # Not a redirect: SameSite=Strict cookies are not sent with one that began elsewhere.
        page = self._pages.index(request)
        page.headers = (*page.headers, (b"set-cookie", cookie))
        return page

    def _page(self, request: HttpRequest) -> HttpResponse:
        if self.logins.session(request) is None:
            return HttpResponse(403, _FORBIDDEN, b"text/html; charset=utf-8", SECURITY)
        return self._pages.index(request)

    async def _read(self, request: HttpRequest, path: str) -> HttpResponse | StreamingResponse:
        session = self.logins.session(request)
        if session is None or not is_from_our_page(request):
            what = {"error": "not logged in: open the link that was printed at the start"}
            return HttpResponse(403, v1.encode(what), headers=SECURITY)
        try:
            return await self._api.answer(request, path, session)
        except A2AError as error:
            return _failed(error)
        except Exception:
            return _failed(opaque())


def _moved(where: str) -> HttpResponse:
    return HttpResponse(303, headers=((b"location", where.encode()), *SECURITY))


def _failed(error: A2AError) -> HttpResponse:
    what = {"error": str(error), "reason": error.reason}
    return HttpResponse(error.status, v1.encode(what), headers=SECURITY)
