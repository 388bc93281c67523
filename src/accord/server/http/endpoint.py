"""Endpoints: what the bindings of an agent share."""

import abc
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from ...engine import LARGE, offload
from ...engine.log import Event
from ...engine.reading import View
from ...files import MARK, Given, Giver
from ...model import A2AError, Limits, Unauthenticated, whole_number
from ...observe import enter
from ...operations import (
    IDEMPOTENT,
    NEWEST,
    Call,
    Operation,
    Service,
    Version,
    known_version,
    numbers,
)
from ...protocol import Codec, encoded_size
from ...protocol.v1 import codec as v1
from .. import request_log
from ..request import Headers, HttpRequest, HttpResponse, Pairs, StreamingResponse, Target, query_of
from ..transport import UnreadAnswers, UnreadConnection

__all__ = ["Endpoint", "HttpEndpoint"]

_READS = frozenset(["GetTask", "ListTasks"])
_WITH_FILES = frozenset(
    [
        *("SendMessage", "SendStreamingMessage", "GetTask"),
        *("ListTasks", "CancelTask", "SubscribeToTask"),
    ]
)
_OPTIONS = frozenset(
    [b"a2a-extensions", b"x-a2a-extensions", b"traceparent", b"idempotency-key", b"last-event-id"]
)


class Endpoint:
    """One binding of an agent: decodes requests, runs the operations and encodes the results."""

    def __init__(
        self, service: Service, limits: Limits, versions: Sequence[Version], unread: UnreadAnswers
    ) -> None:
        self._service = service
        self._limits = limits
        self._unread = unread
        self._numbers = numbers(versions)
        self._usual = NEWEST.encode() if NEWEST in self._numbers else None

    def _perform(self, operation: Operation, call: Call, request: Any) -> Awaitable[Any]:
        """Run an operation, to its end even if the caller is gone before, where half of it would be
        worse than none.
        """
        service = self._service
        if service.tenants is not None and request.tenant:
            return self._perform_for_tenant(operation, call, request)
        return self._perform_at(service, operation, call, request)

    async def _perform_for_tenant(self, operation: Operation, call: Call, request: Any) -> Any:
        service, request = await self._service.of_tenant(request, call.caller)
        if service.authenticator is not self._service.authenticator:
            raise Unauthenticated(
                f"agent {service.agent.name!r} authenticates its own callers; use the "
                "address in its card"
            )
        if (base := call.base_url) is not None:
            call.base_url = partial(_joined, base, service.path)
        return await self._perform_at(service, operation, call, request)

    def _perform_at(
        self, service: Service, operation: Operation, call: Call, request: Any
    ) -> Awaitable[Any]:
        if service.admit is not None:
            work: Awaitable[Any] = _admitted(service, operation, call, request)
        else:
            work = operation.run(service, call, request)
        if service.giver is not None and operation.name in _WITH_FILES:
            work = _given(work, service, call, request)
        if request_log.begin():
            work = request_log.logged(work, operation.name, call.caller, request)
        if operation.is_droppable and not (call.idempotency_key or IDEMPOTENT in call.extensions):
            return work
        return _to_the_end(asyncio.ensure_future(work))

    async def _result(
        self,
        operation: Operation,
        call: Call,
        request: Any,
        encode: Callable[[Any], Awaitable[bytes]],
        connection: UnreadConnection | None = None,
    ) -> bytes:
        """Run an operation and return its encoded result, which has to be sent at once: there is
        room for it now.

        What can be read again is not kept while it waits for room.
        """
        found = await self._perform(operation, call, request)
        size = encoded_size(found)
        if size <= LARGE:
            return await encode(found)
        while not self._unread.has_space(size, connection):
            if operation.name not in _READS:
                await self._unread.wait(size, connection)
                continue
            found = None
            await self._unread.wait(size, connection)
            found = await self._perform(operation, call, request)
            size = encoded_size(found)
        with await self._unread.reserved(size, connection):
            return await encode(found)


