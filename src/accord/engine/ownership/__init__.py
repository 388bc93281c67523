"""Whose a task is: one slot for each task in this process, and the directory of them."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .audit import OwnershipAudit as OwnershipAudit
    from .directory import Directory as Directory
    from .slot import Place as Place
    from .slot import SlotRun as SlotRun
    from .slot import TaskSlot as TaskSlot
    from .state import LIVE as LIVE
    from .state import SlotState as SlotState

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
