"""Names of teams: one rule for every way by which one comes in."""

import re

from ..model import InvalidParams

__all__ = ["is_team_name", "team_name"]

# Names are stored side by side, and stand in rules (`team:hr`) and paths. So none has a space, a
# colon or a slash.
_NAME = re.compile(r"[\w.-]{1,63}")


def is_team_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def team_name(text: str) -> str:
    """Return the name of a team as it was given.

    Raises:
        InvalidParams: It is none.
    """
    if not is_team_name(text):
        raise InvalidParams(
            f"{text[:80]!r} is not the name of a team: use letters, digits, ., - and _, at most 63"
        )
    return text
