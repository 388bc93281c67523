"""The objects of the protocol, in the shape of A2A 1.0. Imports nothing else of ours."""

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


def __dir__() -> list[str]:
    """List the names of the model, and nothing of how they got here."""
    return [name for name, value in globals().items() if name[0] != "_" and not _is_module(value)]


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"
