"""Texts as words to search by: in lower case, without accents, Chinese as pairs of characters.

The same function prepares documents and requests, so that both agree on what a word is. Endings
are left to the index.
"""

import re
import unicodedata

from ..registry import plain

__all__ = ["is_chinese", "request_words", "words_of"]

_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_RUNS = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+|[^\W_]+")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_MAX_WORD = 40
_MAX_REQUEST = 2000

# Words that say nothing of what is wanted.
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        """
        a about an and any anyone are as at be been but by can could do does for from get give had
        has have help hello hey hi how i if in into is it its just like me my need no not of on or
        our please some someone that the their them then there these they this to us using want was
        we what when where which who will with would you your agent skill something
        """,
    )
)
_HAN_FILLERS = re.compile(
    "请问|请帮我|帮我|帮忙|我想要|我想|我要|需要|能不能|可不可以|可以|怎么|如何|一下|一个|什么|哪个|"
    "有没有|谁能|请|吗|呢|吧|的|了|把|给我|我|你"
)


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order."""
    found: list[str] = []
    if not text.isascii():
        text = plain(text)
    for run in _RUNS.findall(_CASE.sub(" ", text)):
        if not run.isascii() and _HAN.match(run):
            found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
        else:
            found.append(_plain(run))
    return found


def request_words(text: str) -> dict[str, str]:
    """Return the words of a request that say what is wanted, each with how it was written; all of
    them, if none does.
    """
    text = plain(text[:_MAX_REQUEST])[:_MAX_REQUEST]
    runs = _RUNS.findall(_CASE.sub(" ", _HAN_FILLERS.sub(" ", text)))
    content_words = [run for run in runs if run.lower() not in _FILLERS]
    found: dict[str, str] = {}
    for run in content_words or _RUNS.findall(_CASE.sub(" ", text)):
        for word in words_of(run):
            found.setdefault(word, word if _HAN.match(word) else run)
    return found


def is_chinese(text: str) -> bool:
    """Whether a text is mostly Chinese."""
    return 3 * len(_HAN.findall(text)) > len(text.replace(" ", ""))


def _plain(word: str) -> str:
    """A word in lower case, without accents."""
    if not word.isascii():
        split = unicodedata.normalize("NFKD", word)
        word = "".join(c for c in split if not unicodedata.combining(c))
    return word.lower()[:_MAX_WORD]
