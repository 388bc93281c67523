"""The interfaces of an agent: which of them can be used, and how each is called."""

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import msgspec

from ..extras import install_command
from ..model import AgentCard, AgentInterface
from ..net import Guard, Http, Url, host_of, is_allowed, origin_of, parse_url
from ..protocol import Note
from ..protocol.v01 import client as v01_client
from ..protocol.v03 import client as v03_client
from ..protocol.v03 import rest_client as v03_rest_client
from ..protocol.v1 import client as v1_client
from ..protocol.v1 import rest_client as v1_rest_client
from .auth import Chosen, ClientCert
from .bindings import Binding, JsonRpc, JsonRpc02, Rest
from .budget import Budget
from .discovery import ByOrigin
from .errors import BadCard

__all__ = [
    "AgentBindings",
    "InterfaceWish",
    "card_at_origin",
    "choose_interfaces",
    "guarded_grpc",
    "on_origin",
    "origin_of_interface",
    "without_grpc_tls",
]

# With the URL of the interface comes what the server that gave the card calls itself; None for one
# of ours.
Make: TypeAlias = Callable[[Http, str, Budget, Mapping[str, str], Note, str | None], Binding]


def _rest_v03(
    http: Http,
    url: str,
    budget: Budget,
    headers: Mapping[str, str],
    note: Note,
    server: str | None,
) -> Binding:
    if server is None:
        return Rest(http, url, v03_rest_client.RAW, budget, headers, note)
    codec_of_server = v03_rest_client.codec_of_server
    return Rest(
        http,
        url,
        codec_of_server(server) or v03_rest_client.RAW,
        budget,
        headers,
        note,
        codec_of_server=codec_of_server,
    )


# What is spoken here: the binding and version of an interface, and how to talk to it.
SPOKEN: dict[tuple[str, str], Make] = {
    ("JSONRPC", "1.0"): lambda http, url, budget, headers, note, _: JsonRpc(
        http, url, v1_client, budget, headers, note
    ),
    ("JSONRPC", "0.3"): lambda http, url, budget, headers, note, _: JsonRpc(
        http, url, v03_client, budget, headers, note
    ),
    ("JSONRPC", "0.2"): lambda http, url, budget, headers, note, _: JsonRpc02(
        http, url, v03_client, budget, headers, note
    ),
    ("JSONRPC", "0.1"): lambda http, url, budget, headers, note, _: JsonRpc(
        http, url, v01_client, budget, headers, note
    ),
    ("HTTP+JSON", "1.0"): lambda http, url, budget, headers, note, _: Rest(
        http, url, v1_rest_client, budget, headers, note
    ),
    ("HTTP+JSON", "0.3"): _rest_v03,
}

_MAX_NOTES = 100

_OVER_GRPC = {("GRPC", "1.0"), ("GRPC", "0.3")}
_GRPC_SCHEMES = ("", "grpc", "grpcs", "http", "https")


