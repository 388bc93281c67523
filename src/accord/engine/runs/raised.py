"""What a function raised, as it is written into the log of its task: for operators only."""

import traceback

from ..log import Raised

__all__ = ["raised"]

MAX_MESSAGE = 2_000  # characters
MAX_TRACEBACK = 16_000
_CUT = "\n... cut ...\n"


def raised(reference: str, error: BaseException) -> Raised:
    """Return the entry that says why a task failed, of a bounded size. Of a long traceback the
    beginning and the end are kept: where it began, and what was raised.
    """
    try:
        message = str(error)
    except Exception:
        message = "(its text can't be read)"
    lines = traceback.TracebackException.from_exception(error, limit=-50, max_group_width=5)
    kind = type(error)
    name = kind.__qualname__
    return Raised(
        reference,
        name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}",
        _bounded(message, MAX_MESSAGE),
        _bounded("".join(lines.format()), MAX_TRACEBACK),
    )


def _bounded(text: str, most: int) -> str:
    text = text.encode(errors="backslashreplace").decode()  # half of a surrogate pair is no text
    if len(text) <= most:
        return text
    half = (most - len(_CUT)) // 2
    return text[:half] + _CUT + text[-half:]
