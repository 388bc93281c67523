"""Assembly: the one file that knows every room."""

import asyncio
import contextlib
import functools
import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..auth import Authenticator, Resources
from ..engine.runs import Engine
from ..engine.skills import Agent, AgentDefinition, definition_of
from ..extras import install_command
from ..files import Address, Files, Giver, open_files
from ..model import AgentCard, Limits
from ..net import Guard, egress_words, parse_url
from ..observe import Observer, is_wanted, require_otel, start_tracing, tracing
from ..operations import VERSIONS, Service, Version
from ..operations import served as versions_served
from ..options import AppOptions, AppPart
from ..push import Format, Notifier, PushSettings
from ..server.http import (
    CardEndpoint,
    Receive,
    Router,
    Send,
)
from ..server.process import hearing
from ..server.transport import Tls, Unread
from ..siblings import SEVERAL, parent_of_workers, worker_beside_us
from ..store import Namespace, open_store
from .authenticators import Authenticators
from .endpoints import AgentEndpoints, AgentRouter, ServerContext
from .listing import AgentListing
from .metrics import MetricsServer
from .outgoing import Outgoing
from .server_keys import ServerKeys

if TYPE_CHECKING:
    import socket

    from ..auth import Keyring
    from ..server.grpc import GrpcEndpoint, GrpcServer

__all__ = ["App"]

_log = logging.getLogger("accord")

_NOWHERE = "http://localhost"  # the address of an app in a host that does not say where it is

HOST_GRACE_S = 20.0  # for work that runs when a host is asked to stop, if the host is as patient


def _public_url(url: str) -> str:
    """Return the address for the card. Raises ValueError for one that no client can use."""
    try:
        parts = parse_url(url)
    except ValueError as error:
        raise ValueError(
            f"url={url!r} is not an address that clients can call: {error}; write it like "
            "https://hr.corp.example"
        ) from None
    if parts.query or "#" in url or "@" in url.partition("/")[2]:
        raise ValueError(
            f"url={url!r}: an address in a card must not have a user, a query or a fragment"
        )
    return url.rstrip("/")


