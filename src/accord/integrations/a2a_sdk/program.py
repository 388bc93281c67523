"""A whole program written for a2a-sdk, run unchanged: Accord answers what its routes would.

The program builds its web app and serves it, as it always did; its own routes and middleware stay.
Before it is run, the functions of a2a-sdk that make the A2A routes are replaced by ours.
"""

import contextlib
import logging
import re
import runpy
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ...app import App
from ...engine.skills import definition_of
from ...protocol.v1 import codec as v1
from ...server.http import is_public_name
from .executor import agent_of
from .generations import installed

__all__ = ["run_program"]

log_ = logging.getLogger("accord")

# What an agent answers beside its JSON-RPC path.
_PATHS = re.compile(
    r"/(\.well-known/(agent-card|agent|jwks)\.json|extendedAgentCard|agent/.+|v1/.+|tasks(/.+)?"
    r"|message:\w+|[^/]+/(tasks(/.+)?|message:\w+|extendedAgentCard))"
)

_T = TypeVar("_T")

_CARD = "/.well-known/agent-card.json"


def _path(scope: Any) -> str:
    """The path within the app that a request has come to."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path or "/"


def _below(scope: Any, prefix: str, path: str | None = None) -> Any:
    """A request as an app gets it that is mounted at a prefix; at another path, if given."""
    root = scope.get("root_path", "") + prefix
    if path is None:
        return {**scope, "root_path": root}
    return {**scope, "root_path": root, "path": root + path, "raw_path": (root + path).encode()}


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def _longest(path: str, prefixes: Iterable[str]) -> str:
    """The prefix a path belongs to; empty if it is below none. Agents may be below others."""
    return max((one for one in prefixes if one and _is_below(path, one)), key=len, default="")


def _prefix(rpc: str, card_url: str) -> str:
    """Where all of an agent is, if its card is not at the root: a program may have several."""
    is_at_root = not card_url or card_url.startswith("/.well-known/")
    return "" if is_at_root else rpc.rstrip("/")


def _of_card(card: Any, known: Iterable[tuple[Any, _T]]) -> _T | None:
    """What belongs to a card: to this object, else to an equal one; None if nothing does."""
    known = list(known)
    same = [value for its, value in known if its is card]
    same = same or [value for its, value in known if its == card]
    return same[0] if same else None


class _ByPath:
    """The agents of one web app of a program, each at the paths it has been given.

    Args:
        otherwise: Answers where no agent is.
    """

    def __init__(self, otherwise: Any) -> None:
        self._at_root = otherwise
        self._cards: dict[str, tuple[App, str]] = {}
        self._prefixes: dict[str, App] = {}

    def add(self, app: App, prefix: str, card_url: str) -> None:
        if prefix:
            self._prefixes.setdefault(prefix, app)
        elif not isinstance(self._at_root, App):
            self._at_root = app
        if card_url and not card_url.startswith("/.well-known/"):
            self._cards.setdefault(card_url, (app, prefix))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = _path(scope) if scope["type"] == "http" else ""
        if path in self._cards:
            app, prefix = self._cards[path]
            await app(_below(scope, prefix, _CARD), receive, send)
            return
        if prefix := _longest(path, self._prefixes):
            await self._prefixes[prefix](_below(scope, prefix), receive, send)
            return
        await self._at_root(scope, receive, send)


class _Served:
    """The agents a program has made, one for each of its request handlers."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self.apps: dict[int, App] = {}
        self._handlers: list[Any] = []  # kept, so that their ids stay theirs
        self._slugs: dict[str, int] = {}
        self.makers: list[Callable[[], App]] = []  # of those that are made when all is known

    def app(
        self,
        handler: Any,
        card: Any,
        extended: Any = None,
        *,
        rpc: str = "/",
        prefix: str = "",
        modifier: Any = None,
    ) -> App:
        """Return the app of a request handler, which is served below a prefix."""
        found = self.apps.get(id(handler))
        if found is not None:
            return found
        executor = getattr(handler, "agent_executor", None)
        if executor is None:
            raise RuntimeError(
                f"{type(handler).__name__} has no agent_executor: accord run serves programs "
                "with a2a-sdk's DefaultRequestHandler"
            )
        sdk = installed()
        agent = agent_of(executor, card)
        if extended is not None:
            sdk_card = sdk.card(extended)
            definition = definition_of(agent)
            definition.is_extended_card_public = True  # as a2a-sdk does: it asks nobody
            definition.extend_card = lambda made, caller: _extended(made, sdk_card)
        if modifier is not None:
            log_.warning("card modifiers are not called under accord run")
        options = dict(self._options)
        url = options.get("url")
        options["url"] = f"{url.rstrip('/')}{prefix}" if url else _address(card, rpc)
        if self.apps:  # the first one has the ports and the file
            options.pop("grpc_port", None)
            options.pop("metrics", None)
            options["store"] = self._store_of(agent.slug, options.get("store", "memory://"))
        found = self.apps[id(handler)] = agent.app(rpc=rpc, **options)
        self._handlers.append(handler)
        return found

    def _store_of(self, slug: str, store: str) -> str:
        """A file of its own for another agent: SQLite's has one owner at a time."""
        if not store.startswith("sqlite:///"):
            return store
        file = Path(store.removeprefix("sqlite:///"))
        number = self._slugs[slug] = self._slugs.get(slug, 0) + 1
        name = slug if number == 1 else f"{slug}-{number}"
        return f"sqlite:///{file.with_name(f'{file.stem}-{name}{file.suffix}')}"

    def make_all(self) -> None:
        """The program has said everything about its agents: make those that are not made yet."""
        for make in self.makers:
            make()

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for app in self.apps.values():
                await stack.enter_async_context(app.lifespan(None))
            yield


