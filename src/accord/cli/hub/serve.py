"""accord hub: serve a hub."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ...protocol import PREVIEW_NUMBERS
from ...server.process import set_up_log
from ..console import say_if_not_built
from ..group import VerbGroup
from ..server_options import local_address, server_options
from ..terminal import echo, style

if TYPE_CHECKING:
    from ...hub import Hub, HubSettings

__all__ = ["hub"]

GRACE_S = 20.0  # for running calls after SIGTERM

_GUESTS = {
    "off": "callers without a login may do nothing (--guests)",
    "see": "callers without a login see public agents (--guests)",
    "call": "callers without a login see and call public agents (--guests)",
}


@click.group(cls=VerbGroup, invoke_without_command=True)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on.  [default: 8080]")
@click.option(
    "--store",
    metavar="URL",
    help="The store of everything the hub keeps: sqlite:///FILE, or "
    "postgresql://USER@HOST/DATABASE for several hubs.  [default: sqlite:///.accord/hub.db]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    help="How many processes serve the port. More than one need a store that they can share: "
    "PostgreSQL.  [default: 1]",
)
@click.option(
    "--url",
    metavar="URL",
    help="The address at which clients reach this server, if it is not the one it listens on.",
)
@click.option(
    "--grpc-domain",
    metavar="DOMAIN",
    help="A domain whose names all lead here, like agents.corp.example: clients of A2A 0.3 reach "
    "an agent over gRPC at NAME.DOMAIN.",
)
@click.option("--oidc", metavar="ISSUER", help="Accept tokens of this OpenID Connect provider.")
@click.option("--oidc-audience", help="The audience that its tokens must have. [default: --url]")
@click.option(
    "--oidc-client",
    metavar="ID",
    help="The hub's client id at the provider: people log in to the console with it. A secret "
    "comes from ACCORD_HUB_OIDC_SECRET.",
)
@click.option(
    "--role-claim",
    metavar="CLAIM",
    help="The claim whose values --map-role gives roles to.  [default: groups]",
)
@click.option(
    "--map-role",
    multiple=True,
    metavar="ROLE=VALUE",
    help="People with VALUE in that claim have this role, like admin=hub-admins. May be repeated.",
)
@click.option(
    "--guests",
    type=click.Choice(["off", "see", "call"]),
    help="What callers without a login may do with public agents.  [default: call, if --host and "
    "--url are this machine's own; else off]",
)
@click.option(
    "--trust",
    type=click.Choice(["off", "if-present", "require"]),
    help="Whether cards must be signed by a trusted key.  [default: if-present]",
)
@click.option(
    "--allow-host",
    "allow",
    multiple=True,
    metavar="HOST",
    help="A private host or network that may be called, because agents are there, like "
    "10.0.0.0/8. May be repeated.",
)
@click.option(
    "--approve-origin",
    "approve",
    multiple=True,
    metavar="ORIGIN",
    help="Agents of this origin need no approval, like https://hr.corp.example. May be repeated.",
)
@click.option(
    "--preview",
    multiple=True,
    metavar="VERSION",
    help="Also serve and use a version of A2A that is not released yet "
    f"({', '.join(PREVIEW_NUMBERS)}). It may change. May be repeated.",
)
@click.option(
    "--meaning",
    metavar="FOLDER|URL",
    help="Search by meaning too: with a model2vec model (a folder) or an embeddings endpoint.",
)
@server_options
@click.pass_context
def hub(context: click.Context, /, **options: Any) -> None:
    """Serve a hub: one address for many agents. Or, with a verb, work with one that is running.

    \b
    accord hub                                   # serves http://127.0.0.1:8080
    accord hub add https://hr.corp.example       # fetches the card and lists the agent
    accord hub list

    Every option can be set as ACCORD_HUB_..., as in ACCORD_HUB_PORT=9000 and
    ACCORD_HUB_ALLOW_HOST=10.0.0.0/8,10.9.0.1.
    """
    if context.invoked_subcommand is not None:
        return
    from ...hub import HubSettings

    try:
        settings = HubSettings.of(_given(context, options))
        set_up_log(settings.log_level, settings.log_format)
        if settings.workers == 1:
            _serve_one(settings)
        else:
            _serve_several(settings)
    except (TypeError, ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


def _serve_one(settings: "HubSettings") -> None:
    from ...hub import Hub
    from ...server.process import serve

    made = Hub(settings)
    page = made.console() if _has_console(settings) else None

    def started(address: str) -> None:
        made.served_at(address)
        _greet(made, address, page.link(settings.url or address) if page is not None else "")

    serve(
        made.app,
        host=settings.host,
        port=settings.port,
        limits=made.app.limits,
        on_start=started,
        tls=made.app.server_tls,
        grace_s=GRACE_S,
    )


def _serve_several(settings: "HubSettings") -> None:
    """Serve with several processes, each of them a hub on the same database."""
    from ...console import BrowserSessions, link_of
    from ...hub import Hub
    from ...server.process import WorkerProcess, bind, run_workers, serve, url_of

    first = Hub(settings)  # it is not opened: what is wrong is said here, once
    first.app.check_shared(settings.workers)
    sockets = bind(settings.host, settings.port)
    grpc_sockets = bind(settings.host, settings.grpc_port) if settings.grpc_port is not None else []

    def work(worker: WorkerProcess) -> None:
        made = Hub(settings)
        # The admin's key of this folder is one: the first worker makes and renews it.
        made.keeps_local_admin = worker.number == 0
        if _has_console(settings):
            made.console(is_shared=True)
        if made.app.metrics is not None:
            made.app.metrics.move_port(worker.number)  # each process has its own
        if grpc_sockets:
            made.app.share_grpc(grpc_sockets)
        serve(
            made.app,
            host=settings.host,
            port=settings.port,
            limits=made.app.limits,
            on_start=made.served_at,
            tls=made.app.server_tls,
            grace_s=GRACE_S,
            sockets=sockets,
            worker=worker,
        )

    def started() -> None:
        address = url_of(sockets, is_secure=settings.tls is not None)
        link = ""
        if _has_console(settings):
            sessions = BrowserSessions(first.app.engine.tasks.store.logins)
            link = link_of(settings.url or address, asyncio.run(sessions.first_link()))
        _greet(first, address, link)

    try:
        code = run_workers(settings.workers, work, grace_s=GRACE_S, on_start=started)
    finally:
        for one in (*sockets, *grpc_sockets):
            one.close()
    if code:
        raise SystemExit(code)


def _has_console(settings: "HubSettings") -> bool:
    from ...console import is_built

    return not settings.no_console and is_built()


def _greet(made: "Hub", address: str, link: str) -> None:
    """Say where the hub is, and what it lets in and out."""
    settings = made.settings
    base = settings.url or local_address(address)
    several = f" by {settings.workers} processes" if settings.workers > 1 else ""
    echo(style(settings.name, bold=True), f" is served{several} at {base}   (Ctrl-C stops it)")
    echo(f"  agents   {base}/api/v1/agents")
    echo(f"  kept in  {made.db.place}")
    echo(f"  key      {made.local_admin.file} (an admin's: keep it to yourself)")
    if link:
        echo(f"  console  {local_address(link)}   (works once)")
        if settings.oidc_client:
            echo(f"  login    {base}/console/ with {settings.oidc}")
    elif not settings.no_console:
        say_if_not_built()
    how = f"words, and meaning by {settings.meaning}" if settings.meaning else "words only"
    echo(f"  search   by {how}")
    echo(f"  guests   {_GUESTS[made.principals.guests]}")
    here = ", and this machine" if made.is_local else ""
    echo(f"  egress   to public addresses{here}; allow others with --allow-host")
    echo("\nAdd an agent:  ", style("accord hub add URL", bold=True))


def _given(context: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """The options that were typed: those of the environment count before defaults."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in options.items()
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
