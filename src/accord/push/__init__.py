"""Push notifications: sent from the log of a task, signed; and received."""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .notifier import Notifier as Notifier
    from .outbox import Format as Format
    from .settings import PushSettings as PushSettings

__getattr__ = lazy(
    __name__,
    {
        "Format": "outbox",
        "Notifier": "notifier",
        "PushSettings": "settings",
    },
)