def _address(card: Any, rpc: str) -> str | None:
    """Return the public address in the program's card: clients use it, whatever proxy is in front.
    None if it has none: then the card names the address that a client used.
    """
    if card is None:
        return None
    places = installed().card(card).supported_interfaces
    is_rpc = [one for one in places if one.protocol_binding == "JSONRPC"]
    for one in (*is_rpc, *places):
        url = one.url.rstrip("/")
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and is_public_name(parts.hostname or ""):
            return url.removesuffix(rpc.rstrip("/")) if is_rpc else url
    return None


def _extended(made: Any, sdk_card: Any) -> Any:
    """The extended card: what the program says, at the addresses we have."""
    sdk_card.supported_interfaces = made.supported_interfaces
    sdk_card.capabilities = made.capabilities
    return sdk_card


def run_program(path: str | Path, args: Sequence[str] = (), **options: Any) -> None:
    """Run a program written for a2a-sdk as `python path args` would, with Accord as its server.

    Args:
        path: The program's file.
        args: Its own arguments.
        options: As for `Agent.app`: `store`, `grpc_port` and others.

    Raises:
        ImportError: a2a-sdk is not installed.
    """
    installed()
    path = Path(path).resolve()
    served = _Served(options)
    if _has("a2a.server.routes"):
        _replace_routes(served)
    else:
        _replace_apps(served)
    _follow_uvicorn(served)
    sys.argv = [str(path), *args]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


