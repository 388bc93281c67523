"""accord auth: logging in at agents."""

import asyncio
import os
import sys
import time
import webbrowser
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from ..auth import IssuerUnavailable
from ..client import (
    NO_RETRY,
    AgentFault,
    AuthorizationCode,
    BadCard,
    ClientCredentials,
    DeviceCode,
    DevicePrompt,
    agent_url,
    connect,
)
from ..client.auth import AgentPlace, Login, Logins, find_server, log_in, revoke
from ..model import A2AError, AgentCard, SecurityScheme, Unauthenticated
from ..net import origin_of
from .advice import advised, typed
from .group import VerbGroup
from .table import OUTPUT, is_json, print_json
from .terminal import echo, secho, style

__all__ = ["auth"]

_WAYS = ["device", "browser", "program", "key", "token", "password"]


@click.group(cls=VerbGroup)
def auth() -> None:
    """Log in at agents, see where you are, and log out.

    Logins are stored in a file that only you can read (ACCORD_LOGINS names another one).
    The other commands use a login for its own agent only.
    """


class _Wanted(msgspec.Struct):
    """What was typed."""

    way: str | None
    client_id: str
    issuer: str
    scopes: tuple[str, ...]
    audience: str
    resource: str
    from_stdin: bool


@auth.command("login")
@click.argument("url")
@click.option(
    "--with",
    "way",
    type=click.Choice(_WAYS),
    help="The way to log in: a code for any device, a browser on this machine, a program's own "
    "secret, an API key, a bearer token, or a user and password. By default what the "
    "agent's card asks for.",
)
@click.option(
    "--client-id", default="", help="The client id of this program at the authorization server."
)
@click.option(
    "--issuer",
    default="",
    metavar="URL",
    help="The authorization server. By default the one in the card.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help="A scope to ask for. May be repeated. By default the scopes in the card.",
)
@click.option("--audience", default="", help="The audience that tokens are for.")
@click.option(
    "--resource", default="", help="The resource that tokens are for, as a URL (RFC 8707)."
)
@click.option("--user", default="", metavar="NAME", help="The user name, for --with password.")
@click.option(
    "--secret-stdin",
    is_flag=True,
    help="Read the secret from standard input. By default you are asked for it, if there is a "
    "terminal. A client's secret may be in ACCORD_CLIENT_SECRET.",
)
@OUTPUT
def login(
    url: str,
    way: str | None,
    client_id: str,
    issuer: str,
    scopes: tuple[str, ...],
    audience: str,
    resource: str,
    user: str,
    secret_stdin: bool,
    output: str,
) -> None:
    """Log in at the agent at URL.

    \b
    accord auth login https://hr.corp.example --client-id accord-cli
    accord auth login http://localhost:8000 --with key
    """
    wanted = _Wanted(way, client_id, issuer, scopes, audience, resource, secret_stdin)
    try:
        origin = _origin(url)
        card = asyncio.run(_card(url))
        scheme, needed = _scheme(card, way)
        how = way or _way(scheme)
        if how in ("key", "token", "password"):
            made = _typed_in(how, user, secret_stdin)
        else:
            made = asyncio.run(_by_oauth(wanted, AgentPlace(origin), scheme, needed))
        Logins().put(origin, made)
    except (A2AError, AgentFault) as error:
        raise advised(error) from error
    except (ValueError, IssuerUnavailable, OSError) as error:
        raise click.ClickException(str(error)) from error
    if is_json(output):
        return print_json(_row(origin, made))
    echo(f"logged in at {origin}{_until(made)}")


@auth.command("status")
@click.argument("url", required=False)
@OUTPUT
def status(url: str | None, output: str) -> None:
    """List your logins. With URL, fail if you are not logged in there."""
    try:
        logins = Logins().all()
        if url is not None:
            origin = _origin(url)
            logins = {name: one for name, one in logins.items() if name == origin}
    except (ValueError, BadCard) as error:
        raise click.ClickException(str(error)) from error
    if not logins and (url is not None or not is_json(output)):
        where = f" at {_origin(url)}" if url else ""
        raise click.ClickException(
            f"nobody is logged in{where}\nLog in with:  {typed('auth', 'login', url or 'URL')}"
        )
    if is_json(output):
        return print_json([_row(name, one) for name, one in sorted(logins.items())])
    for name, one in sorted(logins.items()):
        echo(style(name, bold=True), f"   {_described(one)}{_until(one)}")


def _row(origin: str, login: Login) -> dict[str, str]:
    return {"at": origin, "kind": login.kind, "said": f"{_described(login)}{_until(login)}"}


@auth.command("logout")
@click.argument("url")
@OUTPUT
def logout(url: str, output: str) -> None:
    """Forget the login at URL, and tell the authorization server."""
    try:
        origin = _origin(url)
        found = Logins().get(origin)
        if found is None:
            raise click.ClickException(
                f"nobody is logged in at {origin}; see where you are with:  accord auth status"
            )
        Logins().put(origin, None)
    except (ValueError, BadCard) as error:
        raise click.ClickException(str(error)) from error
    why = ""
    try:
        asyncio.run(revoke(found, AgentPlace(origin)))
    except (A2AError, AgentFault) as error:
        why = str(error)
        secho(f"its tokens could not be revoked: {why}", err=True, fg="yellow")
    if is_json(output):
        return print_json({"at": origin, "error": why or None})
    echo(f"logged out at {origin}")