class HttpEndpoint(Endpoint, abc.ABC):
    """An endpoint whose calls are HTTP requests."""

    @abc.abstractmethod
    async def __call__(self, request: HttpRequest) -> HttpResponse | StreamingResponse:
        """Answer a request. Errors are answers too."""

    @abc.abstractmethod
    def refused(self, request: HttpRequest, error: A2AError) -> HttpResponse:
        """Refuse a request before anything of it is read."""

    def _call(self, request: HttpRequest) -> Call:
        """Return what the headers say about a call.

        Raises:
            VersionNotSupported: They name a version that is not served here.
        """
        headers = request.headers
        version = headers.get(b"a2a-version")
        if version is not None and version == self._usual:
            call = Call(request.caller, version=NEWEST)
        elif version is not None or request.target.query:
            call = Call(request.caller, version=self._version(version, request.target))
        else:
            call = Call(request.caller)
        call.request_headers = headers
        call.base_url = request.base_url
        if _OPTIONS.isdisjoint(headers):
            return call
        if b"a2a-extensions" in headers or b"x-a2a-extensions" in headers:
            names = b",".join(
                v for k, v in request.pairs if k in (b"a2a-extensions", b"x-a2a-extensions")
            )
            call.extensions = frozenset(
                name for part in names.decode("latin-1").split(",") if (name := part.strip())
            )
        if b"traceparent" in headers:
            enter(
                headers[b"traceparent"].decode("latin-1"),
                b",".join(v for k, v in request.pairs if k == b"tracestate").decode("latin-1"),
            )
        if b"idempotency-key" in headers:
            call.idempotency_key = headers[b"idempotency-key"].decode("latin-1").strip()
        if b"last-event-id" in headers:
            call.last_event = whole_number(headers[b"last-event-id"].strip())
        return call

    async def _encoded(self, codec: Codec, operation: Operation, call: Call, request: Any) -> bytes:
        """Run an operation and return its result as the codec writes it."""

        async def encode(found: Any) -> bytes:
            # An answer of 1.0 is spliced from stored bytes: one copy, which is not worth a thread.
            size = 0 if codec is v1.CODEC else encoded_size(found)
            return await offload(size, codec.result, operation.name, found)

        return await self._result(operation, call, request, encode)

    def _version(self, given: bytes | None, target: Target) -> str:
        """The version the caller asks for, as Major.Minor; empty if it does not say."""
        if given is not None:
            return known_version(given.decode("latin-1"), self._numbers)
        if b"2" not in target.query:
            return ""
        named = {name.lower(): values for name, values in query_of(target).items()}
        return known_version(named.get("a2a-version", [""])[0], self._numbers)

    def _activated(self, call: Call, headers: Headers) -> Pairs:
        """The answer names the extensions that are in force, in the header the caller
        used: old ones had an X.
        """
        active = call.extensions & self._service.offered
        name = b"a2a-extensions" if b"a2a-extensions" in headers else b"x-a2a-extensions"
        return ((name, ", ".join(sorted(active)).encode()),) if active else ()

    def _note_failure(
        self, request: HttpRequest, operation: Operation | None, error: A2AError, since_s: float
    ) -> None:
        """Log a request that is answered with an error, and count it."""
        if since_s:
            name = operation.name if operation is not None else ""
            request_log.log_refused(name, request.caller, error, since_s)
        if request.observed is not None:
            request.observed.fail(error)


async def _given(work: Awaitable[Any], service: Service, call: Call, request: Any) -> Any:
    """Write files into the answer: what is stored refers to them."""
    found, giver = await work, service.giver
    if giver is None or not (isinstance(found, View) or giver.has_files(found)):
        return found
    given = service.given(request.tenant, call)
    if given is None:
        return found
    if not isinstance(found, View):
        return await giver.answer(found, given)
    found.give = partial(_give_events, giver, given)
    return found


async def _give_events(giver: Giver, given: Given, events: list[Event]) -> list[Event]:
    return [
        event
        if MARK not in event.data
        else replace(event, data=await giver.text(event.data, giver.anew(given)), shapes=None)
        for event in events
    ]


async def _admitted(service: Service, operation: Operation, call: Call, request: Any) -> Any:
    assert service.admit is not None  # it is asked first
    request, release = await service.admit(operation.name, call, request)
    if release is None:
        return await operation.run(service, call, request)
    try:
        found = await operation.run(service, call, request)
    except BaseException:
        release()
        raise
    if isinstance(found, View):
        found.on_close = release
    else:
        release()
    return found


def _joined(base: Callable[[], str], path: str) -> str:
    return f"{base()}/{path}" if path else base()


async def _to_the_end(work: asyncio.Future[Any]) -> Any:
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(_discard)
        raise


def _discard(work: asyncio.Future[Any]) -> None:
    """Close the result of a call whose caller has gone."""
    if (
        not work.cancelled()
        and work.exception() is None
        and isinstance(view := work.result(), View)
    ):
        view.close()
