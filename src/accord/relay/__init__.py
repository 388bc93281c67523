"""A relay: an agent whose tasks follow the tasks of another agent, event by event.

Callers talk to the relay, in any version and binding; it talks to the other agent, in whatever that
speaks. Ids are the relay's own, and its log is the truth for callers: they resume streams, send
under idempotency keys, list, subscribe and are notified, though the other agent may know none of
that, and while it is away.

A relay is an ordinary durable skill. What it has to know of the other agent's task is its private
record (`Remote`); how far it has followed stands in its own log.
"""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .proxy import NO_FORK as NO_FORK
    from .proxy import SharedClient as SharedClient
    from .proxy import fetch_card as fetch_card
    from .proxy import relayed_extensions as relayed_extensions
    from .proxy import relayed_skills as relayed_skills
    from .relay import Relay as Relay
    from .remote import Connect as Connect
    from .remote import RequestContext as RequestContext

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
