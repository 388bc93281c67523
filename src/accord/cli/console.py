"""accord console, accord open: links that log a browser in at the web console."""

import asyncio
import os
import shlex
import webbrowser
from collections.abc import Callable

import click

from ..extras import installed_from
from ..model import Unavailable
from ..net import AgentFault, Request
from ..store import CommitFailed, open_store
from .group import VerbGroup
from .key import store_of, store_options
from .table import OUTPUT, is_json, print_json
from .terminal import echo

__all__ = ["console", "missing_page", "open_", "say_if_not_built"]

_AGENT = "http://127.0.0.1:8000"
_TIMEOUT_S = 10.0


def missing_page() -> str:
    """Return why there is no console and what to do; empty if there is one."""
    from ..console import is_built

    if is_built():
        return ""
    again = f"pip install {shlex.quote(str(installed_from() or 'accord'))}"
    return f"not built: install Node 20 or newer, then:  {again}"


def say_if_not_built() -> None:
    """Print in place of a link why there is none."""
    if why := missing_page():
        echo(f"  console  {why}")


def _where(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option(
        "--hub",
        "hub_url",
        metavar="[URL]",
        is_flag=False,
        flag_value="",
        help="The hub at URL, instead of an agent. By default the one in ACCORD_HUB, or the one "
        "that runs in this folder.",
    )(command)
    return click.argument("url", required=False)(store_options(command))


@click.group(cls=VerbGroup)
def console() -> None:
    """Open the web console of a running server."""


@console.command()
@OUTPUT
@_where
def link(
    output: str, url: str | None, store: str | None, file: str | None, hub_url: str | None
) -> None:
    """Print a new link that logs one browser in at the console, once, within a day.

    The server at URL (by default http://127.0.0.1:8000) goes on running, and browsers that are
    logged in stay so. The link is put into the server's store, so this works where that can be
    written.

    \b
    accord console link
    accord console link http://localhost:9000 --agent trip.py
    accord console link --hub
    """
    made = _new_link(url, store, file, hub_url=hub_url)
    if is_json(output):
        return print_json({"link": made})
    echo(made)


@click.command(name="open")
@OUTPUT
@_where
def open_(
    output: str, url: str | None, store: str | None, file: str | None, hub_url: str | None
) -> None:
    """Open the console in the web browser of this machine, logged in.

    \b
    accord open
    accord open http://localhost:9000 --agent trip.py
    accord open --hub
    """
    link = _new_link(url, store, file, hub_url=hub_url)
    is_open = webbrowser.open(link)
    if is_json(output):
        return print_json({"opened": is_open, "link": None if is_open else link})
    if is_open:
        echo("the console is open in your browser", err=True)
    else:
        echo("there is no web browser here; open this link, which works once:", err=True)
        echo(link)


def _new_link(url: str | None, store: str | None, file: str | None, *, hub_url: str | None) -> str:
    if hub_url is not None:
        from ..hub import HubSettings, known_origins

        try:
            settings = HubSettings.of({})
        except ValueError as error:
            raise click.ClickException(str(error)) from None
        store = store or settings.store
        named = url or hub_url or os.environ.get("ACCORD_HUB") or next(iter(known_origins()), "")
        url = named or settings.url or f"http://127.0.0.1:{settings.port}"
    url = (url or _AGENT).rstrip("/")
    from ..console import BrowserSessions, link_of

    async def make() -> str:
        await _check(url)
        opened = open_store(store_of(store, file))
        if opened.is_volatile:
            raise click.ClickException(
                "this server keeps its logins in memory, so only the server can make a link: use "
                "the one it printed at its start, or make one under Settings in a browser that is "
                "logged in"
            )
        await opened.logins.prepare()
        return link_of(url, await BrowserSessions(opened.logins).new_link())

    try:
        return asyncio.run(make())
    except (RuntimeError, ValueError, CommitFailed, Unavailable) as error:
        raise click.ClickException(str(error)) from error


async def _check(url: str) -> None:
    """Raise ClickException if there is no console at this address."""
    from ..net import Network  # imports aiohttp, which `accord serve` does not need to start

    network = Network(connect_s=_TIMEOUT_S, lost_s=_TIMEOUT_S)
    try:
        answer = await network.fetch(Request("GET", f"{url}/console/", _TIMEOUT_S), limit=1 << 20)
    except AgentFault as error:
        raise click.ClickException(
            f"no server answers at {url}: {error.fault}; give the address that the server printed "
            "at its start"
        ) from error
    finally:
        await network.close()
    if answer.status != 200:
        raise click.ClickException(
            f"the server at {url} has no console: it was started as accord serve --no-console, its "
            "agent can be reached without authentication, or the page was not built"
        )
