"""Routes of trusted keys and networks: which cards count, and where the hub connects to."""

from collections.abc import Callable
from typing import Any

import msgspec

from ..access import Networks, TrustedKeys
from .router import ApiCall, ApiRoute, expires_ms

__all__ = ["TrustRoutes"]


class NewTrustedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key whose signatures on cards count: one of jwk, pem and url."""

    name: str
    jwk: dict[str, Any] | None = None  # a JWK, or a JWK set
    pem: str = ""
    url: str = ""
    expires_days: float | None = None


class NewNetwork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    what: str  # 10.20.0.0/16, hr.corp.example, *.corp.example
    why: str = ""


class TrustRoutes:
    """Trusted keys and networks."""

    def __init__(
        self,
        trusted: TrustedKeys,
        networks: Networks,
        now_ms: Callable[[], int],
    ) -> None:
        self._trusted = trusted
        self._networks = networks
        self._now_ms = now_ms

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                "GET",
                "/trusted-keys",
                "admin",
                self._list_trusted,
                "List keys whose signatures count",
            ),
            ApiRoute(
                *("POST", "/trusted-keys", "admin", self._trust, "Trust a key"),
                takes=NewTrustedKey,
                status=201,
            ),
            ApiRoute(
                "DELETE", "/trusted-keys/{id}", "admin", self._distrust, "Trust no more", status=204
            ),
            ApiRoute(
                "GET",
                "/networks",
                "admin",
                self._list_networks,
                "List private networks that are allowed",
            ),
            ApiRoute(
                *(
                    "POST",
                    "/networks",
                    "admin",
                    self._add_network,
                    "Allow a private network or host",
                ),
                takes=NewNetwork,
                status=201,
            ),
            ApiRoute(
                *("DELETE", "/networks", "admin", self._remove_network, "Allow it no more"),
                query=("what",),
                status=204,
            ),
        )

    async def _list_trusted(self, call: ApiCall) -> Any:
        return {"trusted_keys": self._trusted.keys}

    async def _trust(self, call: ApiCall) -> Any:
        new: NewTrustedKey = call.body
        return await self._trusted.add(
            call.principal,
            new.name,
            jwks=new.jwk,
            pem=new.pem,
            url=new.url,
            expires_ms=expires_ms(self._now_ms(), new.expires_days),
        )

    async def _distrust(self, call: ApiCall) -> Any:
        await self._trusted.remove(call.principal, call.path["id"])

    async def _list_networks(self, call: ApiCall) -> Any:
        return {"networks": self._networks.listed()}

    async def _add_network(self, call: ApiCall) -> Any:
        await self._networks.add(call.principal, call.body.what, call.body.why)
        return {"what": call.body.what, "why": call.body.why}

    async def _remove_network(self, call: ApiCall) -> Any:
        await self._networks.remove(call.principal, call.query.get("what", ""))
