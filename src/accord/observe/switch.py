"""Whether this process traces: off until somebody switches it on, once for the whole process."""

import os
from typing import TYPE_CHECKING

from ..extras import install_command

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from .metrics import Metrics
    from .spans import Tracing

__all__ = [
    "is_wanted",
    "new_metrics",
    "require_otel",
    "start_tracing",
    "stop_tracing",
    "tracing",
]

_tracing: "Tracing | None" = None

_VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)


def tracing() -> "Tracing | None":
    """Return what makes spans; None while tracing is off."""
    return _tracing


def is_wanted() -> bool:
    """Whether the environment asks for traces: with a place to send them to, or an exporter."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if os.environ.get("OTEL_TRACES_EXPORTER", "").lower() == "none":
        return False
    return any(os.environ.get(name) for name in _VARIABLES)


def require_otel() -> None:
    """Raise RuntimeError if OpenTelemetry is not installed."""
    try:
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError as error:
        raise RuntimeError(f"traces need an extra: {install_command('otel')} ({error})") from error


def start_tracing(service: str = "accord", provider: "TracerProvider | None" = None) -> "Tracing":
    """Trace from now on: in every agent and every client of this process.

    Without a provider it is the one that the program has set up for OpenTelemetry. If there is
    none, it is made from the OTEL_* variables: spans go to a collector by OTLP over HTTP.

    Args:
        service: The name of this service, unless OTEL_SERVICE_NAME says it.
        provider: Where spans go instead.

    Raises:
        RuntimeError: OpenTelemetry is not installed.
    """
    global _tracing
    require_otel()
    from .exporting import provider_of
    from .spans import Tracing

    if _tracing is None or provider is not None:
        found, is_ours = (provider, False) if provider is not None else provider_of(service)
        _tracing = Tracing(found)
        if is_ours:
            _tracing.flusher.shut_down_at_exit()
    return _tracing


def stop_tracing() -> None:
    """Trace no longer. Spans that have ended are still exported."""
    global _tracing
    _tracing = None


def new_metrics() -> "Metrics":
    """Return counters for one app.

    Raises:
        RuntimeError: prometheus-client is not installed.
    """
    try:
        from .metrics import Metrics
    except ImportError as error:
        raise RuntimeError(
            f"metrics need an extra: {install_command('metrics')} ({error})"
        ) from error
    return Metrics()
