"""The party behind a request, as far as the server has made sure of it."""

import functools
from typing import Any
from urllib.parse import quote

import msgspec

__all__ = ["ANONYMOUS", "Caller"]


class Caller(msgspec.Struct, frozen=True, omit_defaults=True):
    """Describe who is calling. A task belongs to its caller; other callers can't find it.

    `name` is empty for everyone who did not have to prove anything; all of those are one caller.
    `scheme` is the security scheme that was used, by its name in the agent card. `claims` are those
    of a token. `tenant` is the organisation the credentials belong to, if they name one.

    A skill gets it by annotation: `async def hire(name: str, caller: Caller) -> str`.
    """

    name: str = ""
    tenant: str = ""
    scopes: frozenset[str] = frozenset()
    claims: dict[str, Any] = {}
    scheme: str = ""

    def __hash__(self) -> int:
        return hash((self.name, self.tenant, self.scheme))

    @property
    def is_anonymous(self) -> bool:
        """Return whether the caller gave no credentials."""
        return not self.name

    @property
    def identity(self) -> str:
        """The name under which everything of this caller is stored; empty for the anonymous caller.

        A name is unique only for whoever gave it: the issuer of a token, or the scheme. The same
        name from two of them is two callers, and so is the same name in two tenants.
        """
        if not self.name:
            return ""
        issuer = self.claims.get("iss")
        return _identity(issuer if isinstance(issuer, str) else self.scheme, self.tenant, self.name)


@functools.lru_cache(4096)
def _identity(authority: str, tenant: str, name: str) -> str:
    if not authority and not tenant:
        return name
    return "/".join(quote(part, safe=":@ ") for part in (authority, tenant, name))


ANONYMOUS = Caller()
