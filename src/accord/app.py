"""Assembly: the one file that knows every room."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .model import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, Limits
from .ops.call import IDEMPOTENT, RESUME
from .ops.service import Service
from .ops.table import served
from .run import agent as run_agent
from .run.context import Context
from .run.engine import Engine
from .run.upkeep import Retention
from .store import Store, open_store
from .wire.asgi import Front, Receive, Send
from .wire.jsonrpc import JsonRpcDoor
from .wire.rest import RestDoor
from .wire.tls import Tls
from .wire.wellknown import CardDoor

if TYPE_CHECKING:
    from .wire.grpc import GrpcServer

__all__ = ["Agent", "App"]

_OUR_EXTENSIONS = (
    AgentExtension(uri=RESUME, description="Resume a stream after the event named by Last-Event-ID."),
    AgentExtension(uri=IDEMPOTENT, description="The same messageId gives the same task for 24 hours."),
)


async def _delegate(ctx: Context, agent: Any, message: Any, *, number: int) -> Any:
    from .delegate import delegate  # brings the client, which most agents never need

    return await delegate(ctx, agent, message, number=number)


class Agent(run_agent.Agent):
    """An agent made of functions (`@agent.skill`), to be served on its own with `run` or as an ASGI app with `app`.

    Its keywords are the fields of the agent card: `description`, `version` (of the agent), `provider`, `documentation_url`,
    `icon_url`, `input_modes` and `output_modes` (media types), `extensions`. With `strict_modes` a part of another media type is
    refused.
    """

    def app(
        self,
        *,
        store: str | Store = "memory://",
        url: str | None = None,
        rpc: str = "/",
        rest: str = "/",
        limits: Limits | None = None,
        versions: Sequence[str] | None = None,
        grpc_port: int | None = None,
        grpc_host: str = "127.0.0.1",
        tls: Tls | None = None,
        retention: Retention | None = None,
    ) -> "App":
        """Return the agent as an ASGI app, to be served by any ASGI server or mounted in Starlette or FastAPI.

        Args:
            store: Where tasks are kept: `memory://`, `sqlite:///file`, or a store.
            url: The address clients reach it at, for the agent card. Without it, the address they used.
            rpc: The path of the JSON-RPC binding.
            rest: The base path of the HTTP+JSON binding.
            limits: What one caller may ask for.
            versions: The versions of the protocol to answer, as `["1.0"]`; all of them by default.
            grpc_port: Where gRPC listens while the app is open; 0 for any free port. Needs `accord[grpc]`.
            grpc_host: The address it listens on.
            retention: How long tasks, their logs and idempotency keys are kept.
            tls: The certificate gRPC shows, and whose it asks for. HTTP's is a matter of the server this app runs in.
        """
        app = App(self, store=store, url=url, rpc=rpc, rest=rest, limits=limits or Limits(), versions=versions, retention=retention)
        if grpc_port is not None:
            app.listen(grpc_host, grpc_port, tls)
        return app

    @property
    def default_store(self) -> str:
        """The file `run` and `accord serve` keep this agent's tasks in, unless told otherwise."""
        name = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") or "agent"
        return f"sqlite:///.accord/{name}.db"

    def run(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        store: str | Store | None = None,
        url: str | None = None,
        limits: Limits | None = None,
        versions: Sequence[str] | None = None,
        log_level: str = "warning",
        on_start: Callable[[str], None] | None = None,
        grpc_port: int | None = None,
        tls: Tls | None = None,
        grace_s: float = 20.0,
        retention: Retention | None = None,
        no_auth: bool = False,
    ) -> None:
        """Serve the agent until told to stop (Ctrl-C): over HTTP, and over gRPC if it is given a port.

        Args:
            host: The address to listen on. Other than loopback only with `no_auth`: there is no check of who calls.
            port: The port to listen on; 0 for any free one.
            store: Where tasks are kept: `sqlite:///file`, `memory://` to forget them when the server stops, or a store. By
                default a file in `./.accord/` named after the agent.
            url: The address clients reach it at, for the agent card. Without it, the address they used.
            limits: What one caller may ask for.
            versions: The versions of the protocol to answer, as `["1.0"]`; all of them by default.
            log_level: Of the HTTP server: `critical`, `error`, `warning`, `info` or `debug`.
            on_start: Called with the address once it is served; by default that is printed.
            grpc_port: Serve gRPC too, on this port; 0 for any free one. Needs `accord[grpc]`.
            tls: The certificate HTTP and gRPC show, and whose they ask for.
            grace_s: What running work gets to finish on SIGTERM; on Ctrl-C it is interrupted at once.
            retention: How long tasks, their logs and idempotency keys are kept.
            no_auth: Let anyone who can reach the address use the agent.

        Raises:
            ValueError: The address can be reached from other machines, and nobody said that anyone may call.
        """
        from .wire.server import is_loopback, serve  # uvicorn is only needed here, and slow to import

        if not no_auth and not is_loopback(host):
            raise ValueError(
                f"this agent asks nobody who they are, and {host} can be reached from other machines; "
                "serve 127.0.0.1 only, or say that anyone may call: --no-auth, no_auth=True"
            )
        app = self.app(
            store=self.default_store if store is None else store,
            url=url,
            limits=limits,
            versions=versions,
            grpc_port=grpc_port,
            grpc_host=host,
            tls=tls,
            retention=retention,
        )

        def started(address: str) -> None:
            app.reached_at(url or address)
            if on_start is not None:
                on_start(address)
            else:
                print(f"{self.name} is served at {url or address}   (Ctrl-C stops it)", flush=True)

        serve(
            app,
            app.close,
            host=host,
            port=port,
            limits=app.limits,
            log_level=log_level,
            on_start=started,
            tls=tls,
            grace_s=grace_s,
        )


