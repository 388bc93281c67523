"""The gRPC binding. It needs grpcio, which comes with `accord[grpc]`."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc

from ...model import A2AError, whole_number
from ...net import Guard, Proxies, Url, log_body, log_rpc, shows_wire
from ...protocol import Note
from ...protocol.protobuf import GrpcClientCodec
from ...protocol.protobuf import client as grpc_client
from ...protocol.v1 import codec as v1
from ..auth import Chosen, ClientCert, renewed
from ..budget import Budget
from ..errors import AgentFault, BadAnswer, ConnectionLost, TooSlow, Unreachable
from .channel import GrpcChannel
from .contract import NOTHING, Extra, Item, ItemStream, understood

__all__ = ["Grpc"]

_DETAILS = "grpc-status-details-bin"
# other servers take pings that come more often than every five minutes for an attack, and hang up
_PING_S = 310.0
# What grpcio says of itself, not of the agent. There is no other way to tell: the status is the
# same.
_NO_CONNECTION = re.compile(
    r"failed to connect|DNS resolution|Connection refused|name resolution|handshake", re.IGNORECASE
)
_CAUSES = re.compile(
    r"(?P<dns>DNS|name resolution)|(?P<tls>handshake|ssl)|(?P<timeout>timed? ?out)", re.IGNORECASE
)
_TOO_LARGE = re.compile(r"larger than max", re.IGNORECASE)
_BROKE_OFF = re.compile(
    r"socket closed|connection reset|RST_STREAM|GOAWAY|broken pipe|end of (tcp )?stream|"
    r"connection timed out|keepalive|ping timeout|too.many.pings",
    re.IGNORECASE,
)


class Grpc:
    """Talks gRPC to one address: `url` as the card has it, `where` as it was read and checked."""

    name = "GRPC"

    def __init__(
        self,
        url: str,
        where: Url,
        codec: GrpcClientCodec,
        budget: Budget,
        headers: Mapping[str, str],
        note: Note,
        *,
        is_secure: bool,
        is_ours: bool,
        chosen: Chosen,
        tls: ClientCert | None = None,
        ca: str | Path | None = None,
        proxy: str | bool | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.url = url
        self.version = codec.version
        self._codec = codec
        self._budget = budget
        self._note = note
        self._chosen = chosen
        self._metadata = [(name.lower(), value) for name, value in headers.items()] + [
            ("a2a-version", codec.version)
        ]
        options = [
            ("grpc.primary_user_agent", "accord"),  # agents of 0.3 tell clients apart by it
            ("grpc.max_receive_message_length", budget.answer_bytes),
            ("grpc.max_send_message_length", -1),
            # How long grpcio answers for a server that was away before it looks again: by default
            # up to two minutes.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # Despite its name: how long a connection may take.
            (
                "grpc.min_reconnect_backoff_ms",
                _ms(budget.connect_s),
            ),
            # While a call waits, pings ask whether anybody is still there.
            ("grpc.keepalive_time_ms", _ms(max(budget.lost_s / 2, 0.0 if is_ours else _PING_S))),
            ("grpc.keepalive_timeout_ms", _ms(budget.lost_s / 2)),
            ("grpc.http2.max_pings_without_data", 0),
        ]
        if isinstance(proxy, str):
            options.append(("grpc.http_proxy", proxy))
        elif proxy is False or guard is not None or not _is_proxied(where):
            # Else grpcio takes one from the environment, also for calls to this machine.
            options.append(("grpc.enable_http_proxy", 0))
        credentials = _secure(tls, ca) if is_secure else None
        self._channel = GrpcChannel(url, where, options, credentials, guard)

    async def call(self, operation: str, request: Any, extra: Extra, timeout_s: float) -> Any:
        data = self._codec.request(operation, request)
        rpc = self._codec.rpc(operation)
        metadata = await self._with(extra, request)
        _log_request(rpc, metadata, request)
        try:
            try:
                answer = await self._unary(rpc, data, metadata, timeout_s)
            except grpc.aio.AioRpcError as error:
                again = await self._renewed(error, extra, request, metadata)
                if again is None:
                    raise
                answer = await self._unary(rpc, data, again, timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._fault(operation, error, timeout_s) from None
        result = understood(
            self.url,
            f"the answer to {operation}",
            self._codec.result,
            operation,
            answer,
            request,
            self._note,
        )
        _log_answer(result)
        return result

    async def call_rpc(
        self, rpc: str, data: bytes, metadata: Mapping[str, str], timeout_s: float
    ) -> bytes:
        """Call any rpc of the service with encoded data; `metadata` replaces ours of that name.
        For checks of what an agent refuses. Raises as `call` does.
        """
        path = self._codec.rpc("GetTask").rpartition("/")[0] + "/" + rpc
        own = [
            (name, value) for name, value in await self._with(NOTHING, None) if name not in metadata
        ]
        try:
            return await self._unary(path, data, (*own, *metadata.items()), timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._fault(rpc, error, timeout_s) from None

    async def _unary(
        self, path: str, data: bytes, metadata: tuple[tuple[str, str], ...], timeout_s: float
    ) -> bytes:
        async with self._channel.used() as channel:
            call = channel.unary_unary(path)
            answer: bytes = await call(data, metadata=metadata, timeout=timeout_s)
            return answer

    async def stream(
        self, operation: str, request: Any, extra: Extra, timeout_s: float
    ) -> ItemStream:
        source = self._streamed(operation, request, extra, timeout_s)
        await anext(source)
        return source

    async def _streamed(
        self, operation: str, request: Any, extra: Extra, timeout_s: float
    ) -> AsyncGenerator[list[Item], None]:
        """Yield the messages; none, once the agent has begun. Credentials that it refuses are
        renewed once, which shows only then.
        """
        data = self._codec.request(operation, request)
        metadata = await self._with(extra, request)
        try:
            async with self._channel.used() as channel:
                first = self._frames(channel, operation, request, data, metadata, timeout_s)
                async with contextlib.aclosing(first):
                    async for items in first:
                        yield items
                return
        except grpc.aio.AioRpcError as error:
            again = await self._renewed(error, extra, request, metadata)
            if again is None:
                raise self._fault(operation, error, timeout_s) from None
        try:
            async with self._channel.used() as channel:
                second = self._frames(channel, operation, request, data, again, timeout_s)
                async with contextlib.aclosing(second):
                    async for items in second:
                        yield items
        except grpc.aio.AioRpcError as error:
            raise self._fault(operation, error, timeout_s) from None

    async def _frames(
        self,
        channel: grpc.aio.Channel,
        operation: str,
        request: Any,
        data: bytes,
        metadata: tuple[tuple[str, str], ...],
        timeout_s: float,
    ) -> AsyncGenerator[list[Item], None]:
        _log_request(self._codec.rpc(operation), metadata, request)
        call = channel.unary_stream(self._codec.rpc(operation))(data, metadata=metadata)
        read = self._codec.frames(operation, request, self._note)
        try:
            async with asyncio.timeout(timeout_s):
                seq = _number(await call.initial_metadata())
            yield []
            while True:
                frame = await call.read()  # however long it takes: pings tell if nobody is there
                if frame is grpc.aio.EOF:
                    return
                event = understood(self.url, "an event", read, frame)
                _log_answer(event)
                yield [Item(event, str(seq) if seq else "")]
                seq = seq + 1 if seq else 0
        except TimeoutError:
            raise TooSlow(self.url, f"no answer within {timeout_s:g} s") from None
        finally:
            call.cancel()

    async def close(self) -> None:
        await self._channel.close()

    async def _with(self, extra: Extra, request: Any) -> tuple[tuple[str, str], ...]:
        metadata = list(self._metadata)
        if self._codec.tenant and (tenant := getattr(request, "tenant", "")):
            metadata.append((self._codec.tenant, tenant))
        if extra.extensions:
            metadata.append((self._codec.extensions, extra.extensions))
        if extra.key:
            metadata.append(("idempotency-key", extra.key))
        if extra.after:
            metadata.append(("last-event-id", extra.after))
        if extra.trace.traceparent:
            metadata.append(("traceparent", extra.trace.traceparent))
        if extra.trace.tracestate:
            metadata.append(("tracestate", extra.trace.tracestate))
        if self._chosen:
            headers: dict[str, str] = {}
            for credential, scheme in self._chosen:
                await credential.apply(scheme, headers, {})
            metadata += [(name.lower(), value) for name, value in headers.items()]
        return tuple(metadata)

    async def _renewed(
        self,
        error: grpc.aio.AioRpcError,
        extra: Extra,
        request: Any,
        before: tuple[tuple[str, str], ...],
    ) -> tuple[tuple[str, str], ...] | None:
        """What to send once more, with other credentials, to an agent that refused these; None if
        there are none. What is refused so has not been done.
        """
        is_refused = error.code() is grpc.StatusCode.UNAUTHENTICATED
        if not is_refused or not await renewed(self._chosen):
            return None
        again = await self._with(extra, request)
        return again if again != before else None

    def _fault(
        self, operation: str, error: grpc.aio.AioRpcError, timeout_s: float
    ) -> A2AError | AgentFault:
        trailers = {str(name): value for name, value in error.trailing_metadata() or ()}
        details, text = trailers.get(_DETAILS), error.details() or ""
        status = error.code().name
        if details is None:
            if status == "DEADLINE_EXCEEDED":
                return TooSlow(self.url, f"no answer within {timeout_s:g} s")
            # The work is done, only the answer is not wanted.
            if status == "RESOURCE_EXHAUSTED" and _TOO_LARGE.search(text):
                return BadAnswer(
                    self.url, f"the answer is larger than {self._budget.answer_bytes} bytes"
                )
            if status == "UNAVAILABLE" and _NO_CONNECTION.search(text):
                return Unreachable(self.url, f"no connection: {text[:200]}", cause=_cause(text))
            if status == "CANCELLED" or (
                status in ("UNAVAILABLE", "INTERNAL", "UNKNOWN") and _BROKE_OFF.search(text)
            ):
                return ConnectionLost(self.url, f"the connection broke off: {text[:200]}")
        details = details if isinstance(details, bytes) else None
        return grpc_client.error(
            operation, status, text[:2000], details, _text(trailers.get("retry-after"))
        )


def _cause(text: str) -> str:
    """Why there is no connection, by grpcio's words."""
    found = _CAUSES.search(text)
    return found.lastgroup or "refused" if found is not None else "refused"


