"""Connect to an agent: by its URL, its card, or the agent itself."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..net import Guard, Http, Proxies, client_tls
from ..protocol import BindingName, PreviewNumber, VersionNumber
from .auth import Auth, certificate_of
from .budget import Budget
from .client import Client
from .connection import AgentConnection, Options
from .discovery import Cards
from .finder import AgentFinder, AgentLike, AgentSearch, agent_url
from .interfaces import InterfaceWish, check_previews
from .retry import Retry

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from ..auth import Trust

    Verify: TypeAlias = Trust | str | Path | Mapping[str, Any] | bool | None

__all__ = ["agent_url", "connect"]


def connect(
    agent: AgentLike,
    *,
    binding: BindingName | Sequence[BindingName] | None = None,
    version: VersionNumber | Sequence[VersionNumber] | None = None,
    previews: Sequence[PreviewNumber] = (),
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
    on_call: Callable[[Exception | None], None] | None = None,
    on_upload: Callable[[str, int, int], None] | None = None,
) -> Client:
    """Return a client of an agent: use it with `async with`, or `await` it.

    Args:
        agent: The agent's URL, its card's URL, a card file, a card (dict, JSON bytes or
          `AgentCard`); or, in the same process, an `Agent` or any ASGI app.
        binding: `JSONRPC`, `HTTP+JSON` or `GRPC`; several in order of preference. Without it
          the agent's order counts.
        version: `1.0`, `0.3`, `0.2` or `0.1`, likewise.
        previews: Versions that are not released yet and may be used, as `["1.1"]`: an agent that
          offers one is called in it. They may change.
        auth: One credential, several, or a dict by the name of the card's scheme. A credential is a
          text (a key or a token, as the card says), a function that returns a token, `ApiKey`,
          `Basic`, `Bearer`, `ClientCert`, or one that gets tokens itself (`ClientCredentials`,
          `DeviceCode`, `AuthorizationCode`, `SavedLogin`). They are sent to the origin of `agent`
          only.
        tenant: The tenant, if it is not the one in the card.
        headers: Sent with every call to the origin of `agent`, and nowhere else.
        extensions: Activated with every call.
        retry: How and for how long failed calls are repeated.
        budget: Limits for what is read from the agent, and for how long to wait.
        cards: A cache of cards of your own.
        proxy: An HTTP proxy for everything, as `http://user:password@host:port`; False for none.
          Without it `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` count, for the origin of `agent`.
        ca: A file or folder of authorities to trust instead of the system's.
        ssl: A TLS context of your own, instead of `ca` and `ClientCert`.
        session: An `aiohttp.ClientSession` of your own, for the origin of `agent`. Its proxy and
          TLS count; you close it.
        guard: Connect only to addresses that it allows. Use it if somebody else gave you the
          agent's address. A `proxy` decides by itself.
        verify: Whose signature the card must have: `Trust(...)`, a JWK set (its URL, a file, the
          set itself), or True for keys at the origin of `agent`. Parts of the card that are not
          signed are ignored.
        egress_proxy: An HTTP proxy for other addresses that the agent's card names. Without it,
          only public ones are called, or any if the agent itself is at a private address.
        public_card: Fetch the card without the credentials: it is for everybody.
        wrap: A function that wraps the client's HTTP, to watch requests and answers. It does not
          see credentials.
        on_call: A function that is called when a call has ended, with its error, or None if the
          agent answered. For circuit breakers.
        on_upload: Called while a large file is uploaded: with its name, the bytes that were
          sent, and all of them.
    """
    budget = budget or Budget()
    check_previews(previews, _listed(version))
    certificate = certificate_of(auth)
    if ssl is not None and (ca is not None or certificate is not None):
        raise ValueError(
            "ssl= already says whom to trust and which certificate to use: give either ssl=, or "
            "ca= and ClientCert"
        )
    if session is not None and not (
        proxy is None and ca is None and ssl is None and certificate is None
    ):
        raise ValueError(
            "the session has its own proxy and TLS settings: set them there, or leave out session="
        )
    plain_tls = client_tls(ca) if ca is not None else None
    tls = ssl or (certificate.tls(ca) if certificate is not None else plain_tls)
    options = Options(
        tenant=tenant,
        extensions=tuple(extensions),
        sends_trace="traceparent" not in {name.lower() for name in headers or ()},
        retry=retry or Retry(),
        budget=budget,
        on_call=on_call,
        on_upload=on_upload,
    )
    search = AgentSearch(
        agent=agent,
        wish=InterfaceWish(_listed(binding), _listed(version), tuple(previews)),
        budget=budget,
        auth=auth,
        card_auth=None if public_card else auth,
        headers=headers or {},
        cards=cards,
        trust=_trust(verify),
        proxy=proxy,
        through=Proxies.always(proxy) if proxy else None,
        ca=ca,
        certificate=certificate,
        tls=tls,
        others_tls=tls if certificate is None else plain_tls,
        has_own_tls=ssl is not None,
        session=session,
        guard=guard,
        egress_proxy=egress_proxy,
        wrap=wrap,
    )
    return Client(AgentConnection(AgentFinder(search).find, options))


def _listed(given: str | Sequence[str] | None) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def _trust(verify: "Verify") -> "Trust | None":
    if verify is None or verify is False:
        return None
    from ..auth import Trust

    if isinstance(verify, Trust):
        return verify
    return Trust(at_origin=True) if verify is True else Trust(verify)
