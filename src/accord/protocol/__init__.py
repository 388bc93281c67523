"""The protocol on the wire: bytes to model and back, one folder per version. Pure: no clock, no
store, no network.
"""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .client import ClientCodec as ClientCodec
    from .client import EventFrame as EventFrame
    from .client import JsonObject as JsonObject
    from .client import status_error as status_error
    from .contract import DEFAULT_SEMANTICS as DEFAULT_SEMANTICS
    from .contract import Codec as Codec
    from .contract import CodecChoice as CodecChoice
    from .contract import RestCodec as RestCodec
    from .contract import Semantics as Semantics
    from .contract import Snapshot as Snapshot
    from .contract import TaskPage as TaskPage
    from .contract import Timeline as Timeline
    from .contract import encoded_size as encoded_size
    from .legacy_card import MEMBERS_SINCE_02 as MEMBERS_SINCE_02
    from .legacy_card import SCHEME_MEMBERS as SCHEME_MEMBERS
    from .legacy_card import card_version as card_version
    from .legacy_card import card_versions as card_versions
    from .legacy_card import needed_members as needed_members
    from .mending import MessageIds as MessageIds
    from .mending import Note as Note
    from .mending import read_mended as read_mended
    from .numbers import NEWEST as NEWEST
    from .numbers import NEWEST_OLD as NEWEST_OLD
    from .numbers import PREVIEW_NUMBERS as PREVIEW_NUMBERS
    from .numbers import BindingName as BindingName
    from .numbers import PreviewNumber as PreviewNumber
    from .numbers import VersionNumber as VersionNumber
    from .spoken import SPOKEN as SPOKEN
    from .spoken import SpokenVersion as SpokenVersion
    from .spoken import is_old as is_old
    from .spoken import spoken_version as spoken_version
    from .task_outline import outline as outline
    from .task_outline import texts as texts

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
