"""The index: one document per skill, in SQLite's full-text search, in memory.

It is a cache: every process has its own, made from the registry's entries, with the same ranking
whatever the database.
"""

import math
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from .words import words_of

__all__ = ["Index", "IndexHit", "SkillDocument"]

# What a word is worth in: agent, skill, tags, description, examples.
_WEIGHTS = (2.0, 6.0, 4.0, 2.0, 3.0)
_COLUMNS = ("agent", "skill", "tags", "description", "examples")
# What a word counts that is there with another ending only: `universe` and `university` have one
# stem.
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
    coverage: float  # how much of the request was found, 0 to 1; by the stem it counts less
    as_written: float  # how much of it was found as it is written
    matched: tuple[str, ...]


class Index:
    """Skills by their words. Safe to use from several threads."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._lock = threading.Lock()
        # The words are split already; what is left to FTS5 are the endings of English words.
        self._db.execute(
            f"CREATE VIRTUAL TABLE docs USING fts5({', '.join(_COLUMNS)}, "
            "tokenize='porter unicode61')"
        )
        self._places: dict[int, tuple[str, str]] = {}
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
            del self._places[row]
        rows = []
        for document in documents:
            texts = [" ".join(words_of(text)) for text in document[2:]]
            cursor = self._db.execute("INSERT INTO docs VALUES (?, ?, ?, ?, ?)", texts)
            number = cursor.lastrowid
            assert number is not None  # it was inserted
            self._places[number] = (entry, document.skill)
            rows.append(number)
        if rows:
            self._rows[entry] = rows

    def search(
        self, words: Iterable[str], most: int, is_wanted: Callable[[str, str], bool]
    ) -> list[IndexHit]:
        """Return the best documents for some words: those `is_wanted` says yes to, by entry and
        skill.
        """
        quoted = {word: '"' + word.replace('"', '""') + '"' for word in words}
        if not quoted:
            return []
        weights = ", ".join(map(str, _WEIGHTS))
        with self._lock:
            having = {word: self._having(term) for word, term in quoted.items()}
            cursor = self._db.execute(
                f"SELECT rowid, bm25(docs, {weights}) AS score FROM docs WHERE docs MATCH ? "
                "ORDER BY score",
                (" OR ".join(quoted.values()),),
            )
            rows = []
            for row, score in cursor:
                if is_wanted(*self._places[row]):
                    rows.append((row, -float(score)))
                    if len(rows) >= most:
                        break
            cursor.close()
            found = [self._hit(row, score, having) for row, score in rows]
        return found

    def _having(self, term: str) -> frozenset[int]:
        """The documents that have a word, with any ending."""
        rows = self._db.execute("SELECT rowid FROM docs WHERE docs MATCH ?", (term,))
        return frozenset(row for (row,) in rows)

    def _worth(self, documents: frozenset[int]) -> float:
        """How much a word counts: the rarer, the more. One that is nowhere counts most."""
        return math.log(1 + max(len(self._places), 1) / (1 + len(documents)))

    def _hit(self, row: int, score: float, having: Mapping[str, frozenset[int]]) -> IndexHit:
        texts = self._db.execute("SELECT * FROM docs WHERE rowid = ?", (row,)).fetchone()
        written = {word for text in texts for word in text.split()}
        total = as_written = by_stem = 0.0
        for word, documents in having.items():
            worth = self._worth(documents)
            total += worth
            if word in written:
                as_written += worth
            elif row in documents:
                by_stem += worth
        matched = tuple(word for word, documents in having.items() if row in documents)
        coverage = (as_written + _BY_STEM * by_stem) / total
        return IndexHit(*self._places[row], score, coverage, as_written / total, matched)

    def close(self) -> None:
        self._db.close()
