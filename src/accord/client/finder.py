"""Finding an agent: its card, the interfaces that can be used, and what they are called with."""

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from ..model import RESUME, AgentCapabilities, AgentCard, AgentInterface
from ..net import Guard, Http, Proxies, origin_of, parse_url, safe_url
from .auth import AgentPlace, Auth, ClientCert, Signed, choose
from .bindings import BASE_URL, InProcess
from .budget import Budget
from .connection import FoundAgent
from .discovery import ByOrigin, Cards, WithHeaders, card_of, fetch_card, read_json, verify_card
from .errors import BadCard
from .interfaces import (
    AgentBindings,
    InterfaceWish,
    choose_interfaces,
    guarded_grpc,
    on_origin,
    origin_of_interface,
    without_grpc_tls,
)

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from ..auth import Trust

__all__ = ["AgentFinder", "AgentLike", "AgentSearch", "agent_url"]

AgentLike: TypeAlias = Any  # a URL, a path, a card, an agent or an ASGI app

CARDS = Cards(trusts_loopback=False)


class AgentSearch(msgspec.Struct, kw_only=True):
    """Name the agent to find and how to find it: what `connect` was given, checked."""

    agent: AgentLike
    wish: InterfaceWish
    budget: Budget
    auth: Auth
    card_auth: Auth  # shown for the card; None if that is for everybody
    headers: Mapping[str, str]
    cards: Cards | None
    trust: "Trust | None"
    proxy: str | Literal[False] | None
    through: Proxies | None  # the proxy, if one is given for everything
    ca: str | Path | None
    certificate: ClientCert | None
    tls: SSLContext | None  # to the agent's origin
    others_tls: SSLContext | None  # to other places, without the certificate
    has_own_tls: bool  # a context of the user's, which gRPC can't take
    session: "ClientSession | None"
    guard: Guard | None
    egress_proxy: str
    wrap: Callable[[Http], Http] | None


class _Discovered(NamedTuple):
    """An agent's card, and what is known of where it came from."""

    http: Http
    card: AgentCard
    origin: str  # that the user named; empty if the card was handed over
    server: str | None  # the `Server` header that came with the card


