"""accord serve: put an agent on the network."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..agent import SHARED_STORE, Agent
from ..engine.skills import definition_of
from ..extras import install_command
from ..model import LogFormat, LogLevel
from ..net import egress_words
from ..store import place_of
from .amount import SECONDS
from .console import say_if_not_built
from .example import credential_words, example_line
from .load import folder_of, load_agent
from .reload import serve_reloading
from .server_options import agent_options, app_settings, local_address, server_options
from .terminal import echo, style

if TYPE_CHECKING:
    from ..hub import SelfRegistration

__all__ = ["greet", "serve"]


class _Serve(click.Command):
    """Keeps what was typed, to be typed again for a process of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["accord.typed"] = list(args)
        return super().parse_args(ctx, args)


@click.command(cls=_Serve)
@click.argument("sources", metavar="FILE|MODULE[:NAME]...", nargs=-1)
@click.option(
    "--mcp",
    metavar="COMMAND|URL",
    help="Instead of FILE: serve the tools of this MCP server as skills. Needs the extra mcp.",
)
@click.option(
    "--mcp-token",
    envvar="ACCORD_MCP_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="With --mcp URL: the bearer token for that server.",
)
@click.option(
    "--proxy",
    metavar="URL",
    help="Instead of FILE: forward everything to the agent at this address, of any version, and "
    "store its tasks here.",
)
@click.option(
    "--proxy-token",
    envvar="ACCORD_PROXY_TOKEN",
    show_envvar=True,
    metavar="KEY|TOKEN",
    help="With --proxy: the credential for that agent.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on.",
)
@click.option(
    "--store",
    metavar="URL",
    help="Where tasks are stored: sqlite:///FILE, postgresql://USER@HOST/DATABASE for several "
    "processes, or memory://, which forgets them when the server stops. By default a file in "
    "./.accord/ for each agent.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="How many processes serve the port. More than one need a store that they can share: "
    "PostgreSQL.",
)
@click.option(
    "--grace",
    type=SECONDS,
    default=20.0,
    show_default=True,
    metavar="DURATION",
    help="How long running tasks may go on after SIGTERM.",
)
@click.option(
    "--no-auth",
    is_flag=True,
    help="Serve an agent without auth= to other machines: everyone who can reach it may use it.",
)
@click.option(
    "--hub",
    default="",
    metavar="URL",
    help="Register at this hub and send it heartbeats.",
)
@click.option(
    "--hub-key",
    default="",
    metavar="KEY",
    envvar="ACCORD_HUB_KEY",
    help="Your key for the hub. By default the one in ACCORD_HUB_KEY, or the admin key in "
    "./.accord/ if the hub was started in this folder.",
)
@click.option(
    "--reload",
    "reloads",
    is_flag=True,
    help="Start again when a Python file changes. Needs the extra reload.",
)
@agent_options
@server_options
@click.option("--rpc", default="/", show_default=True, help="The path of the JSON-RPC binding.")
@click.option(
    "--rest", default="/", show_default=True, help="The base path of the HTTP+JSON binding."
)
def serve(
    sources: tuple[str, ...],
    mcp: str | None,
    mcp_token: str | None,
    proxy: str | None,
    proxy_token: str | None,
    host: str,
    port: int,
    store: str | None,
    workers: int,
    grace: float,
    no_auth: bool,
    hub: str,
    hub_key: str,
    no_console: bool,
    log_level: LogLevel,
    log_format: LogFormat,
    reloads: bool,
    rpc: str,
    rest: str,
    **given: Any,
) -> None:
    """Serve the agent in FILE, or in a module, until Ctrl-C.

    Without NAME it is the variable `agent`, or the only agent there is. Tasks are kept in
    ./.accord/ and survive a crash. Several agents share the port and the store: each is below a
    path made from its name, and / lists them.

    \b
    accord serve hello.py
    accord serve hr.py it.py
    accord serve team.py:planner --port 9000 --store memory://
    accord serve team.planning:planner
    accord serve --mcp "uvx some-mcp-server"
    accord serve --proxy https://old-agent.example.com
    """
    if sum(map(bool, (sources, mcp, proxy))) != 1:
        raise click.UsageError("say what to serve: a FILE, --mcp COMMAND or --proxy URL")
    if proxy_token and not proxy and _is_typed("proxy_token"):
        raise click.UsageError("--proxy-token goes with --proxy")
    if mcp_token and not mcp and _is_typed("mcp_token"):
        raise click.UsageError("--mcp-token goes with --mcp")
    if reloads and not sources:
        raise click.UsageError(f"--reload can't be used with {'--mcp' if mcp else '--proxy'}")
    if reloads:
        typed = click.get_current_context().meta["accord.typed"]
        words = [word for word in typed if word != "--reload"]
        return serve_reloading(words, [folder_of(source) for source in sources])
    settings = app_settings(**given)
    url = settings["url"]
    if proxy:
        found = [_relay_of(proxy, proxy_token)]
        store = store or f"sqlite:///.accord/{found[0].slug}-relay.db"
    else:
        found = (
            [_agent_of_mcp(mcp, mcp_token)] if mcp else [load_agent(source) for source in sources]
        )
    agent, *beside = found
    registrations = _registrations(hub, hub_key, workers, len(found))

    def started(bound: str) -> None:
        greet(
            agent,
            bound,
            store or (SHARED_STORE if beside else agent.default_store),
            beside=beside,
            url=url,
            grpc=_grpc_place(settings, host),
            egress_proxy=settings["egress_proxy"],
            file=sources[0] if sources and Path(sources[0]).is_file() else "",
        )
        if not no_console:
            say_if_not_built()
        base = (url or bound).rstrip("/")
        for registration, one in zip(registrations, (agent, *beside), strict=False):
            registration.start(f"{base}/{one.slug}" if beside else base)

    try:
        agent.run(
            host,
            port,
            beside=beside,
            store=store,
            workers=workers,
            console=False if no_console else _show_console,
            rpc=rpc,
            rest=rest,
            grace_s=grace,
            log_level=log_level,
            log_format=log_format,
            no_auth=no_auth,
            **settings,
            on_start=started,
            parts=registrations,
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


def _is_typed(parameter: str) -> bool:
    """Whether an option was on the command line. A variable may be there for other commands."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is click.core.ParameterSource.COMMANDLINE


def _relay_of(url: str, credential: str | None) -> Agent:
    from ..client import AgentFault  # brings the client, which other agents may not need
    from ..model import A2AError

    try:
        return Agent.proxy(url, credentials=credential)
    except (AgentFault, A2AError, ValueError) as error:
        raise click.ClickException(str(error)) from None


def _agent_of_mcp(server: str, token: str | None) -> Agent:
    if importlib.util.find_spec("mcp") is None:
        raise click.ClickException(f"this needs the MCP SDK: {install_command('mcp')}")
    from ..integrations.mcp import ToolFailed, agent_of_mcp  # the MCP SDK

    try:
        return agent_of_mcp(server, options={"auth": token} if token else None)
    except (ToolFailed, ValueError, TypeError) as error:
        raise click.ClickException(f"{server}: {error}") from None


def _registrations(hub: str, key: str, workers: int, agents: int) -> "list[SelfRegistration]":
    """What registers each agent at a hub; none if there is no hub."""
    if not hub:
        return []
    from ..hub import HubSettings, RestClient, SelfRegistration, find_key

    if workers > 1:
        raise click.UsageError(
            "--hub can't be used with --workers: an agent of several processes is added once, "
            "with:  accord hub add URL"
        )
    client = RestClient(hub, lambda: find_key(hub, key))
    try:
        heartbeat_s = HubSettings.of({}).heartbeat_s
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    return [SelfRegistration(client, heartbeat_s) for _ in range(agents)]


def _show_console(link: str) -> None:
    echo(f"  console  {local_address(link)}   (works once)")


def _grpc_place(settings: Mapping[str, Any], host: str) -> str:
    """Return where gRPC listens, as HOST:PORT; empty if it does not."""
    port = settings["grpc_port"]
    return f"{settings['grpc_host'] or host}:{port}" if port else ""


def greet(
    agent: Agent,
    bound: str,
    store: str,
    *,
    beside: Sequence[Agent] = (),
    url: str | None = None,
    grpc: str = "",
    egress_proxy: str = "",
    file: str = "",
) -> None:
    """Say what is served where, and what to type to try it."""
    base = (url or local_address(bound)).rstrip("/")
    skills = definition_of(agent).skills
    kept = "lost when the server stops" if store.startswith("memory") else "safe through a crash"
    if beside:
        echo(f"{len(beside) + 1} agents are served at {base}   (Ctrl-C stops them)")
        for one in (agent, *beside):
            place = f"{base}/{one.slug}/"  # without the slash, some clients leave out the name
            names = ", ".join(definition_of(one).skills)
            echo("  ", style(one.name, bold=True), f"   {place}   ({names})")
        base = f"{base}/{agent.slug}"
    else:
        echo(style(agent.name, bold=True), f" is served at {base}   (Ctrl-C stops it)")
        if base != bound:
            echo(f"  listens  {bound}")
        echo(f"  card     {base}/.well-known/agent-card.json")
        echo(f"  skills   {', '.join(skills)}")
    if grpc:
        echo(f"  grpc     {grpc}")
    for one in (agent, *beside):
        if one.auth is not None:
            of_whom = f" of {one.name}" if beside else ""
            echo(f"  callers{of_whom}  authenticated by {', '.join(one.auth.schemes)}")
    echo(f"  tasks    {place_of(store)}, {kept}")
    echo(f"  egress   webhooks, keys and files that callers name: {egress_words(egress_proxy)}")
    if skills:
        first = next(iter(skills.values()))
        line = example_line(
            base,
            first,
            is_alone=len(skills) == 1,
            file=file,
            modes=definition_of(agent).taken_modes(first),
        )
        key = "" if agent.auth is None else f" {credential_words(agent.auth)}".rstrip()
        echo("\nTry it:  ", style(f"{line}{key}", bold=True))
