"""A whole program written for a2a-sdk, run unchanged: Accord answers what its routes would.

The program builds its web app and serves it, as it always did; its own routes and middleware stay.
Before it is run, the functions of a2a-sdk that make the A2A routes are replaced by ours.
"""

import contextlib
import logging
import re
import runpy
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from ...app import App
from .executor import agent_of
from .generations import installed

__all__ = ["run_program"]

log_ = logging.getLogger("accord")

# What an agent answers beside its JSON-RPC path.
_PATHS = re.compile(
    r"/(\.well-known/(agent-card|agent|jwks)\.json|extendedAgentCard|agent/.+|v1/.+|tasks(/.+)?"
    r"|message:\w+|[^/]+/(tasks(/.+)?|message:\w+|extendedAgentCard))"
)


class _Served:
    """The agents a program has made, one for each of its request handlers."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self.apps: dict[int, App] = {}
        self._handlers: list[Any] = []  # kept, so that their ids stay theirs

    def app(
        self, handler: Any, card: Any, extended: Any = None, *, rpc: str = "/", modifier: Any = None
    ) -> App:
        """The agent of a request handler."""
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
            told = sdk.card(extended)
            agent.is_extended_card_public = True  # as a2a-sdk does: it asks nobody
            agent.extend_card = lambda made, caller: _extended(made, told)
        if modifier is not None:
            log_.warning("card modifiers are not called under accord run")
        options = dict(self._options)
        if self.apps and "grpc_port" in options:
            options["grpc_port"] = None  # the first one has it
        found = self.apps[id(handler)] = agent.app(rpc=rpc, **options)
        self._handlers.append(handler)
        return found

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for app in self.apps.values():
                await stack.enter_async_context(app.lifespan(None))
            yield


def _extended(made: Any, told: Any) -> Any:
    """The extended card: what the program says, at the addresses we have."""
    told.supported_interfaces = made.supported_interfaces
    told.capabilities = made.capabilities
    return told


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


def _replace_apps(served: _Served) -> None:
    from a2a.server import apps

    def build(made: Any, *paths: Any, **more: Any) -> Any:
        from starlette.applications import Starlette

        names = ("agent_card_url", "rpc_url", "extended_agent_card_url")
        urls = dict(zip(names, paths, strict=False))
        urls |= {name: more.pop(name) for name in names if name in more}
        if type(made).__name__ == "A2AStarletteApplication":
            app: Any = Starlette(**more)
        else:
            from fastapi import FastAPI

            app = FastAPI(**more)
        add_routes(made, app, **urls)
        return app

    def add_routes(made: Any, app: Any, *paths: Any, **urls: Any) -> None:
        rpc = urls.get("rpc_url") or (paths[1] if len(paths) > 1 else "/")
        agent = served.app(
            made.http_handler,
            made.agent_card,
            getattr(made, "extended_agent_card", None),
            rpc=rpc,
            modifier=getattr(made, "card_modifier", None),
        )
        app.router.default = agent  # whatever the program has no route for

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
    from starlette.routing import BaseRoute, Match

    class AccordRoute(BaseRoute):
        """Answers A2A requests; an app of Starlette or FastAPI tries it like any other route."""

        def __init__(self, rpc: str, app: App | Callable[[], App]) -> None:
            self.path = rpc
            self._app = app

        def matches(self, scope: Any) -> tuple[Match, Any]:
            path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
            is_ours = scope["type"] == "http" and (path == self.path or _PATHS.fullmatch(path))
            return (Match.FULL if is_ours else Match.NONE), {}

        def url_path_for(self, name: str, /, **path_params: Any) -> Any:
            from starlette.routing import NoMatchFound

            raise NoMatchFound(name, path_params)

        async def handle(self, scope: Any, receive: Any, send: Any) -> None:
            app = self._app if isinstance(self._app, App) else self._app()
            await app(scope, receive, send)

    def of(handler: Any) -> App:
        return served.app(
            handler,
            getattr(handler, "_agent_card", None),
            getattr(handler, "extended_agent_card", None),
        )

    def create_jsonrpc_routes(request_handler: Any, rpc_url: str = "/", *_: Any, **__: Any) -> Any:
        app = served.app(
            request_handler,
            getattr(request_handler, "_agent_card", None),
            getattr(request_handler, "extended_agent_card", None),
            rpc=rpc_url,
        )
        return [AccordRoute(rpc_url, app)]

    def create_rest_routes(request_handler: Any, *_: Any, **__: Any) -> Any:
        return [AccordRoute("", lambda: of(request_handler))]

    def create_agent_card_routes(*_: Any, **__: Any) -> Any:
        return []  # the card is served with the other routes, and names all of them

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
