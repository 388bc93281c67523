"""The app: puts an agent, its store, its keys and its endpoints together."""

import contextlib
import functools
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..auth import Authenticator, Resources
from ..engine.runs import Engine
from ..engine.skills import Agent, AgentDefinition, definition_of
from ..files import Files, Giver, open_files
from ..model import AgentCard, Limits
from ..net import Guard, egress_words
from ..operations import Tenants, Version, served_versions
from ..options import AppOptions, AppPart
from ..push import Notifier
from ..server.http import CardEndpoint, Receive, Router, Send
from ..server.transport import Tls, UnreadAnswers
from ..store import open_store
from .address import PublicAddress
from .agents import AgentsBelow
from .authenticators import Authenticators
from .endpoints import AgentEndpoints, AgentRouter, ServerContext
from .grpc_port import GrpcPort
from .lifecycle import AppLifecycle
from .listing import AgentListing
from .metrics import MetricsServer
from .notifications import Notifications
from .outgoing import Outgoing
from .server_keys import ServerKeys
from .telemetry import Telemetry
from .workers import check_shared, check_siblings

if TYPE_CHECKING:
    import socket

    from ..auth import Keyring

__all__ = ["App"]

_log = logging.getLogger("accord")

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def _domain(name: str) -> str:
    """Return a domain as hosts are compared with it. Raises ValueError for what is none."""
    found = name.lower().strip(".")
    if name and not (_DOMAIN.fullmatch(found) and len(found) < 190):
        raise ValueError(
            f"grpc_domain={name!r:.200} is not a domain; write it like agents.corp.example"
        )
    return found


