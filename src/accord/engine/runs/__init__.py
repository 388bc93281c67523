"""Runs of skills: their states, questions, recovery, and the retention of what they leave."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .engine import Engine as Engine
    from .fork import Fork as Fork
    from .history import conversation as conversation
    from .pending import PendingTask as PendingTask
    from .refusals import not_found as not_found
    from .retention import Retention as Retention
    from .retention import age_ms as age_ms
    from .run import Run as Run
    from .runs import Begun as Begun

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
