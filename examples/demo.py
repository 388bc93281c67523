"""The demo: a hub with five agents behind it, one conversation with them, then they are yours.

`python -m examples.demo` keeps them running until Ctrl-C; `--once` ends after the conversation.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import click

from accord import connect
from accord.hub import RestClient
from accord.model import StatusUpdate

ROOT = Path(__file__).parent.parent
OFFICE = [f"examples.onboarding.{name}" for name in ("hr", "it", "facilities", "pro")]
AGENTS = ("hr", "it", "facilities", "onboardingpro", "trip-planner")


class Started:
    """A command of Accord in a process of its own, and what it says at the start."""

    def __init__(self, folder: str, *words: str, last: str) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        command = [sys.executable, "-m", "accord", *words, "--port", "0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment
        )
        assert self.process.stdout is not None
        self.lines: list[str] = []
        for line in self.process.stdout:
            self.lines.append(line)
            if line.strip().startswith(last):
                break
        else:
            raise SystemExit(f"{words[0]} did not start: {''.join(self.lines)}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def link(self, word: str) -> str:
        line = next(line for line in self.lines if word in line)
        return next(part for part in line.split() if part.startswith("http"))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10)


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
    async with connect(f"{hub}/agents/onboardingpro") as agent:
        said('send {"name": "Ada Lovelace"}')
        reply = await agent.send({"name": "Ada Lovelace"})
        for answer in ("2026-12-01", "16"):
            click.echo(f"  {click.style(reply.question, fg='yellow')}   ({reply.state.word})")
            said(f'stream "{answer}", the answer')
            stream = agent.stream(answer, task_id=reply.task_id)
            async for event in stream:
                if isinstance(event, StatusUpdate) and event.status.message:
                    click.secho(f"  {event.status.message.text}", dim=True)
            reply = stream.reply
        click.echo(f"  {len(reply.task.artifacts)} artifacts   ({reply.state.word})")
    async with connect(f"{hub}/agents/trip-planner") as agent:
        await agent.send("A week in Oslo")  # its question is left for whoever opens the console


def said(what: str) -> None:
    click.secho(f"> {what}", fg="cyan")


def title(what: str) -> None:
    click.secho(f"\n{what}", bold=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        started = [Started(folder, "hub", last="console")]
        try:
            hub = started[0].link("is served at")
            os.environ["HUB"] = hub
            started.append(Started(folder, "serve", *OFFICE, "examples.trip", last="Try it"))
            asyncio.run(fill(hub, folder, started[1].link("are served at")))
            asyncio.run(talk(hub))
            accord = Path(sys.executable).parent / "accord"
            title("Now you")
            console = click.style(started[0].link("console"), bold=True)
            click.echo(f"Open in a browser:  {console}   (works once)")
            click.echo("Type in another terminal:")
            click.echo(f"  {accord} card get {hub}")
            click.echo(f"  {accord} send {hub} 'order a laptop for Ada' --skill find")
            click.echo(f"  {accord} send {hub}/agents/trip-planner 'A weekend in Rome'")
            if "--once" not in sys.argv:
                click.echo("\nEverything runs until Ctrl-C.")
                signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            for one in reversed(started):
                one.stop()


if __name__ == "__main__":
    main()
