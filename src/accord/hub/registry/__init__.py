"""The registry: agents that were added, the versions of their cards, and their differences."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
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
    from .fence import UNTRUSTED as UNTRUSTED
    from .fence import fence_card as fence_card
    from .fence import fence_id as fence_id
    from .fence import fence_line as fence_line
    from .fence import fence_skill as fence_skill
    from .fence import fence_text as fence_text
    from .fence import plain as plain
    from .fence import skill_id as skill_id
    from .registry import Registry as Registry

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "CardReader": "cards",
            "CardVersion": "entries",
            "Entry": "entries",
            "EntrySettings": "entries",
            "EntryState": "entries",
            "HEALTH_STATES": "entries",
            "Health": "entries",
            "Registry": "registry",
            "SignatureReport": "entries",
            "UNTRUSTED": "fence",
            "Visibility": "entries",
            "fence_card": "fence",
            "fence_id": "fence",
            "fence_line": "fence",
            "fence_skill": "fence",
            "fence_text": "fence",
            "origins_of": "entries",
            "plain": "fence",
            "skill_id": "fence",
        },
    )
