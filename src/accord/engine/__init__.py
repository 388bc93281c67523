"""The engine: logs of tasks, runs of skills, durable work."""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .offloading import LARGE as LARGE
    from .offloading import offload as offload

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "LARGE": "offloading",
            "offload": "offloading",
        },
    )
