"""Whose a task is: one slot for each task in this process, and the directory of them."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .audit import OwnershipAudit as OwnershipAudit
    from .directory import Directory as Directory
    from .slot import Owner as Owner
    from .slot import Place as Place
    from .slot import TaskSlot as TaskSlot
    from .state import SlotState as SlotState

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "Directory": "directory",
            "Owner": "slot",
            "OwnershipAudit": "audit",
            "Place": "slot",
            "TaskSlot": "slot",
            "SlotState": "state",
        },
    )
