"""One agent of an app: who may call it, its card, its service and its endpoints."""

import math
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..auth import Authenticator, Caller
from ..engine.runs import Engine
from ..engine.skills import AgentDefinition, Skill, edited
from ..files import Giver
from ..model import (
    FILES,
    FORK,
    PROBE,
    PUSH_ARTIFACTS,
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Limits,
)
from ..operations import IDEMPOTENT, RESUME, SCHEMA, Service, Version
from ..push import Notifier
from ..server import HttpRequest, HttpResponse, StreamingResponse
from ..server.http import (
    CardEndpoint,
    CardSigner,
    FilesEndpoint,
    JsonRpcEndpoint,
    Receive,
    RestEndpoint,
    Router,
    Screen,
    Send,
)
from ..server.transport import Tls, UnreadAnswers
from .address import PublicAddress

__all__ = ["AgentEndpoints", "AgentRouter", "ServerContext"]

MESSAGE_FILES = 2 << 20  # bytes of a file that a client had better send in the message itself

_PROBE = AgentExtension(
    uri=PROBE, description="Echo a message whose metadata has probe: true; no skill is called."
)
_FORK = AgentExtension(
    uri=FORK,
    description="Fork a task at one of its events: metadata of a message names both.",
)
_PUSH_ARTIFACTS = AgentExtension(
    uri=PUSH_ARTIFACTS, description="Push artifact events too, to webhooks registered with it."
)


class ServerContext(msgspec.Struct, frozen=True):
    """Hold what the endpoints of all agents of an app need."""

    engine: Engine
    limits: Limits
    versions: Sequence[Version]
    unread: UnreadAnswers
    notifier: Notifier | None
    rpc: str
    rest: str
    tls: Tls | None
    cors_origins: Sequence[str]
    signer: CardSigner | None
    jwks: Callable[[], bytes] | None
    grpc_port: Callable[[], int | None]
    grpc_domain: str  # below it each agent has a name of its own; empty: there is none
    address: PublicAddress
    giver: Giver | None = None  # writes files into answers


