"""The hub: its parts, put together, and the app that serves them."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ..agent import Agent
from ..app import App
from ..auth import Authenticator, Caller, Credentials
from ..model import A2AError, Limits, Unauthenticated
from ..net import Http, Network, origin_of
from ..push import PushSettings
from ..server import HttpRequest
from ..server.process import is_local
from .access import (
    CONSOLE,
    LOOPBACK,
    HubRole,
    Networks,
    People,
    Policy,
    TrustedKeys,
    Vault,
)
from .aggregate import AggregateAgent, Route
from .api import ARD_ROUTES, CATALOG_ROUTES, ROUTES, HubApi, Routes
from .errors import EntryNotFound
from .find import Finder, Meaning, open_meaning
from .gate import Gate
from .local_admin import LocalAdmin
from .probe import Prober
from .registry import UNTRUSTED, CardReader, Entry, Registry, fence_text
from .settings import HubSettings
from .storage import FLUSH_S, Audit, Changes, Inbox, RefusedGuests, open_database
from .trace import Traces

__all__ = ["Hub"]

log_ = logging.getLogger("accord.hub")

ADMIN = Caller("console", scheme=CONSOLE)  # whoever opened the admin's link


class Hub:
    """One address for every agent.

    Hub(HubSettings(store="sqlite:///hub.db")).app is the app to serve; `accord hub` serves it.
    Other parts join by `routes.add(...)`, `app.mount(...)` and `every(...)` before it is opened.
    """

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
        self._rounds: list[tuple[float, Callable[[], Awaitable[None]]]] = []
        self._running: list[asyncio.Task[None]] = []

        # What is stored, and who may do what
        self.db = open_database(settings.store)
        self.changes = Changes(self.db, settings.poll_s)
        self.audit = Audit(self.db)
        self.refused_guests = RefusedGuests(self.audit)
        self.inbox = Inbox(self.db)
        allowed = (*settings.allow, *(LOOPBACK if self.is_local else ()))
        self.networks = Networks(self.db, self.changes, self.audit, allowed)
        guests = settings.guests or ("call" if self.is_local else "off")
        self.people = People(self.db, self.changes, self.audit, settings, guests)
        self.policy = Policy(self.db, self.changes, self.people, self.audit)
        self.trusted = TrustedKeys(self.db, self.changes, self.audit, self.networks.guard)

        # The hub's own agent, and the app that serves it
        self.agent = Agent(settings.name, description="One address for every agent.")
        self.agent.skill(self.list_agents)
        self.aggregate = AggregateAgent(self)
        self.agent.auth = auth = self.people.auth()
        self.authenticator = Authenticator(
            auth, settings.name, limits or Limits(), settings.trusted_proxy
        )
        self.app: App = self.agent.app(
            store=settings.task_store,
            url=settings.url or None,
            tls=settings.tls,
            limits=limits,
            key_file=settings.key_file or None,
            sign_card=True,
            allow_hosts=settings.allow,
            trusted_proxies=settings.trusted_proxy,
            push=push or True,
            grpc_port=settings.grpc_port,
            metrics=settings.metrics or None,
            grpc_host=settings.host,
        )
        self.app.card_answer = self.aggregate.card
        self.app.add_part(self)
        self.people.keys = self.app.engine.tasks.store.keys
        self.local_admin = LocalAdmin(self.people, settings.folder)

        # The entries, and what follows their changes
        self.vault = Vault(self.db, self.changes, self.audit, lambda: self.app.keyring)
        self.cards = CardReader(self.networks.guard, self.trusted)
        self.registry = Registry(
            *(self.db, self.changes, self.policy, self.audit, self.inbox),
            *(self.cards, self.trusted, settings),
        )
        self.registry.credential_of = self._card_credential
        self.registry.on_change(lambda entry: self.aggregate.forget_cards())
        self.finder = Finder(self.registry, self.policy, self._meaning())
        self.traces = Traces(self)
        self.gate = Gate(self)
        self.prober = Prober(self)

        self.routes = Routes(ROUTES)
        self._mount()
        self._schedule()

    def _mount(self) -> None:
        """Serve the REST interface, and what other registries' clients read."""
        self.app.mount("/api/v1", HubApi(self, self.routes).answer)
        for prefix, routes in (
            ("/ard", Routes(ARD_ROUTES)),
            ("/.well-known/ai-catalog.json", Routes(CATALOG_ROUTES)),
        ):
            self.app.mount(prefix, HubApi(self, routes, is_strict=False).answer)

    def _schedule(self) -> None:
        self.every(1.0, self.traces.flush)
        self.every(3600.0, self.traces.purge)
        self.every(FLUSH_S, self.refused_guests.flush)
        self.every(3600.0, self.local_admin.renew)
        self.every(self.settings.beat_s / 2, self.registry.miss_beats)
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

    @property
    def address(self) -> str:
        """Where callers reach the hub."""
        return self.settings.url or self.app.address

    @property
    def admin_key(self) -> str:
        """The key of whoever may read the hub's folder."""
        return self.local_admin.key

    def served_at(self, address: str) -> None:
        """Say where HTTP is served: for cards, and for the commands of this machine."""
        self.app.reached_at(self.settings.url or address)
        self.local_admin.served_at(address, self.settings.url)

    def every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Have something done again and again while the hub is open. A failure is logged."""
        self._rounds.append((seconds, work))

    def route(self, function: Route) -> Route:
        """Have a function choose the agent for messages that name none: it gets the message and the
        caller and returns `agent/skill`, or None for the usual way.

        @hub.route
        async def choose(message, caller):
            return "hr/createEmployee" if "starts" in message.text else None
        """
        self.aggregate.route = function
        return function

    async def caller_of(self, request: HttpRequest) -> Caller:
        """Who sends a request. Raises Unauthenticated."""
        sessions = self.app.sessions
        session = await sessions.caller(request) if sessions is not None else None
        if session is not None:
            return session
        credentials = Credentials(
            request.headers, request.pairs, request.target.query, request.peer
        )
        known = self.authenticator.recall(credentials)
        return known or await self.authenticator.authenticate(credentials)

    def missing(self, caller: Caller, name: str) -> A2AError:
        """What is said of an agent that is not there, and of one that this caller may not see."""
        if self.people.person(caller).role is HubRole.GUEST:
            return Unauthenticated("log in to see more than public agents")
        return EntryNotFound.of_agent(name)

    def teams_known_to(self, caller: Caller) -> set[str]:
        """Teams a caller may ask for: their own, and those of entries they see; an admin may ask
        for all.
        """
        person = self.people.person(caller)
        made = {row["name"] for row in self.people.teams} if person.is_admin else set()
        return (
            made | person.teams | {one.team for one in self.registry.visible_to(caller) if one.team}
        )

    async def list_agents(self, caller: Caller) -> dict[str, Any]:
        """List the agents you may see."""
        found = self.registry.visible_to(caller)
        listed = [
            {"name": one.name, "description": fence_text(one.card.description)} for one in found
        ]
        return {"notice": UNTRUSTED, "untrusted": listed}

    def _card_credential(self, entry: Entry) -> Any:
        """What is shown to an agent for its card."""
        return self.vault.for_origin(entry, origin_of(entry.card_url), None)

    # A part of the app: opened with it, closed after its work has ended.

    async def open(self) -> None:
        await self.db.open()
        try:
            await self.changes.open()
            self.vault.check()
            await self.local_admin.renew()
            self._running = [
                asyncio.create_task(self._round(seconds, work)) for seconds, work in self._rounds
            ]
        except BaseException:
            await self.close()
            raise

    async def drain(self) -> None:
        for task in self._running:
            task.cancel()
        for task in self._running:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._running = []
        await self.prober.close()

    async def close(self) -> None:
        self.local_admin.close()
        await self.drain()
        await self.gate.close()
        with contextlib.suppress(Exception):  # it may be closed because there is no database
            await self.traces.flush()
            await self.refused_guests.flush()
        if self._vectors_http is not None:
            await self._vectors_http.close()
        await self.changes.close()
        await self.db.close()

    @property
    def trouble(self) -> str:
        return self.changes.trouble

    async def _round(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except A2AError as error:
                log_.warning("%s failed: %s", work.__name__, error)
            except Exception:
                log_.exception("%s failed", work.__name__)
