"""Changes of the schema, in order."""

from typing import TYPE_CHECKING

from ....lazy import lazy

if TYPE_CHECKING:
    from .runner import check as check
    from .runner import migrate as migrate
    from .runner import newest as newest
    from .runner import version as version

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "check": "runner",
            "migrate": "runner",
            "newest": "runner",
            "version": "runner",
        },
    )
