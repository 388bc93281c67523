"""Who calls."""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .caller import ANONYMOUS as ANONYMOUS
    from .caller import Caller as Caller

__getattr__ = lazy(
    __name__,
    {
        "ANONYMOUS": "caller",
        "Caller": "caller",
    },
)
