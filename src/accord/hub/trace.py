"""Traces: which task of the hub led to which other one.

Whatever goes out for a task carries its id in `tracestate` (`accord=ID`), which tracers on the way
pass on (Trace Context, section 3.3). So a call that comes back to the hub names its parent.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from ..engine.durable import RUN_POSITION
from ..engine.log import state_of
from ..engine.tasks import Tasks
from ..observe import Trace, child, current_trace, set_current
from ..store import Database, Namespace, Record
from .errors import EntryNotFound

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
    """Stores what was called for what, and gives it as a tree.

    Rows are kept for a second and then written together: a hub that is killed may lose the newest.
    """

    def __init__(self, db: Database, tasks: Callable[[], Tasks]) -> None:
        self._db = db
        self._tasks = tasks  # of the app, which has them once it is open
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
                *(namespace.agent, namespace.tenant, namespace.caller, self._db.now_ms()),
            )
        )

    async def flush(self) -> None:
        """Write down what is new."""
        new, self._new = self._new, []
        if not new:
            return
        await self._db.write(
            lambda db: db.execute_many(
                "INSERT INTO relays (task, trace, parent, name, skill, agent, tenant, caller, "
                "at_ms) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (task) DO NOTHING",
                new,
            )
        )

    async def purge(self) -> None:
        await self._db.execute("DELETE FROM relays WHERE at_ms < ?", self._db.now_ms() - KEPT_MS)

    async def newest(
        self, caller: str | None, limit: int = 50, task: str = ""
    ) -> list[dict[str, Any]]:
        """Return the newest traces, each named by its first request.

        Args:
            caller: Whose; None for all.
            limit: How many at most.
            task: Only the trace that this task belongs to.
        """
        await self.flush()
        given = {
            "caller = ?": caller,
            "trace IN (SELECT trace FROM relays WHERE task = ?)": task or None,
        }
        where = [test for test, value in given.items() if value is not None]
        values = [value for value in given.values() if value is not None]
        only = f"WHERE {' AND '.join(where)} " if where else ""
        rows = await self._db.fetch(
            "SELECT trace AS id, COUNT(*) AS tasks, COUNT(DISTINCT name) AS agents, "
            f"MIN(at_ms) AS first_ms, MAX(at_ms) AS at_ms FROM relays {only}"
            "GROUP BY trace ORDER BY MAX(at_ms) DESC LIMIT ?",
            *values,
            limit,
        )
        return [await self._summary(row, caller) for row in rows]

    async def title(self, trace: str, caller: str | None) -> str:
        """Return the first words of the request that a trace began with."""
        first = await self._first(trace, caller)
        return await self._request(await self._record(first)) or first["skill"] or first["name"]

    async def _first(self, trace: str, caller: str | None) -> Any:
        mine, who = ("AND caller = ? ", (caller,)) if caller is not None else ("", ())
        [first] = await self._db.fetch(
            "SELECT task, parent, name, skill, agent, tenant, caller, at_ms FROM relays "
            f"WHERE trace = ? {mine}ORDER BY at_ms, task LIMIT 1",
            trace,
            *who,
        )
        return first

    async def _summary(self, row: Any, caller: str | None) -> dict[str, Any]:
        first = await self._first(row["id"], caller)
        record = await self._record(first)
        return {
            "id": row["id"],
            "title": await self._request(record) or first["skill"] or first["name"],
            "agent": first["name"],
            "state": "unspecified" if record is None else state_of(record.state).word,
            "tasks": int(row["tasks"]),
            "agents": int(row["agents"]),
            "started_ms": int(row["first_ms"]),
            "ended_ms": self._end(record, row["at_ms"]),
            "at_ms": int(row["at_ms"]),
        }

    async def _request(self, record: Record | None) -> str:
        """Return the first words of the message that began a task."""
        if record is None:
            return ""
        try:
            task = (await self._tasks().reader.shown(record, None)).task
        except ValueError:
            return ""  # it can't be read
        said = [part.text for message in task.history[:1] for part in message.parts]
        return " ".join(text.strip() for text in said if isinstance(text, str))[:120]

    async def spans(self, trace: str, caller: str | None) -> list[TraceSpan]:
        """The tasks of a trace, oldest first; of one caller, or of all.

        Raises:
            EntryNotFound: There is no such trace, or none of this caller's.
        """
        await self.flush()
        rows = await self._db.fetch(
            "SELECT task, parent, name, skill, agent, tenant, caller, at_ms FROM relays "
            "WHERE trace = ? ORDER BY at_ms, task LIMIT 1000",
            trace,
        )
        found = [await self._span(row) for row in rows if caller in (None, row["caller"])]
        if not found:
            raise EntryNotFound(f"there is no trace {trace[:40]!r}", fix="accord hub traces")
        return found

    async def _record(self, row: Any) -> Record | None:
        namespace = Namespace(row["agent"], row["tenant"], row["caller"])
        tasks = self._tasks()
        log = tasks.directory.log((namespace, row["task"]))
        if log is not None:
            await log.commits.stored()
        return await tasks.store.load(namespace, row["task"])

    async def _span(self, row: Any) -> TraceSpan:
        record = await self._record(row)
        state = "unspecified" if record is None else state_of(record.state).word
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
            ended_ms=self._end(record, row["at_ms"]),
        )

    def _end(self, record: Record | None, called_ms: int) -> int:
        """Return when a task ended: now if it goes on, when it was called if it was deleted."""
        if record is None:
            return int(called_ms)
        is_over = state_of(record.state).word in _FINAL
        return max(record.at_ms if is_over else self._db.now_ms(), int(called_ms))


def _parent_in(tracestate: str) -> str:
    for member in tracestate.split(","):
        if member.strip().startswith(_KEY):
            return member.strip().removeprefix(_KEY)[:64]
    return ""


def _with(tracestate: str, task: str) -> str:
    """Ours first, as whoever changed its member last has to be."""
    others = [one.strip() for one in tracestate.split(",")]
    return ",".join([f"{_KEY}{task}", *(o for o in others if o and not o.startswith(_KEY))])
