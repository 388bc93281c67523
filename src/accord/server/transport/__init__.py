"""What every port and connection shares: listening, TLS, bounded reading, unread answers."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .listener import Listener as Listener
    from .listener import bind_port as bind_port
    from .reading import BACKLOG as BACKLOG
    from .reading import BODY_WAITS as BODY_WAITS
    from .reading import TURN_S as TURN_S
    from .reading import UNREAD as UNREAD
    from .reading import PausableReader as PausableReader
    from .tasks import start_task as start_task
    from .tls import Tls as Tls
    from .unread import UnreadAnswers as UnreadAnswers
    from .unread import UnreadConnection as UnreadConnection

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
