"""accord serve: put an agent on the network."""

import ipaddress
import logging

import click
from rich.console import Console
from rich.logging import RichHandler

from ..app import Agent
from .load import load_agent

__all__ = ["serve"]


@click.command()
@click.argument("file", metavar="FILE[:NAME]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on.")
@click.option(
    "--store",
    default="sqlite:///.accord/accord.db",
    show_default=True,
    help="Where tasks are kept: sqlite:///FILE, or memory:// to forget them when the server stops.",
)
@click.option("--url", help="The address clients reach this server at, if it is not the one it listens on.")
@click.option("--no-auth", is_flag=True, help="Allow anyone who can reach a non-loopback --host to use the agent.")
@click.option("--log-level", default="warning", show_default=True, help="critical, error, warning, info or debug.")
def serve(file: str, host: str, port: int, store: str, url: str | None, no_auth: bool, log_level: str) -> None:
    """Serve the agent in FILE until Ctrl-C.

    Without NAME it is the variable `agent`, or the only agent in the file. Tasks are kept in ./.accord/ and survive a crash.

    \b
    accord serve hello.py
    accord serve team.py:planner --port 9000 --store memory://
    """
    if not is_loopback(host) and not no_auth:
        raise click.ClickException(
            f"this agent asks nobody who they are, and --host {host} can be reached from other machines.\n"
            "Add --no-auth if that is what you want, or leave --host out to serve this machine only."
        )
    logging.basicConfig(
        level=log_level.upper(), format="%(message)s", handlers=[RichHandler(console=Console(stderr=True), show_path=False)]
    )
    agent = load_agent(file)
    try:
        agent.run(host, port, store=store, url=url, log_level=log_level, on_start=lambda bound: _greet(agent, bound, url, store))
    except (TypeError, ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _greet(agent: Agent, bound: str, url: str | None, store: str) -> None:
    base = url or bound
    out = Console(highlight=False)
    out.print(f"[bold]{agent.name}[/bold] is served at [link={base}]{base}[/link]   (Ctrl-C stops it)")
    out.print(f"  card     {base}/.well-known/agent-card.json")
    out.print(f"  skills   {', '.join(agent.skills)}")
    kept = "forgotten when the server stops" if store.startswith("memory") else "kept through a crash"
    out.print(f"  tasks    {store}, {kept}")
    example = next((e for skill in agent.skills.values() for e in skill.card.examples), "Hello")
    out.print(f"\nTry it:  [bold]accord send {base} {example!r}[/bold]")
