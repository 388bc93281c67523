"""Runs of skills: their states, questions, recovery, and the retention of what they leave."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .engine import Engine as Engine
    from .engine import not_found as not_found
    from .first_word import FirstWord as FirstWord
    from .history import conversation as conversation
    from .retention import Retention as Retention
    from .retention import before_ms as before_ms
    from .run import Run as Run
    from .runs import Begun as Begun

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "Begun": "runs",
            "Engine": "engine",
            "FirstWord": "first_word",
            "Retention": "retention",
            "Run": "run",
            "before_ms": "retention",
            "conversation": "history",
            "not_found": "engine",
        },
    )
