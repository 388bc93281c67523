"""Routes of credentials: what is written is never read back."""

from typing import Any

from ...model import InvalidParams
from ..access import Networks, NewCredential, Vault
from ..errors import HubError, address_fix
from .router import ApiCall, ApiRoute

__all__ = ["CredentialRoutes"]


def _owner(call: ApiCall) -> str:
    if not call.principal.identity:
        raise InvalidParams("only a caller with a login has credentials of their own")
    return call.principal.identity


_SHARED = "/agents/{name}/credentials"
_OWN = "/agents/{name}/my-credentials"


class CredentialRoutes:
    """Credentials that the hub shows to agents."""

    def __init__(
        self,
        vault: Vault,
        networks: Networks,
    ) -> None:
        self._vault = vault
        self._networks = networks

    def table(self) -> tuple[ApiRoute, ...]:
        return (
            ApiRoute(
                "GET",
                _SHARED,
                "owner",
                self._list,
                "List credentials all callers use, without secrets",
            ),
            ApiRoute(
                *(
                    "PUT",
                    _SHARED + "/{scheme}",
                    "owner",
                    self._put,
                    "Give the credential all callers use",
                ),
                takes=NewCredential,
                status=204,
            ),
            ApiRoute(
                "DELETE", _SHARED + "/{scheme}", "owner", self._remove, "Remove it", status=204
            ),
            ApiRoute(
                "GET", _OWN, "user", self._list_own, "List one's own credentials for an agent"
            ),
            ApiRoute(
                *(
                    "PUT",
                    _OWN + "/{scheme}",
                    "user",
                    self._put_own,
                    "Give a credential of one's own",
                ),
                takes=NewCredential,
                status=204,
            ),
            ApiRoute(
                "POST", "/credentials:rekey", "admin", self._rekey, "Seal all with the newest key"
            ),
            ApiRoute(
                "DELETE", _OWN + "/{scheme}", "user", self._remove_own, "Remove it", status=204
            ),
        )

    async def _list(self, call: ApiCall) -> Any:
        return {"credentials": self._vault.listed(call.own_entry())}

    async def _put(self, call: ApiCall) -> Any:
        self._check_issuer(call)
        await self._vault.put(call.principal, call.own_entry(), call.path["scheme"], call.body)

    async def _remove(self, call: ApiCall) -> Any:
        await self._vault.remove(call.principal, call.own_entry(), call.path["scheme"])

    async def _list_own(self, call: ApiCall) -> Any:
        return {"credentials": self._vault.listed(call.entry(), _owner(call))}

    async def _put_own(self, call: ApiCall) -> Any:
        self._check_issuer(call)
        await self._vault.put(
            call.principal, call.entry(), call.path["scheme"], call.body, _owner(call)
        )

    async def _remove_own(self, call: ApiCall) -> Any:
        await self._vault.remove(call.principal, call.entry(), call.path["scheme"], _owner(call))

    def _check_issuer(self, call: ApiCall) -> None:
        """Whoever gives a credential names a place that the hub calls: it has to be one it may."""
        given: NewCredential = call.body
        if given.issuer:
            try:
                self._networks.guard().check_url(given.issuer)
            except ValueError as error:
                raise HubError(
                    f"this issuer can't be called: {error}",
                    fix=address_fix(given.issuer),
                ) from None

    async def _rekey(self, call: ApiCall) -> Any:
        return {"sealed": await self._vault.rekey(call.principal)}
