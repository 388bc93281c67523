"""Proving: rounds of probes and checks, and the health they show."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .health import after_message as after_message
    from .health import after_reach as after_reach
    from .rounds import Prober as Prober

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
