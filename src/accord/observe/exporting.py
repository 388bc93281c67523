"""Where spans go: the provider of this program, and its end."""

import atexit
import os
import threading
from typing import Any

from opentelemetry import trace

__all__ = ["Flusher", "provider_of"]

STOP_S = 2.0  # how long a process that stops waits for its collector


class Flusher:
    """Exports the spans that are left, and waits for that at most `STOP_S`.

    OpenTelemetry's own flush and shutdown keep to no limit: with a collector that is away they wait
    until the exporter has tried often enough.
    """

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._provider = provider
        self._is_late = False

    def flush(self) -> None:
        """Export what has ended. Blocks."""
        flush = getattr(self._provider, "force_flush", None)
        if flush is None:
            return
        thread = threading.Thread(target=flush, name="accord-flush", daemon=True)
        thread.start()
        thread.join(STOP_S)
        self._is_late = thread.is_alive()

    def shut_down_at_exit(self) -> None:
        """Export what is left when the process ends. For a provider that is ours."""
        asked, done = threading.Event(), threading.Event()

        def shut_down() -> None:
            asked.wait()
            getattr(self._provider, "shutdown")()  # noqa: B009, only the SDK's providers have it
            done.set()

        # Begun now: a process that ends can't start a thread any more.
        threading.Thread(target=shut_down, name="accord-spans", daemon=True).start()

        def leave() -> None:
            if not self._is_late:  # else it was waited for already
                asked.set()
                done.wait(STOP_S)

        atexit.register(leave)


def provider_of(service: str) -> tuple[trace.TracerProvider, bool]:
    """Return the provider of this program, made from the environment if it has set up none, and
    whether it was made here: then `Flusher.shut_down_at_exit` is for us to call.
    """
    known = trace.get_tracer_provider()
    if not isinstance(known, trace.ProxyTracerProvider):
        return known, False
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say counts more.
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: service}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter()))
    trace.set_tracer_provider(provider)
    return provider, True


def _exporter() -> Any:
    kind = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    if kind == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    if kind != "otlp":
        raise RuntimeError(f"OTEL_TRACES_EXPORTER is {kind!r}; use otlp, console or none")
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    if protocol != "http/protobuf":
        raise RuntimeError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; spans are sent by http/protobuf, which "
            "collectors take on port 4318"
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
