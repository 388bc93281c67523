"""The web console of an agent: its page, its login, and what the page reads."""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .console import Console as Console

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__ = lazy(__name__, {"Console": "console"})
