"""The objects of the protocol, in the shape of A2A 1.0. Imports nothing else of ours."""

from typing import TYPE_CHECKING

from . import errors as errors
from .base import *  # noqa: F403  one room, one namespace: each file's __all__ says what it adds
from .card import *  # noqa: F403
from .choices import *  # noqa: F403
from .errors import *  # noqa: F403
from .errors import error_of as error_of
from .extensions import *  # noqa: F403
from .file import *  # noqa: F403
from .fold import *  # noqa: F403
from .fork import *  # noqa: F403
from .limits import *  # noqa: F403
from .numbers import *  # noqa: F403
from .progress import *  # noqa: F403
from .push import *  # noqa: F403
from .question import *  # noqa: F403
from .reference import *  # noqa: F403
from .requests import *  # noqa: F403
from .task import *  # noqa: F403

# For the rest of Accord; everything else is for users, and docs/stability.md promises it.
_OURS = frozenset(
    [
        "FILE_SCHEME",
        "TYPE_CHECKING",
        "FINAL",
        "INTERRUPTED",
        "MAX_FETCHED",
        "MAX_SIGNATURES",
        "FileReference",
        "Fold",
        "ForkPoint",
        "Metadata",
        "Model",
        "OpenPart",
        "OpenUrl",
        "OpeningFile",
        "PathPart",
        "TimelineEntry",
        "brief",
        "chunk_offset",
        "error_of",
        "errors",
        "fitted_name",
        "fork_metadata",
        "fork_point",
        "join_files",
        "join_text",
        "naming",
        "now_ms",
        "question_id",
        "question_metadata",
        "question_named",
        "timestamp",
        "whole_number",
        "without_fork",
    ]
)

if not TYPE_CHECKING:  # which must find our own names too
    __all__ = [
        name
        for name, value in sorted(globals().items())
        if name[0] != "_" and name not in _OURS and type(value).__name__ != "module"
    ]


def __dir__() -> list[str]:
    """List the names for users, and nothing of how they got here."""
    return list(globals()["__all__"])
