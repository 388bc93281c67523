"""Traces: which task of the hub led to which other one.

Whatever goes out for a task carries its id in `tracestate` (`accord=ID`), which tracers on the way
pass on (Trace Context, section 3.3). So a call that comes back to the hub names its parent.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from ..engine.durable import RUN_POSITION
from ..engine.log import state_of
from ..model import now_ms
from ..observe import Trace, child, current_trace, set_current
from ..store import Namespace
from .errors import EntryNotFound

if TYPE_CHECKING:
    from .hub import Hub

__all__ = ["TraceSpan", "Traces"]

KEPT_MS = 30 * 86_400_000
_KEY = "accord="
_FINAL = {"completed", "failed", "canceled", "rejected"}


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a trace."""

    task: str
    agent: str  # the entry's name
    owner: str  # what the console finds its tasks by
    skill: str
    tenant: str
    caller: str
    state: str
    parent: str  # the task that led to it; empty for the first
    started_ms: int
    ended_ms: int


class Traces:
    """Writes down what was called for what, and tells it as a tree.

    Rows are kept for a second and then written together: a hub that is killed may lose the newest.
    """

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._new: list[tuple[Any, ...]] = []

    def enter(self, name: str) -> None:
        """Called by a relay that is about to call an entry: its calls carry its task's id."""
        place = RUN_POSITION.get()
        if place is None:
            return
        run, trace = place.run, current_trace()
        parent = _parent_in(trace.tracestate)
        if parent == run.task_id:
            return  # it was here before
        if not trace.traceparent:
            trace = Trace(child())
        set_current(Trace(trace.traceparent, _with(trace.tracestate, run.task_id)))
        namespace = run.log.namespace
        self._new.append(
            (
                *(run.task_id, trace.trace_id, parent, name, run.skill.id),
                *(namespace.agent, namespace.tenant, namespace.caller, now_ms()),
            )
        )

    async def flush(self) -> None:
        """Write down what is new."""
        new, self._new = self._new, []
        if not new:
            return
        async with self._hub.db.transaction() as db:
            await db.execute_many(
                "INSERT INTO relays (task, trace, parent, name, skill, agent, tenant, caller, "
                "at_ms) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (task) DO NOTHING",
                new,
            )

    async def purge(self) -> None:
        await self._hub.db.execute("DELETE FROM relays WHERE at_ms < ?", now_ms() - KEPT_MS)

    async def newest(self, caller: str | None, limit: int = 50) -> list[dict[str, Any]]:
        """The newest traces: of one caller, or of all."""
        await self.flush()
        mine, who = ("WHERE caller = ? ", (caller,)) if caller is not None else ("", ())
        rows = await self._hub.db.fetch(
            "SELECT trace AS id, MIN(name) AS name, COUNT(*) AS tasks, MAX(at_ms) AS at_ms "
            f"FROM relays {mine}GROUP BY trace ORDER BY MAX(at_ms) DESC LIMIT ?",
            *who,
            limit,
        )
        return [
            {
                "id": row["id"],
                "title": row["name"],
                "tasks": int(row["tasks"]),
                "at_ms": int(row["at_ms"]),
            }
            for row in rows
        ]

    async def spans(self, trace: str, caller: str | None) -> list[TraceSpan]:
        """The tasks of a trace, oldest first; of one caller, or of all.

        Raises:
            EntryNotFound: There is no such trace, or none of this caller's.
        """
        await self.flush()
        rows = await self._hub.db.fetch(
            "SELECT task, parent, name, skill, agent, tenant, caller, at_ms FROM relays "
            "WHERE trace = ? ORDER BY at_ms, task LIMIT 1000",
            trace,
        )
        found = [await self._span(row) for row in rows if caller in (None, row["caller"])]
        if not found:
            raise EntryNotFound(f"there is no trace {trace[:40]!r}", fix="accord hub traces")
        return found

    async def _span(self, row: Any) -> TraceSpan:
        namespace = Namespace(row["agent"], row["tenant"], row["caller"])
        tasks = self._hub.app.engine.tasks
        log = tasks.directory.log((namespace, row["task"]))
        if log is not None:
            await log.stored()
        record = await tasks.store.load(namespace, row["task"])
        state = "unspecified" if record is None else state_of(record.state).word
        last = record.at_ms if record is not None else int(row["at_ms"])
        return TraceSpan(
            task=row["task"],
            agent=row["name"],
            owner=row["agent"],
            skill=row["skill"],
            tenant=row["tenant"],
            caller=row["caller"],
            state=state,
            parent=row["parent"],
            started_ms=int(row["at_ms"]),
            ended_ms=max(last if state in _FINAL else now_ms(), int(row["at_ms"])),
        )


def _parent_in(tracestate: str) -> str:
    for member in tracestate.split(","):
        if member.strip().startswith(_KEY):
            return member.strip().removeprefix(_KEY)[:64]
    return ""


def _with(tracestate: str, task: str) -> str:
    """Ours first, as whoever changed its member last has to be."""
    others = [one.strip() for one in tracestate.split(",")]
    return ",".join([f"{_KEY}{task}", *(o for o in others if o and not o.startswith(_KEY))])