def _has(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


# a2a-sdk 0.2 and 0.3: classes that build an app

_URLS = ("agent_card_url", "rpc_url", "extended_agent_card_url")


def _replace_apps(served: _Served) -> None:
    from a2a.server import apps

    def build(made: Any, *paths: Any, **more: Any) -> Any:
        from starlette.applications import Starlette

        urls = dict(zip(_URLS, paths, strict=False))
        urls |= {name: more.pop(name) for name in _URLS if name in more}
        if type(made).__name__ == "A2AStarletteApplication":
            app: Any = Starlette(**more)
        else:
            from fastapi import FastAPI

            app = FastAPI(**more)
        add_routes(made, app, **urls)
        return app

    def add_routes(made: Any, app: Any, *paths: Any, **urls: Any) -> None:
        urls = dict(zip(_URLS, paths, strict=False)) | urls
        rpc, card_url = urls.get("rpc_url") or "/", urls.get("agent_card_url") or ""
        prefix = _prefix(rpc, card_url)
        agent = served.app(
            made.http_handler,
            made.agent_card,
            getattr(made, "extended_agent_card", None),
            rpc="/" if prefix else rpc,
            prefix=prefix,
            modifier=getattr(made, "card_modifier", None),
        )
        if not isinstance(app.router.default, _ByPath):  # whatever the program has no route for
            app.router.default = _ByPath(app.router.default)
        app.router.default.add(agent, prefix, card_url)

    for name in ("A2AStarletteApplication", "A2AFastAPIApplication", "A2ARESTFastAPIApplication"):
        class_ = getattr(apps, name, None)
        if class_ is None:
            continue
        begin = class_.__init__

        def remember(
            self: Any,
            agent_card: Any,
            http_handler: Any,
            *args: Any,
            _begin: Any = begin,
            **kw: Any,
        ) -> None:
            _begin(self, agent_card, http_handler, *args, **kw)
            self.agent_card, self.http_handler = agent_card, http_handler

        class_.__init__ = remember
        class_.build = build
        class_.add_routes_to_app = add_routes


# a2a-sdk 1.x: functions that make routes


def _replace_routes(served: _Served) -> None:
    from a2a.server import routes
    from starlette.responses import Response
    from starlette.routing import BaseRoute, Match

    rpcs: dict[int, str] = {}  # of each handler
    handlers: list[Any] = []
    card_urls: list[tuple[Any, str]] = []  # those that are not at the root, of each card
    rest_prefixes: list[str] = []

    def expect(handler: Any) -> None:
        if not any(handler is known for known in handlers):
            handlers.append(handler)
            served.makers.append(lambda: agent_at(handler)[0])

    def agent_at(handler: Any) -> tuple[App, str]:
        """The agent of a handler and where it is, when the program has said it all."""
        card, rpc = getattr(handler, "_agent_card", None), rpcs.get(id(handler), "/")
        prefix = _prefix(rpc, _of_card(card, card_urls) or "")
        extended = getattr(handler, "extended_agent_card", None)
        rpc = "/" if prefix else rpc
        return served.app(handler, card, extended, rpc=rpc, prefix=prefix), prefix

    class AccordRoute(BaseRoute):
        """Answers A2A requests; an app of Starlette or FastAPI tries it like any other route."""

        def __init__(self, handler: Any, rpc: str, prefix: str = "") -> None:
            self.path = rpc
            self._handler = handler
            self._prefix = prefix  # of HTTP+JSON

        def matches(self, scope: Any) -> tuple[Match, Any]:
            if scope["type"] != "http":
                return Match.NONE, {}
            path, prefix = _path(scope), self._prefix or agent_at(self._handler)[1]
            prefixes = [*rest_prefixes, *(agent_at(handler)[1] for handler in handlers)]
            if _longest(path, prefixes) != prefix:
                is_ours = False  # it is another agent's
            else:
                is_ours = bool(prefix) or path == self.path or bool(_PATHS.fullmatch(path))
            return (Match.FULL if is_ours else Match.NONE), {}

        def url_path_for(self, name: str, /, **path_params: Any) -> Any:
            from starlette.routing import NoMatchFound

            raise NoMatchFound(name, path_params)

        async def handle(self, scope: Any, receive: Any, send: Any) -> None:
            app, prefix = agent_at(self._handler)
            prefix = self._prefix or prefix
            await app(_below(scope, prefix) if prefix else scope, receive, send)

    class CardRoute(AccordRoute):
        """Answers with a card at a path of the program's own."""

        def __init__(self, card: Any, path: str) -> None:
            super().__init__(None, path)
            self._card = card

        def matches(self, scope: Any) -> tuple[Match, Any]:
            is_ours = scope["type"] == "http" and _path(scope) == self.path
            return (Match.FULL if is_ours else Match.NONE), {}

        async def handle(self, scope: Any, receive: Any, send: Any) -> None:
            its = _of_card(
                self._card, ((getattr(one, "_agent_card", None), one) for one in handlers)
            )
            if its is None:  # of an agent that is elsewhere
                body = v1.encode(installed().card(self._card))
                await Response(body, media_type="application/json")(scope, receive, send)
                return
            app, prefix = agent_at(its)
            await app(_below(scope, prefix, _CARD), receive, send)

    def create_jsonrpc_routes(request_handler: Any, rpc_url: str = "/", *_: Any, **__: Any) -> Any:
        expect(request_handler)
        rpcs.setdefault(id(request_handler), rpc_url)
        return [AccordRoute(request_handler, rpc_url)]

    def create_rest_routes(
        request_handler: Any,
        context_builder: Any = None,
        enable_v0_3_compat: bool = False,
        path_prefix: str = "",
        *_: Any,
        **__: Any,
    ) -> Any:
        expect(request_handler)
        prefix = path_prefix.rstrip("/")
        rest_prefixes.extend([prefix] if prefix else [])
        return [AccordRoute(request_handler, "", prefix)]

    def create_agent_card_routes(
        agent_card: Any, card_modifier: Any = None, card_url: str = _CARD, *_: Any, **__: Any
    ) -> Any:
        if card_modifier is not None:
            log_.warning("card modifiers are not called under accord run")
        if card_url.startswith("/.well-known/"):
            return []  # the card is served with the other routes, and names all of them
        card_urls.append((agent_card, card_url))
        return [CardRoute(agent_card, card_url)]

    def add_a2a_routes_to_fastapi(app: Any, **made: Any) -> None:
        for group in made.values():
            app.router.routes.extend(group or ())

    ours = {
        function.__name__: function
        for function in (
            create_jsonrpc_routes,
            create_rest_routes,
            create_agent_card_routes,
            add_a2a_routes_to_fastapi,
        )
    }
    modules = [
        module
        for name, module in sys.modules.items()
        if name == routes.__name__ or name.startswith(f"{routes.__name__}.")
    ]
    for module in modules:  # programs import from the package and from its files
        for name, function in ours.items():
            if hasattr(module, name):
                setattr(module, name, function)


# The server


def _follow_uvicorn(served: _Served) -> None:
    """Start and stop the agents with the program's server. Another server than uvicorn starts them
    with the first request.
    """
    try:
        import uvicorn
    except ImportError:
        return
    load = uvicorn.Config.load

    def load_app(config: Any) -> None:
        load(config)
        served.make_all()
        config.loaded_app = _WithAgents(config.loaded_app, served)
        host = "127.0.0.1" if config.host in ("0.0.0.0", "::") else config.host
        address = f"http{'s' if config.is_ssl else ''}://{host}:{config.port}"
        for app in served.apps.values():
            app.reached_at(address)  # for cards that are not asked for at the well-known place
        if config.lifespan == "off":
            log_.warning("lifespan is off: the agents start with the first request")

    setattr(uvicorn.Config, "load", load_app)  # noqa: B010  a method is replaced


class _WithAgents:
    """An ASGI app, and the agents that live as long as it."""

    def __init__(self, app: Any, served: _Served) -> None:
        self._app = app
        self._served = served

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        async with contextlib.AsyncExitStack() as stack:

            async def sent(event: Any) -> None:
                if event["type"] == "lifespan.startup.complete":
                    await stack.enter_async_context(self._served.lifespan())
                await send(event)

            await self._app(scope, receive, sent)
