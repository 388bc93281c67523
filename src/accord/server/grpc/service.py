"""The gRPC endpoint: both packages of the protocol on one port, on the event loop of the HTTP
endpoints.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from ...auth import ANONYMOUS, Caller, Credentials
from ...engine import LARGE, offload
from ...engine.log import Event
from ...engine.reading import View
from ...model import (
    A2AError,
    Limits,
    Message,
    Unauthenticated,
    VersionNotSupported,
    whole_number,
)
from ...observe import ObservedRequest, Observer, enter
from ...operations import (
    OPERATIONS,
    ORDINARY_HEADERS,
    Call,
    Operation,
    Service,
    Version,
    known_version,
    major_minor,
    no_agent,
    numbers,
)
from ...protocol import encoded_size
from ...protocol.protobuf import Rpc, rpcs
from .. import request_log
from ..http import Endpoint
from ..request import Peer, opaque
from ..transport import UnreadAnswers
from .call import GrpcCall, GrpcMethod, Metadata, framed
from .listener import GrpcServer

__all__ = ["GrpcEndpoint", "GrpcServer"]

Answer: TypeAlias = Callable[[GrpcCall], Awaitable[None]]

SOON_S = 0.05  # how long a stream's head waits for its first event
IDLE_S = 60.0
WRITE_BYTES = 256 << 10  # at once, however much is ready


class GrpcEndpoint(Endpoint):
    """Answers gRPC calls of one agent.

    A deadline or a client that hangs up ends the call, never what the call set in motion.
    """

    def __init__(
        self,
        service: Service,
        limits: Limits,
        versions: Sequence[Version],
        unread: UnreadAnswers,
        domain: str = "",
    ) -> None:
        """`domain`: below it each of several agents has a name of its own."""
        super().__init__(service, limits, versions, unread)
        self._below = f".{domain}" if domain else ""
        spoken = [version for version in versions if version.grpc]
        self.services = list(dict.fromkeys(version.grpc_service for version in spoken))
        self._services = {
            number: version.grpc_service for version in spoken for number in numbers([version])
        }
        self.methods: dict[str, GrpcMethod] = {}
        self.observer: Observer | None = None  # of traces and metrics
        for version in spoken:
            self._serve(version)

    def _serve(self, version: Version) -> None:
        service = self._service
        schema = (version.grpc_pool(),) if version.grpc_pool is not None else ()
        for rpc in rpcs(
            version.grpc_service, version.grpc, version.grpc_codec, self._limits, *schema
        ):
            operation = OPERATIONS[rpc.operation]
            run = (
                self._streaming(rpc, operation, version)
                if operation.is_stream
                else self._unary(rpc, operation, version)
            )
            is_guarded = (
                service.authenticator is not None
                and service.tenants is None
                and not self._is_public(service, operation)
            )
            path = f"/{version.grpc_service}/{rpc.name}"
            if path in self.methods:
                run = _by_version(self.methods[path].run, version, self._observable(run))
            else:
                run = self._observable(run)
            self.methods[path] = GrpcMethod(
                run,
                text=version.grpc_text,
                precheck=self._precheck if is_guarded else None,
            )

    def _observable(self, run: Answer) -> Answer:
        def answer(exchange: GrpcCall) -> Awaitable[None]:
            if self.observer is None:
                return run(exchange)
            has_trace = any(name == "traceparent" for name, _ in exchange.head.metadata)
            seen = exchange.observed = self.observer.request("GRPC", has_trace=has_trace)
            return run(exchange) if seen is None else observed(exchange, seen)

        async def observed(exchange: GrpcCall, seen: ObservedRequest) -> None:
            try:
                await run(exchange)
            except A2AError as error:
                seen.fail(error)
                raise
            except Exception:
                fault = opaque()
                seen.fail(fault)
                raise fault from None
            finally:
                seen.end()

        return answer

    def _unary(self, plain: Rpc, operation: Operation, version: Version) -> Any:
        async def answer(exchange: GrpcCall) -> None:
            call, rpc, request = await self._read(exchange, plain, operation, version)

            async def encode(found: Any) -> bytes:
                return await offload(encoded_size(found), rpc.result, found)

            result = await self._result(operation, call, request, encode, exchange.connection)
            exchange.answer(result, self._active(call, version))

        return _logging_errors(answer, operation)

    def _streaming(self, plain: Rpc, operation: Operation, version: Version) -> Any:
        async def answer(exchange: GrpcCall) -> None:
            call, rpc, request = await self._read(exchange, plain, operation, version)
            found = await self._perform(operation, call, request)
            if exchange.observed is not None:
                exchange.observed.answered()
            active = self._active(call, version)
            if isinstance(found, Message):
                exchange.send(
                    b"".join([framed(frame) for frame in rpc.message(found)]), active, is_last=True
                )
            else:
                await _stream(exchange, rpc, found, active, self._unread)

        return _logging_errors(answer, operation)

    async def _read(
        self, exchange: GrpcCall, plain: Rpc, operation: Operation, version: Version
    ) -> tuple[Call, Rpc, Any]:
        """Return a call with its caller, how it is read and written, and its request.

        With several agents the request names the one that says who the caller is.
        """
        service = self._service
        call = self._call(exchange.head.metadata, version)
        observed = exchange.observed
        if observed is not None and service.tenants is None:
            observed.begin(operation.name, version.number)
        if service.tenants is None and service.authenticator is not None:
            call.caller = exchange.caller = await self._caller(exchange, service, operation)
        rpc = _for_caller(plain, version, exchange.head.metadata)
        data = await exchange.message()
        request, call.semantics = await offload(len(data), rpc.decode, data)
        if service.tenants is not None:
            if version.grpc_tenant:
                named = dict(exchange.head.metadata).get(version.grpc_tenant, "")
                request.tenant = request.tenant or named or self._named_by(exchange.head.authority)
            if request.tenant:
                is_known = service.tenants.service_of(request.tenant) is not None
                if not is_known and service.authenticator is not None:
                    # Whose credentials are wrong hears that, as of an agent that is there, and as
                    # soon: the time of the answer must not show which names there are.
                    call.caller = await self._caller(exchange, service, operation)
                found = await service.tenants.find(request.tenant)
                if found is None:
                    raise no_agent(request.tenant, service.tenants.names(call.caller))
                service = found
            if observed is not None:
                observed.begin(operation.name, version.number, service.agent.name)
            if service.authenticator is not None:
                call.caller = exchange.caller = await self._caller(exchange, service, operation)
        return call, rpc, request

    def _named_by(self, authority: str) -> str:
        """Return the agent that the host of a call names; empty if it names none."""
        host = authority.partition(":")[0].lower()
        is_below = self._below and host.endswith(self._below)
        return host.removesuffix(self._below) if is_below else ""

    async def _perform_for_tenant(self, operation: Operation, call: Call, request: Any) -> Any:
        service, request = await self._service.of_tenant(request, call.caller)
        return await self._perform_at(service, operation, call, request)

    def _is_public(self, service: Service, operation: Operation) -> bool:
        return operation.is_public and service.agent.is_card_public

    def _precheck(self, exchange: GrpcCall) -> A2AError | None:
        assert self._service.authenticator is not None  # else there is nothing to check
        error = self._service.authenticator.precheck(_credentials(exchange))
        if error is not None and self.observer is not None:
            self.observer.refused("GRPC", error)
        return error

    async def _caller(self, exchange: GrpcCall, service: Service, operation: Operation) -> Caller:
        """Who makes a call. Of what is public, nobody has to say so."""
        authenticator = service.authenticator
        assert authenticator is not None  # else everyone is anonymous
        credentials = _credentials(exchange)
        if self._is_public(service, operation) and authenticator.precheck(credentials) is not None:
            return ANONYMOUS
        return authenticator.recall(credentials) or await authenticator.authenticate(credentials)

    def _call(self, metadata: list[tuple[str, str]], version: Version) -> Call:
        """Return what the metadata says about a call."""
        call = Call(origin=version.grpc_codec.origin)
        call.request_headers = {
            key: value.encode("latin-1", "replace")
            for name, value in metadata
            if (key := name.encode("latin-1")) not in ORDINARY_HEADERS
        }
        extensions = traceparent = tracestate = ""
        for name, value in metadata:
            match name:
                case "a2a-version" if value != version.number:
                    self._check_version(value, version)
                case "a2a-extensions" | "x-a2a-extensions":
                    extensions += "," + value
                case "idempotency-key":
                    call.idempotency_key = value.strip()
                case "last-event-id":
                    call.last_event = whole_number(value)
                case "traceparent":
                    traceparent = value
                case "tracestate":
                    tracestate = f"{tracestate},{value}" if tracestate else value
        if traceparent:
            enter(traceparent, tracestate)
        if extensions:
            call.extensions = frozenset(
                name for part in extensions.split(",") if (name := part.strip())
            )
        return call

    def _check_version(self, given: str, version: Version) -> None:
        asked = known_version(given, self._numbers)
        service = self._services.get(asked, version.grpc_service)
        if version.grpc_is_closed and service != version.grpc_service:
            # Only a release candidate of 1.0 ever spoke so in the old package, with other numbers
            # in its messages.
            raise VersionNotSupported(
                f"the service {version.grpc_service} speaks A2A {version.number}; "
                f"for {asked} call {service}",
                requested=given[:40],
            )

    def _active(self, call: Call, version: Version) -> Metadata:
        """The answer names the extensions that are in force, under the version's own name for
        that.
        """
        active = call.extensions & self._service.offered if call.extensions else ()
        name = version.grpc_extensions
        found = tuple((key.decode(), value.decode()) for key, value in call.headers)
        return ((name, ", ".join(sorted(active))), *found) if active else found


def _by_version(usual: Answer, version: Version, named: Answer) -> Answer:
    """A method that two versions have: `named` answers who names the second."""
    known = numbers([version])

    def answer(exchange: GrpcCall) -> Awaitable[None]:
        given = next((v for name, v in exchange.head.metadata if name == "a2a-version"), "")
        return (named if major_minor(given) in known else usual)(exchange)

    return answer


def _logging_errors(answer: Answer, operation: Operation) -> Answer:
    """A method that logs the calls it refuses, as the HTTP endpoints do."""

    async def logged(exchange: GrpcCall) -> None:
        since_s = request_log.begin()
        try:
            await answer(exchange)
        except A2AError as error:
            if since_s and not isinstance(error, Unauthenticated):
                request_log.log_refused(operation.name, exchange.caller, error, since_s)
            raise

    return logged


def _credentials(exchange: GrpcCall) -> Credentials:
    pairs = [
        (name.encode("ascii"), value.encode("latin-1")) for name, value in exchange.head.metadata
    ]

    def peer() -> Peer:
        transport = exchange.connection.transport
        if transport is None:
            return Peer()
        address = transport.get_extra_info("peername")
        return Peer(address[0] if address else "", transport.get_extra_info("peercert"))

    return Credentials(dict(pairs), pairs, None, peer)


def _for_caller(rpc: Rpc, version: Version, metadata: list[tuple[str, str]]) -> Rpc:
    """The rpc in the codec of its caller, where that depends on who it is."""
    if version.grpc_for is None:
        return rpc
    return rpc.with_codec(
        version.grpc_for(next((value for name, value in metadata if name == "user-agent"), ""))
    )


async def _stream(
    exchange: GrpcCall, rpc: Rpc, view: View, active: Metadata, unread: UnreadAnswers
) -> None:
    """Send a task's events to one client; what is ready leaves together, and the end with the last
    of it.
    """
    metadata: Metadata = ()
    wait_s = SOON_S
    try:
        while (events := await view.next(wait_s)) != []:
            if wait_s == SOON_S:
                # Numbers the first frame; later ones count up by one. If nothing comes soon, the
                # head goes out alone.
                first = events[0].seq if events else view.cursor + 1
                metadata, wait_s = (("accord-seq", str(first)), *active), IDLE_S
            ready: list[bytes] = []
            size = 0
            for event in events or ():
                if len(event.data) <= LARGE:
                    ready.append(_frames(event, rpc, view))
                else:
                    with await unread.reserved(len(event.data), exchange.connection):
                        ready.append(await offload(len(event.data), _frames, event, rpc, view))
                size += len(ready[-1])
                if size > WRITE_BYTES:
                    exchange.send(b"".join(ready), metadata)
                    await exchange.drained()
                    ready, size = [], 0
            is_over = view.is_over
            exchange.send(b"".join(ready), metadata, is_last=is_over)
            if is_over:
                return
            if exchange.waiting:
                await exchange.drained()
    finally:
        view.close()


def _frames(event: Event, rpc: Rpc, view: View) -> bytes:
    """Return an event as it is sent: made once, shared by all readers of the same version."""
    shapes = event.shapes
    if shapes is None:
        shapes = event.shapes = {}
    is_last = not rpc.is_as_stored and view.ends_at(event)
    key = Rpc if rpc.is_as_stored else (Rpc, rpc.codec, is_last)
    found = shapes.get(key)
    if found is None:
        made = rpc.frames(event.data, seq=event.seq, is_last=is_last, index=view.index)
        found = shapes[key] = [b"".join([framed(frame) for frame in made])]
    return found[0]
