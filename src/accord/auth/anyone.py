"""The scheme of callers without credentials, where they may call too."""

from msgspec.structs import replace

from ..model import HTTPAuthSecurityScheme, SecurityScheme
from .caller import ANONYMOUS, Caller
from .schemes import Credentials, Scheme

__all__ = ["Anyone"]


class Anyone(Scheme):
    """Allow callers without credentials, besides a scheme for those who have some.

    Agent("Shop", auth=ApiKeys() | Anyone())

    A caller without credentials is the anonymous caller: it has no scopes and gets no extended
    card. All of them are one caller, so they see each other's tasks. A caller with credentials that
    are not valid is refused. The card's `securityRequirements` have an empty entry for this scheme.

    Args:
        name: The name of the scheme.
        caller: Who callers without credentials are, instead of the anonymous caller.
    """

    is_guessable = False
    is_open = True
    is_ambient = True  # any web page can send requests without credentials
    secret_headers = frozenset()

    def __init__(self, *, name: str = "anyone", caller: Caller = ANONYMOUS) -> None:
        super().__init__(name)
        # `Authenticator.is_authenticated` knows them by the name of this scheme.
        self.caller = caller if caller.is_anonymous else replace(caller, scheme=name)

    def card(self, scopes: frozenset[str] = frozenset()) -> SecurityScheme:
        return SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="None"))

    def read(self, credentials: Credentials) -> str:
        return ""  # the authenticator checks that there are no other credentials either

    async def authenticate(self, shown: str, credentials: Credentials) -> Caller:
        return self.caller
