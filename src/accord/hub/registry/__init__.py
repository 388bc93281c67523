"""The registry: agents that were added, the versions of their cards, and their differences."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .admission import AgentAdmission as AgentAdmission
    from .cards import CardReader as CardReader
    from .entries import HEALTH_STATES as HEALTH_STATES
    from .entries import CardVersion as CardVersion
    from .entries import Entry as Entry
    from .entries import EntrySettings as EntrySettings
    from .entries import EntryState as EntryState
    from .entries import Health as Health
    from .entries import SignatureReport as SignatureReport
    from .entries import Visibility as Visibility
    from .entries import origins_of as origins_of
    from .health import HealthRecords as HealthRecords
    from .registry import Registry as Registry
    from .sanitizer import UNTRUSTED as UNTRUSTED
    from .sanitizer import plain as plain
    from .sanitizer import sanitize_card as sanitize_card
    from .sanitizer import sanitize_id as sanitize_id
    from .sanitizer import sanitize_line as sanitize_line
    from .sanitizer import sanitize_skill as sanitize_skill
    from .sanitizer import sanitize_text as sanitize_text
    from .sanitizer import skill_id as skill_id
    from .versions import CardVersions as CardVersions

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
