"""Calls functions of the user's with what became of tasks, after it is stored.

They are called one after the other, in the order things happened, beside everything else: one that
is slow or fails delays and harms no task.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ...model import FINAL, Task, TaskState
from ...protocol.v1 import codec as v1
from ...pump import Pump
from ...store import Namespace
from ..log import Event, Ids, Log
from ..skills import AgentDefinition
from ..tasks import Tasks
from ..threads import Threads
from .recovery import BROKEN

__all__ = ["TaskHooks"]

log_ = logging.getLogger("accord")

WAITING = 10_000  # events that wait for slow functions; what comes beyond them is left out
# Open tasks whose state is known here. Where others go on with a task, its end is not seen.
OPEN = 100_000
CLOSE_S = 5.0

# What is meant to end a program or a task, and ends neither if a hook raises it.
ENDINGS = (asyncio.CancelledError, SystemExit, KeyboardInterrupt)


class _StoredEvent(NamedTuple):
    """Something that happened to a task, and is stored."""

    agent: AgentDefinition
    namespace: Namespace
    ids: Ids
    key: int
    event: Event


class TaskHooks:
    """Calls the functions of `agent.on_task` and `agent.on_event`."""

    def __init__(self, tasks: Tasks, agents: dict[str, AgentDefinition], threads: Threads) -> None:
        self._tasks = tasks
        self._agents = agents
        self._threads = threads
        self._queue: deque[_StoredEvent] = deque()
        # of open tasks, as they were reported last; the one that changed last is the last
        self._states: dict[int, TaskState] = {}
        self._left_out = 0
        self._pump = Pump("task hooks", self._call_next, log=log_)
        tasks.writer.on_events = self._stored

    async def close(self) -> None:
        """Report what has gathered, if that is done soon."""
        await self._pump.stop(CLOSE_S)

    def _stored(self, log: Log, events: list[Event]) -> None:
        agent = self._agents.get(log.namespace.agent)
        if agent is None or not (agent.task_hooks or agent.event_hooks):
            return
        for event in _own(events, log.about.fork_at) if log.about.fork_at else events:
            if len(self._queue) >= WAITING:
                self._left_out += 1
            else:
                self._queue.append(_StoredEvent(agent, log.namespace, log.ids, log.key, event))
        self._pump.wake()

    async def _call_next(self) -> bool:
        """Report the oldest event."""
        if self._queue:
            stored, task = self._queue[0], None
            try:
                task = await self._task_of(stored)  # if the store is away, it is tried again
            except BROKEN:  # for good: the next events must not wait for it
                log_.exception("task %s can't be read; its hooks are left out", stored.ids.task_id)
            self._queue.popleft()
            await self._report(stored, task)
        if self._left_out and not self._queue:
            log_.error("hooks are too slow: %d events were left out", self._left_out)
            self._left_out = 0
        return bool(self._queue)

    async def _task_of(self, stored: _StoredEvent) -> Task | None:
        """Return the task, if its state is new and a hook wants it."""
        event = stored.event
        if event.state is None or self._states.get(stored.key) is event.state:
            return None
        task: Task | None = None
        if stored.agent.task_hooks:
            task = await self._tasks.reader.at(stored.namespace, stored.ids.task_id, event.pos)
        self._states.pop(stored.key, None)
        if event.state not in FINAL:
            self._states[stored.key] = event.state
            if len(self._states) > OPEN:
                del self._states[next(iter(self._states))]
        return task

    async def _report(self, stored: _StoredEvent, task: Task | None) -> None:
        for hook in stored.agent.event_hooks:
            await self._call(hook, v1.decode_event(stored.event.data), stored)
        if task is not None:
            for on_task in stored.agent.task_hooks:
                await self._call(on_task, task, stored)

    async def _call(self, hook: Callable[[Any], Any], what: Any, stored: _StoredEvent) -> None:
        name = getattr(hook, "__qualname__", repr(hook))
        try:
            if inspect.iscoroutinefunction(hook):
                await hook(what)
            else:
                found = await self._threads.run(lambda: hook(what), name)
                if inspect.isawaitable(found):  # of an object that is called as an async def is
                    await found
        except (Exception, *ENDINGS) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            log_.exception(
                "hook %s failed; task %s is not affected",
                *(name, stored.ids.task_id),
                extra={"task_id": stored.ids.task_id},
            )


def _is_cancelled() -> bool:
    """Return whether this is the end of the server, and nothing that a hook did to itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _own(events: list[Event], copied: int) -> list[Event]:
    """Return the events of a fork without those that happened to another task, except the status
    it begins with.
    """
    begins = max((e.seq for e in events if e.seq <= copied and e.state is not None), default=0)
    return [event for event in events if event.seq > copied or event.seq == begins]
