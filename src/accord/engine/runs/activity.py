"""What the function of a run is doing: the branches that work or wait, the steps under way, and the
times it waits for.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ...model import INTERRUPTED
from .lifecycle import State

if TYPE_CHECKING:
    from .run import Run

__all__ = ["Activity"]

AWAKE_MS = 10_000  # for a shorter sleep a function stays in memory
_SURE_S = 0.1


class Activity:
    """Counts what the function of a run does, and knows when nothing but waiting is left.

    Then the run waits. If all it waits for is a time that is not near, it may be given up until
    then.
    """

    __slots__ = ("_busy", "_due", "_run", "_steps")

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._busy = 1  # branches of the function that do not wait for anything of ours
        self._steps = 0  # under way
        self._due: list[int] = []  # when something is to happen that a branch waits for

    # Beginning something

    async def may_begin(self) -> None:
        """Return if something new may be begun. If the run is being given up, that is never: its
        function is about to be cancelled.

        Nor is anything begun while another process may have taken the task.
        """
        run = self._run
        while not run.runs.tasks.store.is_sure and not run.is_over:  # noqa: ASYNC110  the store notifies nobody
            await asyncio.sleep(_SURE_S)
        if run.life.state is State.RELEASING:
            await run.loop.create_future()
        if run.is_over:
            raise asyncio.CancelledError

    @property
    def has_steps(self) -> bool:
        """Return whether a step is under way."""
        return self._steps > 0

    def begin_step(self) -> None:
        """Count a step as under way."""
        self._steps += 1

    def end_step(self) -> None:
        """Count a step as done. A run that is being given up ends with its last one."""
        self._steps -= 1
        if self._run.life.state is State.RELEASING and not self._steps:
            self._run.leave()

    # Waiting

    def pause(self) -> None:
        """Count a branch as waiting: for the client, for a time, or for branches of its own."""
        run = self._run
        self._busy -= 1
        if self._busy <= 0 and (run.asks or self._due) and run.life.wait():
            run.runs.waits(run)

    def resume(self) -> None:
        """Count a branch as working: it goes on, or begins."""
        run = self._run
        self._busy += 1
        if run.life.resume():
            run.runs.tasks.working.add(run, run.log.namespace.caller)

    def was_left(self, what: str) -> None:
        """Log, once for each skill, that the function stopped waiting of its own accord: perhaps
        for a time limit, which begins anew after a restart.
        """
        skill, known = self._run.skill, self._run.runs.left_early
        if skill.is_durable and skill.id not in known:
            known.add(skill.id)
            self._run.output.complain(
                logging.WARNING,
                f"it stopped waiting in {what}; if that was asyncio.timeout, its time begins anew "
                "after a restart: use ctx.ask(..., within=...) for a deadline that stays",
            )

    # Times

    def add_due(self, due_ms: int) -> None:
        """Note a time that a branch waits for. If the run is given up before, it is resumed in
        time.
        """
        self._due.append(due_ms)
        self.show_due()

    def remove_due(self, due_ms: int) -> None:
        """Forget such a time: it has come, or nobody waits for it any more."""
        self._due.remove(due_ms)
        self.show_due()

    @property
    def next_due_ms(self) -> int:
        """Return the next of these times; 0 if there is none."""
        return min(self._due, default=0)

    def show_due(self) -> None:
        """Have the row of a task say when it is due while it waits for its client: if the process
        dies, nobody owns it. A task that is worked on is an orphan then.
        """
        run, log = self._run, self._run.log
        if log.commits.is_lost or run.is_over:
            return
        if log.state not in INTERRUPTED:
            log.due_ms = 0
            return
        # An earlier attempt may have known of more than this one has come to.
        known = [log.due_ms] if run.history is not None and log.due_ms else []
        log.due_ms = min([*self._due, *known], default=0)

    @property
    def can_sleep(self) -> bool:
        """Return whether nothing goes on but waiting for a time that is not near, so that the run
        may be given up until then.
        """
        run = self._run
        left_ms = self.next_due_ms - run.clock.now_ms()
        is_free = not run.asks and not self._steps and not run.is_pending
        return run.skill.is_durable and is_free and left_ms > AWAKE_MS
