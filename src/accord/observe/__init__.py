"""What operators see: the trace of a request, spans, metrics."""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports
from .context import NO_TRACE as NO_TRACE
from .context import Trace as Trace
from .context import child as child
from .context import child_of as child_of
from .context import current as current
from .context import current_trace as current_trace
from .context import enter as enter
from .context import is_unsampled as is_unsampled
from .context import outgoing as outgoing
from .context import recorded_trace as recorded_trace
from .context import replaced as replaced
from .context import set_current as set_current
from .gauge import Gauge as Gauge
from .observer import ObservedRequest as ObservedRequest
from .observer import Observer as Observer
from .switch import is_wanted as is_wanted
from .switch import new_metrics as new_metrics
from .switch import require_otel as require_otel
from .switch import start_tracing as start_tracing
from .switch import stop_tracing as stop_tracing
from .switch import tracing as tracing

if TYPE_CHECKING:
    from .metrics import Metrics as Metrics
    from .spans import Tracing as Tracing
    from .spans import TracingSpan as TracingSpan

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
