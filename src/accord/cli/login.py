"""The login that commands use, if there is one for their agent."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..client import BadCard, agent_url
from ..net import origin_of

if TYPE_CHECKING:
    from ..client import SavedLogin

__all__ = ["login_at"]


def login_at(url: str) -> "SavedLogin | None":
    """Return the login for the agent at what was typed; None if nobody has logged in there."""
    from ..client import SavedLogin

    try:
        address = None if Path(url).is_file() else agent_url(url)
        origin = origin_of(address) if address is not None else ""
    except (BadCard, ValueError, OSError):
        return None  # `connect` says what is wrong with it
    login = SavedLogin()
    try:
        return login if origin and login.has(origin) else None
    except ValueError as error:
        raise click.ClickException(str(error)) from error
