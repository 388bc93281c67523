"""Callers who show nothing, where they may call too."""

from msgspec.structs import replace

from ..model import HTTPAuthSecurityScheme, SecurityScheme
from .caller import ANONYMOUS, Caller
from .schemes import Credentials, Scheme

__all__ = ["Anyone"]


class Anyone(Scheme):
    """Lets callers without credentials in, beside a scheme for those who have some.

    Agent("Shop", auth=ApiKeys() | Anyone())

    Who shows nothing is the anonymous caller, who has no scopes and gets no extended card. All of
    them are one: they see each other's tasks. Who shows credentials that are not valid is refused.
    The card's `securityRequirements` have an empty entry for it.

    Args:
        name: Of the scheme.
        caller: Who they are, instead of the anonymous caller.
    """

    is_guessable = False
    is_open = True
    is_ambient = True  # there is nothing that only the caller's own page could show
    secret_headers = frozenset()

    def __init__(self, *, name: str = "anyone", caller: Caller = ANONYMOUS) -> None:
        super().__init__(name)
        # By the scheme it is known that they have shown nothing.
        self.caller = caller if caller.is_anonymous else replace(caller, scheme=name)

    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        return SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="None"))

    def read(self, credentials: Credentials) -> str:
        return ""  # that nothing else is shown either, the authenticator finds out

    async def authenticate(self, shown: str, credentials: Credentials) -> Caller:
        return self.caller
