"""Routes of credentials: what is written is never read back."""

from typing import Any

from ...model import InvalidParams
from ..access import NewCredential
from ..errors import HubError
from .router import ApiCall, ApiRoute

__all__ = ["ROUTES"]


async def _list(call: ApiCall) -> Any:
    return {"credentials": call.hub.vault.listed(call.own_entry())}


async def _put(call: ApiCall) -> Any:
    _check_issuer(call)
    await call.hub.vault.put(call.person, call.own_entry(), call.path["scheme"], call.body)


async def _remove(call: ApiCall) -> Any:
    await call.hub.vault.remove(call.person, call.own_entry(), call.path["scheme"])


async def _list_own(call: ApiCall) -> Any:
    return {"credentials": call.hub.vault.listed(call.entry(), _owner(call))}


async def _put_own(call: ApiCall) -> Any:
    _check_issuer(call)
    await call.hub.vault.put(
        call.person, call.entry(), call.path["scheme"], call.body, _owner(call)
    )


async def _remove_own(call: ApiCall) -> Any:
    await call.hub.vault.remove(call.person, call.entry(), call.path["scheme"], _owner(call))


def _check_issuer(call: ApiCall) -> None:
    """Whoever gives a credential names a place that the hub calls: it has to be one it may."""
    given: NewCredential = call.body
    if given.issuer:
        try:
            call.hub.networks.guard().check_url(given.issuer)
        except ValueError as error:
            raise HubError(
                f"this issuer can't be called: {error}",
                fix="an admin allows private networks with: accord hub network add HOST",
            ) from None


def _owner(call: ApiCall) -> str:
    if not call.person.identity:
        raise InvalidParams("only a caller with a login has credentials of their own")
    return call.person.identity


_SHARED = "/agents/{name}/credentials"
_OWN = "/agents/{name}/my-credentials"
ROUTES = (
    ApiRoute("GET", _SHARED, "owner", _list, "List credentials all callers use, without secrets"),
    ApiRoute(
        *("PUT", _SHARED + "/{scheme}", "owner", _put, "Give the credential all callers use"),
        takes=NewCredential,
        status=204,
    ),
    ApiRoute("DELETE", _SHARED + "/{scheme}", "owner", _remove, "Remove it", status=204),
    ApiRoute("GET", _OWN, "user", _list_own, "List one's own credentials for an agent"),
    ApiRoute(
        *("PUT", _OWN + "/{scheme}", "user", _put_own, "Give a credential of one's own"),
        takes=NewCredential,
        status=204,
    ),
    ApiRoute("DELETE", _OWN + "/{scheme}", "user", _remove_own, "Remove it", status=204),
)
