"""Spans, by OpenTelemetry. Imported only when tracing is switched on.

A request that the sampler leaves out gets no spans of ours, only a context that says so: it goes
along to whatever the request leads to, and nothing below it is sampled either.
"""

import contextlib
from collections.abc import Coroutine, Iterator
from contextvars import Token
from importlib.metadata import version
from random import getrandbits
from typing import Any, TypeVar
from urllib.parse import urlsplit

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.sdk.trace import Tracer
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.propagation import set_span_in_context
from opentelemetry.trace.status import Status, StatusCode

from . import names
from .context import Trace, Unsampled, current_trace, is_unsampled, replaced, set_current
from .exporting import Flusher
from .sampling import GivenIds, bound_of, drops_unsampled, unsampled_context

__all__ = ["Tracing", "TracingSpan"]

T = TypeVar("T")
Attributes = dict[str, Any]


class TracingSpan:
    """A span that has begun."""

    __slots__ = ("_span", "_tokens", "is_recording", "trace")

    def __init__(self, span: Span, trace: Trace) -> None:
        self._span = span
        self.trace = trace  # what goes along with calls made in this span
        self.is_recording = span.is_recording()
        self._tokens: tuple[Token[Any], Token[Trace | Unsampled]] | None = None

    def enter(self) -> None:
        """Make it the current span, for the rest of this asyncio task or until `leave`."""
        attached = otel.attach(set_span_in_context(self._span))
        self._tokens = (attached, set_current(self.trace))

    def leave(self) -> None:
        """Make the span before it the current one. For the code that entered it."""
        if self._tokens is not None:
            otel.detach(self._tokens[0])
            replaced(self._tokens[1])
            self._tokens = None

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def set(self, name: str, value: Any) -> None:
        self._span.set_attribute(name, value)

    def set_state(self, state: str) -> None:
        """Say which state the task has come to."""
        self._span.set_attribute(names.A2A_STATE, state)

    def fail(self, error_type: str) -> None:
        """Say that what the span stands for has failed. Only the type: texts may hold secrets."""
        self._span.set_attribute(names.ERROR_TYPE, error_type)
        self._span.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        self._span.end()


