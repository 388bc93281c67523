"""The versions that the client speaks, as data. A version is a row here and a folder beside it:
delete both, and it is gone. `operations/table.py` is the same for the server.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model import Event, Message
from .client import ClientCodec
from .contract import Semantics
from .mending import MessageIds, Note
from .numbers import NEWEST, NEWEST_OLD
from .v01 import client as v01_client
from .v03 import client as v03_client
from .v03 import rest_client as v03_rest_client
from .v1 import RestClientCodec
from .v1 import client as v1_client
from .v1 import rest_client as v1_rest_client
from .v11 import client as v11_client
from .v11 import requests as v11_requests
from .v11 import rest_client as v11_rest_client

if TYPE_CHECKING:
    from .protobuf import GrpcClientCodec

__all__ = ["SPOKEN", "SpokenVersion", "is_old", "spoken_version"]


class SpokenVersion(NamedTuple):
    """How to talk to agents of one version, and what can be expected of them."""

    number: str
    rpc: ClientCodec
    rest: RestClientCodec | None = None
    # the dialect of an agent by its `Server` header, where that may tell
    rest_of_server: Callable[[str], RestClientCodec | None] | None = None
    # the codec for gRPC, for a server that calls itself so
    grpc: "Callable[[str], GrpcClientCodec] | None" = None
    # requests with what stands beside them in the model; None: it has no place for that
    asked: Callable[[Any, Semantics], Any] | None = None
    is_preview: bool = False  # not released: spoken only if the user asks for it
    is_old: bool = False  # of before 1.0, which says much that they leave open
    snapshots_first: bool = True  # a subscription starts with the task as it stands
    names_tasks: bool = False  # new tasks get their id from the client; ended ones are reopened
    gets_extended_card: bool = False  # by a plain GET, not by a JSON-RPC method
    lists_push_configs: bool = True
    kind_member: str = ""  # the member that says what an object is
    # the answer to a send, as JSON, without what it adds to that of 1.0; None: nothing
    read_send: Callable[[Any], Any] | None = None
    # the event in a push notification that is written as 1.0 writes it
    read_pushed: Callable[[bytes, MessageIds, Note], Event | Message] = v1_client.read_event
    rest_prefix: str = ""  # in front of all paths


def _grpc_v1(server: str) -> "GrpcClientCodec":
    from .protobuf import client  # protobuf comes with an extra, and is slow to import

    return client.V1


def _grpc_v11(server: str) -> "GrpcClientCodec":
    from .v11 import grpc_client  # as above

    return grpc_client.CODEC


def _grpc_v03(server: str) -> "GrpcClientCodec":
    from .protobuf import client  # as above

    return client.codec_of_server(server) or client.V03


_V1_0 = SpokenVersion(NEWEST, v1_client, v1_rest_client, grpc=_grpc_v1)
_V0_3 = SpokenVersion(
    NEWEST_OLD,
    v03_client,
    v03_rest_client.RAW,
    v03_rest_client.codec_of_server,
    _grpc_v03,
    is_old=True,
    snapshots_first=False,
    kind_member="kind",
    rest_prefix="/v1",
)

_V1_1 = _V1_0._replace(
    number="1.1",
    rpc=v11_client,
    rest=v11_rest_client,
    grpc=_grpc_v11,
    asked=v11_requests.asked,
    read_send=v11_client.without_generations,
    read_pushed=v11_client.read_event,
    is_preview=True,
)
_V0_2 = _V0_3._replace(
    number="0.2",
    rest=None,
    rest_of_server=None,
    grpc=None,
    gets_extended_card=True,
    lists_push_configs=False,
)
_V0_1 = SpokenVersion(
    "0.1",
    v01_client,
    is_old=True,
    snapshots_first=False,
    names_tasks=True,
    lists_push_configs=False,
    kind_member="type",
)

SPOKEN = {version.number: version for version in (_V1_0, _V1_1, _V0_3, _V0_2, _V0_1)}


def spoken_version(number: str) -> SpokenVersion:
    """Return the version of this number; of one that is not known, what the newest is like."""
    return SPOKEN.get(number, _V1_0)


def is_old(number: str) -> bool:
    """Whether a version is of before 1.0, known or not."""
    return number.startswith("0.")
