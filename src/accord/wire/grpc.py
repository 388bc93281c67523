"""The gRPC door: both packages of the protocol on one port, beside the HTTP doors and on the same loop."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import grpc

from ..codec.rpc import Rpc, rpcs, status
from ..model import A2AError, Limits, Message, ParseError, TooManyRequests, VersionNotSupported
from ..ops.call import IDEMPOTENT, Call
from ..ops.service import Service
from ..ops.table import OPERATIONS, Operation, Version, numbers
from ..run.entry import Entry
from ..run.reader import Reader
from .asgi import known_version
from .health import Health
from .jsonrpc import opaque
from .reflection import reflection
from .tls import Tls

__all__ = ["GrpcDoor", "GrpcServer"]

METADATA_BYTES = 16 << 10
KEEP_ALIVE_MS = 15_000
PING_MS = 5_000
GRACE_S = 1.0

SOON_S = 1.0
IDLE_S = 60.0

_DETAILS = "grpc-status-details-bin"


class GrpcDoor:
    """Answers gRPC calls of one agent.

    A deadline or a client that hangs up ends the call, never what the call set in motion.
    """

    def __init__(self, service: Service, limits: Limits, versions: Sequence[Version]) -> None:
        self._service = service
        self._limits = limits
        self._numbers = numbers(versions)
        self.handlers = [self._serve(version) for version in versions if version.grpc]
        self.services = [version.grpc_service for version in versions if version.grpc]

    def _serve(self, version: Version) -> Any:
        methods = {}
        for rpc in rpcs(version.grpc_service, version.grpc, version.grpc_codec, self._limits):
            operation = OPERATIONS[rpc.operation]
            # Served as if requests could be streams: grpcio leaves a call whose one message never came open for ever.
            if operation.is_stream:
                methods[rpc.name] = grpc.stream_stream_rpc_method_handler(self._streaming(rpc, operation, version))
            else:
                methods[rpc.name] = grpc.stream_unary_rpc_method_handler(self._unary(rpc, operation, version))
        return grpc.method_handlers_generic_handler(version.grpc_service, methods)

    def _unary(self, rpc: Rpc, operation: Operation, version: Version) -> Any:
        async def answer(_: Any, context: Any) -> bytes:
            try:
                data = await _message(context)
                call = self._call(context, version)
                request, call.semantics = rpc.decode(data)
                await self._activate(context, call, version)
                return rpc.result(await self._run(operation, call, request))
            except A2AError as error:
                await self._refuse(context, version, error)
            except Exception:
                await self._refuse(context, version, opaque())

        return answer

    def _streaming(self, rpc: Rpc, operation: Operation, version: Version) -> Any:
        async def answer(_: Any, context: Any) -> None:
            try:
                data = await _message(context)
                call = self._call(context, version)
                request, call.semantics = rpc.decode(data)
                found = await self._run(operation, call, request)
                if isinstance(found, Message):
                    await self._activate(context, call, version)
                    for frame in rpc.message(found):
                        await context.write(frame)
                else:
                    await _Stream(context, rpc, found, self._limits.stalled_s).send(self._active(call, version))
            except A2AError as error:
                await self._refuse(context, version, error)
            except grpc.aio.InternalError:
                return  # the client has hung up, and we noticed while writing
            except Exception:
                await self._refuse(context, version, opaque())

        return answer

    async def _run(self, operation: Operation, call: Call, request: Any) -> Any:
        """Run an operation, to its end even if the caller is gone before, where half of it would be worse than none."""
        if operation.is_droppable and not (call.idempotency_key or IDEMPOTENT in call.extensions):
            return await operation.run(self._service, call, request)
        work: asyncio.Future[Any] = asyncio.ensure_future(operation.run(self._service, call, request))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_discard)
            raise

    def _call(self, context: Any, version: Version) -> Call:
        """Return what the metadata says about a call."""
        call = Call(origin=version.grpc_codec.origin)
        extensions = ""
        for name, value in context.invocation_metadata():
            match name:
                case "a2a-version" if value != version.number:
                    self._check_version(value, version)
                case "a2a-extensions" | "x-a2a-extensions":
                    extensions += "," + value
                case "idempotency-key":
                    call.idempotency_key = value.strip()
                case "last-event-id":
                    call.last_event = int(value) if value.isdecimal() and len(value) < 16 else None
        if extensions:
            call.extensions = frozenset(name for part in extensions.split(",") if (name := part.strip()))
        return call

    def _check_version(self, given: str, version: Version) -> None:
        asked = known_version(given, self._numbers)
        if asked == "1.0" and version.number != "1.0":
            # Only a release candidate of 1.0 ever spoke so in the old package, with other numbers in its messages.
            raise VersionNotSupported(f"{version.grpc_service} speaks {version.number}; 1.0 is lf.a2a.v1", requested=given[:40])

    def _active(self, call: Call, version: Version) -> list[tuple[str, str]]:
        """The answer names the extensions that are in force, under the version's own name for that (spec EXT-3)."""
        active = call.extensions & self._service.offered if call.extensions else ()
        name = "a2a-extensions" if version.number == "1.0" else "x-a2a-extensions"
        return [(name, ", ".join(sorted(active)))] if active else []

    async def _activate(self, context: Any, call: Call, version: Version) -> None:
        if active := self._active(call, version):
            await context.send_initial_metadata(active)

    async def _refuse(self, context: Any, version: Version, error: A2AError) -> NoReturn:
        code, text = grpc.StatusCode[error.grpc], version.grpc_text(error)
        trailers: list[tuple[str, str | bytes]] = [(_DETAILS, status(code.value[0], text, error))]
        if error.retry_after_s is not None:
            trailers.append(("retry-after", str(error.retry_after_s)))
        await context.abort(code, text, tuple(trailers))
        raise AssertionError  # abort raises


