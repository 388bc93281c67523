"""Tracing of this process, for one test."""

from collections.abc import Iterator

import pytest

from accord import observe
from tests.observe.collector import Collector, collecting


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest.fixture
def traced(collector: Collector) -> Iterator[Collector]:
    """This process traces, as the service "client"."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource({"service.name": "client"}))
    exporter = OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100))
    observe.start_tracing(provider=provider)
    collector.provider = provider
    try:
        yield collector
    finally:
        observe.stop_tracing()
        provider.shutdown()
