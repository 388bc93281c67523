"""A2A 1.0: the codec of the server, the codecs of the client."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .rest_client import RestClientCodec as RestClientCodec
    from .rest_client import RestRequest as RestRequest

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "RestClientCodec": "rest_client",
            "RestRequest": "rest_client",
        },
    )