class AgentBindings:
    """Makes a binding for each interface that is used, once, and closes them.

    Args:
        http: What HTTP interfaces are called with.
        budget: How much is read, and how long is waited.
        headers: Sent to the card's origin, and nowhere else.
        card_origin: That origin; empty in the same process.
        credentials_origin: Where credentials belong.
        chosen: The credentials.
        server: What the server that gave the card calls itself; None for one of ours.
        certificate: The client's, for gRPC.
        ca: Whom to trust, for gRPC.
        proxy: As `connect` takes it, for gRPC.
        grpc_guards: Check gRPC addresses that a stranger gave, by URL.
        notes: Takes what the user should know.
    """

    def __init__(
        self,
        http: Http,
        budget: Budget,
        *,
        headers: Mapping[str, str],
        card_origin: str,
        credentials_origin: str,
        chosen: Chosen,
        server: str | None,
        certificate: ClientCert | None,
        ca: str | Path | None,
        proxy: str | bool | None,
        grpc_guards: Mapping[str, Guard],
        notes: list[str],
    ) -> None:
        self._http = http
        self._budget = budget
        self._headers = headers
        self._card_origin = card_origin
        self._credentials_origin = credentials_origin
        self._chosen = chosen
        self._server = server
        self._certificate = certificate
        self._ca = ca
        self._proxy = proxy
        self._grpc_guards = grpc_guards
        self._notes = notes
        self._made: dict[tuple[str, str, str], Binding] = {}

    def bind(self, interface: AgentInterface) -> Binding:
        key = (interface.protocol_binding, interface.protocol_version, interface.url)
        if key not in self._made:
            self._made[key] = self._make(*key, _is_at(interface, self._card_origin))
        return self._made[key]

    async def close(self) -> None:
        for binding in self._made.values():
            await binding.close()
        await self._http.close()

    def _note(self, text: str) -> None:
        """Note what had to be mended in an answer: each thing once, up to a limit."""
        if text not in self._notes and len(self._notes) < _MAX_NOTES:
            self._notes.append(text)

    def _make(self, binding: str, version: str, url: str, is_card_origin: bool) -> Binding:
        headers = self._headers if is_card_origin else {}
        if self._headers and not is_card_origin:
            self._notes.append(f"{url} is not at {self._card_origin}; headers= are not sent there")
        if binding != "GRPC":
            return SPOKEN[binding, version](
                self._http, url, self._budget, headers, self._note, self._server
            )
        return self._grpc(url, version, headers, is_card_origin)

    def _grpc(
        self, url: str, version: str, headers: Mapping[str, str], is_card_origin: bool
    ) -> Binding:
        from ..protocol.protobuf import (
            client as grpc_client,  # protobuf and grpcio come with an extra, and are slow to import
        )
        from .bindings import Grpc

        codec = (
            grpc_client.V1
            if version == "1.0"
            else grpc_client.codec_of_server(self._server or "") or grpc_client.V03
        )
        certificate = self._certificate
        is_shown = any(credential is certificate for credential, _ in self._chosen)
        tls = certificate if is_shown else None
        where = _grpc_url(url, self._credentials_origin)
        return Grpc(
            url,
            where,
            codec,
            self._budget,
            headers,
            self._note,
            is_secure=where.scheme == "https" or tls is not None,
            is_ours=self._server is None,
            chosen=self._chosen,
            tls=tls,
            ca=self._ca,
            proxy=self._proxy if self._proxy or is_card_origin else False,
            guard=self._grpc_guards.get(url),
        )


def _is_at(interface: AgentInterface, card_origin: str) -> bool:
    return not card_origin or _belongs(interface, card_origin)


class InterfaceWish(msgspec.Struct):
    """The bindings and versions a caller wants, in order of preference; empty for any."""

    bindings: list[str]
    versions: list[str]


def choose_interfaces(
    card: AgentCard, wish: InterfaceWish, notes: list[str]
) -> list[AgentInterface]:
    """Return the interfaces that can be used, in the caller's order of preference, else in the
    agent's.
    """
    usable, wrong, missing = [], [], []
    has_grpc = find_spec("grpc") is not None
    for interface in card.supported_interfaces:
        key = (interface.protocol_binding, interface.protocol_version)
        if key not in SPOKEN and key not in _OVER_GRPC:
            notes.append(f"{key[0]} {key[1]} at {interface.url} is not supported by this client")
        elif key in _OVER_GRPC and not has_grpc:
            missing.append(f"{key[0]} {key[1]}")
        elif key in _OVER_GRPC and (why := _why_no_grpc(interface.url)):
            wrong.append(f"{interface.url} is not a gRPC address: {why}")
        else:
            usable.append(interface)
    if missing:
        what = f"{', '.join(missing)} needs packages that are not installed: "
        wrong.append(what + install_command("grpc"))
    notes.extend(f"{one}; not used" for one in wrong)
    usable += _asked_for(usable, wish, notes)
    if wish.bindings:
        usable = [i for b in wish.bindings for i in usable if i.protocol_binding == b.upper()]
    if wish.versions:
        usable = [i for v in wish.versions for i in usable if i.protocol_version == v]
    if not usable:
        raise BadCard(card.name, "; ".join(_why_none(card, wish, wrong)), cause="no interface")
    return usable


def _why_none(card: AgentCard, wish: InterfaceWish, wrong: list[str]) -> list[str]:
    """Say why no interface can be used; `wrong` says what is wrong with those we know."""
    offered = [(i.protocol_binding, i.protocol_version) for i in card.supported_interfaces]
    wanted = {binding.upper() for binding in wish.bindings}
    if wrong and any(
        (not wanted or binding in wanted) and (not wish.versions or version in wish.versions)
        for binding, version in offered
    ):
        return wrong
    asked = " ".join([*wish.bindings, *wish.versions])
    what = (
        f"it does not offer {asked}"
        if asked
        else "it offers no version and binding that this client knows"
    )
    have = ", ".join(" ".join(one) for one in offered)
    return [what, f"it offers {have or 'nothing'}", *wrong]


