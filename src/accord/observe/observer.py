"""One request that is observed: from its first byte to the end of its answer."""

import time
from typing import TYPE_CHECKING

from ..model import A2AError

if TYPE_CHECKING:
    from .metrics import Metrics
    from .spans import Tracing, TracingSpan

__all__ = ["OK", "ObservedRequest", "Observer"]

OK = "OK"
UNKNOWN = "unknown"  # the operation or version of a request that could not be read that far


class Observer:
    """Sees the requests of one app. An app that nobody observes has none."""

    __slots__ = ("agent", "metrics", "tracing")

    def __init__(self, agent: str, tracing: "Tracing | None", metrics: "Metrics | None") -> None:
        self.agent = agent
        self.tracing = tracing
        self.metrics = metrics

    def request(self, binding: str, *, has_trace: bool) -> "ObservedRequest | None":
        """A request has come, which names its trace or does not. None if nobody wants to know of
        it.
        """
        spans = self.tracing
        is_left_out = spans is not None and not has_trace and spans.leaves_out()
        if is_left_out and self.metrics is None:
            return None
        return ObservedRequest(self, binding, None if is_left_out else spans)

    def refused(self, binding: str, error: A2AError) -> None:
        """A request was refused for who sent it, or from where."""
        if self.metrics is not None:
            self.metrics.refused(self.agent, binding, outcome_of(error))


class ObservedRequest:
    """A request and its answer."""

    __slots__ = (
        "_agent",
        "_is_answered",
        "_observer",
        "_operation",
        "_outcome",
        "_span",
        "_spans",
        "_started_ns",
        "_started_s",
        "_version",
        "binding",
    )

    def __init__(self, observer: Observer, binding: str, spans: "Tracing | None") -> None:
        self._observer = observer
        self._spans = spans
        self._agent = observer.agent
        self.binding = binding
        self._operation = self._version = UNKNOWN
        self._outcome = OK
        self._span: TracingSpan | None = None
        self._is_answered = False
        self._started_s = time.monotonic()
        self._started_ns = time.time_ns() if spans is not None else 0

    def begin(self, operation: str, version: str, agent: str = "") -> None:
        """It is known what is asked for, and not yet done: what is done belongs to its span."""
        self._operation, self._version = operation, version
        self._agent = agent or self._agent
        if self._spans is not None:
            self._span = self._spans.request(
                operation, version, self.binding, self._agent, self._started_ns
            )

    def fail(self, error: A2AError) -> None:
        """It is answered with an error."""
        self._outcome = outcome_of(error)
        if self._span is not None:
            self._span.fail(self._outcome)

    def answered(self) -> None:
        """The answer is there, or of a stream its beginning."""
        if self._is_answered:
            return
        self._is_answered = True
        metrics = self._observer.metrics
        if metrics is not None:
            took_s = time.monotonic() - self._started_s
            metrics.answered(
                *(self._agent, self._operation, self._version, self.binding, self._outcome),
                took_s,
            )

    def end(self) -> None:
        """The answer is sent, or of a stream all of it."""
        self.answered()
        if self._span is not None:
            self._span.end()
            self._span = None


def outcome_of(error: A2AError) -> str:
    """An error, as one of a few words: the reason that the protocol gives."""
    return type(error).reason or type(error).__name__
