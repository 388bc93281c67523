"""A2A 1.0: the codec of the server, the codecs of the client."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .rest_client import RestClientCodec as RestClientCodec
    from .rest_client import RestRequest as RestRequest

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