class AgentFinder:
    """Finds one agent."""

    def __init__(self, search: AgentSearch) -> None:
        self._search = search
        self._place = AgentPlace("", search.others_tls, search.guard)

    async def find(self) -> FoundAgent:
        """Return the agent, ready to be called. Raises AgentFault, or A2AError if it refuses."""
        search, notes = self._search, list[str]()
        routes = self._routes()
        http: Http = routes
        try:
            http, card, origin, server = await self._discover(routes, notes)
            is_local = isinstance(http, InProcess)
            is_met = bool(origin) or is_local
            interfaces = choose_interfaces(card, search.wish, notes)
            card_origin = "" if is_local else origin or origin_of_interface(interfaces[0])
            routes.origin = card_origin
            interfaces = await self._usable(interfaces, card, routes, notes)
            chosen = choose(card, search.auth, self._place._replace(origin=card_origin))
            if chosen:
                origin = origin or origin_of_interface(interfaces[0])
                interfaces = on_origin(interfaces, origin, card, notes)
                http = Signed(http, origin, chosen)
            if search.wrap is not None:
                http = search.wrap(http)
        except BaseException:
            await http.close()
            raise
        is_ours = any(extension.uri == RESUME for extension in card.capabilities.extensions)
        bindings = AgentBindings(
            http,
            search.budget,
            headers=search.headers,
            card_origin=card_origin,
            credentials_origin=origin,
            chosen=chosen,
            server=None if is_ours else server,
            certificate=search.certificate,
            ca=search.ca,
            proxy=search.proxy,
            grpc_guards=routes.grpc_guards,
            notes=notes,
        )
        return FoundAgent(
            card=card,
            interfaces=interfaces,
            bind=bindings.bind,
            read_extended=functools.partial(
                self._read_extended,
                routes=routes,
                credentials_origin=origin if chosen else "",
                notes=notes,
            ),
            notes=notes,
            close=bindings.close,
            http=WithHeaders(http, search.headers, origin) if search.headers else http,
            is_met=is_met,
            origin=origin,
        )

    async def _usable(
        self,
        interfaces: list[AgentInterface],
        card: AgentCard,
        routes: ByOrigin,
        notes: list[str],
    ) -> list[AgentInterface]:
        """Return the interfaces that may be called. Raises BadCard if there are none."""
        search, origin = self._search, routes.origin
        if search.through is None and origin:
            interfaces = await guarded_grpc(interfaces, origin, search.guard, routes, card, notes)
        if search.has_own_tls:
            interfaces = without_grpc_tls(interfaces, origin, card, notes)
        return interfaces

    async def _read_extended(
        self, value: Any, *, routes: ByOrigin, credentials_origin: str, notes: list[str]
    ) -> tuple[AgentCard, list[AgentInterface]]:
        """Return an extended card, given as JSON, and its interfaces; none if they can't be used.
        The rules for them are those of the public card. Raises BadCard if it can't be read.
        """
        where = routes.origin or BASE_URL
        found: list[str] = []
        try:
            value = await self._verified(value, where, routes.origin, routes)
            card = card_of(value, where, found)
            interfaces = choose_interfaces(card, self._search.wish, found)
            interfaces = await self._usable(interfaces, card, routes, found)
            if credentials_origin:
                interfaces = on_origin(interfaces, credentials_origin, card, found)
        except BadCard as error:
            found.append(f"what the extended card offers is not used: {error.fault}")
            card, interfaces = card_of(value, where, []), []
        notes.extend(note for note in found if note not in notes)
        return card, interfaces

    def _routes(self) -> ByOrigin:
        """The way to the agent's origin, and to other places its card names."""
        from ..net import (
            Network,  # brings aiohttp, which a server that connects nowhere does not need
        )

        search = self._search

        def network(tls: SSLContext | None, **options: Any) -> Http:
            budget = search.budget
            return Network(connect_s=budget.connect_s, lost_s=budget.lost_s, tls=tls, **options)

        if search.through is not None or search.guard is not None:
            ways: dict[str, Any] = (
                {"proxies": search.through}
                if search.through is not None
                else {"guard": search.guard}
            )
            own = network(search.tls, **ways)
            return ByOrigin(own, lambda _: network(search.others_tls, **ways))
        proxies = Proxies() if search.proxy is False else Proxies.from_environment()
        return ByOrigin(
            network(search.tls, proxies=proxies, session=search.session),
            lambda guard: network(search.others_tls, guard=guard),
            search.egress_proxy,
        )

    async def _discover(self, network: ByOrigin, notes: list[str]) -> _Discovered:
        agent = self._search.agent
        if isinstance(agent, str) and not _is_json(agent):
            url = agent_url(agent.strip())
            if url is not None:
                return await self._by_url(url, network, notes)
        if isinstance(agent, AgentCard | dict | bytes | str | os.PathLike):
            return await self._by_card(agent, network, notes)
        return await self._in_process(agent, network, notes)

    async def _by_url(self, url: str, network: ByOrigin, notes: list[str]) -> _Discovered:
        search = self._search
        origin = network.origin = origin_of(url)
        cards = search.cards
        http: Http = network
        if search.card_auth is not None:
            # The card may be for some only: asked for with the credentials, and kept for nobody
            # else.
            place = self._place._replace(origin=origin)
            http = Signed(network, origin, choose(_SILENT, search.card_auth, place))
        elif cards is None:
            cards = CARDS
        if search.wrap is not None:
            http = search.wrap(http)

        async def verified(value: Any, where: str) -> Any:
            return await self._verified(value, where, origin, network)

        card, server = await fetch_card(url, http, search.budget, cards, notes, verified)
        return _Discovered(network, card, origin, server)

    async def _by_card(self, given: Any, network: ByOrigin, notes: list[str]) -> _Discovered:
        """A card that was handed over."""
        if isinstance(given, AgentCard) and self._search.trust is None:
            return _Discovered(network, given, "", "")
        value = await self._verified(_given(given, self._search.budget), "", "", network)
        return _Discovered(network, card_of(value, "", notes), "", "")

    async def _in_process(self, agent: Any, network: ByOrigin, notes: list[str]) -> _Discovered:
        """An agent or an ASGI app in this process."""
        search = self._search
        make = getattr(agent, "app", None)
        if not callable(make) and not callable(agent):
            raise TypeError(
                f"can't connect to a {type(agent).__name__}: give a URL, a card, an Agent or "
                "an ASGI app"
            )
        local = InProcess(make() if callable(make) else agent, owns_app=callable(make))
        watched = search.wrap(local) if search.wrap is not None else local

        async def verified(value: Any, where: str) -> Any:
            return await self._verified(value, where, "", network)

        card, server = await fetch_card(BASE_URL, watched, search.budget, None, notes, verified)
        return _Discovered(local, card, "", server)

    async def _verified(self, value: Any, where: str, origin: str, network: ByOrigin) -> Any:
        """Return the part of a card's JSON that may be used: with `verify=`, what is signed. Raises
        BadCard.
        """
        if self._search.trust is None:
            return value
        signed, _ = await verify_card(value, where, self._search.trust, origin, network)
        return signed


def _is_json(given: str) -> bool:
    return given.lstrip().startswith("{")


def _given(agent: Any, budget: Budget) -> Any:
    """The JSON value of a card that was handed over. Raises BadCard."""
    match agent:
        case AgentCard():
            return msgspec.to_builtins(agent)
        case bytes():
            return read_json(agent, "", budget)
        case str() if _is_json(agent):
            return read_json(agent.encode(), "", budget)
        case str():
            return read_json(_read_file(Path(agent.removeprefix("file://")), budget), "", budget)
        case os.PathLike():
            return read_json(_read_file(Path(agent), budget), "", budget)
    return agent


# The card of an agent we know nothing of yet.
_SILENT = AgentCard(
    name="",
    description="",
    supported_interfaces=[],
    version="",
    capabilities=AgentCapabilities(),
    default_input_modes=[],
    default_output_modes=[],
    skills=[],
)


def agent_url(given: str) -> str | None:
    """Return a URL for what a user typed, or None if it is the name of a file. Raises BadCard."""
    if given.startswith("file://"):
        return None
    if "://" not in given:
        if given.startswith(("/", "./", "../", "~")) or _is_file(given):
            return None
        given = (
            "http://" if given.startswith(("localhost", "127.", "[::1]")) else "https://"
        ) + given
    try:
        parse_url(given)
    except ValueError as error:
        raise BadCard(safe_url(given), f"not a URL: {error}") from None
    if "@" in urlsplit(given).netloc:
        raise BadCard(
            safe_url(given),
            "credentials must not be in a URL; connect with auth=Basic(user, password)",
        )
    return given


def _is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero in it
        return False


def _read_file(path: Path, budget: Budget) -> bytes:
    path = path.expanduser()
    try:
        with path.open("rb") as file:
            return file.read(budget.card_bytes + 1)
    except OSError as error:
        what = f"the card can't be read: {error.strerror}"
        raise BadCard(str(path), what, cause="missing") from None
