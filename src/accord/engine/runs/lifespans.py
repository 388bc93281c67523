"""The lifespans of an engine's agents: opened before the first run, closed after the last."""

import asyncio
import logging
from typing import Any

from ..skills import NO_RESOURCES, AgentDefinition, Lifespan, Skill

__all__ = ["Lifespans"]

log_ = logging.getLogger("accord")


class Lifespans:
    """Opens lifespans, and closes them in the reverse order."""

    def __init__(self) -> None:
        self._open: dict[Lifespan, _Opened] = {}

    def resources(self, skill: Skill) -> Any:
        """Return what the lifespan of a skill's agent has yielded."""
        opened = self._open.get(skill.lifespan) if skill.lifespan is not None else None
        return opened.resources if opened is not None else NO_RESOURCES

    async def open(self, agent: AgentDefinition) -> None:
        """Open the lifespan of an agent, if it has one.

        Raises:
            Exception: What it raised; it is closed then.
        """
        if agent.life is None or agent.life in self._open:
            return
        opened = _Opened(agent.life)
        await opened.open()
        self._open[agent.life] = opened
        hints = {skill.function.__qualname__: skill.hints for skill in agent.skills.values()}
        agent.life.check_unannotated(opened.resources, hints)

    async def close(self) -> None:
        """Close what is open. What fails is logged, and the others are closed all the same."""
        while self._open:
            lifespan, opened = self._open.popitem()
            try:
                await opened.close()
            except Exception:
                log_.exception("the lifespan %s failed as it was closed", lifespan.name)


class _Opened:
    """A lifespan that is entered and left in one task, as task groups and cancel scopes within it
    need.
    """

    def __init__(self, lifespan: Lifespan) -> None:
        loop = asyncio.get_running_loop()
        self._lifespan = lifespan
        self._yielded: asyncio.Future[Any] = loop.create_future()
        self._is_last_run_over = asyncio.Event()
        self._task = loop.create_task(self._live(), name=f"lifespan {lifespan.name}")
        self.resources: Any = NO_RESOURCES

    async def _live(self) -> None:
        try:
            async with self._lifespan.open() as resources:
                self._yielded.set_result(resources)
                await self._is_last_run_over.wait()
        finally:
            if self._yielded.done() and not self._is_last_run_over.is_set():
                log_.error("the lifespan %s ended while the agent is served", self._lifespan.name)

    async def open(self) -> None:
        try:
            await asyncio.wait({self._task, self._yielded}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self._task.cancel()
            await asyncio.wait({self._task})
            raise
        if not self._yielded.done():
            await self._task  # raises what it raised
        self.resources = self._yielded.result()

    async def close(self) -> None:
        self._is_last_run_over.set()
        await self._task
