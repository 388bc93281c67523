"""The earlier tasks of a run's conversation."""

from typing import TYPE_CHECKING

from ...model import Task

if TYPE_CHECKING:
    from .run import Run

__all__ = ["conversation"]


async def conversation(run: "Run", limit: int) -> list[Task]:
    """Return the newest tasks of the conversation of a run. They are looked up in a step: which
    these were, and how far they had come, is the same in every attempt.
    """
    tasks, namespace = run.runs.tasks, run.log.namespace
    seen: dict[str, Task] = {}

    async def fetch() -> list[tuple[str, int]]:
        found = list(
            reversed(await tasks.reader.conversation(namespace, run.log.ids.context_id, limit + 1))
        )
        seen.update({task.id: task for task, _ in found})
        return [(task.id, pos) for task, pos in found if task.id != run.task_id][-limit:]

    places = await run.steps.step(fetch, (), name="ctx.conversation")
    found = [seen.get(id_) or await tasks.reader.at(namespace, id_, pos) for id_, pos in places]
    return [task for task in found if task is not None]
