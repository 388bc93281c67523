"""The log of tasks: one line, by the logger `accord.tasks`, for a task that ends or waits."""

import logging

from ...model import TaskState

__all__ = ["log_state"]

log_ = logging.getLogger("accord.tasks")


def log_state(task_id: str, state: TaskState, skill: str, caller: str, at_ms: int) -> None:
    """Log that a task has ended or waits for someone since `at_ms`."""
    if not log_.isEnabledFor(logging.INFO):
        return
    began_ms = _made_ms(task_id)
    ms = max(0, at_ms - began_ms) if began_ms is not None else None
    log_.info(
        "task %s is %s, skill=%s caller=%s%s",
        *(task_id, state.word, skill, caller or "-"),
        "" if ms is None else f" {ms} ms",
        extra={
            "task_id": task_id,
            "state": state.word,
            "skill": skill,
            "caller": caller,
            "ms": ms,
        },
    )


def _made_ms(task_id: str) -> int | None:
    """Return when a task was made: its id says so (UUID version 7), unless its client chose it."""
    if len(task_id) != 36 or task_id[14] != "7":
        return None
    try:
        return int(task_id[:8] + task_id[9:13], 16)
    except ValueError:
        return None
