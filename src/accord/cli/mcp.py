"""accord mcp: agents as tools of an MCP server."""

import asyncio
import importlib.util
import os
from contextlib import AsyncExitStack
from pathlib import Path

import click
import msgspec

from ..auth import Keyring, KeyringError
from ..client import AgentFault, Client
from ..extras import install_command
from ..model import A2AError
from .advice import advised
from .amount import SOME_SECONDS
from .target import AgentTarget, agent_options
from .terminal import echo, secho

__all__ = ["mcp"]


@click.command()
@click.argument("urls", nargs=-1, metavar="URL...")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve Streamable HTTP on this port of this machine. By default: stdin and stdout.",
)
@click.option(
    "--hub",
    metavar="URL",
    help="Offer the agents of this hub: find_agents searches it, ask_agent goes through it.",
)
@click.option(
    "--hub-key",
    metavar="KEY",
    help="Your key for the hub. By default the one in ACCORD_HUB_KEY, or the admin key in "
    "./.accord/ if the hub was started in this folder.",
)
@click.option(
    "--find/--no-find",
    "searches",
    default=None,
    help="Offer find_agents and ask_agent instead of a tool per skill.  [default: with more than "
    "20 tools]",
)
@click.option(
    "--longest-call",
    "wait",
    type=SOME_SECONDS,
    metavar="DURATION",
    help="How long a call waits for an agent before the client must call again. [default: 50 s]",
)
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file with the keys that open questions are encrypted with. By default the keys in "
    "ACCORD_KEY. Without keys, open questions are lost when this process ends.",
)
@agent_options
def mcp(
    target: AgentTarget,
    urls: tuple[str, ...],
    port: int | None,
    hub: str | None,
    hub_key: str | None,
    searches: bool | None,
    wait: float | None,
    key_file: Path | None,
) -> None:
    """Offer the agents at these URLs as tools to MCP clients.

    A client starts this command and talks to it over stdin and stdout; with --http, it connects to
    the address that is printed. Needs the extra mcp.

    \b
    accord mcp http://localhost:8000
    accord mcp https://trips.example.com https://invoices.example.com --http 9000
    accord mcp --hub https://agents.example.com
    """
    if importlib.util.find_spec("mcp") is None:
        raise click.ClickException(f"this needs the MCP SDK: {install_command('mcp')}")
    if hub and urls:
        raise click.UsageError("give the URLs of agents or --hub, not both")
    places = list(urls) or ([target.url] if target.url and not hub else [])
    if not places and not hub:
        raise click.UsageError("say which agents: their URLs, or --hub")
    if len(places) > 1 and (target.has_credential or target.headers):
        raise click.UsageError(
            "a credential is for one agent; with several, use: accord auth login URL"
        )
    try:
        keyring = Keyring.find(file=key_file, is_volatile=True)
    except KeyringError as error:
        raise click.ClickException(str(error)) from None
    targets = [msgspec.structs.replace(target, url=place) for place in places]
    key = hub_key or os.environ.get("ACCORD_HUB_KEY", "")
    asyncio.run(_serve(targets, hub, key, port, searches, wait, keyring))


async def _serve(
    targets: list[AgentTarget],
    hub: str | None,
    hub_key: str,
    port: int | None,
    searches: bool | None,
    wait_s: float | None,
    keyring: Keyring,
) -> None:
    from ..integrations.mcp import (  # the MCP SDK
        WAIT_S,
        AgentDirectory,
        DirectoryFailed,
        make_server,
        serve_http,
        serve_stdio,
    )

    async with AsyncExitStack() as opened:
        agents: list[Client] | AgentDirectory
        if hub is not None:
            from ..hub import find_key
            from .mcp_hub import HubDirectory

            agents = HubDirectory(hub, find_key(hub, hub_key), opened)
            try:
                await agents.find("")  # else only the model would learn that it can't be asked
            except DirectoryFailed as error:
                raise click.ClickException(f"{hub}: {error}") from None
            names = f"the agents of {hub}"
        else:
            agents = await _connected(targets, opened)
            names = ", ".join(client.card.name for client in agents)
        server = make_server(agents, keyring=keyring, wait_s=wait_s or WAIT_S, searches=searches)
        if port is None:
            echo(f"{names}: served to an MCP client on stdin and stdout", err=True)
            await serve_stdio(server)
            return
        try:
            await serve_http(
                server, port, on_start=lambda url: echo(f"{names} served to MCP at {url}")
            )
        except OSError as error:
            raise click.ClickException(f"can't listen on port {port}: {error.strerror}") from None


async def _connected(targets: list[AgentTarget], opened: AsyncExitStack) -> list[Client]:
    """Connect to every agent. One of several that is away is left out; it must not take the others
    with it.
    """
    clients, failures = [], []
    for target in targets:
        try:
            clients.append(await opened.enter_async_context(target.connected()))
        except (A2AError, AgentFault) as error:
            failures.append(advised(error, target.url, has_credential=target.has_credential))
    for failure in failures:
        if not clients:
            raise failure
        secho(f"Left out: {failure.format_message()}", err=True)
    return clients
