"""The engine: logs of tasks, runs of skills, durable work."""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .offloading import LARGE as LARGE
    from .offloading import offload as offload

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