async def _message(context: Any) -> bytes:
    """Return the one message of a call."""
    data = await context.read()
    if data is grpc.aio.EOF:
        raise ParseError("the call ended before its message was complete")
    found: bytes = data
    return found


def _discard(work: asyncio.Future[Any]) -> None:
    """Nobody waits for this any more."""
    if not work.cancelled() and work.exception() is None and isinstance(reader := work.result(), Reader):
        reader.close()


class _Stream:
    """Sends a task's events to one client; what is sent is made once and shared by all of the same version.

    A client that takes nothing for `stalled_s` is refused the rest, so that a cut can't look like an end.
    """

    def __init__(self, context: Any, rpc: Rpc, reader: Reader, stalled_s: float) -> None:
        self._context = context
        self._rpc = rpc
        self._reader = reader
        self._stalled_s = stalled_s
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._busy_since = 0.0
        self._sent = self._seen = 0
        self._is_stalled = False
        self._timer = self._loop.call_later(stalled_s, self._look)

    async def send(self, metadata: list[tuple[str, str]]) -> None:
        context, reader, frames_of = self._context, self._reader, self._frames
        is_begun = False
        try:
            while (entries := await reader.next(IDLE_S if is_begun else SOON_S)) != []:
                if not is_begun:
                    # Numbers the first frame; later ones count up by one. If nothing comes soon, the head goes out alone.
                    first = entries[0].seq if entries else reader.cursor + 1
                    await context.send_initial_metadata([("accord-seq", str(first)), *metadata])
                    is_begun = True
                self._busy_since = time.monotonic()
                for entry in entries or ():
                    for frame in frames_of(entry):
                        await context.write(frame)
                        self._sent += 1
                self._busy_since = 0.0
        except asyncio.CancelledError:
            if not self._is_stalled or self._task is None or self._task.uncancel():
                raise
            raise TooManyRequests(f"nothing was taken from this stream for {self._stalled_s:g} s; subscribe again") from None
        finally:
            self._timer.cancel()
            reader.close()

    def _frames(self, entry: Entry) -> list[bytes]:
        is_last = self._reader.ends_at(entry)
        key = (Rpc, self._rpc.codec, is_last)
        if entry.shapes is None:
            entry.shapes = {}
        frames = entry.shapes.get(key)
        if frames is None:
            frames = entry.shapes[key] = self._rpc.frames(entry.data, is_last=is_last, index=self._reader.index)
        return frames

    def _look(self) -> None:
        """Whether anything was taken since the last look, if anything was to be."""
        if not self._busy_since or self._sent != self._seen or time.monotonic() - self._busy_since < self._stalled_s:
            self._seen = self._sent
            self._timer = self._loop.call_later(self._stalled_s, self._look)
        elif self._task is not None:
            self._is_stalled = True
            self._task.cancel()


class GrpcServer:
    """A port of its own for the gRPC door, with health and reflection. Never shared: a second server on it fails to start."""

    def __init__(self, door: GrpcDoor, host: str, port: int, limits: Limits, tls: Tls | None = None) -> None:
        self._door = door
        self._host = f"[{host}]" if ":" in host and not host.startswith("[") else host
        self._limits = limits
        self._tls = tls
        self._server: Any = None
        self._health = Health(door.services)
        self.port = port

    async def start(self) -> None:
        """Listen.

        Raises:
            RuntimeError: The port is taken, or the address is not this machine's.
        """
        self._server = grpc.aio.server(
            handlers=[*self._door.handlers, self._health.handler, *reflection([*self._door.services, *Health.SERVICES])],
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", self._limits.body),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", METADATA_BYTES),
                ("grpc.keepalive_time_ms", KEEP_ALIVE_MS),
                # Clients may ping on idle streams too; by default that is taken for an attack, and they are cut off.
                ("grpc.http2.min_ping_interval_without_data_ms", PING_MS),
            ],
        )
        address = f"{self._host}:{self.port}"
        try:
            if self._tls is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, _credentials(self._tls))
        except RuntimeError:
            raise RuntimeError(f"gRPC cannot listen on {address}: the port is taken, or the address is not ours") from None
        await self._server.start()

    def drain(self) -> None:
        """Tell who asks for our health that no new work should come."""
        self._health.stop()

    async def stop(self) -> None:
        """End what is still open after a moment, and the port."""
        self.drain()
        if self._server is not None:
            await self._server.stop(GRACE_S)


def _credentials(tls: Tls) -> Any:
    return grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.certificate.read_bytes())],
        root_certificates=tls.client_authority.read_bytes() if tls.client_authority else None,
        require_client_auth=tls.client_authority is not None,
    )
