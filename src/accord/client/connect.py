"""Connect to an agent: by its URL, its card, or the agent itself."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from ..model import RESUME, AgentCapabilities, AgentCard, AgentInterface
from ..net import (
    Guard,
    Http,
    Proxies,
    client_tls,
    host_of,
    is_allowed,
    origin_of,
    parse_url,
    safe_url,
)
from ..protocol.v01 import client as v01_client
from ..protocol.v03 import client as v03_client
from ..protocol.v03 import rest_client as v03_rest_client
from ..protocol.v1 import client as v1_client
from ..protocol.v1 import rest_client as v1_rest_client
from .auth import AgentPlace, Auth, Chosen, ClientCert, Signed, certificate_of, choose
from .bindings import BASE_URL, Binding, InProcess, JsonRpc, JsonRpc02, Rest
from .budget import Budget
from .client import Client
from .connection import AgentConnection, FoundAgent, Options
from .discovery import ByOrigin, Cards, card_of, fetch_card, read_json, verify_card
from .errors import BadCard
from .retry import Retry

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from ..auth import Trust

    Verify: TypeAlias = Trust | str | Path | Mapping[str, Any] | bool | None

__all__ = ["agent_url", "connect"]

Place: TypeAlias = Any  # a URL, a path, a card, an agent or an ASGI app

CARDS = Cards(trusts_loopback=False)

# With the URL of the interface comes what the server that gave the card calls itself; None for one
# of ours.
Make: TypeAlias = Callable[[Http, str, Budget, Mapping[str, str], str | None], Binding]


def _rest_v03(
    http: Http, url: str, budget: Budget, headers: Mapping[str, str], server: str | None
) -> Binding:
    if server is None:
        return Rest(http, url, v03_rest_client.RAW, budget, headers)
    codec_of_server = v03_rest_client.codec_of_server
    return Rest(
        http,
        url,
        codec_of_server(server) or v03_rest_client.RAW,
        budget,
        headers,
        codec_of_server=codec_of_server,
    )


# What is spoken here: the binding and version of an interface, and how to talk to it.
SPOKEN: dict[tuple[str, str], Make] = {
    ("JSONRPC", "1.0"): lambda http, url, budget, headers, _: JsonRpc(
        http, url, v1_client, budget, headers
    ),
    ("JSONRPC", "0.3"): lambda http, url, budget, headers, _: JsonRpc(
        http, url, v03_client, budget, headers
    ),
    ("JSONRPC", "0.2"): lambda http, url, budget, headers, _: JsonRpc02(
        http, url, v03_client, budget, headers
    ),
    ("JSONRPC", "0.1"): lambda http, url, budget, headers, _: JsonRpc(
        http, url, v01_client, budget, headers
    ),
    ("HTTP+JSON", "1.0"): lambda http, url, budget, headers, _: Rest(
        http, url, v1_rest_client, budget, headers
    ),
    ("HTTP+JSON", "0.3"): _rest_v03,
}

_OVER_GRPC = {("GRPC", "1.0"), ("GRPC", "0.3")}


def connect(
    agent: Place,
    *,
    binding: str | Sequence[str] | None = None,
    version: str | Sequence[str] | None = None,
    auth: Auth = None,
    tenant: str | None = None,
    headers: Mapping[str, str] | None = None,
    extensions: Sequence[str] = (),
    retry: Retry | None = None,
    budget: Budget | None = None,
    cards: Cards | None = None,
    proxy: str | Literal[False] | None = None,
    ca: str | Path | None = None,
    ssl: SSLContext | None = None,
    session: "ClientSession | None" = None,
    guard: Guard | None = None,
    verify: "Verify" = None,
    egress_proxy: str = "",
    public_card: bool = False,
    wrap: Callable[[Http], Http] | None = None,
    on_attempt: Callable[[Exception | None], None] | None = None,
) -> Client:
    """Return a client of an agent: use it with `async with`, or `await` it.

    Args:
        agent: The agent's URL, its card's URL, a card file, a card (dict, JSON bytes or
          `AgentCard`); or, in the same process, an `Agent` or any ASGI app.
        binding: `JSONRPC`, `HTTP+JSON` or `GRPC`; several in order of preference. Without it
          the agent's order counts.
        version: `1.0`, `0.3`, `0.2` or `0.1`, likewise.
        auth: Credentials, one, several, or by the name of the card's scheme: a text (a key or a
          token, as the card says), a function that returns a token, `ApiKey`, `Basic`, `Bearer`,
          `ClientCert`; or what gets tokens itself (`ClientCredentials`, `DeviceCode`,
          `AuthorizationCode`, `SavedLogin`). They are sent to the origin of `agent` only.
        tenant: Instead of the one the card names.
        headers: Sent with every call to the origin of `agent`, and nowhere else.
        extensions: Activated with every call.
        retry: How failed calls are repeated, and for how long an agent that is away is waited for.
        budget: How much is read, and how long is waited.
        cards: A cache of cards of your own.
        proxy: An HTTP proxy for everything, as `http://user:password@host:port`; False for none.
          Without it `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` count, for the origin of `agent`.
        ca: A file or folder of authorities to trust instead of the system's.
        ssl: A TLS context of your own, instead of `ca` and `ClientCert`.
        session: An `aiohttp.ClientSession` of your own, for the origin of `agent`. Its proxy and
          TLS count; you close it.
        guard: For an agent whose address a stranger gave: only addresses it allows are connected
          to. A `proxy` decides by itself.
        verify: Whose signatures the card must have: `Trust(...)`, a JWK set (its URL, a file, the
          set itself), or True for keys at the origin of `agent`. Of a card that is verified, what
          is not signed counts for nothing.
        egress_proxy: An HTTP proxy for other places the agent's card names. Without it they are
          called directly, if they are public or the agent itself is private.
        public_card: Fetch the card without the credentials: it is for everybody.
        wrap: Wraps the client's HTTP, to watch requests and answers. It does not see credentials,
          which are added below.
        on_attempt: Told how each attempt at a call ended: with what error, None if the agent
          answered. For circuit breakers.
    """
    budget = budget or Budget()
    certificate = certificate_of(auth)
    if ssl is not None and (ca is not None or certificate is not None):
        raise ValueError(
            "ssl= says by itself whom to trust and which certificate to show: give it, or "
            "ca= and ClientCert"
        )
    if session is not None and not (
        proxy is None and ca is None and ssl is None and certificate is None
    ):
        raise ValueError(
            "the session brings its own proxy and TLS: give them to it, or leave the session out"
        )
    tls = ssl or (
        certificate.tls(ca)
        if certificate is not None
        else client_tls(ca)
        if ca is not None
        else None
    )
    others_tls = (
        tls if certificate is None else client_tls(ca) if ca is not None else None
    )  # without the certificate
    through = Proxies.always(proxy) if proxy else None
    options = Options(
        tenant=tenant,
        extensions=tuple(extensions),
        sends_trace="traceparent" not in {name.lower() for name in headers or ()},
        retry=retry or Retry(),
        budget=budget,
        on_attempt=on_attempt,
    )
    wish = _Wish(_listed(binding), _listed(version))
    trust = _trust(verify)

    async def find() -> FoundAgent:
        from ..net import (
            Network,  # brings aiohttp, which a server that connects nowhere does not need
        )

        def network(tls: SSLContext | None, **options: Any) -> Http:
            return Network(connect_s=budget.connect_s, lost_s=budget.lost_s, tls=tls, **options)

        if through is not None or guard is not None:
            ways: dict[str, Any] = {"proxies": through} if through is not None else {"guard": guard}
            routes = ByOrigin(network(tls, **ways), lambda _: network(others_tls, **ways))
        else:
            proxies = Proxies() if proxy is False else Proxies.from_environment()
            routes = ByOrigin(
                network(tls, proxies=proxies, session=session),
                lambda guard: network(others_tls, guard=guard),
                egress_proxy,
            )
        http: Http = routes
        place = AgentPlace("", others_tls, guard)
        try:
            http, card, origin, notes, server = await _discover(
                agent, routes, budget, None if public_card else auth, cards, trust, place, wrap
            )
            is_met = bool(origin) or isinstance(http, InProcess)
            interfaces = _choose(card, wish, notes)
            card_origin = "" if isinstance(http, InProcess) else origin or _origin(interfaces[0])
            routes.origin = card_origin
            if through is None and card_origin:
                interfaces = await _guarded_grpc(
                    interfaces, card_origin, guard, routes, card, notes
                )
            chosen = choose(card, auth, place._replace(origin=card_origin))
            if ssl is not None:
                interfaces = _without_grpc_tls(interfaces, origin, card, notes)
            if chosen:
                origin = origin or _origin(interfaces[0])
                interfaces = _on_origin(interfaces, origin, card, notes)
                http = Signed(http, origin, chosen)
            if wrap is not None:
                http = wrap(http)
        except BaseException:
            await http.close()
            raise

        bound: dict[tuple[str, str, str], Binding] = {}
        if any(extension.uri == RESUME for extension in card.capabilities.extensions):
            server = None  # one of ours

        def bind(interface: AgentInterface) -> Binding:
            key = binding, version, url = (
                interface.protocol_binding,
                interface.protocol_version,
                interface.url,
            )
            if key not in bound:
                is_card_origin = not card_origin or _belongs(interface, card_origin)
                own = headers if headers and is_card_origin else {}
                if headers and not is_card_origin:
                    notes.append(f"{url} is not at {card_origin}; headers= are not sent there")
                if binding == "GRPC":
                    via = proxy if proxy or is_card_origin else False
                    bound[key] = _grpc(
                        url, version, budget, own, origin, chosen, server, certificate, ca, via
                    )
                else:
                    bound[key] = SPOKEN[binding, version](http, url, budget, own, server)
            return bound[key]

        async def close() -> None:
            for binding in bound.values():
                await binding.close()
            await http.close()

        return FoundAgent(card, interfaces, bind, notes, close, http, is_met, origin)

    return Client(AgentConnection(find, options))


class _Wish(msgspec.Struct):
    bindings: list[str]
    versions: list[str]


def _listed(given: str | Sequence[str] | None) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def _trust(verify: "Verify") -> "Trust | None":
    if verify is None or verify is False:
        return None
    from ..auth import Trust

    if isinstance(verify, Trust):
        return verify
    return Trust(at_origin=True) if verify is True else Trust(verify)


async def _discover(
    agent: Place,
    network: ByOrigin,
    budget: Budget,
    auth: Auth,
    cards: Cards | None,
    trust: "Trust | None",
    place: AgentPlace,
    wrap: Callable[[Http], Http] | None,
) -> tuple[Http, AgentCard, str, list[str], str | None]:
    """Return how to reach the agent, its card, the origin its user named (if any), what was
    repaired, and who gave the card.

    The last is the `Server` header that came with the card.
    """
    notes: list[str] = []
    origin = ""

    async def verified(value: Any, where: str) -> Any:
        if trust is None:
            return value
        return await verify_card(value, where, trust, origin, network)

    url = agent_url(agent.strip()) if isinstance(agent, str) and not _is_json(agent) else None
    if url is None and isinstance(agent, AgentCard | dict | bytes | str | os.PathLike):
        if isinstance(agent, AgentCard) and trust is None:
            return network, agent, "", notes, ""
        value = await verified(_given(agent, budget), "")
        return network, card_of(value, "", notes), "", notes, ""
    if url is not None:
        origin = network.origin = origin_of(url)
        kept = cards
        http: Http = network
        if auth is not None:
            # The card may be for some only: asked for with the credentials, and kept for nobody
            # else.
            http = Signed(network, origin, choose(_SILENT, auth, place._replace(origin=origin)))
        elif kept is None:
            kept = CARDS
        if wrap is not None:
            http = wrap(http)
        card, server = await fetch_card(url, http, budget, kept, notes, verified)
        return network, card, origin, notes, server
    make = getattr(agent, "app", None)
    if not callable(make) and not callable(agent):
        raise TypeError(
            f"can't connect to a {type(agent).__name__}: give a URL, a card, an Agent or "
            "an ASGI app"
        )
    local = InProcess(make() if callable(make) else agent, owns_app=callable(make))
    watched = wrap(local) if wrap is not None else local
    card, server = await fetch_card(BASE_URL, watched, budget, None, notes, verified)
    return local, card, "", notes, server


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


def _choose(card: AgentCard, wish: _Wish, notes: list[str]) -> list[AgentInterface]:
    """Return the interfaces that can be used, in the caller's order of preference, else in the
    agent's.
    """
    usable = []
    for interface in card.supported_interfaces:
        key = (interface.protocol_binding, interface.protocol_version)
        if key not in SPOKEN and not (key in _OVER_GRPC and find_spec("grpc") is not None):
            notes.append(f"{key[0]} {key[1]} at {interface.url} is not supported by this client")
        elif key in _OVER_GRPC and not host_of(_grpc_url(interface.url, "")):
            notes.append(f"{interface.url} is no address of gRPC; not used")
        else:
            usable.append(interface)
    usable += _asked_for(usable, wish, notes)
    if wish.bindings:
        usable = [i for b in wish.bindings for i in usable if i.protocol_binding == b.upper()]
    if wish.versions:
        usable = [i for v in wish.versions for i in usable if i.protocol_version == v]
    if not usable:
        offered = ", ".join(
            f"{i.protocol_binding} {i.protocol_version}" for i in card.supported_interfaces
        )
        asked = " ".join([*wish.bindings, *wish.versions])
        what = (
            f"it does not offer {asked}"
            if asked
            else "it offers no version and binding that this client knows"
        )
        raise BadCard(card.name, f"{what}; it offers {offered or 'nothing'}", cause="no interface")
    return usable


def _asked_for(usable: list[AgentInterface], wish: _Wish, notes: list[str]) -> list[AgentInterface]:
    """Return interfaces for versions the caller names and the card does not: old ones are often
    served without being listed.
    """
    offered = {interface.protocol_version for interface in usable}
    door = next(
        (interface for interface in usable if interface.protocol_binding == "JSONRPC"), None
    )
    missing = (
        [v for v in wish.versions if v not in offered and ("JSONRPC", v) in SPOKEN]
        if door is not None
        else []
    )
    notes.extend(
        f"the card does not offer {version}; trying it at {door.url}"
        for version in missing
        if door is not None
    )
    return [
        msgspec.structs.replace(door, protocol_version=version)
        for version in missing
        if door is not None
    ]


def _origin(interface: AgentInterface) -> str:
    is_grpc = interface.protocol_binding == "GRPC"
    return origin_of(_grpc_url(interface.url, "")) if is_grpc else origin_of(interface.url)


def _belongs(interface: AgentInterface, origin: str) -> bool:
    if interface.protocol_binding != "GRPC":
        return origin_of(interface.url) == origin
    # gRPC has a port of its own beside the one that was named; the host, and that it is secure,
    # must be the same.
    there = _grpc_url(interface.url, origin)
    return host_of(there) == host_of(origin) and (
        there.startswith("https") or origin.startswith("http:")
    )


def _grpc_url(address: str, origin: str) -> str:
    """An address as a URL. A bare one is as secure as the card it came with; without that, plain
    only on this machine.
    """
    scheme, _, rest = address.rpartition("://")
    host = host_of(f"http://{rest}")
    if scheme:
        is_secure = scheme in ("https", "grpcs")
    else:
        is_secure = (
            origin.startswith("https") if origin else host not in ("localhost", "127.0.0.1", "::1")
        )
    return f"{'https' if is_secure else 'http'}://{rest}"


def _grpc(
    url: str,
    version: str,
    budget: Budget,
    headers: Mapping[str, str],
    origin: str,
    chosen: Chosen,
    server: str | None,
    certificate: ClientCert | None,
    ca: str | Path | None,
    proxy: str | bool | None,
) -> Binding:
    from ..protocol.protobuf import (
        client as grpc_client,  # protobuf and grpcio come with an extra, and are slow to import
    )
    from .bindings import Grpc

    codec = (
        grpc_client.V1
        if version == "1.0"
        else grpc_client.codec_of_server(server or "") or grpc_client.V03
    )
    tls = certificate if any(credential is certificate for credential, _ in chosen) else None
    return Grpc(
        url,
        codec,
        budget,
        headers,
        is_secure=_grpc_url(url, origin).startswith("https") or tls is not None,
        is_ours=server is None,
        chosen=chosen,
        tls=tls,
        ca=ca,
        proxy=proxy,
    )


async def _guarded_grpc(
    interfaces: list[AgentInterface],
    card_origin: str,
    guard: Guard | None,
    routes: ByOrigin,
    card: AgentCard,
    notes: list[str],
) -> list[AgentInterface]:
    """Leave out gRPC at addresses a stranger gave and the guard refuses. Looked at once, before:
    grpcio resolves names itself.
    """
    left = []
    for interface in interfaces:
        is_strangers = interface.protocol_binding == "GRPC" and (
            guard is not None or not _belongs(interface, card_origin)
        )
        careful = (guard or await routes.guard()) if is_strangers else None
        url = _grpc_url(interface.url, card_origin)
        is_right = guard is None or _passes(url, guard)  # its scheme and port, too
        if careful is None or (is_right and await is_allowed(host_of(url), careful)):
            left.append(interface)
        elif careful.proxies is not None:
            notes.append(f"{interface.url} is not used: gRPC does not go through the proxy")
        else:
            notes.append(f"{interface.url} is no public address that may be called; not used")
    if not left:
        raise BadCard(
            card.name,
            f"its card sends callers from {card_origin} elsewhere, and there is no way: "
            + "; ".join(notes[-len(interfaces) :]),
            cause="no interface",
        )
    return left


def _passes(url: str, guard: Guard) -> bool:
    try:
        guard.check_url(url)
    except ValueError:
        return False
    return True


def _without_grpc_tls(
    interfaces: list[AgentInterface], origin: str, card: AgentCard, notes: list[str]
) -> list[AgentInterface]:
    """Leave out gRPC with TLS: grpcio takes no context of Python's, and would trust whom the user's
    does not.
    """
    left = [
        i
        for i in interfaces
        if i.protocol_binding != "GRPC" or not _grpc_url(i.url, origin).startswith("https")
    ]
    if not left:
        raise BadCard(
            card.name, "only gRPC is left, which takes no ssl=: connect with ca= and ClientCert"
        )
    notes.extend(
        f"{i.url} is not used: gRPC takes no ssl=; connect with ca= and ClientCert"
        for i in interfaces
        if i not in left
    )
    return left


def _on_origin(
    interfaces: list[AgentInterface], origin: str, card: AgentCard, notes: list[str]
) -> list[AgentInterface]:
    """Keep the interfaces that may be sent credentials: those at the origin they belong to."""
    own = [i for i in interfaces if _belongs(i, origin)]
    if not own:
        where = ", ".join(sorted({i.url for i in interfaces}))
        raise BadCard(
            card.name,
            f"its card sends callers from {origin} to {where}; credentials are not sent "
            "there: connect to it itself",
        )
    notes.extend(
        f"{i.url} is not at {origin}, where the credentials belong; not used"
        for i in interfaces
        if i not in own
    )
    return own
