"""Durable work: recorded steps and their replay."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .branches import PLACE as PLACE
    from .branches import Branch as Branch
    from .branches import Delegates as Delegates
    from .branches import Place as Place
    from .branches import place_in as place_in
    from .history import History as History
    from .history import Mismatch as Mismatch
    from .history import read_history as read_history
    from .output import Output as Output
    from .output import Send as Send
    from .steps import StepFailed as StepFailed
    from .steps import Steps as Steps

__getattr__ = lazy(
    __name__,
    {
        "Branch": "branches",
        "Delegates": "branches",
        "History": "history",
        "Mismatch": "history",
        "Output": "output",
        "PLACE": "branches",
        "Place": "branches",
        "Send": "output",
        "StepFailed": "steps",
        "Steps": "steps",
        "place_in": "branches",
        "read_history": "history",
    },
)
