"""Durable work: recorded steps and their replay."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .backoff import Backoff as Backoff
    from .branches import RUN_POSITION as RUN_POSITION
    from .branches import Branch as Branch
    from .branches import DelegateOptions as DelegateOptions
    from .branches import Delegates as Delegates
    from .branches import RunPosition as RunPosition
    from .branches import position_in as position_in
    from .fork import Copied as Copied
    from .fork import Cut as Cut
    from .fork import copy_log as copy_log
    from .fork import cut_log as cut_log
    from .history import History as History
    from .history import Mismatch as Mismatch
    from .history import read_history as read_history
    from .output import Output as Output
    from .output import Send as Send
    from .steps import StepFailed as StepFailed
    from .steps import Steps as Steps
    from .timers import Expired as Expired
    from .timers import Timers as Timers
    from .timers import end_of_sleep as end_of_sleep
    from .timers import expired as expired
    from .timers import within_ms as within_ms

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