def _asked_for(
    usable: list[AgentInterface], wish: InterfaceWish, notes: list[str]
) -> list[AgentInterface]:
    """Return interfaces for versions the caller names and the card does not: old ones are often
    served without being listed.
    """
    known = next((i for i in usable if i.protocol_binding == "JSONRPC"), None)
    if known is None:
        return []
    offered = {interface.protocol_version for interface in usable}
    missing = [v for v in wish.versions if v not in offered and ("JSONRPC", v) in SPOKEN]
    notes.extend(f"the card does not offer {v}; trying it at {known.url}" for v in missing)
    return [msgspec.structs.replace(known, protocol_version=version) for version in missing]


def origin_of_interface(interface: AgentInterface) -> str:
    """Where an interface is: what credentials are bound to. Raises ValueError."""
    is_grpc = interface.protocol_binding == "GRPC"
    return _grpc_url(interface.url, "").origin if is_grpc else origin_of(interface.url)


def card_at_origin(card: AgentCard) -> tuple[str, AgentCard]:
    """Return the origin that credentials are bound to when this card is handed to `connect`, and
    the card with the interfaces there alone: with it they go nowhere else.

    Raises:
        BadCard: No interface can be used.
    """
    usable = choose_interfaces(card, InterfaceWish([], []), [])
    origin = origin_of_interface(usable[0])
    own = [interface for interface in usable if _belongs(interface, origin)]
    return origin, msgspec.structs.replace(card, supported_interfaces=own)


def _belongs(interface: AgentInterface, origin: str) -> bool:
    if interface.protocol_binding != "GRPC":
        return origin_of(interface.url) == origin
    # gRPC has a port of its own beside the one that was named; the host, and that it is secure,
    # must be the same.
    there = _grpc_url(interface.url, origin)
    return there.host == host_of(origin) and (there.scheme == "https" or origin.startswith("http:"))


def _grpc_url(address: str, origin: str) -> Url:
    """Return the parts of a gRPC address: the only place where one is read, so what is checked is
    what is called. A bare one is as secure as the card it came with; without that, plain only on
    this machine.

    Raises:
        ValueError: It is more than a scheme, a host and a port, or less.
    """
    scheme, mark, rest = address.partition("://")
    scheme, rest = (scheme.lower(), rest) if mark else ("", address)
    rest = rest.rstrip("/")
    if scheme not in _GRPC_SCHEMES:
        raise ValueError(f"the scheme {scheme[:40]!r} is not one of grpc, grpcs, http and https")
    if found := re.search(r"[/\\?#@]", rest):
        raise ValueError(f"it is a host and a port, with no {found[0]!r}")
    host = parse_url(f"http://{rest}").host
    if scheme:
        is_secure = scheme in ("https", "grpcs")
    else:
        is_secure = (
            origin.startswith("https") if origin else host not in ("localhost", "127.0.0.1", "::1")
        )
    return parse_url(f"{'https' if is_secure else 'http'}://{rest}")


def _why_no_grpc(address: str) -> str:
    """What is wrong with a gRPC address; empty if nothing is."""
    try:
        _grpc_url(address, "")
    except ValueError as error:
        return str(error)
    return ""


async def guarded_grpc(
    interfaces: list[AgentInterface],
    card_origin: str,
    guard: Guard | None,
    routes: ByOrigin,
    card: AgentCard,
    notes: list[str],
) -> list[AgentInterface]:
    """Leave out gRPC at addresses that a stranger gave and the guard refuses. Others are checked
    again at each connection.
    """
    left = []
    for interface in interfaces:
        is_strangers = interface.protocol_binding == "GRPC" and (
            guard is not None or not _belongs(interface, card_origin)
        )
        careful = (guard or await routes.guard()) if is_strangers else None
        if careful is None:
            left.append(interface)
            continue
        where = _grpc_url(interface.url, card_origin)
        is_right = guard is None or _passes(str(where), guard)  # its scheme and port, too
        if is_right and await is_allowed(where.host, careful):
            left.append(interface)
            routes.grpc_guards[interface.url] = careful
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


def without_grpc_tls(
    interfaces: list[AgentInterface], origin: str, card: AgentCard, notes: list[str]
) -> list[AgentInterface]:
    """Leave out gRPC with TLS: grpcio takes no context of Python's, and would trust whom the user's
    does not.
    """
    left = [
        i
        for i in interfaces
        if i.protocol_binding != "GRPC" or _grpc_url(i.url, origin).scheme != "https"
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


def on_origin(
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