class App(Front):
    """An agent as an ASGI app. Opens its store at start-up, or with the first request if nobody starts it."""

    def __init__(
        self,
        agent: Agent,
        *,
        store: str | Store,
        url: str | None,
        rpc: str,
        rest: str,
        limits: Limits,
        versions: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> None:
        self.agent = agent
        self._versions = served(versions)
        self.limits = limits
        self._rpc_url = "/" + rpc.strip("/")
        self._rest_url = "/" + rest.strip("/") if rest.strip("/") else ""
        self._url = url
        self._grpc: GrpcServer | None = None
        self._engine = Engine(agent, open_store(store) if isinstance(store, str) else store, limits, retention)
        self._engine.delegate = _delegate
        self._service = service = Service(self._engine, self.card(url or "http://localhost"))
        super().__init__(
            JsonRpcDoor(service, limits, self._versions),
            RestDoor(service, limits, self._versions),
            CardDoor(self.card, url, time.time(), self._versions),
            rpc_path=self._rpc_url,
            rest_path=self._rest_url,
        )
        self._opening: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        return self.is_open and not self._engine.feed.is_draining

    def listen(self, host: str, port: int, tls: Tls | None = None) -> None:
        """Serve gRPC too, on a port of its own, while the app is open."""
        try:
            from .wire.grpc import GrpcDoor, GrpcServer  # protobuf comes with an extra
        except ImportError as error:
            raise RuntimeError(f"gRPC needs an extra: pip install 'accord[grpc]' ({error})") from error
        self._grpc = GrpcServer(GrpcDoor(self._service, self.limits, self._versions), host, port, self.limits, tls)

    def reached_at(self, address: str) -> None:
        """Say where HTTP is served, for cards that are not asked for over HTTP."""
        self._service.card = self.card(address)

    @property
    def grpc_port(self) -> int | None:
        """Where gRPC listens; None if it does not."""
        return self._grpc.port if self._grpc is not None else None

    async def open(self) -> None:
        """Open the store, recover, listen; once, however many ask."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        await asyncio.shield(self._opening)
        self.is_open = True

    async def _open(self) -> None:
        await self._engine.open()
        if self._grpc is not None:
            try:
                await self._grpc.start()
                self._service.card = self.card(self._url or "http://localhost")  # now with the port gRPC really has
            except BaseException:
                await self._engine.close()
                raise

    async def close(self, grace_s: float = 0.0) -> None:
        """Take no new work, give what runs `grace_s` to end, then end it and store everything."""
        if self._opening is not None and not self._is_closed:
            self._is_closed = True
            if self._grpc is not None:
                self._grpc.drain()
            await self._engine.drain(grace_s)
            await self._engine.close()
            if self._grpc is not None:
                await self._grpc.stop()

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """For hosts: `Starlette(lifespan=app.lifespan)` opens and closes the agent with the host."""
        await self.open()
        try:
            yield
        finally:
            await self.close()

    async def live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.open()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    def card(self, base: str) -> AgentCard:
        """Return the agent card of this app at `base`: only what is really served."""
        agent = self.agent
        card = AgentCard(
            name=agent.name,
            description=agent.description,
            supported_interfaces=[
                AgentInterface(url=base + self._rpc_url, protocol_binding="JSONRPC", protocol_version="1.0"),
                AgentInterface(url=base + self._rest_url, protocol_binding="HTTP+JSON", protocol_version="1.0"),
                *self._grpc_interfaces(base),
            ],
            provider=agent.provider,
            version=agent.version,
            documentation_url=agent.documentation_url,
            icon_url=agent.icon_url,
            capabilities=AgentCapabilities(
                streaming=True,
                push_notifications=False,
                extended_agent_card=False,
                extensions=[*_OUR_EXTENSIONS, *agent.extensions],
            ),
            default_input_modes=agent.input_modes,
            default_output_modes=agent.output_modes,
            skills=[skill.card for skill in agent.skills.values()],
        )
        if agent.edit_card is not None:
            card = agent.edit_card(card) or card
        return card

    def _grpc_interfaces(self, base: str) -> list[AgentInterface]:
        """gRPC has bare addresses: the host clients reach us at, and its own port."""
        if self._grpc is None:
            return []
        host = urlsplit(base).hostname or "localhost"
        address = f"[{host}]:{self._grpc.port}" if ":" in host else f"{host}:{self._grpc.port}"
        return [
            AgentInterface(url=address, protocol_binding="GRPC", protocol_version=version.number)
            for version in self._versions
            if version.grpc
        ]