class App(Router):
    """An agent as an ASGI app. Opens its store at start-up, or with the first request if nobody
    starts it.
    """

    def __init__(self, agent: AgentDefinition, options: AppOptions) -> None:
        limits, tls = options.limits or Limits(), options.tls
        beside = [definition_of(one) for one in options.beside]
        self._listing = AgentListing(lambda: self.agents, lambda: self._address)
        self.agent = agent if not beside else self._listing.agent()
        self.tls = tls
        self._versions = versions_served(options.versions, options.previews)
        self._rpc_url = "/" + options.rpc.strip("/")
        self._rest_url = "/" + options.rest.strip("/") if options.rest.strip("/") else ""
        self._url = _public_url(options.url) if options.url else None
        self._address = self._url or _NOWHERE
        self._has_warned = False
        self._grpc: GrpcServer | None = None
        self._grpc_endpoint: GrpcEndpoint | None = None
        self._tenants: dict[str, Service] = {}  # the agents below a path, by its last segment
        self._authenticators = Authenticators(limits, options.trusted_proxies, self._resources)
        self.trusted_proxies = options.trusted_proxies
        self._signs_card = options.sign_card
        self._outgoing = Outgoing(options.allow_hosts, options.egress_proxy)
        given = options.store or "memory://"
        store = open_store(given) if isinstance(given, str) else given
        self._keys = ServerKeys(store, options.key_file)
        self._engine = Engine([agent], store, limits, options.retention)
        self._engine.tasks.files = stored_files = Files(
            store.files, open_files(options.files, store), limits, store.now_ms
        )
        self._engine.runs.delegates = self._outgoing.delegates
        self._engine.runs.open_url = self._outgoing.open_url
        self._lacks_keys = False
        self._notifier = self._new_notifier(options.push, limits)
        self._paths: dict[str, str] = {}  # of agents, by their names
        giver = Giver(stored_files, lambda: self.keyring)
        if self._notifier is not None:
            self._notifier.outbox.give = functools.partial(self._give, giver)
        self.unread = unread = Unread(limits)
        self._context = ServerContext(
            self._engine,
            limits,
            self._versions,
            unread,
            self._notifier,
            self._rpc_url,
            self._rest_url,
            tls,
            options.cors_origins,
            self._keys if options.sign_card else None,
            self._keys.jwks if options.sign_card or self._notifier is not None else None,
            lambda: self.grpc_port,
            options.grpc_domain.lower().strip("."),
            self._url is not None,
            lambda: self._address,
            giver,
        )
        if beside:
            self._engine.add(self.agent)
        self._root = root = AgentEndpoints(
            self.agent,
            self._context,
            self._authenticators.add(self.agent),
            "",
            takes_files=not beside,  # so that an agent beside others may be called Files
        )
        self._service = root.service
        super().__init__(
            root.rpc(),
            root.rest(),
            root.card_endpoint(options.url),
            rpc_path=self._rpc_url,
            limits=limits,
            jwks=self._context.jwks,
            screen=root.screen(options.url),
            authenticator=root.authenticator,
            is_card_public=self.agent.is_card_public,
        )
        self.catalog = functools.partial(self._listing.catalog, root, self._card.base)
        self.files = root.files_endpoint()
        root.service.address = self._url or ""
        self._parts: list[AppPart] = []
        self._wants_traces = _wants_traces(options.telemetry)
        self._metrics: MetricsServer | None = None
        if options.metrics is not None:
            self._metrics = MetricsServer(options.metrics, self._engine, self._notifier, limits)
            self.add_part(self._metrics)
        self._opening: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        if beside:
            self.index = functools.partial(self._listing.index, self._card.base)
            for one in (agent, *beside):
                self._put(one, one.slug, is_new=one is not agent)
        if options.grpc_port is not None:
            self.listen(options.grpc_host or "127.0.0.1", options.grpc_port)

    # Several agents

    @property
    def root(self) -> AgentEndpoints:
        """Return the agent at the address itself."""
        return self._root

    @property
    def agents(self) -> "dict[str, AgentEndpoints]":
        """The agents below a path of this app, by that path."""
        return {
            path[1:]: r.endpoints for path, r in self.routers.items() if isinstance(r, AgentRouter)
        }

    async def add(
        self, agent: Agent, path: str = "", *, authenticator: Authenticator | None = None
    ) -> AgentEndpoints:
        """Serve another agent too, below a path of its own: its name, if none is given. Its last
        segment is its tenant.

        Args:
            agent: The agent. Its name has to differ from that of every other.
            path: Like `hr` or `agents/hr`.
            authenticator: What finds out who calls it, if that is shared with others; else its own
              `auth` says so.
        """
        added = definition_of(agent)
        if self.is_open:
            added.resolve()
            await self._engine.runs.lifespans.open(added)
        endpoints = self._put(added, path or added.slug, authenticator)
        if self.is_open and endpoints.authenticator is not None and authenticator is None:
            await endpoints.authenticator.open(self._resources(added))
        return endpoints

    async def remove(self, path: str) -> None:
        """Serve the agent below this path no more. What runs goes on to its end, and its tasks stay
        stored.
        """
        router = self.routers.pop(f"/{path}", None)
        if isinstance(router, AgentRouter):
            self._engine.remove(router.endpoints.agent.name)
            self._tenants.pop(path.rpartition("/")[2], None)

    def router_for(self, agent: AgentDefinition, path: str) -> AgentRouter:
        """Return what answers for an agent of this app's engine, with this app's own callers; for a
        gateway, which decides itself what it passes there.
        """
        endpoints = AgentEndpoints(agent, self._context, self._root.authenticator, path)
        endpoints.service.card = endpoints.card(f"{self._address}/{path}")
        self._paths[agent.name] = path
        router = AgentRouter(self, endpoints, self._context, self._url)
        self._observe_router(router)
        return router

    async def _give(self, giver: Giver, data: bytes, namespace: Namespace) -> bytes:
        """Write files into a push notification: whoever gets it has no credentials here."""
        path = self._paths.get(namespace.agent, "")
        base = f"{self._address}/{path}" if path else self._address
        return await giver.text(data, giver.given(namespace, Address(base, is_signed=True)))

    def card_endpoint_of(self, card: Callable[[str], AgentCard]) -> CardEndpoint:
        """An endpoint for another card of the agent at the root: as some callers see it."""
        return self._root.card_endpoint(self._url, card)

    def find_tenants(self, find: Callable[[str], Service | None]) -> None:
        """Have `find` say which agent a tenant at the root stands for."""
        self._service.tenants = find

    def _put(
        self,
        agent: AgentDefinition,
        path: str,
        authenticator: Authenticator | None = None,
        *,
        is_new: bool = True,
    ) -> AgentEndpoints:
        tenant = path.rpartition("/")[2]
        has_files = self.files is not None and path == "files"  # of the agent at the root
        if has_files or tenant in self._tenants or f"/{path}" in self._public:
            raise ValueError(
                f"the path /{path} is taken, so agent {agent.name!r} can't be there; give it "
                "another name"
            )
        if is_new:
            self._engine.add(agent)
        endpoints = AgentEndpoints(
            agent,
            self._context,
            authenticator or self._authenticators.add(agent),
            path,
        )
        self._paths[agent.name] = path
        self.routers[f"/{path}"] = AgentRouter(self, endpoints, self._context, self._url)
        self._observe_router(self.routers[f"/{path}"])
        self._tenants[tenant] = endpoints.service
        self._service.tenants = self._tenants.get
        return endpoints

    @property
    def server_tls(self) -> Tls | None:
        """The TLS of the ports: whether clients are asked for a certificate, and need one."""
        is_card_public = self.agent.is_card_public
        return self._authenticators.tls_of(self.tls, is_card_public=is_card_public)

    def _scopes(self) -> set[str]:
        return self._root.scopes()

    def _new_notifier(self, push: bool | PushSettings, limits: Limits) -> Notifier | None:
        """Return what sends push notifications. It is None, and the card does not offer them, if
        they are off, the store keeps no webhooks, or there is no key to seal and sign them with.
        """
        if not push or getattr(self._engine.tasks.store, "pushes", None) is None:
            return None
        if not self._keys.are_there():
            self._lacks_keys = True
            return None
        return Notifier(
            self._engine.tasks,
            self._engine.runs.agents,
            lambda: self._keys.keyring,
            self.guard,
            {
                version.number: Format(version.push_type, version.push_codec, version.pushes_events)
                for version in (*VERSIONS, *self._versions)
            },
            push if isinstance(push, PushSettings) else PushSettings(),
            limits,
            issuer=lambda: self._issuer,
        )

    @property
    def _issuer(self) -> str:
        """Whose notifications these are: the address the agent is reached at."""
        if self._address == _NOWHERE and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "push notifications name %s as their issuer: this agent is served by a host that "
                "does not say where; give the address clients reach it at: url=",
                self._address,
            )
        interface = urlsplit(self._service.card.supported_interfaces[0].url)
        return f"{interface.scheme}://{interface.netloc}"

    @property
    def keyring(self) -> "Keyring":
        """The keys to seal and sign with. Raises KeyringError if there are none."""
        return self._keys.keyring

    @property
    def guard(self) -> Guard:
        """Return what decides which addresses of strangers may be called."""
        return self._outgoing.guard

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def notifier(self) -> Notifier | None:
        """Return what delivers push notifications; None if the app sends none."""
        return self._notifier

    @property
    def versions(self) -> Sequence[Version]:
        """The versions of the protocol that are answered."""
        return self._versions

    @property
    def rpc_path(self) -> str:
        return self._rpc_url

    @property
    def rest_path(self) -> str:
        return self._rest_url

    @property
    def trouble(self) -> str:
        if not self.is_open:
            return "starting"
        troubles = (part.trouble for part in self._parts)
        return self._engine.tasks.trouble or next((one for one in troubles if one), "")

    def listen(self, host: str, port: int) -> None:
        """Serve gRPC too, on a port of its own, while the app is open."""
        try:
            from ..server.grpc import GrpcEndpoint, GrpcServer  # protobuf comes with an extra
        except ImportError as error:
            raise RuntimeError(
                f"gRPC needs an extra: {install_command('grpc')} ({error})"
            ) from error
        self._grpc_endpoint = GrpcEndpoint(
            self._service, self.limits, self._versions, self.unread, self._context.grpc_domain
        )
        self._grpc = GrpcServer(
            self._grpc_endpoint,
            host,
            port,
            self.limits,
            self.server_tls,
            self.unread,
            is_ready=lambda: not self.trouble,
        )

    def check_shared(self, processes: int) -> None:
        """Raise ValueError if the store is one that several processes can't share."""
        store = self._engine.tasks.store
        if not store.is_shared:
            what = "tasks in memory are" if store.is_volatile else "a SQLite file is"
            raise ValueError(
                f"{processes} workers need a store that they can share, but {what} for one "
                "process; use --store postgresql://..., or one worker"
            )

    def _check_workers(self) -> None:
        """Log an error if another worker of our parent serves this agent from its own memory."""
        store = self._engine.tasks.store
        if store.is_shared or not store.is_volatile:
            return  # a shared store is right for workers; a file refuses the second process itself
        if other := worker_beside_us(self.agent.name):
            _log.error(
                "tasks in memory are this process's alone, and process %d, a worker of the same "
                "parent (process %d), serves %r too: each of them finds its own tasks and no "
                "others; %s",
                *(other, parent_of_workers(), self.agent.name, SEVERAL),
            )

    def share_grpc(self, sockets: "list[socket.socket]") -> None:
        """Serve gRPC on sockets that other processes serve too."""
        assert self._grpc is not None  # it was given a port
        self._grpc.use(sockets)

    def reached_at(self, address: str) -> None:
        """Say where HTTP is served, for cards that are not asked for over HTTP."""
        self._address = address
        self._service.card = self.card(address)
        for path, endpoints in self.agents.items():
            endpoints.service.card = endpoints.card(f"{address}/{path}")

    @property
    def address(self) -> str:
        """Return the address at which HTTP is served; empty while that is not known."""
        return self._url or self._address

    @property
    def grpc_port(self) -> int | None:
        """Return the port of gRPC; None if it is not served."""
        return self._grpc.port if self._grpc is not None else None

    async def open(self) -> None:
        """Open the store, recover, listen; once, however many ask."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        await asyncio.shield(self._opening)
        self.is_open = True

    async def _open(self) -> None:
        if self._signs_card:
            _ = self.keyring  # an error now, not with the first card
        self._check_workers()
        if self._lacks_keys:
            _log.warning(
                "push notifications are off: there is no key to seal and sign them with. This "
                "store is shared, so every replica needs the same one: make it with `accord "
                "keyring new`, and give it to each as ACCORD_KEY=... or --key-file FILE; or turn "
                "them off for good (push=False, --no-push)"
            )
        self._observe()  # before any run that goes on now
        await self._engine.open()
        called = egress_words(self._outgoing.egress_proxy)
        _log.info("webhooks, keys and files that others name: %s", called)
        try:
            await self._authenticators.open()
            if self._grpc is not None:
                await self._grpc.start()
                # now with the port gRPC really has
                self.reached_at(self._address)
        except BaseException:
            await self._engine.close()
            raise
        if self._notifier is not None:
            self._notifier.open()
        opened = []
        try:
            for part in self._parts:
                await part.open()
                opened.append(part)
        except BaseException:
            for part in reversed(opened):
                await part.close()
            await self._close_rest()
            raise

    def add_part(self, part: AppPart) -> None:
        """Have something opened and closed with this app."""
        self._parts.append(part)

    def _observe(self) -> None:
        """Begin to trace and to count, if that is switched on."""
        spans = start_tracing(self.agent.name) if self._wants_traces else tracing()
        metrics = self._metrics.metrics if self._metrics is not None else None
        if spans is None and metrics is None:
            return
        self.observer = Observer(self.agent.name, spans, metrics)
        for router in self.routers.values():
            self._observe_router(router)
        if self._grpc_endpoint is not None:
            self._grpc_endpoint.observer = self.observer
        self._engine.runs.metrics = self._engine.tasks.writer.metrics = metrics
        if self._notifier is not None:
            self._notifier.outbox.metrics = metrics

    def _observe_router(self, router: Router) -> None:
        if self.observer is not None and isinstance(router, AgentRouter):
            name = router.endpoints.agent.name
            router.observer = Observer(name, self.observer.tracing, self.observer.metrics)

    async def _export(self) -> None:
        """Hand over the spans that have ended, before the process does."""
        if self.observer is not None and self.observer.tracing is not None:
            await asyncio.get_running_loop().run_in_executor(
                None, self.observer.tracing.flusher.flush
            )

    @property
    def metrics(self) -> MetricsServer | None:
        """Return what serves the metrics of this app; None if nothing does."""
        return self._metrics

    def _resources(self, agent: AgentDefinition) -> Resources:
        return Resources(agent.name, self._engine.tasks.store.keys, self.guard)

    async def close(self, grace_s: float = 0.0) -> None:
        """Take no new work, give what runs `grace_s` to end, then end it and store everything;
        once, however many ask.
        """
        if self._opening is None or _has_failed(self._opening):
            return  # what did not open has closed what it had opened
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(grace_s))
        await asyncio.shield(self._closing)

    async def _close(self, grace_s: float) -> None:
        if self.is_open:  # else it failed to open, and there is no work
            await self._drain(grace_s)
            for part in self._parts:
                await part.settle()
        await self._close_rest()
        for part in reversed(self._parts):
            await part.close()

    async def _close_rest(self) -> None:
        await self._authenticators.close()
        if self._notifier is not None:
            await self._notifier.close()
        await self._engine.close()
        await self._outgoing.close()
        for agent in self._engine.runs.agents.values():
            for close in agent.on_close:
                await close()
        if self._grpc is not None:
            await self._grpc.stop()
        await self._export()

    async def _drain(self, grace_s: float) -> None:
        for part in self._parts:
            await part.drain()
        if self._grpc is not None:
            self._grpc.drain()
            self._grpc.leave_to_others()
        await self._engine.drain(grace_s)

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """For hosts: `Starlette(lifespan=app.lifespan)` opens and closes the agent with the
        host.
        """
        await self.open()
        with hearing(self._host_stops):
            try:
                yield
            finally:
                await self.close()

    def _host_stops(self, number: int) -> None:
        """A host was asked to stop. It says so only when its connections are closed: streams have
        to end before.
        """
        if self._leaving is None and self._closing is None:
            grace_s = 0.0 if number == signal.SIGINT else HOST_GRACE_S
            self._leaving = asyncio.get_running_loop().create_task(self._leave_host(grace_s))

    async def _leave_host(self, grace_s: float) -> None:
        await self._drain(grace_s)
        await self.close()  # sooner, if the host is less patient

    @contextlib.asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[str]:
        """Serve HTTP within this program, to this machine alone, while the block lasts; gives the
        address.
        """
        from ..server.http1 import HttpServer  # an app that is served elsewhere needs none

        server = HttpServer(
            self.answer,
            "127.0.0.1",
            port,
            self.limits,
            self.server_tls,
            self.unread,
            self.is_refused,
        )
        await server.start()
        try:
            await self.open()
            self.reached_at(self._url or server.url)
            yield server.url
        finally:
            await self.close()
            await server.stop()

    async def live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.open()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        with hearing(self._host_stops):
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self.close()
            await send({"type": "lifespan.shutdown.complete"})

    def card(self, base: str) -> AgentCard:
        """Return the agent card of this app at `base`: only what is really served."""
        return self._root.card(base)


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _wants_traces(wanted: bool | None) -> bool:
    """Whether to trace. What only the environment asks for, and can't be had, is no error."""
    if wanted is False or (wanted is None and not is_wanted()):
        return False
    try:
        require_otel()
    except RuntimeError as error:
        if wanted:
            raise
        _log.warning("the environment asks for traces: %s", error)
        return False
    return True
