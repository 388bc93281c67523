"""Finding agents by what is asked of them: words, and if there are vectors, meaning."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .finder import AgentHit as AgentHit
    from .finder import Finder as Finder
    from .finder import SearchFilters as SearchFilters
    from .finder import SearchResult as SearchResult
    from .finder import SkillHit as SkillHit
    from .meaning import Meaning as Meaning
    from .meaning import open_meaning as open_meaning
    from .words import words_of as words_of

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
