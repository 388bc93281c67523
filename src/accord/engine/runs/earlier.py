"""The earlier tasks of a run's conversation."""

from typing import TYPE_CHECKING, Any

from ...model import Task

if TYPE_CHECKING:
    from .run import Run

__all__ = ["conversation"]


async def conversation(run: "Run", limit: int) -> list[Task]:
    """Looked up in a step: which tasks these were, and how far they had come, is the same in every life."""
    own, scope, feed = run.log.task, run.log.scope, run.feed
    seen: dict[str, Task] = {}

    async def look(limit: int) -> list[Any]:
        found = [(one.task, one.seq) for one in reversed(await feed.context(scope, own.context_id, limit + 1))]
        seen.update({task.id: task for task, _ in found})
        return [[task.id, seq] for task, seq in found if task.id != own.id][-limit:]

    places = await run.steps.do(look, (limit,), "ctx.conversation", 0)
    tasks = [seen.get(id_) or await feed.earlier(scope, id_, seq) for id_, seq in places]
    return [task for task in tasks if task is not None]