class Tracing:
    """Makes spans."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self.flusher = Flusher(provider)
        self._tracer = tracer = provider.get_tracer("accord", version("accord"))
        self._provider_attribute = names.provider_attribute()
        sampler = getattr(provider, "sampler", None)
        self._bound = bound_of(sampler) if isinstance(tracer, Tracer) else None
        self._drops_unsampled = drops_unsampled(sampler)
        self._ids = GivenIds(RandomIdGenerator())
        if isinstance(tracer, Tracer):
            self._ids = tracer.id_generator = GivenIds(tracer.id_generator)
        self._attributes_of: dict[tuple[str, ...], Attributes] = {}

    # Requests, runs, steps, calls, notifications

    def request(
        self, operation: str, protocol: str, binding: str, agent: str, started_ns: int
    ) -> TracingSpan | None:
        """A request that came, as a part of the trace that its headers named. Entered for the rest
        of its task. None if the sampler leaves it out.
        """
        key = (operation, protocol, binding, agent)
        attributes = self._attributes_of.get(key)
        if attributes is None:
            attributes = self._attributes_of[key] = {
                names.A2A_METHOD: operation,
                names.A2A_VERSION: protocol,
                names.A2A_BINDING: binding,
                names.AGENT_NAME: agent,
            }
        parent = current_trace()
        if parent.traceparent and not parent.is_sampled and self._drops_unsampled:
            otel.attach(unsampled_context(parent))
            return None
        span = self._span(operation, SpanKind.SERVER, _context_of(parent), attributes, started_ns)
        span.enter()
        return span

    def leaves_out(self) -> bool:
        """Whether a request that begins a new trace is left out: decided by the sampler's rule for
        the id of the trace, and true for the rest of this asyncio task.
        """
        if self._bound is None or is_unsampled():
            return False
        number = getrandbits(128)
        if number & TraceIdRatioBased.TRACE_ID_LIMIT < self._bound:
            self._ids.next_trace_id = number
            return False
        trace = Unsampled(number)
        otel.attach(unsampled_context(trace))
        set_current(trace)
        return True

    @contextlib.contextmanager
    def run(
        self,
        agent: str,
        version: str,
        skill: str,
        task_id: str,
        context_id: str,
        is_resumed: bool,
    ) -> Iterator["TracingSpan | None"]:
        """A run, in the trace of the message it works on. None if that is not sampled."""
        parent = current_trace()
        if parent.traceparent and not parent.is_sampled:
            if _current_trace_id() != parent.trace_id:
                otel.attach(_context_of(parent))
            yield None
            return
        attributes: Attributes = {
            names.OPERATION: names.INVOKE_AGENT,
            self._provider_attribute: names.PROVIDER,
            names.AGENT_NAME: agent,
            names.AGENT_VERSION: version,
            names.CONVERSATION: context_id,
            names.A2A_TASK: task_id,
            names.SKILL: skill,
        }
        if is_resumed:
            attributes[names.RESUMED] = True
        with self._entered(
            f"{names.INVOKE_AGENT} {agent}", SpanKind.INTERNAL, _context_of(parent), attributes
        ) as span:
            yield span

    async def step(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        """Do a step in a span of its own."""
        if not _is_sampled():
            return await work
        with self._entered(f"step {name}", SpanKind.INTERNAL, None, {names.STEP: name}):
            return await work

    @contextlib.contextmanager
    def delegation(self) -> Iterator["TracingSpan | None"]:
        """A part of a task that another agent does."""
        if not _is_sampled():
            yield None
            return
        attributes: Attributes = {
            names.OPERATION: names.INVOKE_AGENT,
            self._provider_attribute: names.PROVIDER,
        }
        with self._entered(names.INVOKE_AGENT, SpanKind.CLIENT, None, attributes) as span:
            yield span

    def name_delegation(self, span: TracingSpan, agent: str) -> None:
        """Say which agent does it, once that is known."""
        span.rename(f"{names.INVOKE_AGENT} {agent}")
        span.set(names.AGENT_NAME, agent)

    def call(
        self, operation: str, agent: str, url: str, binding: str, protocol: str
    ) -> TracingSpan | None:
        """A call of another agent. Not entered: its trace goes into the headers. None in a request
        that is left out.
        """
        known = current_trace()
        if known.traceparent and not known.is_sampled:
            return None
        attributes: Attributes = {
            names.A2A_METHOD: operation,
            names.A2A_BINDING: binding,
            names.A2A_VERSION: protocol,
            **_address(url),
        }
        if agent:
            attributes[names.AGENT_NAME] = agent
        if operation in names.SENDS:
            attributes[names.OPERATION] = names.INVOKE_AGENT
            attributes[self._provider_attribute] = names.PROVIDER
        return self._span(operation, SpanKind.CLIENT, None, attributes)

    def push(self, parent: Trace, task_id: str, number: int, url: str) -> TracingSpan:
        """One attempt to deliver a notification. Not entered."""
        attributes: Attributes = {
            names.A2A_TASK: task_id,
            names.PUSH_EVENT: number,
            **_address(url),
        }
        return self._span("push", SpanKind.CLIENT, _context_of(parent), attributes)

    @contextlib.contextmanager
    def received(self, task_id: str) -> Iterator[None]:
        """A notification that was received, in the trace that its headers named."""
        parent, attributes = _context_of(current_trace()), {names.A2A_TASK: task_id}
        with self._entered("push", SpanKind.SERVER, parent, attributes):
            yield

    # Making spans

    def _span(
        self,
        name: str,
        kind: SpanKind,
        parent: otel.Context | None,
        attributes: Attributes,
        started_ns: int | None = None,
    ) -> TracingSpan:
        span = self._tracer.start_span(
            name, context=parent, kind=kind, attributes=attributes, start_time=started_ns
        )
        return TracingSpan(span, _trace_of(span.get_span_context()))

    @contextlib.contextmanager
    def _entered(
        self, name: str, kind: SpanKind, parent: otel.Context | None, attributes: Attributes
    ) -> Iterator[TracingSpan]:
        span = self._span(name, kind, parent, attributes)
        span.enter()
        try:
            yield span
        except BaseException as error:
            span.fail(type(error).__name__)
            raise
        finally:
            span.leave()
            span.end()


def _is_sampled() -> bool:
    """Whether what happens now is part of a trace that is recorded."""
    return not is_unsampled() and bool(
        trace.get_current_span().get_span_context().trace_flags.sampled
    )


def _current_trace_id() -> str:
    return f"{trace.get_current_span().get_span_context().trace_id:032x}"


def _trace_of(context: SpanContext) -> Trace:
    state = context.trace_state.to_header() if context.trace_state else ""
    flags = "01" if context.trace_flags & 1 else "00"
    return Trace(f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags}", state)


def _context_of(parent: Trace) -> otel.Context:
    """The context of a span of which only the headers are known; of none, for a new trace."""
    if not parent.traceparent:
        return otel.Context()
    known = trace.get_current_span()
    if known.is_recording() and f"{known.get_span_context().span_id:016x}" == parent.span_id:
        return otel.get_current()
    state = trace.TraceState.from_header([parent.tracestate]) if parent.tracestate else None
    remote = SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(1 if parent.is_sampled else 0),
        trace_state=state,
    )
    return set_span_in_context(NonRecordingSpan(remote), otel.Context())


def _address(url: str) -> Attributes:
    """Where a call goes, as the conventions name it."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return {}
    found: Attributes = {names.SERVER_ADDRESS: host} if host else {}
    if port is not None:
        found[names.SERVER_PORT] = port
    return found
