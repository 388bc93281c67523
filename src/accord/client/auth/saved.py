"""Logins that are kept between programs: a file for its owner alone (`accord auth login`).

Each is for one agent, by its origin. Tokens are renewed by one program at a time: servers that
replace what renews a token take a second use of the old one for theft.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...model import SecurityScheme, Unauthenticated
from ...private import private_folder, private_opener
from .credentials import AgentPlace, ApiKey, Basic, Bearer, Credential
from .oauth import OAuth, OAuthToken, by_secret, refreshed
from .server import AuthorizationServer, OAuthClient, OAuthError, Token

try:
    import fcntl
# Windows: there programs that renew at the same moment may have to log in again.
except ImportError:
    fcntl = None  # type: ignore[assignment]

__all__ = ["Login", "Logins", "SavedLogin", "log_in", "revoke"]


class Login(msgspec.Struct, omit_defaults=True):
    """How one agent is to be told who calls."""

    kind: str  # key, bearer, basic, oauth
    secret: str = ""  # of a key, a bearer token, or a password
    user: str = ""
    server: AuthorizationServer | None = None
    client: OAuthClient | None = None
    scopes: list[str] = []
    is_program: bool = False  # by the client's own secret, so that nobody has to agree
    token: Token | None = None

    def __repr__(self) -> str:
        return f"Login({self.kind!r})"


class Logins:
    """The file of logins: `ACCORD_LOGINS`, else `accord/logins.json` where the user's settings
    are.
    """

    def __init__(self, file: str | Path | None = None) -> None:
        self.file = Path(file or os.environ.get("ACCORD_LOGINS") or _usual()).expanduser()

    def all(self) -> dict[str, Login]:
        """Return the logins by the origin of their agent.

        Raises:
            ValueError: The file holds something else.
        """
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=dict[str, Login])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no file of logins"
            raise ValueError(f"can't use {self.file}: {why}") from None

    def get(self, origin: str) -> Login | None:
        return self.all().get(origin)

    def put(self, origin: str, login: Login | None) -> None:
        """Keep a login, or forget it."""
        logins = self.all()
        if login is not None:
            logins[origin] = login
        elif logins.pop(origin, None) is None:
            return
        private_folder(self.file.parent)
        temporary = self.file.with_name(f"{self.file.name}.{os.getpid()}.new")
        with open(temporary, "wb", opener=private_opener) as out:
            out.write(msgspec.json.format(msgspec.json.encode(logins), indent=1))
        os.replace(temporary, self.file)

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Keep other programs out while the block lasts."""
        private_folder(self.file.parent)
        lock = self.file.with_name(f"{self.file.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if fcntl is not None:
                await asyncio.to_thread(fcntl.flock, descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


async def log_in(
    flow: OAuth, place: AgentPlace, scheme: SecurityScheme | None, scopes: Sequence[str]
) -> Login:
    """Return a login by OAuth at an agent. Raises Unauthenticated, AgentFault."""
    bound = OAuthToken(flow, place, scheme, flow.scopes or tuple(scopes))
    token = await bound.get()
    return Login(
        "oauth",
        server=bound.server,
        client=flow.client,
        scopes=list(flow.scopes or scopes),
        is_program=not flow.is_interactive,
        token=token,
    )


async def revoke(login: Login, place: AgentPlace) -> bool:
    """Tell the authorization server that a login has ended (RFC 7009). Return whether it was told:
    not all of them can be.

    Raises:
        Unauthenticated, AgentFault: It could not be told.
    """
    server, client, token = login.server, login.client, login.token
    if server is None or client is None or token is None or not server.revocation_url:
        return False
    for kind in ("refresh_token", "access_token"):
        text = getattr(token, kind)
        if text:
            form = {"token": text, "token_type_hint": kind}
            await server.post(server.revocation_url, form, client, place)
    return True


def _usual() -> Path:
    base = os.environ.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME")
    return Path(base or "~/.config") / "accord" / "logins.json"


class SavedLogin:
    """Use the login that `accord auth login` has saved for the agent.

    connect("https://hr.corp.example", auth=SavedLogin())
    """

    def __init__(self, file: str | Path | None = None) -> None:
        self._logins = Logins(file)

    def has(self, origin: str) -> bool:
        """Return whether there is a login for the agent at `origin`."""
        return self._logins.get(origin) is not None

    def fits(self, scheme: SecurityScheme) -> bool:
        return True  # `bound` says what it is for

    async def apply(
        self, scheme: SecurityScheme | None, headers: dict[str, str], query: dict[str, str]
    ) -> None:
        raise TypeError("logins are for one agent: `bound` gives its own")

    def bound(
        self, place: AgentPlace, scheme: SecurityScheme | None, scopes: Sequence[str]
    ) -> Credential | None:
        """Return the login for this agent. Raises Unauthenticated if there is none."""
        login = self._logins.get(place.origin)
        match login:
            case None:
                if scheme is None:
                    return None  # the card may be for everyone
                raise Unauthenticated(
                    f"nobody is logged in at {place.origin}; type: accord auth login {place.origin}"
                )
            case Login(kind="key"):
                return ApiKey(login.secret)
            case Login(kind="basic"):
                return Basic(login.user, login.secret)
            case Login(kind="oauth"):
                return _SavedToken(self._logins, place, login)
        return Bearer(login.secret)

    def __repr__(self) -> str:
        return "SavedLogin()"


class _Again(OAuth):
    """What stands behind a login: it can be renewed, and for a program also made anew."""

    def __init__(self, login: Login, origin: str) -> None:
        assert login.client is not None
        super().__init__(login.client.id, login.client.secret)
        self.client = login.client
        self.is_interactive = not login.is_program
        self._origin = origin

    async def obtain(
        self, server: AuthorizationServer, scopes: Sequence[str], place: AgentPlace
    ) -> Token:
        if self.is_interactive:
            raise Unauthenticated(
                f"the login at {self._origin} has ended; type: accord auth login {self._origin}"
            )
        return await by_secret(server, scopes, self.client, place)

    def _flow(self, flows: Any) -> Any:
        return None


class _SavedToken(OAuthToken):
    """A token in the file: renewed by one program, for all."""

    def __init__(self, logins: Logins, place: AgentPlace, login: Login) -> None:
        super().__init__(_Again(login, place.origin), place, None, login.scopes)
        self.server, self.token = login.server, login.token
        self._logins = logins

    async def get(self, old: Token | None = None) -> Token:
        async with self._logins.locked():
            login = self._logins.get(self._place.origin)
            if login is None or login.server is None or login.client is None:
                raise Unauthenticated(f"nobody is logged in at {self._place.origin} any more")
            if login.token is not None and login.token != old and login.token.is_fresh(time.time()):
                return login.token  # another program has renewed it
            token = await self._next(login, login.server, login.client)
            self._logins.put(self._place.origin, msgspec.structs.replace(login, token=token))
            return token

    async def _next(self, login: Login, server: AuthorizationServer, client: OAuthClient) -> Token:
        if login.token is not None and login.token.refresh_token:
            try:
                return await refreshed(server, login.token, client, self._place)
            except OAuthError as error:
                if error.error != "invalid_grant":
                    raise
        return await self.flow.obtain(server, login.scopes, self._place)
