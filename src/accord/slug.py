"""Names that people choose, as they stand in paths, file names and identifiers."""

import hashlib
import re
import unicodedata

__all__ = ["slug_of"]

_OTHER = re.compile(r"[^a-z0-9]+")
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


def _is_of_another_script(char: str) -> bool:
    if char.isascii() or unicodedata.category(char) not in _WRITTEN:
        return False
    return not unicodedata.name(char, "").startswith("LATIN")
