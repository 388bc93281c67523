"""How much may be asked of an agent: calls per minute, open tasks and open streams."""

from collections import Counter
from collections.abc import Callable

from ...auth import Caller
from ...engine.runs import Engine
from ...model import TooManyRequests
from ..registry import Entry
from .quota import CallQuota
from .upstream import key_of

__all__ = ["CallLimits"]


class CallLimits:
    """Counts calls, tasks and streams. Several hubs share a limit: each grants its part.

    Args:
        engine: Of the app, which has it once it is made.
        calls_per_minute: Of each caller over all agents; 0 for no limit.
    """

    def __init__(self, engine: Callable[[], Engine], calls_per_minute: int) -> None:
        self._engine = engine
        self._calls_per_minute = calls_per_minute
        self._quota = CallQuota(self._living)
        self._streams: Counter[str] = Counter()  # open, by the entry's id

    def take_stream(self, entry: Entry) -> Callable[[], None]:
        """Count a stream from before it begins: those that come together are counted too. Return
        what to call when it has ended.
        """
        streams, id_ = self._streams, entry.id
        most = entry.settings.limits.get("open_streams", 0)
        if most and streams[id_] >= self._share(most):
            raise TooManyRequests(
                f"agent {entry.name!r} has {most} open streams, as many as it may",
                retry_after_s=5,
                limit="open_streams of the entry",
            )
        streams[id_] += 1

        def release() -> None:
            streams[id_] -= 1
            if not streams[id_]:
                del streams[id_]

        return release

    def _share(self, most: int) -> int:
        """What this hub may have open of a limit that all hubs share."""
        return max(most // self._living(), 1)

    def _living(self) -> int:
        return self._engine().tasks.store.living

    def take_call(self, entry: Entry, caller: Caller, of_rule: int, *, is_admin: bool) -> None:
        """Count a call, or raise TooManyRequests. Admins have no limit of their own."""
        limits, who, name = entry.settings.limits, caller.identity, entry.name
        of_caller = self._calls_per_minute
        if of_caller and not is_admin:
            self._quota.take(
                ("caller", who), of_caller, "calls_per_minute of a caller", "agents of this hub"
            )
        if most := limits.get("calls_per_minute", 0):
            self._quota.take(
                ("entry", entry.id), most, "calls_per_minute of the entry", f"agent {name!r}"
            )
        if of_rule:
            self._quota.take(
                ("rule", entry.id, who), of_rule, "limit of a rule", f"agent {name!r} by you"
            )
        if most := limits.get("open_tasks", 0):
            runs = self._engine().runs.running()
            if sum(run.log.namespace.agent == key_of(entry) for run in runs) >= self._share(most):
                raise TooManyRequests(
                    f"agent {name!r} has {most} open tasks, as many as it may",
                    retry_after_s=5,
                    limit="open_tasks of the entry",
                )
