"""The demo: two agents on this machine, one conversation with them, then they are yours to try.

`python -m examples.demo` keeps them running until Ctrl-C; `--once` ends after the conversation.
"""

import asyncio
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import click

from accord import connect
from accord.model import ArtifactUpdate, StatusUpdate

HERE = Path(__file__).parent


class Served:
    """An example agent in a process of its own, started with `accord serve`."""

    def __init__(self, file: str, folder: str) -> None:
        command = [sys.executable, "-m", "accord", "serve", str(HERE / file), "--port", "0"]
        command += ["--store", f"sqlite:///{folder}/{Path(file).stem}.db"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        greeting = self.process.stdout.readline()
        self.url = next((word for word in greeting.split() if word.startswith("http")), "")
        if not self.url:
            raise SystemExit(f"{file} did not start: {greeting}{self.process.stdout.read()}")
        self.console = ""  # the link that opens its page, once
        for line in self.process.stdout:
            if line.strip().startswith("console"):
                self.console = line.split()[1]
                break
        threading.Thread(
            target=self.process.stdout.read, daemon=True
        ).start()  # its other words are not needed

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10)


async def talk(echo: str, trip: str) -> None:
    title("A first word")
    async with connect(echo) as agent:
        said(f'send "{agent.card.name}, are you there?"')
        reply = await agent.send(f"{agent.card.name}, are you there?")
        click.echo(f"  {reply.text}   (task {reply.state.word})")
    title("A question back, and a stream")
    async with connect(trip) as agent:
        said('send "A weekend in Rome"')
        reply = await agent.send("A weekend in Rome")
        click.echo(f"  {click.style(reply.question, fg='yellow')}   (task {reply.state.word})")
        said('stream "3", the answer')
        async for event in agent.stream("3", task_id=reply.task_id):
            if isinstance(event, ArtifactUpdate):
                click.echo("  " + event.artifact.text.strip())
            elif isinstance(event, StatusUpdate):
                word = event.status.message.text if event.status.message else ""
                click.secho(f"  {event.status.state.word} {word}", dim=True)
        await agent.send("A week in Oslo")  # its question is left for whoever opens the console


def said(what: str) -> None:
    click.secho(f"> {what}", fg="cyan")


def title(what: str) -> None:
    click.secho(f"\n{what}", bold=True)


def invite(echo: str, trip: str, console: str) -> None:
    accord = Path(sys.executable).parent / "accord"
    title("Now you")
    click.echo(f"Open in a browser:  {click.style(console, bold=True)}   (works once)")
    click.echo("  Tasks: open 'A week in Oslo' and click 'Go on in Chat' to answer its question.")
    click.echo("  Tasks: open 'A weekend in Rome' and press Space to see it happen again.")
    click.echo("Type in another terminal:")
    click.echo(f"  {accord} card get {trip}")
    click.echo(f"  {accord} send {echo} 'Hello'")
    click.echo(
        f"  {accord} send {trip} 'A weekend in Oslo'      # then answer with the line it prints"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        agents = [Served("echo.py", folder), Served("trip.py", folder)]
        try:
            urls = [agent.url for agent in agents]
            asyncio.run(talk(*urls))
            invite(*urls, agents[1].console)
            if "--once" not in sys.argv:
                click.echo("\nBoth agents run until Ctrl-C.")
                signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            for agent in agents:
                agent.stop()


if __name__ == "__main__":
    main()
