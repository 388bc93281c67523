"""Which line of code to name in the log: the one its reader can do something about."""

import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

__all__ = ["place_of", "stack_of"]

_SERVER = str(Path(__file__).with_name("server.py"))
_ACCORD = str(Path(__file__).parent.parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
_STANDARD = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})


def place_of(frames: Sequence[FrameType]) -> str:
    """Return the innermost place in the user's own code; if there is none in a library, else in the
    standard library or ours.

    The innermost frame comes first.
    """
    if not frames:
        return "an unknown place"
    found = max(frames, key=_rank)  # the first of the best
    return f"{found.f_code.co_filename}:{found.f_lineno} in {found.f_code.co_qualname}"


def stack_of(frame: FrameType) -> list[FrameType]:
    """Return a frame and its callers, up to our server: what is further out has started that."""
    frames, found = [frame], frame.f_back
    while found is not None and found.f_code.co_filename != _SERVER:
        frames.append(found)
        found = found.f_back
    return frames


def _rank(frame: FrameType) -> int:
    file = frame.f_code.co_filename
    if file.startswith((_ACCORD, "<frozen")):
        return 0
    if file.startswith(_LIBRARIES):
        return 1
    return 0 if file.startswith(_STANDARD) else 2
