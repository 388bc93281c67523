"""The traces and metrics of an app: whether there are any, and who observes which agent."""

import asyncio
import logging
from typing import TYPE_CHECKING

from ..observe import Observer, is_wanted, require_otel, start_tracing, tracing

if TYPE_CHECKING:
    from ..observe import Metrics, Tracing
    from .metrics import MetricsServer

__all__ = ["Telemetry"]

_log = logging.getLogger("accord")


class Telemetry:
    """Gives each agent of an app its observer, once it is started and if anything is switched on.

    Args:
        traces: Whether to trace; None if the environment says so.
        server: What serves the metrics; None if they are off.

    Raises:
        RuntimeError: Traces are wanted, and OpenTelemetry is not installed.
    """

    def __init__(self, traces: bool | None, server: "MetricsServer | None") -> None:
        self._wants_traces = _wants_traces(traces)
        self.server = server
        self._tracing: Tracing | None = None
        self._is_started = False

    @property
    def metrics(self) -> "Metrics | None":
        return self.server.metrics if self.server is not None else None

    def start(self, name: str) -> None:
        """Begin to trace, as a service of this name."""
        self._tracing = start_tracing(name) if self._wants_traces else tracing()
        self._is_started = True

    def observer(self, name: str) -> Observer | None:
        """Return the observer of the agent of this name; None while nobody wants to know."""
        if not self._is_started or (self._tracing is None and self.metrics is None):
            return None
        return Observer(name, self._tracing, self.metrics)

    async def flush(self) -> None:
        """Hand over the spans that have ended, before the process does."""
        if self._tracing is not None:
            flush = self._tracing.flusher.flush
            await asyncio.get_running_loop().run_in_executor(None, flush)


def _wants_traces(wanted: bool | None) -> bool:
    """Return whether to trace. What only the environment asks for is no error if it can't be."""
    if wanted is False or (wanted is None and not is_wanted()):
        return False
    try:
        require_otel()
    except RuntimeError as error:
        if wanted:
            raise
        _log.warning("no traces are sent, though the environment asks for them: %s", error)
        return False
    return True