def _secure(tls: ClientCert | None, ca: str | Path | None) -> Any:
    trusted = (tls.authority if tls is not None else None) or ca
    if trusted is not None and Path(trusted).is_dir():
        raise ValueError("gRPC takes the certificate authorities as one file, not as a folder")
    roots = Path(trusted).read_bytes() if trusted is not None else None
    return (
        grpc.ssl_channel_credentials(roots, *tls.pems())
        if tls is not None
        else grpc.ssl_channel_credentials(roots)
    )


def _is_proxied(where: Url) -> bool:
    """Return whether the environment has a proxy for this address, as for HTTP."""
    try:
        return Proxies.from_environment().of(where) is not None
    except ValueError:  # HTTP could not use it; grpcio reports what is wrong
        return True


def _ms(seconds: float) -> int:
    return int(min(seconds, 1e6) * 1000)  # no more than grpcio counts; `math.inf` is a time too


def _log_request(rpc: str, metadata: Iterable[tuple[str, str]], request: Any) -> None:
    if shows_wire():
        log_rpc(rpc, metadata, v1.encode(request))


def _log_answer(answer: Any) -> None:
    if shows_wire():
        log_body(v1.encode(answer))


def _number(metadata: Any) -> int:
    """The number of a stream's first frame, from agents that number them."""
    value = _text({str(name): item for name, item in metadata or ()}.get("accord-seq")) or ""
    return whole_number(value) or 0


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
