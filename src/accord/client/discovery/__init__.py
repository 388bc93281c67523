"""Finding an agent: its card, its repair, and who may be reached."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .cards import CardFile as CardFile
    from .cards import Cards as Cards
    from .cards import card_of as card_of
    from .cards import fetch_card as fetch_card
    from .cards import get_card as get_card
    from .cards import read_json as read_json
    from .cards import verify_card as verify_card
    from .origins import ByOrigin as ByOrigin

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "ByOrigin": "origins",
            "CardFile": "cards",
            "Cards": "cards",
            "card_of": "cards",
            "fetch_card": "cards",
            "get_card": "cards",
            "read_json": "cards",
            "verify_card": "cards",
        },
    )
