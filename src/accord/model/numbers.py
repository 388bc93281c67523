"""Whole numbers as strangers write them: in headers, queries and cards."""

import re

__all__ = ["whole_number"]

_DIGITS = re.compile(r"[0-9]{1,20}")
_MOST = 2**53 - 1  # the largest that JSON keeps everywhere


def whole_number(text: str | bytes, most: int = _MOST) -> int | None:
    """Return a number from 0 to `most` written in ASCII digits; None for any other text.

    `isdigit` before `int` is not enough: `"²"` passes it, and so do 5,000 digits; `int` raises
    for both.
    """
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    if not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if number <= most else None
