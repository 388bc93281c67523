"""The interfaces of an agent: which of them can be used, and how each is called."""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ..extras import install_command
from ..model import AgentCard, AgentInterface
from ..net import Guard, Http, Url, host_of, is_allowed, origin_of, parse_url
from ..protocol import SPOKEN, SpokenVersion
from .auth import Chosen, ClientCert
from .bindings import Binding, JsonRpc, JsonRpc02, Rest
from .budget import Budget
from .discovery import ByOrigin
from .errors import BadCard

__all__ = [
    "AgentBindings",
    "InterfaceWish",
    "card_at_origin",
    "check_previews",
    "choose_interfaces",
    "guarded_grpc",
    "on_origin",
    "origin_of_interface",
    "without_grpc_tls",
]

_MAX_NOTES = 100

_GRPC_SCHEMES = ("", "grpc", "grpcs", "http", "https")


class AgentBindings:
    """Makes a binding for each interface that is used, once, and closes them.

    Args:
        http: What HTTP interfaces are called with.
        budget: Limits for what is read from the agent, and for how long to wait.
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
            return self._over_http(binding, SPOKEN[version], url, headers)
        return self._grpc(url, SPOKEN[version], headers, is_card_origin)

    def _over_http(
        self, binding: str, version: SpokenVersion, url: str, headers: Mapping[str, str]
    ) -> Binding:
        http, budget, note = self._http, self._budget, self._note
        if binding == "JSONRPC":
            make = JsonRpc02 if version.gets_extended_card else JsonRpc
            return make(http, url, version.rpc, budget, headers, note)
        assert version.rest is not None  # else the interface was not chosen
        of_server = version.rest_of_server if self._server is not None else None
        codec = of_server(self._server or "") if of_server is not None else None
        return Rest(
            http,
            url,
            codec or version.rest,
            budget,
            headers,
            note,
            codec_of_server=of_server,
        )

    def _grpc(
        self, url: str, version: SpokenVersion, headers: Mapping[str, str], is_card_origin: bool
    ) -> Binding:
        from .bindings import Grpc  # grpcio comes with an extra, and is slow to import

        assert version.grpc is not None  # else the interface was not chosen
        codec = version.grpc(self._server or "")
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
    previews: Sequence[str] = ()  # versions that are not released, and may be used


def choose_interfaces(
    card: AgentCard, wish: InterfaceWish, notes: list[str]
) -> list[AgentInterface]:
    """Return the interfaces that can be used, in the caller's order of preference, else in the
    agent's.
    """
    usable, wrong, missing = [], [], []
    has_grpc = _has_grpc()
    for interface in card.supported_interfaces:
        key = (interface.protocol_binding, interface.protocol_version)
        is_grpc = key[0] == "GRPC"
        if not _is_spoken(*key, wish.previews):
            notes.append(f"{key[0]} {key[1]} at {interface.url} is not supported by this client")
        elif is_grpc and not has_grpc:
            missing.append(f"{key[0]} {key[1]}")
        elif is_grpc and (why := _why_no_grpc(interface.url)):
            wrong.append(f"{interface.url} is not a gRPC address: {why}")
        else:
            usable.append(interface)
    if missing:
        what = f"{', '.join(missing)} needs packages that are not installed: "
        wrong.append(what + install_command("grpc"))
    notes.extend(f"{one}; not used" for one in wrong)
    usable += _asked_for(usable, wish, notes)
    # Whoever asks for a preview wants it, wherever the agent lists it.
    usable.sort(key=lambda interface: interface.protocol_version not in wish.previews)
    if wish.bindings:
        usable = [i for b in wish.bindings for i in usable if i.protocol_binding == b.upper()]
    if wish.versions:
        usable = [i for v in wish.versions for i in usable if i.protocol_version == v]
    if not usable:
        raise BadCard(card.name, "; ".join(_why_none(card, wish, wrong)), cause="no interface")
    return usable


def _has_grpc() -> bool:
    return find_spec("grpc") is not None


def _is_spoken(binding: str, version: str, previews: Sequence[str]) -> bool:
    """Whether this client has words for an interface."""
    row = SPOKEN.get(version)
    if row is None or (row.is_preview and version not in previews):
        return False
    has = {"JSONRPC": row.rpc, "HTTP+JSON": row.rest, "GRPC": row.grpc}
    return has.get(binding) is not None


def check_previews(previews: Sequence[str], versions: Sequence[str]) -> None:
    """Raise ValueError for a preview that this client does not know, and for a version that is one
    and was not asked for as such.
    """
    known = [row.number for row in SPOKEN.values() if row.is_preview]
    for number in previews:
        if number not in known:
            raise ValueError(f"previews {number}: choose from {', '.join(known)}")
    for number in versions:
        if number in known and number not in previews:
            raise ValueError(
                f"version {number} is a preview; connect with previews=[{number!r}] "
                f"(--preview {number})"
            )


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
    missing = [
        v for v in wish.versions if v not in offered and _is_spoken("JSONRPC", v, wish.previews)
    ]
    notes.extend(f"the card does not offer {v}; trying it at {known.url}" for v in missing)
    return [msgspec.structs.replace(known, protocol_version=version) for version in missing]


def origin_of_interface(interface: AgentInterface) -> str:
    """Return the origin of an interface, to which credentials are bound. Raises ValueError."""
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
    """Return what is wrong with a gRPC address; empty if nothing is."""
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
            card.name,
            "only gRPC is left, which does not support ssl=: connect with ca= and ClientCert",
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
            f"its card names {where}, which is not at {origin}; credentials are not sent there: "
            "connect to that address itself",
        )
    notes.extend(
        f"{i.url} is not at {origin}, where the credentials belong; not used"
        for i in interfaces
        if i not in own
    )
    return own
