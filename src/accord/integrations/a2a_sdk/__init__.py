"""Programs written for a2a-sdk 0.2, 0.3 or 1.x: their executors as skills, and whole programs."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .executor import add_skills as add_skills
    from .executor import agent_of as agent_of
    from .program import run_program as run_program

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
