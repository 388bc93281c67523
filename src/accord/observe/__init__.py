"""What operators see: the trace of a request."""

from .context import NO_TRACE as NO_TRACE
from .context import Trace as Trace
from .context import child as child
from .context import current as current
from .context import current_trace as current_trace
from .context import enter as enter
from .context import outgoing as outgoing
