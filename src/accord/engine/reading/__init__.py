"""Reading tasks: receipts, views, tails, and what other processes write."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .reader import Reader as Reader
    from .receipt import Receipt as Receipt
    from .tail import Tail as Tail
    from .view import OUTCOME_S as OUTCOME_S
    from .view import View as View
    from .view import unread as unread
    from .views import Views as Views

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
