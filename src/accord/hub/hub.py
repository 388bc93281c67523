"""The hub: its parts, put together, and the app that serves them."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ..agent import Agent
from ..app import App
from ..auth import Authenticator, Caller
from ..console import Console, OpenIdLogin
from ..engine.skills import definition_of
from ..model import A2AError, Limits
from ..net import Http, Network, origin_of
from ..operations import Service
from ..pump import Pump
from ..push import PushSettings
from ..server.process import is_local
from ..store import HUB, TASKS, Database, Store, open_store
from . import gate
from .access import (
    CONSOLE,
    LOOPBACK,
    Callers,
    Networks,
    Policy,
    Principals,
    TrustedKeys,
    Vault,
)
from .aggregate import AggregateAgent, AggregateCard, Route
from .api import (
    AgentRoutes,
    AgentViews,
    ArdRoutes,
    CatalogRoutes,
    CatalogViews,
    CredentialRoutes,
    HubApi,
    OpenApiRoutes,
    PolicyRoutes,
    PrincipalRoutes,
    ProbeRoutes,
    RecordRoutes,
    Routes,
    SearchRoutes,
    TaskRoutes,
    TraceRoutes,
    TrustRoutes,
)
from .find import Finder, Meaning, open_meaning
from .gate import Breakers, CallLimits, Gate, Permits, Upstreams
from .local_admin import LocalAdmin
from .probe import Prober
from .records import FLUSH_S, KEEP_S, Audit, Changes, HubRecords, Inbox, Refusals
from .registry import (
    AgentAdmission,
    CardReader,
    CardVersions,
    Entry,
    HealthRecords,
    Registry,
)
from .settings import HubSettings
from .trace import Traces

__all__ = ["Hub"]

log_ = logging.getLogger("accord.hub")

ADMIN = Caller("console", scheme=CONSOLE)  # whoever opened the admin's link


class Hub:
    """One address for every agent.

    Hub(HubSettings(store="sqlite:///hub.db")).app is the app to serve; `accord hub` serves it.
    Other parts join by `routes.add(...)`, `app.mount(...)` and `every(...)` before it is opened.
    """

    keeps_local_admin = True  # of several processes in one folder one does

    def __init__(
        self,
        settings: HubSettings,
        limits: Limits | None = None,
        push: PushSettings | None = None,
    ) -> None:
        # Behind a proxy on this machine every request comes over loopback, so the address that
        # people use decides.
        self.is_local = is_local(settings.host, settings.url, settings.trusted_proxy)
        self.settings = settings
        self._vectors_http: Http | None = None
        self._rounds: list[Pump] = []

        # What is stored, and who may do what
        store = open_store(settings.store, parts=(TASKS, HUB))
        self.db = db = _database_of(store, settings.store)
        self.changes = changes = Changes(db, settings.poll_s)
        self.audit = audit = Audit(db, lambda: self.app.keyring, settings.folder)
        self.refusals = Refusals(db, audit)
        self.inbox = Inbox(db, audit)
        allowed = (*settings.allow, *(LOOPBACK if self.is_local else ()))
        self.networks = Networks(db, changes, audit, allowed)
        guests = settings.guests or ("call" if self.is_local else "off")
        self.principals = Principals(db, changes, audit, settings, guests)
        self.principals.keys = store.keys
        self.local_admin = LocalAdmin(self.principals, settings.folder)
        self.policy = Policy(db, changes, self.principals, audit)
        self.trusted = TrustedKeys(db, changes, audit, self.networks.guard)
        self.vault = Vault(db, changes, audit, lambda: self.app.keyring)

        # The entries, and what follows their changes
        self.cards = CardReader(self.networks.guard, self.trusted)
        records = HubRecords(db, changes, audit, self.inbox)
        self.registry = registry = Registry(records, self.policy)
        read = (self.cards, self.trusted, settings)
        self.versions = CardVersions(registry, records, *read)
        self.versions.credential_of = self._card_credential
        self.admission = AgentAdmission(registry, self.versions, records, *read)
        self.health = HealthRecords(registry, records, settings)
        self.finder = Finder(registry, self.policy, self._meaning())
        outbound = (self.vault, self.networks)
        self.prober = Prober(db, registry, self.versions, self.health, *outbound, settings)

        # Calls to agents
        self.traces = Traces(db, lambda: self.app.engine.tasks)
        self.breakers = Breakers(db, changes, settings.open_s)
        self.upstreams = Upstreams(
            *(registry, *outbound, self.breakers, self.traces),
            previews=settings.preview,
            on_success=self.prober.succeeded,
        )
        call_limits = CallLimits(lambda: self.app.engine, settings.calls_per_minute)
        permits = Permits(registry, self.policy, self.principals, call_limits, self.refusals)

        # The hub's own agent, and the app that serves it
        self.agent = Agent(settings.name, description="One address for every agent.")
        self.aggregate = AggregateAgent(self.agent, registry, self.finder, permits, self.upstreams)
        definition_of(self.agent).auth = auth = self.principals.auth()
        self.callers = Callers(self.principals, self._authenticator, lambda: self.app.sessions)
        self.app: App = self._new_app(store, limits, push)
        card = AggregateCard(self.app, self.callers, self.aggregate)
        self.app.card_answer = card.answer
        self.app.add_part(self)
        registry.on_change(card.forget)
        self.gate = Gate(
            *(self.app, auth, registry, self.callers, permits, call_limits, self.upstreams)
        )

        self.routes = Routes()
        self._mount()
        self._schedule()

    def _new_app(self, store: Store, limits: Limits | None, push: PushSettings | None) -> App:
        settings = self.settings
        return self.agent.app(
            store=store,
            url=settings.url or None,
            tls=settings.tls,
            limits=limits,
            key_file=settings.key_file or None,
            sign_card=True,
            allow_hosts=settings.allow,
            trusted_proxies=settings.trusted_proxy,
            previews=settings.preview,
            push=push or True,
            grpc_port=settings.grpc_port,
            grpc_domain=settings.grpc_domain,
            files=settings.files_url,
            metrics=settings.metrics or None,
            grpc_host=settings.host,
        )

    def _mount(self) -> None:
        """Serve the REST interface, and what other registries' clients read."""
        registry, now_ms = self.registry, self.db.now_ms
        views = AgentViews(self.policy, lambda: self.address)
        listed = CatalogViews(self.policy, self.settings.name, lambda: self.address)
        catalog = CatalogRoutes(registry, listed, self.admission, self.cards, self.networks)
        for subject in (
            AgentRoutes(
                *(registry, self.admission, self.versions, self.health, views, self.principals)
            ),
            SearchRoutes(self.finder, self.principals),
            catalog,
            ProbeRoutes(self.prober, views, now_ms),
            CredentialRoutes(self.vault, self.networks),
            PrincipalRoutes(self.principals, now_ms),
            PolicyRoutes(self.policy, registry),
            TrustRoutes(self.trusted, self.networks, now_ms),
            RecordRoutes(self.inbox, self.audit),
            TaskRoutes(self._service_of, self.audit),
            TraceRoutes(self.traces),
            OpenApiRoutes(self.routes),
        ):
            self.routes.add(*subject.table())
        parts = (self.callers, registry, self.refusals)
        self.app.mount("/api/v1", HubApi(self.routes, *parts).answer)
        for prefix, routes in (
            ("/ard", ArdRoutes(registry, listed, self.finder).table()),
            ("/.well-known/ai-catalog.json", catalog.well_known()),
        ):
            self.app.mount(prefix, HubApi(Routes(routes), *parts, is_strict=False).answer)

    def _authenticator(self) -> Authenticator:
        """What finds out who calls: one for all, so that a call counts once."""
        found = self.app.root.authenticator
        assert found is not None  # the hub's agent has auth
        return found

    def _service_of(self, name: str) -> Service | None:
        """The service of an entry, or of the hub's own agent."""
        own = self.app.root.service if name == self.agent.name else None
        return self.gate.service_of(name) or own

    def _schedule(self) -> None:
        self.every(1.0, self.traces.flush)
        self.every(3600.0, self.traces.purge)
        self.every(3600.0, self.inbox.purge)
        self.every(FLUSH_S, self.refusals.flush)
        self.every(KEEP_S, self.audit.keep_head)
        self.every(3600.0, self._renew_local_admin)
        self.every(self.settings.heartbeat_s / 2, self.health.miss_heartbeats)
        self.every(gate.FORGET_S, self.gate.forget)
        self.every(gate.SWEEP_S, self.upstreams.sweep)
        self.every(gate.FLUSH_S, self.breakers.flush)
        if self.settings.tick_s:
            self.every(self.settings.tick_s, self.prober.tick)

    def _meaning(self) -> Meaning | None:
        """The vectors search uses; None without --meaning."""
        if not self.settings.meaning:
            return None
        self._vectors_http = Network(connect_s=10.0, lost_s=30.0)  # the operator named the place
        return open_meaning(
            self.settings.meaning,
            self._vectors_http,
            model=self.settings.meaning_model,
            key=self.settings.meaning_key,
        )

    def console(self, *, is_shared: bool = False) -> Console:
        """Serve the web console beside the hub. Call this before the hub is opened. Processes that
        share a port have no Live, which would show the calls of one of them, and no link.
        """
        settings = self.settings
        openid = None
        if settings.oidc_client:
            openid = OpenIdLogin(
                *(settings.oidc, settings.oidc_client, settings.oidc_secret),
                keyring=lambda: self.app.keyring,
                address=lambda: self.address,
                on_login=self._logged_in,
            )
        page = Console(
            self.app,
            is_hub=True,
            has_exchanges=not is_shared,
            makes_link=not is_shared,
            openid=openid,
            is_operator=lambda caller: self.principals.of(caller).is_admin,
        )
        page.attach(self.app)
        return page

    async def _logged_in(self, caller: Caller) -> None:
        principal = self.principals.of(caller)
        detail = {"identity": principal.identity, "role": principal.role}
        await self.audit.write(principal.name, "console.login", principal.name, detail)

    @property
    def address(self) -> str:
        """Return the address at which callers reach the hub."""
        return self.settings.url or self.app.address

    @property
    def admin_key(self) -> str:
        """The key of whoever may read the hub's folder."""
        return self.local_admin.key

    def served_at(self, address: str) -> None:
        """Say where HTTP is served: for cards, and for the commands of this machine."""
        self.app.reached_at(self.settings.url or address)
        if self.keeps_local_admin:
            self.local_admin.served_at(address, self.settings.url)

    async def _renew_local_admin(self) -> None:
        if self.keeps_local_admin:
            await self.local_admin.renew()

    def every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Call a function again and again while the hub is open. A failure is logged."""

        async def round_() -> bool:
            await work()
            return False

        pump = Pump(
            *(work.__qualname__, round_),
            log=log_,
            pause_s=lambda: seconds,
            retry_s=lambda: seconds,
        )
        self._rounds.append(pump)

    def route(self, function: Route) -> Route:
        """Let a function choose the agent for messages that name none. It gets the message and the
        caller, and returns `agent/skill`, or None to let the hub choose.

        @hub.route
        async def choose(message, caller):
            return "hr/createEmployee" if "starts" in message.text else None
        """
        self.aggregate.route = function
        return function

    def _card_credential(self, entry: Entry) -> Any:
        """What is shown to an agent for its card."""
        return self.vault.for_origin(entry, origin_of(entry.card_url), None)

    # A part of the app: opened with it, closed after its work has ended.

    async def open(self) -> None:
        try:
            await self.changes.open()
            self.vault.check()
            await self.audit.open()
            await self._renew_local_admin()
            for pump in self._rounds:
                pump.start(pauses_first=True)
        except BaseException:
            await self.close()
            raise

    async def drain(self) -> None:
        for pump in self._rounds:
            await pump.stop()
        await self.prober.close()

    async def settle(self) -> None:
        """Store at once what waits for the next round: traces, refusals, the end of the log."""
        for work in (self.traces.flush, self.refusals.flush, self.audit.keep_head):
            await _logged(work)

    async def close(self) -> None:
        if self.keeps_local_admin:
            self.local_admin.close()
        await self.drain()
        await self.upstreams.close()
        if self._vectors_http is not None:
            await self._vectors_http.close()
        await self.changes.close()

    @property
    def trouble(self) -> str:
        return self.changes.trouble


async def _logged(work: Callable[[], Awaitable[None]]) -> None:
    """Do something whose failure is logged."""
    try:
        await work()
    except A2AError as error:
        log_.warning("%s failed: %s", work.__name__, error)
    except Exception:
        log_.exception("%s failed", work.__name__)


def _database_of(store: Store, url: str) -> Database:
    """Return where the hub's tables are. Raises ValueError for a store without a database."""
    found = getattr(store, "database", None)
    if not isinstance(found, Database):
        raise ValueError(
            f"no hub can be kept in {url!r}; use sqlite:///.accord/hub.db or "
            "postgresql://host/database"
        )
    return found
