"""Functions of the user's that are told what became of tasks, after it is stored.

They are called one after the other, in the order things happened, beside everything else: one that
is slow or fails delays and harms no task.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from ...model import FINAL, TaskState
from ...protocol.v1 import codec as v1
from ...store import Namespace
from ..log import Event, Ids, Log
from ..skills import AgentBase
from ..tasks import Tasks
from ..threads import Threads

__all__ = ["TaskHooks"]

log_ = logging.getLogger("accord")

WAITING = 10_000  # events that wait for slow functions; what comes beyond them is left out
CLOSE_S = 5.0

# What is meant to end a program or a task, and ends neither if a hook raises it.
ENDINGS = (asyncio.CancelledError, SystemExit, KeyboardInterrupt)


class _Told(NamedTuple):
    """Something that happened to a task."""

    agent: AgentBase
    namespace: Namespace
    ids: Ids
    key: int
    event: Event


class TaskHooks:
    """Calls the functions of `agent.on_task` and `agent.on_event`."""

    def __init__(self, tasks: Tasks, agents: dict[str, AgentBase], threads: Threads) -> None:
        self._tasks = tasks
        self._agents = agents
        self._threads = threads
        self._queue: asyncio.Queue[_Told] = asyncio.Queue(WAITING)
        self._states: dict[int, TaskState] = {}  # of open tasks, as they were told last
        self._left_out = 0
        self._calling: asyncio.Task[None] | None = None
        tasks.writer.on_events = self._stored

    async def close(self) -> None:
        """Tell what has gathered, if that is done soon."""
        if self._calling is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._queue.join()
        self._calling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._calling

    def _stored(self, log: Log, events: list[Event]) -> None:
        agent = self._agents.get(log.namespace.agent)
        if agent is None or not (agent.task_hooks or agent.event_hooks):
            return
        if self._calling is None:
            self._calling = self._tasks.loop.create_task(self._call_all(), name="accord-hooks")
        for event in events:
            if self._queue.full():
                self._left_out += 1
            else:
                self._queue.put_nowait(_Told(agent, log.namespace, log.ids, log.key, event))

    async def _call_all(self) -> None:
        while True:
            told = await self._queue.get()
            try:
                await self._tell(told)
            except Exception:  # of ours: the next must be told
                log_.exception("hooks of task %s could not be called", told.ids.task_id)
            finally:
                self._queue.task_done()
            if self._left_out and self._queue.empty():
                log_.error("hooks are too slow: %d events were left out", self._left_out)
                self._left_out = 0

    async def _tell(self, told: _Told) -> None:
        event, state = told.event, told.event.state
        if told.agent.event_hooks:
            for hook in told.agent.event_hooks:
                await self._call(hook, v1.decode_event(event.data), told)
        if state is None or self._states.get(told.key) is state:
            return
        self._states[told.key] = state
        if state in FINAL:
            del self._states[told.key]
        if told.agent.task_hooks:
            task = await self._tasks.reader.at(told.namespace, told.ids.task_id, event.pos)
            for on_task in told.agent.task_hooks if task is not None else ():
                await self._call(on_task, task, told)

    async def _call(self, hook: Callable[[Any], Any], what: Any, told: _Told) -> None:
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
                *(name, told.ids.task_id),
                extra={"task_id": told.ids.task_id},
            )


def _is_cancelled() -> bool:
    """Whether this is the end of the server, and nothing that a hook did to itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
