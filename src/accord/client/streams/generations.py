"""Generations of a task, as a reader of its events uses them (A2A 1.1, section 3.2.7). Pure."""

from enum import Enum

__all__ = ["EventStep", "Generations"]


class EventStep(Enum):
    """What an event is, by its generation."""

    NEXT = "next"
    KNOWN = "known"  # its change is in the task that was read
    GAP = "gap"  # something happened before it that was not told


class Generations:
    """Notices events that are missing, and events that the task already has.

    An agent that says 0, or the same number twice in a row, has no generations: from then on every
    event is the next one. A task is no event: it says where counting goes on, and proves nothing.
    """

    def __init__(self) -> None:
        self.is_on = True
        self._event = 0  # of the last event
        self._known = 0  # of the last task or event

    def see_task(self, generation: int) -> None:
        """A task was read."""
        if not generation:
            self.is_on = False
        self._known = generation

    def see_event(self, generation: int) -> EventStep:
        """Return what an event is that has come."""
        last, self._event = self._event, generation
        if not generation or generation <= last:
            self.is_on = False
        if not self.is_on:
            return EventStep.NEXT
        if generation <= self._known:
            return EventStep.KNOWN
        is_next = not self._known or generation == self._known + 1
        if is_next:
            self._known = generation
        return EventStep.NEXT if is_next else EventStep.GAP
