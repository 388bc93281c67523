"""Suggest the word that was probably meant."""

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'list'?" for `lst`; nothing if no known word is like it. Click
    quotes like this in its own hints.
    """
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{near[0]}'?" if near else ""
