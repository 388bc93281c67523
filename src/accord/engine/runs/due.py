"""Going on with tasks whose time has come: their function slept, their question has a deadline, or
another agent is to be looked at.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...model import A2AError, TaskState, Unavailable
from ...pump import Pump
from ...store import Can, Record
from ..durable import read_history
from ..log import FORMAT, WORKED_ON, Log, Worked
from .messages import set_status
from .recovery import BROKEN, UNANSWERED
from .retention import age_ms

if TYPE_CHECKING:
    from .engine import Engine
    from .recovery import Recovery

__all__ = ["DueTasks"]

log_ = logging.getLogger("accord")

CHECK_S = 1.0
BITE = 32  # tasks taken at a time: what is due at nine o'clock does not start at once
_PAUSE_S = 0.003


class DueTasks:
    """Looks once a second for tasks that nobody owns and that are due. Several processes share
    them: each task is taken by one.
    """

    def __init__(self, engine: "Engine", recovery: "Recovery") -> None:
        self._engine = engine
        self._tasks = engine.tasks
        self._recovery = recovery
        self._unanswered_ms = age_ms(engine.retention.unanswered_s)
        self._pump = Pump("due tasks", self._take, log=log_, pause_s=lambda: CHECK_S)
        self._unsubscribe: Callable[[], None] = lambda: None

    def open(self) -> None:
        self._pump.start()
        self._unsubscribe = self._tasks.store.clock.subscribe(self._pump.wake)

    async def close(self) -> None:
        self._unsubscribe()
        await self._pump.stop()

    async def _take(self) -> bool:
        """Take a few. Return whether there are more."""
        tasks, engine = self._tasks, self._engine
        if tasks.is_draining or tasks.writer.fault or not tasks.store.is_sure:
            return False
        limit = min(engine.limits.tasks - len(tasks.working), BITE)
        if limit <= 0:
            return False
        agents = {name: list(agent.skills) for name, agent in engine.runs.agents.items()}
        found = await tasks.store.due(limit, Can(agents, FORMAT))
        for record in found:
            try:
                await self._go_on(record)
            except Exception:  # whatever it is, it harms no other task
                log_.exception("task %s is due, and can't be resumed", record.id)
        if found:
            await tasks.flush()
            await asyncio.sleep(_PAUSE_S * (tasks.store.replica % 8))  # others want some too
        return len(found) == limit

    async def _go_on(self, record: Record) -> None:
        try:
            # Claimed again: a message may have been faster, and the record be out of date.
            log = await self._tasks.own(record.namespace, record.id)
        except BROKEN:
            return  # which was logged; it stays ours, and is not due any more
        if not isinstance(log, Log):
            return
        try:
            with log.slot.pinned():
                if log.slot.run is not None or log.pos != record.pos:
                    return
                if log.state in WORKED_ON:
                    await self._recovery.take_up(log, died=False)
                else:
                    await self._end_waiting(log, record)
        finally:
            self._tasks.directory.release(log)

    async def _end_waiting(self, log: Log, record: Record) -> None:
        """Call a function again that waits for its client: the deadline of its question has passed,
        or it waits for something beside.
        """
        engine, recovery, now_ms = self._engine, self._recovery, self._tasks.store.now_ms()
        try:
            entries = await self._tasks.reader.entries(log)
            history = read_history(entries, engine.limits)
            asked = history.question if history is not None else None
            if log.slot.run is not None or log.commits.is_lost:
                return  # a message was faster, or another process goes on
            if history is None or asked is None:
                log.due_ms = 0
                log.slot.free()
                log.append(Worked(0.0))  # a commit that says so
            elif asked.expires_ms and asked.expires_ms <= now_ms:
                recovery.end_question(log, asked, history, entries)
            elif not asked.expires_ms and now_ms - record.at_ms > self._unanswered_ms:
                set_status(log, TaskState.FAILED, UNANSWERED)
            else:
                recovery.call_again(log, history)
        except Unavailable:
            return  # it is given back, and due again
        except (A2AError, *BROKEN) as error:
            recovery.fail(log, str(error))
