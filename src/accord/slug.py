"""Names that people choose, as they stand in paths, file names and identifiers."""

import difflib
import hashlib
import heapq
import re
import unicodedata
from collections.abc import Iterable
from itertools import islice, pairwise

__all__ = ["nearest", "slug_of"]

_OTHER = re.compile(r"[^a-z0-9]+")
# Strangers may ask for any name, and comparing takes time: how long a name may be to have a hint,
# how many known ones are looked at, and how many of those are compared letter by letter.
_LONGEST, _KNOWN, _COMPARED = 200, 500, 20
_WRITTEN = {"Lu", "Ll", "Lt", "Lm", "Lo", "Nd"}  # Unicode categories of letters and digits


def slug_of(name: str, *, between: str = "-", otherwise: str = "agent", most: int = 100) -> str:
    """Return a name in small letters, digits and hyphens, of at most `most` characters.

    What can't be written so is left out. If letters of another script than Latin are, or nothing
    remains, eight digits of a digest of the name follow, so that two such names differ: `天气` is
    `agent-4d947325`.
    """
    slug = _OTHER.sub(between, name.lower()).strip(between)
    if slug and not any(map(_is_of_another_script, name)):
        return slug[:most].rstrip(between)
    if not name:
        return otherwise
    digest = hashlib.sha256(unicodedata.normalize("NFC", name).encode()).hexdigest()[:8]
    words = (slug or otherwise)[: most - 9].rstrip(between)
    return f"{words}{between}{digest}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name that was probably meant; empty if none is like it. Of very many names not all
    are compared.
    """
    if len(name) > _LONGEST:
        return ""
    pairs = _pairs(name)
    near = (one for one in known if abs(len(one) - len(name)) <= 1 + len(name) // 2)
    alike = heapq.nlargest(
        _COMPARED, islice(near, _KNOWN), key=lambda one: len(pairs & _pairs(one))
    )
    found = difflib.get_close_matches(name, alike, n=1, cutoff=0.5)
    return found[0] if found else ""


def _pairs(name: str) -> set[tuple[str, str]]:
    """Return the pairs of letters that stand side by side in a name."""
    return set(pairwise(name))


def _is_of_another_script(char: str) -> bool:
    if char.isascii() or unicodedata.category(char) not in _WRITTEN:
        return False
    return not unicodedata.name(char, "").startswith("LATIN")
