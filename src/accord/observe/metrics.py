"""Metrics for Prometheus, whose own library writes the page. Imported only when they are switched
on.

While things happen they are only counted, on the event loop and without a lock. Everything else is
done when the page is asked for.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from .gauge import Gauge

__all__ = ["Metrics"]

_LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_RUN_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)
_COMMIT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_ITEMS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

Labels = tuple[str, ...]


class _Counter:
    """Counts by labels."""

    __slots__ = ("_counts", "_help", "_labels", "_name")

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self._name = name
        self._help = help
        self._labels = labels
        self._counts: dict[Labels, int] = {} if labels else {(): 0}

    def add(self, *labels: str) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def family(self) -> Metric:
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        return family


class _Values:
    """How often a value fell into each bucket, and the sum of all."""

    __slots__ = ("buckets", "sum")

    def __init__(self, bounds: int) -> None:
        self.buckets = [0] * (bounds + 1)
        self.sum = 0.0


class _Histogram:
    """Values by labels, in buckets."""

    __slots__ = ("_bounds", "_help", "_labels", "_name", "_values")

    def __init__(self, name: str, help: str, bounds: Sequence[float], labels: Labels = ()) -> None:
        self._name = name
        self._help = help
        self._bounds = bounds
        self._labels = labels
        self._values: dict[Labels, _Values] = {} if labels else {(): _Values(len(bounds))}

    def add(self, value: float, *labels: str) -> None:
        values = self._values.get(labels)
        if values is None:
            values = self._values[labels] = _Values(len(self._bounds))
        values.buckets[bisect_left(self._bounds, value)] += 1
        values.sum += value

    def family(self) -> Metric:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for labels, values in self._values.items():
            total, buckets = 0, []
            for name, count in zip(names, values.buckets, strict=True):
                total += count
                buckets.append((name, total))
            family.add_metric(labels, buckets, values.sum)
        return family


class Metrics(Collector):
    """What one app counts."""

    def __init__(self) -> None:
        self._requests = _Counter(
            "accord_requests",
            "Requests of the protocol, by how they were answered: OK, or the reason of the error.",
            ("agent", "operation", "version", "binding", "outcome"),
        )
        self._latency = _Histogram(
            "accord_request_seconds",
            "Time from a request to its answer; of a stream, to its beginning.",
            _LATENCY_S,
            ("operation", "binding"),
        )
        self._runs = _Histogram(
            "accord_run_seconds",
            "Time that runs of skills have worked, by the state they left their task in.",
            _RUN_S,
            ("agent", "skill", "state"),
        )
        self._queue = _Histogram(
            "accord_commit_queue_seconds",
            "Time that the oldest entry of a commit waited for it.",
            _COMMIT_S,
        )
        self._commits = _Histogram(
            "accord_commit_seconds", "Time that commits to the store took.", _COMMIT_S
        )
        self._items = _Histogram(
            "accord_commit_items", "Tasks and messages that were stored by one commit.", _ITEMS
        )
        self._pushes = _Counter(
            "accord_push_attempts",
            "Attempts to deliver push notifications: delivered, later (tried again), refused, "
            "gone (the webhook is disabled).",
            ("outcome",),
        )
        self._letters = _Counter(
            "accord_push_dead_letters", "Push notifications that were given up."
        )
        self._gauges: list[Gauge] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    # As things happen

    def answered(
        self,
        agent: str,
        operation: str,
        version: str,
        binding: str,
        outcome: str,
        seconds: float,
    ) -> None:
        self._requests.add(agent, operation, version, binding, outcome)
        self._latency.add(seconds, operation, binding)

    def refused(self, agent: str, binding: str, outcome: str) -> None:
        self._requests.add(agent, "unknown", "unknown", binding, outcome)

    def ran(self, agent: str, skill: str, state: str, seconds: float) -> None:
        self._runs.add(seconds, agent, skill, state)

    def committed(self, items: int, queued_s: float, took_s: float) -> None:
        self._items.add(items)
        self._queue.add(queued_s)
        self._commits.add(took_s)

    def pushed(self, outcome: str) -> None:
        self._pushes.add(outcome)

    def gave_up(self) -> None:
        self._letters.add()

    # When they are asked for

    def page(self, accept: str, gauges: Iterable[Gauge]) -> tuple[bytes, str]:
        """Return the page that Prometheus reads, and its content type."""
        encode, content_type = choose_encoder(accept)
        self._gauges = [*gauges]
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Called by the library when it writes the page."""
        for counted in (
            *(self._requests, self._latency, self._runs, self._queue, self._commits),
            *(self._items, self._pushes, self._letters),
        ):
            yield counted.family()
        for gauge in self._gauges:
            family = GaugeMetricFamily(gauge.name, gauge.help, labels=gauge.labels)
            for labels, value in gauge.values.items():
                family.add_metric(labels, value)
            yield family
