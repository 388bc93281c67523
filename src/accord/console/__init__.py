"""The web console of an agent: its page, its login, and what the page reads."""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .console import Console as Console
    from .console import link_of as link_of
    from .login import BrowserSessions as BrowserSessions
    from .openid import OpenIdLogin as OpenIdLogin
    from .pages import is_built as is_built

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
