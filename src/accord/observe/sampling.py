"""Deciding which requests are traced, before a span is made: one that is only made to be dropped
costs a tenth of a small request.

OpenTelemetry's own samplers decide about a new trace by its id alone, and their descriptions, which
its specification fixes, say how. Any other sampler is left to decide by itself.
"""

import re
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import Span, SpanContext, TraceState
from opentelemetry.trace.propagation import set_span_in_context

from .context import Trace, Unsampled

__all__ = ["GivenIds", "bound_of", "drops_unsampled", "unsampled_context"]

_ROOT = re.compile(
    r"(?:ParentBased\{root:)?(?:(AlwaysOn|AlwaysOff)Sampler|TraceIdRatioBased\{([0-9.e-]+)\})(?:,|$)"
)
_NOT_SAMPLED = "remoteParentNotSampled:AlwaysOffSampler"
_NOWHERE = Context()


def bound_of(sampler: Any) -> int | None:
    """Return below which number the lower half of a new trace's id has to be, if the trace is to
    be sampled; None if the sampler has other reasons.
    """
    match = _ROOT.match(sampler.get_description()) if sampler is not None else None
    if match is None:
        return None
    rate = float(match[2]) if match[2] else 1.0 if match[1] == "AlwaysOn" else 0.0
    return TraceIdRatioBased.get_bound_for_rate(rate)


def drops_unsampled(sampler: Any) -> bool:
    """Whether nothing is sampled in a trace that its beginner does not sample."""
    return sampler is not None and _NOT_SAMPLED in sampler.get_description()


class GivenIds(IdGenerator):
    """Gives the next new trace the id that was decided about."""

    def __init__(self, others: IdGenerator) -> None:
        self._others = others
        self.next_trace_id: int | None = None

    def generate_trace_id(self) -> int:
        given, self.next_trace_id = self.next_trace_id, None
        return given if given is not None else self._others.generate_trace_id()

    def generate_span_id(self) -> int:
        return self._others.generate_span_id()

    def is_trace_id_random(self) -> bool:
        return True


def unsampled_context(trace: Trace | Unsampled) -> Context:
    """Return a context in which nothing is sampled."""
    return set_span_in_context(_NotSampled(trace), _NOWHERE)


class _NotSampled(Span):
    """The current span of a request that is left out: what looks for a parent finds one that is
    not sampled.
    """

    def __init__(self, trace: Trace | Unsampled) -> None:
        self._trace = trace

    def get_span_context(self) -> SpanContext:
        trace = self._trace.trace if isinstance(self._trace, Unsampled) else self._trace
        state = TraceState.from_header([trace.tracestate]) if trace.tracestate else None
        return SpanContext(
            int(trace.trace_id, 16), int(trace.span_id, 16), is_remote=False, trace_state=state
        )

    def is_recording(self) -> bool:
        return False

    def end(self, end_time: int | None = None) -> None:
        pass

    def set_attributes(self, attributes: Any) -> None:
        pass

    def set_attribute(self, key: str, value: Any) -> None:
        pass

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        pass

    def update_name(self, name: str) -> None:
        pass

    def set_status(self, status: Any, description: str | None = None) -> None:
        pass

    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        pass
