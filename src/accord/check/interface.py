"""One interface of an agent, called for checks: each call gives its result or error, with the
evidence.
"""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import msgspec

from ..client import AgentFault, Client
from ..client.bindings import Binding, Extra
from ..model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    AgentInterface,
    Message,
    StatusUpdate,
    Task,
    TaskState,
)
from ..net import Request
from ..protocol import DEFAULT_SEMANTICS, Semantics, SpokenVersion, is_old, spoken_version
from ..protocol.v1 import codec as v1
from .record import Exchange, ExchangeRecorder

__all__ = ["CallOutcome", "CheckedInterface", "state_of"]

_CLOSING_S = 5.0  # how long a stream may stay open behind its last event


class CallOutcome(msgspec.Struct):
    """What came of a call: a result or an error."""

    request: str = ""
    answer: str = ""
    result: Any = None
    error: Exception | None = None
    exchange: Exchange = msgspec.field(default_factory=Exchange)  # the last one; empty over gRPC
    is_sent: bool = True
    has_ended: bool = True  # a stream: the agent closed it

    @property
    def said(self) -> str:
        """The error in a line; or what came instead of one."""
        if self.error is None:
            return f"an answer ({type(self.result).__name__})"
        if isinstance(self.error, AgentFault):
            return self.error.fault
        code = f" ({type(self.error).__name__})" if isinstance(self.error, A2AError) else ""
        return f"{' '.join(str(self.error).split())[:300]}{code}"

    @property
    def request_json(self) -> Any:
        """Return the body that was sent; None if it is no JSON."""
        return _loads(self.exchange.sent)

    @property
    def answer_json(self) -> Any:
        """Return the body that came; None if it is no JSON."""
        return _loads(self.exchange.body)


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def state_of(events: list[Any]) -> TaskState | None:
    """Return the last state in a stream; None if there was none."""
    states = [e.status.state for e in events if isinstance(e, Task | StatusUpdate)]
    return states[-1] if states else None


class CheckedInterface:
    """Calls one interface, once per call: nothing is repeated, nothing falls back."""

    def __init__(
        self,
        client: Client,
        interface: AgentInterface,
        recorder: ExchangeRecorder,
        timeout_s: float,
    ) -> None:
        found = client.connection.found
        self.card = found.card
        self.interface = interface
        self.version = interface.protocol_version
        self.timeout_s = timeout_s
        self.http = found.http
        self.binding: Binding = found.bind(interface)
        self._recorder = recorder
        required = [e.uri for e in found.card.capabilities.extensions if e.required]
        self._extra = Extra(extensions=", ".join(required))

    @property
    def is_grpc(self) -> bool:
        return self.interface.protocol_binding == "GRPC"

    @property
    def is_rest(self) -> bool:
        return self.interface.protocol_binding == "HTTP+JSON"

    @property
    def is_1(self) -> bool:
        return not is_old(self.version)

    @property
    def expected(self) -> SpokenVersion:
        """What can be expected of agents of its version."""
        return spoken_version(self.version)

    @property
    def name(self) -> str:
        return f"{self.interface.protocol_binding} {self.version} {self.interface.url}"

    async def call(
        self,
        operation: str,
        request: Any,
        *,
        extensions: str = "",
        semantics: Semantics = DEFAULT_SEMANTICS,
    ) -> CallOutcome:
        """Call an operation of A2A; with what stands beside it, if the version has words for
        that.
        """
        begun = len(self._recorder.exchanges)
        self._address(request)
        if self.expected.asked is not None and semantics is not DEFAULT_SEMANTICS:
            request = self.expected.asked(request, semantics)
        extra = self._with(extensions)
        outcome = CallOutcome()
        try:
            outcome.result = await self.binding.call(operation, request, extra, self.timeout_s)
        except (A2AError, AgentFault) as error:
            outcome.error = error
        return self._evidence(outcome, begun, operation, request)

    async def stream(self, operation: str, request: Any, *, extensions: str = "") -> CallOutcome:
        """Read a stream of A2A to its end; the result is its events. One that stays open behind the
        task's end is left.
        """
        begun = len(self._recorder.exchanges)
        self._address(request)
        outcome = CallOutcome(result=[], has_ended=False)
        extra = self._with(extensions)
        loop = asyncio.get_running_loop()
        try:
            async with (
                asyncio.timeout(self.timeout_s) as limit,
                aclosing(
                    await self.binding.stream(operation, request, extra, self.timeout_s)
                ) as source,
            ):
                async for items in source:
                    for item in items:
                        outcome.result += item.frame.events
                        if item.frame.is_last:
                            outcome.has_ended = True
                    state = state_of(outcome.result)
                    is_over = state in FINAL | INTERRUPTED
                    if is_over or any(isinstance(e, Message) for e in outcome.result):
                        limit.reschedule(loop.time() + min(_CLOSING_S, self.timeout_s))
            outcome.has_ended = True
        except TimeoutError:
            pass
        except (A2AError, AgentFault) as error:
            outcome.error = error
        return self._evidence(outcome, begun, operation, request)

    async def post(self, body: bytes, headers: dict[str, str]) -> CallOutcome:
        """Send bytes to the interface's own address."""
        return await self.fetch("POST", self.interface.url, body, headers)

    async def fetch(
        self, verb: str, url: str, body: bytes | None, headers: dict[str, str]
    ) -> CallOutcome:
        """Send any HTTP request. The result is the answer, whatever its status."""
        begun = len(self._recorder.exchanges)
        outcome = CallOutcome()
        own = {"Accept": "application/json"} | (
            {"Content-Type": "application/json"} if body else {}
        )
        if self.expected.rpc.version:
            own["A2A-Version"] = self.version
        try:
            request = Request(verb, url, self.timeout_s, own | headers, body)
            outcome.result = await self.http.fetch(request, limit=1 << 20)
        except AgentFault as error:
            outcome.error = error
        return self._evidence(outcome, begun, verb, None)

    async def call_rpc(self, rpc: str, data: bytes, metadata: dict[str, str]) -> CallOutcome:
        """Call any rpc over gRPC, with metadata instead of ours."""
        outcome = CallOutcome(request=f"{rpc} {metadata or ''}".strip())
        call: Any = self.binding
        try:
            outcome.result = await call.call_rpc(rpc, data, metadata, self.timeout_s)
        except (A2AError, AgentFault) as error:
            outcome.error = error
        outcome.answer = outcome.said
        return outcome

    def _with(self, extensions: str) -> Extra:
        both = ", ".join(uri for uri in (self._extra.extensions, extensions) if uri)
        return Extra(extensions=both)

    def _address(self, request: Any) -> None:
        if self.interface.tenant and not request.tenant:
            request.tenant = self.interface.tenant

    def _evidence(
        self, outcome: CallOutcome, begun: int, operation: str, request: Any
    ) -> CallOutcome:
        exchanges = self._recorder.exchanges[begun:]
        if exchanges:
            outcome.exchange = exchanges[-1]
            outcome.request, outcome.answer = exchanges[-1].request, exchanges[-1].answer
            outcome.answer = outcome.answer or outcome.said
        elif self.is_grpc:
            outcome.request = f"{operation} at {self.interface.url}\n\n{_json(request)}"
            outcome.answer = (
                outcome.said if outcome.error is not None else _json(outcome.result)[:2000]
            )
        else:
            outcome.is_sent = False
        return outcome


def _json(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(_json(one) for one in value)
    return bytes(v1.encode(value)).decode("utf-8", "replace") if value is not None else ""
