"""Cancelling tasks, wherever they run."""

from typing import TYPE_CHECKING

from ...model import FINAL, Message, TaskNotCancelable, TaskState
from ...protocol import Snapshot
from ...store import Namespace, Record
from ..durable import read_history
from ..log import Log, state_of
from ..skills import Cancellation
from .messages import set_status
from .refusals import changes_hands, not_found
from .run import Run

if TYPE_CHECKING:
    from .posts import Posts
    from .runs import Runs

__all__ = ["MAX_ROUTES", "Cancels"]

MAX_ROUTES = 5  # how often a message or a cancel is taken to a task whose owner changes


class Cancels:
    """Ends tasks as canceled."""

    def __init__(self, runs: "Runs", posts: "Posts") -> None:
        self.runs = runs
        self.tasks = runs.tasks
        self._posts = posts

    async def cancel(
        self, namespace: Namespace, task_id: str, *, twice_fails: bool = False
    ) -> Snapshot:
        """End a task as canceled and return it; one that is canceled already too, unless
        `twice_fails`.

        Raises:
            TaskNotFound: There is none, or it is not the caller's.
            TaskNotCancelable: It has ended otherwise, or did while it was being cancelled.
        """
        found: Log | Record | None = None
        for _ in range(MAX_ROUTES):
            found = await self.tasks.own(namespace, task_id)
            if found is None:
                raise not_found(task_id)
            snapshot: Snapshot | None
            if isinstance(found, Log):
                was_over = found.state in FINAL
                if not was_over:
                    await self.cancel_log(found)
                snapshot = await found.commits.stored(found.snapshot())
                self.tasks.directory.release(found)
            elif was_over := state_of(found.state) in FINAL:
                snapshot = await self.tasks.reader.shown(found, None)
            else:
                snapshot = await self._posts.cancel(found)
            if snapshot is None or snapshot.state not in FINAL:
                continue  # its owner has left it
            if snapshot.state is not TaskState.CANCELED or (was_over and twice_fails):
                raise TaskNotCancelable(
                    f"task {task_id} is already {snapshot.state.word}", taskId=task_id
                )
            return snapshot
        raise changes_hands(found)

    async def cancel_log(self, log: Log) -> None:
        """End a task of ours as canceled, if it has not ended otherwise by then."""
        with log.slot.pinned():
            skill = self.runs.find_skill(log)
            word: Message | None = None
            if skill is not None and skill.on_cancel is not None:
                word = await skill.on_cancel(await self._cancellation(log))
            if isinstance(run := log.slot.run, Run):
                await run.cancel()
            elif log.state not in FINAL:
                set_status(log, TaskState.CANCELED, word)

    async def _cancellation(self, log: Log) -> Cancellation:
        run, private = log.slot.run, log.about.private
        if isinstance(run, Run):
            private = run.private
        elif not log.is_clear:
            await log.commits.stored()
            history = read_history(await self.tasks.reader.entries(log), self.runs.limits)
            private = (history.private if history is not None else "") or private
        running = run.task if isinstance(run, Run) and not run.is_waiting else None
        return Cancellation(
            log.ids.task_id,
            private,
            log.about.sender,
            log.namespace.tenant,
            running,
            log.snapshot().task,
        )