class AgentEndpoints:
    """Makes the service, the card and the endpoints of an agent. One beside others is below a path,
    which is its tenant too.
    """

    def __init__(
        self,
        agent: AgentDefinition,
        context: ServerContext,
        authenticator: Authenticator | None,
        path: str,
        *,
        takes_files: bool = True,
    ) -> None:
        self.agent = agent
        self.path = path
        self._takes_files = takes_files
        self.authenticator = authenticator
        self._context = context
        self._check_enforceable()
        self.service = Service(
            context.engine,
            agent,
            self.card("http://localhost"),
            authenticator,
            context.notifier,
        )
        self.service.path = path
        self.service.reached_at = self._reached_at
        self.service.giver = context.giver
        self.url = context.address.given_below(path)
        self.service.address = self.url or ""
        if self.url is None:
            self.service.card_at = self.card

    def _reached_at(self) -> str:
        return self._context.address.below(self.path)

    def _check_enforceable(self) -> None:
        """Raise ValueError for a scheme that is declared and could not be enforced."""
        tls = self._context.tls
        asks_certificates = tls is not None and tls.client_authority is not None
        for scheme in self.authenticator.schemes if self.authenticator is not None else ():
            if scheme.needs_certificate and not asks_certificates:
                raise ValueError(
                    f"agent {self.agent.name!r} declares mutual TLS, but no client would be asked "
                    "for a certificate; give --tls-cert, --tls-key and --tls-client-ca "
                    "(tls=Tls(certificate, key, client_authority))"
                )

    def scopes(self) -> set[str]:
        """Return all scopes the agent's callers may need."""
        found = {scope for skill in self.agent.skills.values() for scope in skill.scopes}
        for scheme in self.authenticator.schemes if self.authenticator is not None else ():
            found |= scheme.scopes
        return found

    # Its endpoints

    def screen(self) -> Screen:
        schemes = self.authenticator.schemes if self.authenticator is not None else ()
        return Screen(
            self.url,
            self._context.cors_origins,
            trusts_names=bool(schemes) and not any(scheme.is_ambient for scheme in schemes),
            key_headers={name for scheme in schemes for name in scheme.secret_headers},
        )

    def rpc(self) -> JsonRpcEndpoint:
        to = self._context
        return JsonRpcEndpoint(self.service, to.limits, to.versions, to.unread)

    def rest(self) -> RestEndpoint:
        to = self._context
        return RestEndpoint(self.service, to.limits, to.versions, to.unread, to.rest)

    def card_endpoint(self, card: Callable[[str], AgentCard] | None = None) -> CardEndpoint:
        """Return what answers requests for the card, or for a card that only some callers see."""
        to = self._context
        return CardEndpoint(card or self.card, self.url, time.time(), to.versions, to.signer)

    # Its card

    def card(self, base: str) -> AgentCard:
        """Return the agent card at `base`: only what is really served."""
        agent, to = self.agent, self._context
        card = AgentCard(
            name=agent.name,
            description=agent.description,
            supported_interfaces=self._interfaces(base),
            provider=agent.provider,
            version=agent.version,
            documentation_url=agent.documentation_url,
            icon_url=agent.icon_url,
            capabilities=AgentCapabilities(
                streaming=True,
                push_notifications=to.notifier is not None,
                extended_agent_card=agent.extend_card is not None,
                extensions=[*self._our_extensions(base), *agent.extensions],
            ),
            default_input_modes=agent.input_modes,
            default_output_modes=agent.output_modes,
            skills=[self._skill_card(skill) for skill in agent.skills.values()],
        )
        if agent.auth is not None:
            scopes = frozenset(self.scopes())
            card.security_schemes = {
                name: scheme.card(scopes)
                for name, scheme in agent.auth.schemes.items()
                if not scheme.is_open
            }
            card.security_requirements = agent.auth.requirements()
        return card if agent.edit_card is None else edited(card, agent.edit_card)

    def _skill_card(self, skill: Skill) -> AgentSkill:
        if not skill.scopes or self.agent.auth is None:
            return skill.card
        needed = self.agent.auth.requirements(skill.scopes)
        return msgspec.structs.replace(skill.card, security_requirements=needed)

    def files_endpoint(self) -> FilesEndpoint | None:
        files = self._context.engine.tasks.files
        if files is None or not self._takes_files:
            return None
        return FilesEndpoint(self.service, files)

    def _files(self, base: str) -> list[AgentExtension]:
        """Return the extension that says where files are uploaded, if they are taken."""
        if self._context.giver is None or not self._takes_files:
            return []
        limit = self._context.limits.file_size
        return [
            AgentExtension(
                uri=FILES,
                description="Files of any size: upload them here and send the part that is "
                "answered; resumable (draft-ietf-httpbis-resumable-upload-05).",
                params={"url": f"{base}/files", "limit": limit, "inline": MESSAGE_FILES},
            )
        ]

    def _our_extensions(self, base: str) -> list[AgentExtension]:
        hours = self._context.engine.retention.keys_s / 3600
        how_long = "for ever" if math.isinf(hours) else f"for {hours:g} hours"
        return [
            AgentExtension(
                uri=RESUME, description="Resume a stream after the event named by Last-Event-ID."
            ),
            AgentExtension(
                uri=IDEMPOTENT, description=f"The same messageId gives the same task {how_long}."
            ),
            *self._schemas(),
            *self._files(base),
            *([_PROBE] if self.agent.answers_probes else []),
            *([_FORK] if any(map(_can_fork, self.agent.skills.values())) else []),
            *([_PUSH_ARTIFACTS] if self._context.notifier is not None else []),
        ]

    def _schemas(self) -> list[AgentExtension]:
        schemas = {skill.id: skill.schemas() for skill in self.agent.skills.values()}
        found = {name: schema for name, schema in schemas.items() if schema}
        if not found:
            return []
        return [
            AgentExtension(
                uri=SCHEMA,
                description="The JSON Schemas of what skills take and give.",
                params={"skills": found},
            )
        ]

    def _interfaces(self, base: str) -> list[AgentInterface]:
        """Return the interfaces for the card. On gRPC a tenant tells agents apart."""
        to, port = self._context, self._context.grpc_port()
        places: list[AgentInterface] = []
        for version in to.versions:
            ways = []
            if version.rest or len(to.versions) == 1:  # the oldest is listed only if it is alone
                ways.append(("JSONRPC", base + to.rpc, ""))
            if version.rest:
                ways.append(("HTTP+JSON", base + to.rest, ""))
            if version.grpc and port is not None:
                ways.append(("GRPC", *self._grpc_place(base, port, version)))
            places += [
                AgentInterface(
                    url=url,
                    protocol_binding=binding,
                    protocol_version=version.number,
                    tenant=tenant,
                )
                for binding, url, tenant in ways
            ]
        return places

    def _grpc_place(self, base: str, port: int, version: Version) -> tuple[str, str]:
        """Return the address of gRPC and the tenant. A version without tenants needs a name."""
        tenant, domain = self.path.rpartition("/")[2], self._context.grpc_domain
        if tenant and version.grpc_tenant and domain:
            return f"{tenant}.{domain}:{port}", ""
        return _grpc_address(base, port), tenant


def _grpc_address(base: str, port: int) -> str:
    """Return the address of gRPC, which is bare: the host clients reach us at, and its port."""
    host = urlsplit(base).hostname or "localhost"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class AgentRouter(Router):
    """Routes HTTP requests to an agent below a path of an app, which opens and closes it."""

    def __init__(self, app: Router, endpoints: AgentEndpoints, context: ServerContext) -> None:
        super().__init__(
            endpoints.rpc(),
            endpoints.rest(),
            endpoints.card_endpoint(),
            rpc_path=context.rpc,
            limits=context.limits,
            jwks=context.jwks,
            screen=endpoints.screen(),
            authenticator=endpoints.authenticator,
            is_card_public=endpoints.agent.is_card_public,
        )
        self.endpoints = endpoints
        self.files = endpoints.files_endpoint()
        self.unread = context.unread
        self.is_open = True  # the app opens before it asks us
        self._app = app

    @property
    def card_paths(self) -> frozenset[str]:
        return self._card.paths

    def card_endpoint_of(self, card: Callable[[str], AgentCard]) -> CardEndpoint:
        """Return an endpoint for another card of this agent: as some callers see it."""
        return self.endpoints.card_endpoint(card)

    def answer_as(
        self, request: HttpRequest, caller: Caller
    ) -> Coroutine[Any, Any, HttpResponse | StreamingResponse]:
        """Answer a request that was screened and whose caller is known."""
        request.caller = caller
        return self._answered(request)

    async def open(self) -> None:
        await self._app.open()

    async def close(self, grace_s: float = 0.0) -> None:
        await self._app.close(grace_s)

    @property
    def trouble(self) -> str:
        return self._app.trouble

    async def live(self, receive: Receive, send: Send) -> None:
        await self._app.live(receive, send)

    def _scopes(self) -> set[str]:
        return self.endpoints.scopes()


def _can_fork(skill: Skill) -> bool:
    return skill.makes_task and not skill.no_fork
