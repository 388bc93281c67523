"""What every operation works with."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from ..auth import Authenticator, Caller
from ..engine import offload
from ..engine.log import NOBODY, Sender
from ..engine.runs import Engine
from ..engine.skills import AgentDefinition, Skill
from ..files import Address, Given, Giver
from ..model import (
    FILES,
    AgentCard,
    AgentNotFound,
    ExtensionSupportRequired,
    PermissionDenied,
    Unauthenticated,
)
from ..observe import NO_TRACE, recorded_trace
from ..protocol import Codec, CodecChoice
from ..push import Notifier
from ..slug import nearest
from ..store import Namespace
from .call import Call
from .headers import recorded_headers
from .idempotency import IdempotentSends
from .quota import Quota

__all__ = ["Admission", "Service", "Tenants", "no_agent"]

GRPC_FILES = 3 << 20  # bytes of files in one message: clients take 4 MiB, if nothing is said


class Admission(NamedTuple):
    """An operation that may be run."""

    request: Any  # as the operation gets it
    release: Callable[[], None] | None = None  # called when it has ended: its stream, if it has one


class Tenants(Protocol):
    """The agents that share an address. A request names one of them as its tenant."""

    def service_of(self, name: str) -> "Service | None":
        """Return the agent of this name if this process knows it already."""
        ...

    async def find(self, name: str) -> "Service | None":
        """Return the agent of this name; None if there is none. This may read the store."""
        ...

    def names(self, caller: Caller) -> Iterable[str]:
        """Return the names that this caller may know."""
        ...

    def path_of(self, name: str) -> str:
        """Return the path that the agent of this name is below."""
        ...


def no_agent(name: str, known: Iterable[str]) -> AgentNotFound:
    """Return the error for the name of an agent that is not there, with the nearest known one."""
    near = nearest(name, known)
    what = f"no agent {name!r:.80} here" + (f"; did you mean {near!r}?" if near else "")
    return AgentNotFound(what, violations=(("tenant", what),))


class Service:
    """One agent being served: its engine, its card, and what its card promises."""

    def __init__(
        self,
        engine: Engine,
        agent: AgentDefinition,
        card: AgentCard,
        authenticator: Authenticator | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self.authenticator = authenticator
        self._recorded = tuple(name.encode("latin-1") for name in agent.headers)
        self.has_scopes = any(skill.scopes for skill in agent.skills.values())
        self.engine = engine
        self.agent = agent
        self.notifier = notifier  # None: this agent sends no push notifications
        self.limits = engine.limits
        self.card = card  # as it is where nothing says which address the caller used
        # makes the card for such an address; None if the agent has one address of its own
        self.card_at: Callable[[str], AgentCard] | None = None
        self.path = ""  # that the agent is below, beside others
        self.address = ""  # the agent's own, if the user has given one
        self.reached_at: Callable[[], str] = lambda: "http://localhost"  # if not asked over HTTP
        self.giver: Giver | None = None  # writes files into answers; None: there are none
        self.tasks = engine.tasks
        self.quota = Quota(engine.tasks.store, engine.limits.stored_per_caller)
        self.sends = IdempotentSends(engine.tasks, engine.retention.keys_s)
        self.required = frozenset(e.uri for e in card.capabilities.extensions if e.required)
        self.offered = frozenset(e.uri for e in card.capabilities.extensions)
        self.tenants: Tenants | None = None  # the agents that share its address, if there are any
        # asked before every operation; raises what the caller gets instead
        self.admit: Callable[[str, Call, Any], Awaitable[Admission]] | None = None
        # asked before an upload begins; raises what the caller gets instead
        self.admit_upload: Callable[[Caller], None] | None = None

    async def of_tenant(self, request: Any, caller: Caller) -> "tuple[Service, Any]":
        """Return the service a request is for, which names its agent as tenant, and the request as
        that one gets it.

        Raises:
            AgentNotFound: There is no such agent.
        """
        assert self.tenants is not None  # else tenants are the agent's own affair
        found = await self.tenants.find(request.tenant)
        if found is None:
            raise no_agent(request.tenant, self.tenants.names(caller))
        return found, msgspec.structs.replace(request, tenant="")

    def card_for(self, call: Call) -> AgentCard:
        """Return the card with the address this caller used, where that is known."""
        if self.card_at is None or call.base_url is None:
            return self.card
        return self.card_at(call.base_url())

    async def choose(self, choice: CodecChoice, operation: str, params: bytes, call: Call) -> Codec:
        """Return the codec a request is in, where its name leaves that open: it tells, or the task
        it is about does.
        """
        found = await offload(len(params), choice.codec_or_task_id, operation, call.version, params)
        if not isinstance(found, str):
            return found
        return choice.for_origin(await self.tasks.reader.origin(self.namespace("", call), found))

    def namespace(self, tenant: str, call: Call) -> Namespace:
        """Whose tasks a call is about."""
        caller = call.caller
        if not caller.name:
            return Namespace(self.agent.name, tenant, "")
        if caller.tenant and tenant and tenant != caller.tenant:
            raise PermissionDenied("these credentials are for another tenant")
        return Namespace(self.agent.name, tenant or caller.tenant, caller.identity)

    def base_url(self, call: Call) -> str:
        """Return the address of this agent, as this caller reaches it."""
        if self.address or call.base_url is None:
            return self.address or self.reached_at()
        return call.base_url()

    def given(self, tenant: str, call: Call) -> Given | None:
        """Return how files go into the answer to a call; None if there are no files here."""
        if self.giver is None:
            return None
        is_signed = not call.caller.name or FILES in call.extensions
        if call.base_url is None:  # over gRPC bytes are bytes, and an address is another way in
            address = Address(self.base_url(call), is_signed, GRPC_FILES, GRPC_FILES)
        else:
            address = Address(self.base_url(call), is_signed)
        return self.giver.given(self.namespace(tenant, call), address)

    def sender(self, call: Call) -> Sender:
        """What is recorded of who sends a message."""
        headers = recorded_headers(call.request_headers, self._recorded) if self._recorded else ()
        trace = recorded_trace()
        if not call.caller.name and not call.extensions and not headers and trace is NO_TRACE:
            return NOBODY
        return Sender(call.caller, tuple(sorted(call.extensions & self.offered)), headers, trace)

    def check_scopes(self, skill: Skill, call: Call) -> None:
        """Raise PermissionDenied for a caller who may not use this skill."""
        missing = skill.scopes - call.caller.scopes
        if missing and self.authenticator is not None:
            if not self.is_authenticated(call.caller):
                raise self.unauthenticated(f"skill {skill.id!r} is for authenticated callers")
            raise self.authenticator.denied(missing)

    def is_authenticated(self, caller: Caller) -> bool:
        """Return whether a caller has shown credentials."""
        return self.authenticator is not None and self.authenticator.is_authenticated(caller)

    def unauthenticated(self, what: str) -> Unauthenticated:
        """Return the error for a caller without credentials, with the ways to show some."""
        error = Unauthenticated(what)
        if self.authenticator is not None:
            error.challenges = self.authenticator.challenges()
        return error

    def check_extensions(self, call: Call) -> None:
        """Raise ExtensionSupportRequired if the card requires an extension the caller did not
        activate.
        """
        missing = self.required - call.extensions
        if missing:
            names = ", ".join(sorted(missing))
            raise ExtensionSupportRequired(
                f"activate {names} with the A2A-Extensions header", extensions=names
            )
