"""The demo: a hub with five agents behind it, one conversation with them, then they are yours.

`python -m examples.demo` keeps them running until Ctrl-C; `--once` ends after the conversation.
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path

import click

from accord import connect
from accord.hub import RestClient
from accord.model import StatusUpdate

from .question import leave_question
from .servers import started, stop_on_signals

OFFICE = [f"examples.onboarding.{name}" for name in ("hr", "it", "facilities", "pro")]
AGENTS = ("hr", "it", "facilities", "onboardingpro", "trip-planner")


async def fill(hub: str, folder: str, place: str) -> None:
    key = (Path(folder) / ".accord" / "hub.admin").read_text().strip()
    for path in AGENTS:
        await RestClient(hub, key).call("POST", "/agents", {"url": f"{place}/{path}"})


async def talk(hub: str) -> None:
    title("Who orders a laptop?")
    async with connect(hub) as agent:
        found = await agent.call("find", query="order a laptop")
        for one in found["untrusted"][:1]:
            click.echo(f"  {one['agent']}/{one['skills'][0]['id']}")
    title("OnboardingPro knows the hub's address alone")
    async with connect(f"{hub}/agents/onboardingpro/") as agent:
        said('send {"name": "Ada Lovelace"}')
        reply = await agent.send({"name": "Ada Lovelace"})
        for answer in ("2026-12-01", "16"):
            click.echo(f"  {click.style(reply.question, fg='yellow')}   ({reply.state.word})")
            said(f'stream "{answer}", the answer')
            stream = agent.stream(answer, task_id=reply.task_id)
            news = [
                event.status.message.text
                async for event in stream
                if isinstance(event, StatusUpdate) and event.status.message
            ]
            reply = stream.reply
            for text in news:
                if text != reply.question:
                    click.secho(f"  {text}", dim=True)
        click.echo(f"  {len(reply.task.artifacts)} artifacts   ({reply.state.word})")


def said(what: str) -> None:
    click.secho(f"> {what}", fg="cyan")


def title(what: str) -> None:
    click.secho(f"\n{what}", bold=True)


def offer(hub: str, link: str) -> None:
    """Say what to open and what to type."""
    title("Now you")
    if link:
        click.echo(f"Open in a browser:  {click.style(link, bold=True)}   (works once)")
        click.echo("The trip planner asks there how many days you have. Answer it in the inbox.")
    else:
        click.echo("The console is not built: it needs Node 20 or newer.")
    click.echo("Type in another terminal:")
    if (activate := Path(sys.prefix) / "bin" / "activate").exists():
        click.echo(f"  . {activate}")
    click.echo(f"  accord card get {hub}")
    click.echo(f"  accord send {hub} Ada --skill it/orderHardware --stream")
    click.echo(f"  accord send {hub}/agents/trip-planner/ 'A weekend in Rome'")


def main() -> None:
    stop_on_signals()
    with (
        contextlib.suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        started(folder, "hub", last="console") as first,
    ):
        hub = first.link("is served at")
        os.environ["HUB"] = hub
        with started(folder, "serve", *OFFICE, "examples.trip", last="Try it") as office:
            asyncio.run(fill(hub, folder, office.link("are served at")))
            asyncio.run(talk(hub))
            link = first.link("console")
            offer(hub, asyncio.run(leave_question(hub, link)) if link else "")
            if "--once" not in sys.argv:
                click.echo("\nEverything runs until Ctrl-C.")
                while True:
                    signal.pause()


if __name__ == "__main__":
    main()
