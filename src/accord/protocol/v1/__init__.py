"""A2A 1.0: the codec of the server, the codecs of the client."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .rest_client import RestDialect as RestDialect
    from .rest_client import Route as Route

__getattr__ = lazy(
    __name__,
    {
        "RestDialect": "rest_client",
        "Route": "rest_client",
    },
)