def _origin(url: str) -> str:
    """Raises BadCard or ValueError: It is not the address of an agent."""
    address = agent_url(url)
    if address is None:
        raise ValueError(f"{url} is a file; a login is for an address")
    return origin_of(address)


async def _card(url: str) -> AgentCard | None:
    """The agent's card; None if it is not for everyone."""
    try:
        async with connect(url, retry=NO_RETRY) as agent:
            return agent.card
    except Unauthenticated:
        return None


def _scheme(card: AgentCard | None, way: str | None) -> tuple[SecurityScheme | None, list[str]]:
    """The scheme of the card to log in by, and the scopes it wants."""
    if card is None:
        return None, []
    wanted = [
        (card.security_schemes[name], items.items)
        for requirement in card.security_requirements
        for name, items in requirement.schemes.items()
        if name in card.security_schemes
    ] or [(scheme, []) for scheme in card.security_schemes.values()]
    for scheme, scopes in wanted:
        if _is_known(scheme) and (way is None or _way(scheme) == way or _is_oauth(scheme, way)):
            return scheme, scopes
    return None, []


def _is_known(scheme: SecurityScheme) -> bool:
    return scheme.mtls_security_scheme is None


def _is_oauth(scheme: SecurityScheme, way: str) -> bool:
    is_oauth = scheme.oauth2_security_scheme or scheme.open_id_connect_security_scheme
    return is_oauth is not None and way in ("device", "browser", "program")


def _way(scheme: SecurityScheme | None) -> str:
    """How to log in by a scheme; `oauth` if that is for the authorization server to say."""
    if scheme is None:
        raise ValueError(
            f"the agent's card does not say how; choose one of --with {', '.join(_WAYS)}"
        )
    if scheme.api_key_security_scheme is not None:
        return "key"
    http = scheme.http_auth_security_scheme
    if http is not None:
        return "password" if http.scheme.lower() == "basic" else "token"
    return "oauth"


def _typed_in(how: str, user: str, from_stdin: bool) -> Login:
    words = {"key": "API key", "token": "Bearer token", "password": "Password"}
    if how == "password" and not user:
        user = click.prompt("User")
    kind = {"key": "key", "token": "bearer", "password": "basic"}[how]
    return Login(kind, secret=_secret(words[how], from_stdin), user=user)


def _secret(words: str, from_stdin: bool) -> str:
    text: str = (
        sys.stdin.readline().rstrip("\r\n")
        if from_stdin or not sys.stdin.isatty()
        else click.prompt(words, hide_input=True, err=True)
    )
    if not text or not text.isprintable():
        raise ValueError("a secret must not be empty or have control characters")
    return text


async def _by_oauth(
    wanted: _Wanted, place: AgentPlace, scheme: SecurityScheme | None, scopes: Sequence[str]
) -> Login:
    if not wanted.client_id:
        raise ValueError(
            "the agent uses an authorization server, where this program needs a client id: give "
            "it with --client-id"
        )
    server = await find_server(place, scheme, wanted.issuer)
    echo(f"tokens for {place.origin} come from {server.name}", err=True)
    secret = os.environ.get("ACCORD_CLIENT_SECRET", "")
    if not secret and (wanted.from_stdin or wanted.way == "program"):
        secret = _secret("Client secret", wanted.from_stdin)
    way = wanted.way or ("program" if secret else "device" if server.device_url else "browser")
    options: dict[str, Any] = {
        "issuer": wanted.issuer,
        "scopes": wanted.scopes,
        "audience": wanted.audience,
        "resource": wanted.resource,
    }
    match way:
        case "program":
            return await log_in(
                ClientCredentials(wanted.client_id, secret, **options), place, scheme, scopes
            )
        case "device":
            device = DeviceCode(wanted.client_id, secret, show=_show, **options)
            return await log_in(device, place, scheme, scopes)
    browser = AuthorizationCode(wanted.client_id, secret, open_url=_open, **options)
    return await log_in(browser, place, scheme, scopes)


def _show(prompt: DevicePrompt) -> None:
    echo(f"Open {prompt.url} and enter the code ", style(prompt.code, bold=True), err=True)


def _open(url: str) -> None:
    if not webbrowser.open(url):
        echo(f"Open this address in a browser on this machine:\n{url}", err=True)


def _described(one: Login) -> str:
    if one.kind != "oauth" or one.server is None or one.client is None:
        return {"key": "API key", "basic": f"user {one.user}"}.get(one.kind, "bearer token")
    scopes = f", for {' '.join(one.scopes)}" if one.scopes else ""
    good_for = one.client.audience or one.client.resource
    only = f", good for {good_for}" if good_for else ""
    return f"{one.client.id} at {one.server.name}{scopes}{only}"


def _until(one: Login) -> str:
    token = one.token
    if token is None or not token.expires_at:
        return ""
    if one.is_program or token.refresh_token:
        return "   (renewed by itself)"
    left = token.expires_at - time.time()
    return f"   (for {left / 60:.0f} minutes)" if left > 0 else "   (ended: log in again)"
