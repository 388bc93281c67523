"""Every way into an entry of a hub: 8 bindings and versions, asked as bytes."""

from typing import Any, TypeAlias

import grpc

from accord.operations.table import VERSIONS
from tests.auth.matrix import GrpcDoor, RestDoor, RpcDoor

__all__ = ["WayIn", "ways_in"]

WayIn: TypeAlias = RpcDoor | RestDoor | GrpcDoor


def ways_in(app: Any, channel: grpc.aio.Channel, name: str) -> list[WayIn]:
    """The ways into the entry `name`."""
    base = f"/agents/{name}"
    v1, v03, v01 = VERSIONS
    v02 = v03._replace(number="0.2")  # spoken as 0.3 is
    assert "0.2" in v03.aliases
    return [
        *(RpcDoor(app, version, base) for version in (v1, v03, v02, v01)),
        *(RestDoor(app, version, base) for version in (v1, v03)),
        *(GrpcDoor(channel, version, name) for version in (v1, v03)),
    ]
