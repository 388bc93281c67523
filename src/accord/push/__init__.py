"""Push notifications: sent from the log of a task, signed; and received."""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .delivery import Deliverer as Deliverer
    from .delivery import Notification as Notification
    from .delivery import SeenAttempt as SeenAttempt
    from .delivery import Verdict as Verdict
    from .notifier import Notifier as Notifier
    from .outbox import Format as Format
    from .receiver import Notified as Notified
    from .receiver import Receiver as Receiver
    from .receiver import Refusal as Refusal
    from .serving import listening as listening
    from .settings import PushSettings as PushSettings
    from .webhooks import Webhook as Webhook

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
    # For users: docs/stability.md promises these. The other names are for the rest of Accord, and
    # type checkers must find those too.
    __all__ = [
        "Notified",
        "PushSettings",
        "Receiver",
        "Refusal",
    ]
