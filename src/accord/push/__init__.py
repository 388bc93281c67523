"""Push notifications: sent from the log of a task, signed; and received."""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .notifier import Notifier as Notifier
    from .outbox import Format as Format
    from .receiver import Notified as Notified
    from .receiver import Receiver as Receiver
    from .receiver import Refusal as Refusal
    from .settings import PushSettings as PushSettings

__getattr__ = lazy(
    __name__,
    {
        "Format": "outbox",
        "Notified": "receiver",
        "Notifier": "notifier",
        "PushSettings": "settings",
        "Receiver": "receiver",
        "Refusal": "receiver",
    },
)
