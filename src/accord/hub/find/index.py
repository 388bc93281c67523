"""The index: one document per skill, in SQLite's full-text search, in memory.

It is a cache: every process has its own, made from the registry's entries, with the same ranking
whatever the database.
"""

import math
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from .words import is_chinese, plain_words, words_of

__all__ = ["Index", "IndexHit", "SkillDocument"]

# What a word is worth in: agent, skill, tags, description, examples.
_WEIGHTS = (2.0, 6.0, 4.0, 2.0, 3.0)
_COLUMNS = ("agent", "skill", "tags", "description", "examples")
# What a word counts that is there with another ending only: `police` and `policy` have one stem.
_BY_STEM = 0.59


class SkillDocument(NamedTuple):
    """A skill as it is searched for."""

    entry: str  # the entry's name
    skill: str  # the skill's id
    agent_text: str
    skill_text: str
    tags: str
    description: str
    examples: str


class IndexHit(NamedTuple):
    entry: str
    skill: str
    bm25: float  # larger is better
    coverage: float  # how much of the request was found, 0 to 1
    matched: tuple[str, ...]


class Index:
    """Skills by their words. Safe to use from several threads."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._lock = threading.Lock()
        columns = ", ".join(_COLUMNS)
        # The words are ours already: split, in lower case, without endings.
        self._db.execute(f"CREATE VIRTUAL TABLE docs USING fts5({columns}, tokenize='unicode61')")
        self._db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab('docs', 'row')")
        self._places: dict[int, tuple[str, str]] = {}
        self._written: dict[int, set[str]] = {}  # the words of each document, with their endings
        self._rows: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def put(self, entry: str, documents: list[SkillDocument]) -> None:
        """Replace the documents of an entry; an empty list removes it."""
        with self._lock:
            self._put(entry, documents)

    def _put(self, entry: str, documents: list[SkillDocument]) -> None:
        for row in self._rows.pop(entry, ()):
            self._db.execute("DELETE FROM docs WHERE rowid = ?", (row,))
            del self._places[row], self._written[row]
        rows = []
        for document in documents:
            texts = [" ".join(words_of(text)) for text in document[2:]]
            cursor = self._db.execute("INSERT INTO docs VALUES (?, ?, ?, ?, ?)", texts)
            number = cursor.lastrowid
            assert number is not None  # it was inserted
            self._places[number] = (entry, document.skill)
            self._written[number] = plain_words(" ".join(document[2:]))
            rows.append(number)
        if rows:
            self._rows[entry] = rows

    def search(
        self, words: Mapping[str, str], most: int, is_wanted: Callable[[str, str], bool]
    ) -> list[IndexHit]:
        """Return the best documents for some words, given with how they were written: those
        `is_wanted` says yes to, by entry and skill.
        """
        if not words:
            return []
        quoted = ['"' + word.replace('"', '""') + '"' for word in words]
        weights = ", ".join(map(str, _WEIGHTS))
        with self._lock:
            worth = self._worth(words)
            cursor = self._db.execute(
                f"SELECT rowid, bm25(docs, {weights}) AS score FROM docs WHERE docs MATCH ? "
                "ORDER BY score",
                (" OR ".join(quoted),),
            )
            rows = []
            for row, score in cursor:
                if is_wanted(*self._places[row]):
                    rows.append((row, -float(score)))
                    if len(rows) >= most:
                        break
            cursor.close()
            found = [self._hit(row, score, worth, words) for row, score in rows]
        return found

    def _worth(self, words: Iterable[str]) -> dict[str, float]:
        """How much each word tells: the rarer, the more. One that is nowhere tells most."""
        total = max(len(self._places), 1)
        worth = {}
        for word in words:
            found = self._db.execute("SELECT doc FROM terms WHERE term = ?", (word,)).fetchone()
            count = found[0] if found is not None else 0
            worth[word] = math.log(1 + total / (1 + count))
        return worth

    def _hit(
        self, row: int, score: float, worth: dict[str, float], words: Mapping[str, str]
    ) -> IndexHit:
        texts = self._db.execute("SELECT * FROM docs WHERE rowid = ?", (row,)).fetchone()
        present = {word for text in texts for word in text.split()}
        matched = tuple(word for word in worth if word in present)
        written = self._written[row]
        found = 0.0
        for word in matched:
            # A pair of Chinese characters has no ending.
            is_same = is_chinese(word) or plain_words(words[word]) <= written
            found += worth[word] * (1.0 if is_same else _BY_STEM)
        coverage = found / (sum(worth.values()) or 1.0)
        return IndexHit(*self._places[row], score, coverage, matched)

    def close(self) -> None:
        self._db.close()