class App(Router):
    """An agent as an ASGI app. Opens its store at start-up, or with the first request if nobody
    starts it.
    """

    def __init__(self, agent: AgentDefinition, options: AppOptions) -> None:
        limits = options.limits or Limits()
        beside = [definition_of(one) for one in options.beside]
        self._public_address = address = PublicAddress(options.url)
        self._listing = AgentListing(lambda: self.agents, address)
        self.agent = agent if not beside else self._listing.agent()
        self.tls = options.tls
        self.trusted_proxies = options.trusted_proxies
        self._versions = served_versions(options.versions, options.previews)
        self._authenticators = Authenticators(limits, options.trusted_proxies, self._resources)
        self._outgoing = Outgoing(options.allow_hosts, options.egress_proxy)
        self._engine, files = _new_engine(agent, options, limits, self._outgoing)
        self._keys = ServerKeys(self._engine.tasks.store, options.key_file)
        self._signs_card = options.sign_card
        giver = Giver(files, lambda: self.keyring)
        self._notifications = Notifications(
            options.push,
            self._engine,
            self._keys,
            self.guard,
            self._versions,
            giver,
            address,
            path_of=lambda name: self._agents_below.path_of(name),
            interface=lambda: self._service.card.supported_interfaces[0].url,
        )
        signs = options.sign_card or self.notifier is not None
        self._grpc = GrpcPort()
        self.unread = UnreadAnswers(limits)
        self._context = context = ServerContext(
            engine=self._engine,
            limits=limits,
            versions=self._versions,
            unread=self.unread,
            notifier=self.notifier,
            rpc="/" + options.rpc.strip("/"),
            rest="/" + options.rest.strip("/") if options.rest.strip("/") else "",
            tls=options.tls,
            cors_origins=options.cors_origins,
            signer=self._keys if options.sign_card else None,
            jwks=self._keys.jwks if signs else None,
            grpc_port=lambda: self.grpc_port,
            grpc_domain=_domain(options.grpc_domain),
            address=address,
            giver=giver,
        )
        if beside:
            self._engine.add(self.agent)
        self._root = root = AgentEndpoints(
            self.agent,
            context,
            self._authenticators.add(self.agent),
            "",
            takes_files=not beside,  # so that an agent beside others may be called Files
        )
        self._service = root.service
        super().__init__(
            root.rpc(),
            root.rest(),
            root.card_endpoint(),
            rpc_path=context.rpc,
            limits=limits,
            jwks=context.jwks,
            screen=root.screen(),
            authenticator=root.authenticator,
            is_card_public=self.agent.is_card_public,
        )
        self.catalog = functools.partial(self._listing.catalog, root, self._card.base)
        self.files = root.files_endpoint()
        self._parts: list[AppPart] = []
        metrics = None
        if options.metrics is not None:
            metrics = MetricsServer(options.metrics, self._engine, self.notifier, limits)
            self.add_part(metrics)
        self._telemetry = Telemetry(options.telemetry, metrics)
        self._lifecycle = AppLifecycle(self._open, self._drain, self._close)
        self._agents_below = AgentsBelow(self, root.service, context, self._telemetry)
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
    def agents(self) -> dict[str, AgentEndpoints]:
        """Return the agents below a path of this app, by that path."""
        return {path: router.endpoints for path, router in self._agents_below.routers.items()}

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
        if (removed := self._agents_below.remove(path)) is not None:
            self._engine.remove(removed.name)

    def router_for(self, agent: AgentDefinition, path: str) -> AgentRouter:
        """Return what answers for an agent of this app's engine, with this app's own callers; for a
        gateway, which decides itself what it passes there.
        """
        return self._agents_below.router_for(agent, path, self._root.authenticator)

    def card_endpoint_of(self, card: Callable[[str], AgentCard]) -> CardEndpoint:
        """Return an endpoint for another card of the agent at the root: as some callers see it."""
        return self._root.card_endpoint(card)

    def use_tenants(self, tenants: Tenants) -> None:
        """Ask `tenants` which agent a tenant at the root stands for."""
        self._service.tenants = tenants

    def _put(
        self,
        agent: AgentDefinition,
        path: str,
        authenticator: Authenticator | None = None,
        *,
        is_new: bool = True,
    ) -> AgentEndpoints:
        self._agents_below.check(agent, path)
        if is_new:
            self._engine.add(agent)
        return self._agents_below.put(agent, path, authenticator or self._authenticators.add(agent))

    # What others ask of it

    @property
    def server_tls(self) -> Tls | None:
        """Return the TLS of the ports: whether clients are asked for a certificate and need one."""
        is_card_public = self.agent.is_card_public
        return self._authenticators.tls_of(self.tls, is_card_public=is_card_public)

    def _scopes(self) -> set[str]:
        return self._root.scopes()

    @property
    def keyring(self) -> "Keyring":
        """Return the keys to seal and sign with. Raises KeyringError if there are none."""
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
        return self._notifications.notifier

    @property
    def metrics(self) -> MetricsServer | None:
        """Return what serves the metrics of this app; None if nothing does."""
        return self._telemetry.server

    @property
    def versions(self) -> Sequence[Version]:
        """Return the versions of the protocol that are answered."""
        return self._versions

    @property
    def rpc_path(self) -> str:
        return self._context.rpc

    @property
    def rest_path(self) -> str:
        return self._context.rest

    @property
    def trouble(self) -> str:
        if not self.is_open:
            return "starting"
        troubles = (part.trouble for part in self._parts)
        return self._engine.tasks.trouble or next((one for one in troubles if one), "")

    @property
    def address(self) -> str:
        """Return the address at which HTTP is served; empty while that is not known."""
        return self._public_address.given or self._public_address.base

    @property
    def grpc_port(self) -> int | None:
        """Return the port of gRPC; None if it is not served."""
        return self._grpc.number

    def card(self, base: str) -> AgentCard:
        """Return the agent card of this app at `base`: only what is really served."""
        return self._root.card(base)

    def _resources(self, agent: AgentDefinition) -> Resources:
        return Resources(agent.name, self._engine.tasks.store.keys, self.guard)

    # Where it is served

    def listen(self, host: str, port: int) -> None:
        """Serve gRPC too, on a port of its own, while the app is open."""
        self._grpc.listen(
            (host, port), self._service, self._context, self.server_tls, lambda: not self.trouble
        )

    def share_grpc(self, sockets: "list[socket.socket]") -> None:
        """Serve gRPC on sockets that other processes serve too."""
        self._grpc.share(sockets)

    def check_shared(self, processes: int) -> None:
        """Raise ValueError if the store is one that several processes can't share."""
        check_shared(self._engine.tasks.store, processes)

    def reached_at(self, address: str) -> None:
        """Say where HTTP is served, for cards that are not asked for over HTTP."""
        self._public_address.base = address
        self._service.card = self.card(address)
        self._agents_below.write_cards()

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
            self.reached_at(self._public_address.given or server.url)
            yield server.url
        finally:
            await self.close()
            await server.stop()

    # Opening and closing

    def add_part(self, part: AppPart) -> None:
        """Open and close a part together with this app."""
        self._parts.append(part)

    async def open(self) -> None:
        """Open the store, recover, listen; once, however many ask."""
        await self._lifecycle.open()
        self.is_open = True

    async def close(self, grace_s: float = 0.0) -> None:
        """Take no new work, give what runs `grace_s` to end, then end it and store everything;
        once, however many ask.
        """
        await self._lifecycle.close(grace_s)

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """Open and close the agent with its host: `Starlette(lifespan=app.lifespan)`."""
        await self.open()
        with self._lifecycle.hosted():
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
        with self._lifecycle.hosted():
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self.close()
            await send({"type": "lifespan.shutdown.complete"})

    async def _open(self) -> None:
        if self._signs_card and not self._keys.need_making:
            _ = self.keyring  # an error now, not with the first card
        check_siblings(self._engine.tasks.store, self.agent.name)
        self._notifications.check()
        self._observe()  # before any run that goes on now
        await self._engine.open()
        called = egress_words(self._outgoing.egress_proxy)
        _log.info("webhooks, keys and files that others name: %s", called)
        try:
            if self._signs_card:
                _ = self.keyring  # new keys are made beside a database that can be used
            await self._authenticators.open()
            if self.grpc_port is not None:
                await self._grpc.start()
                # now with the port gRPC really has
                self.reached_at(self._public_address.base)
        except BaseException:
            await self._close_rest()
            raise
        self._notifications.open()
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

    def _observe(self) -> None:
        """Begin to trace and to count, if that is switched on."""
        self._telemetry.start(self.agent.name)
        self.observer = self._telemetry.observer(self.agent.name)
        self._agents_below.observe()
        self._grpc.observe(self.observer)
        metrics = self._telemetry.metrics
        self._engine.runs.metrics = self._engine.tasks.writer.metrics = metrics
        if self.notifier is not None:
            self.notifier.outbox.metrics = metrics

    async def _drain(self, grace_s: float) -> None:
        for part in self._parts:
            await part.drain()
        self._grpc.drain()
        await self._engine.drain(grace_s)

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
        await self._notifications.close()
        await self._engine.close()
        await self._outgoing.close()
        for agent in self._engine.runs.agents.values():
            for close in agent.on_close:
                await close()
        await self._grpc.stop()
        await self._telemetry.flush()


def _new_engine(
    agent: AgentDefinition, options: AppOptions, limits: Limits, outgoing: Outgoing
) -> tuple[Engine, Files]:
    """Return the engine on the store that the options name, and its files."""
    given = options.store or "memory://"
    store = open_store(given) if isinstance(given, str) else given
    engine = Engine([agent], store, limits, options.retention)
    files = Files(store.files, open_files(options.files, store), limits, store.now_ms)
    engine.tasks.files = files
    engine.runs.delegates = outgoing.delegates
    engine.runs.open_url = outgoing.open_url
    return engine, files
