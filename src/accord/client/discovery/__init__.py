"""Finding an agent: its card, its repair, and who may be reached."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .cards import CardFile as CardFile
    from .cards import Cards as Cards
    from .cards import card_of as card_of
    from .cards import fetch_card as fetch_card
    from .cards import get_card as get_card
    from .cards import get_catalog as get_catalog
    from .cards import read_json as read_json
    from .cards import verify_card as verify_card
    from .catalog import CARD_TYPES as CARD_TYPES
    from .catalog import CATALOG_PLACE as CATALOG_PLACE
    from .catalog import CatalogFault as CatalogFault
    from .catalog import ListedAgent as ListedAgent
    from .catalog import walk_catalog as walk_catalog
    from .origins import ByOrigin as ByOrigin
    from .origins import WithHeaders as WithHeaders

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
