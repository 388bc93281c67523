"""accord listen: receive push notifications in the terminal."""

import asyncio
import contextlib
import json
import logging

import click
import msgspec

from ..model import Message, StatusUpdate, Task
from ..push import Notified, Receiver, listening

__all__ = ["listen"]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=9000, show_default=True, type=click.IntRange(0, 65535), help="And the port."
)
@click.option("--agent", default="", help="The agent's address: take only what it has signed.")
@click.option("--secret", default="", help="The secret it signs with: whsec_...")
@click.option("--token", default="", help="The token of the push config.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
def listen(host: str, port: int, agent: str, secret: str, token: str, as_json: bool) -> None:
    """Receive push notifications and print them, until Ctrl-C.

    \b
    accord serve hello.py --allow-host 127.0.0.1
    accord listen --agent http://localhost:8000
    accord send http://localhost:8000 "Ada" --push http://127.0.0.1:9000/
    """
    logging.basicConfig(level="WARNING", format="%(levelname)s: %(message)s")
    is_unverified = not (agent or secret or token)

    def show(notified: Notified) -> None:
        if as_json:
            event = msgspec.to_builtins(notified.event)
            click.echo(json.dumps({"taskId": notified.task_id, "event": event}))
        else:
            click.echo(_line(notified))

    receiver = Receiver(show, agent=agent, secret=secret, token=token, is_unverified=is_unverified)

    async def run() -> None:
        async with listening(receiver, host, port) as url:
            click.echo(f"listening at {url}   (Ctrl-C stops it)", err=True)
            if is_unverified:
                click.echo("nothing is verified; give --agent, --secret or --token", err=True)
            await asyncio.Event().wait()

    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run())
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _line(notified: Notified) -> str:
    event = notified.event
    number = f"{notified.number:>4} " if notified.number is not None else ""
    head = f"{number}{notified.task_id}  "
    if isinstance(event, Task | StatusUpdate):
        word = "task, " if isinstance(event, Task) else ""
        said = event.status.message.text if event.status.message is not None else ""
        return f"{head}{word}{event.status.state.word}" + (f": {said}" if said else "")
    if isinstance(event, Message):
        return f"{head}message: {event.text}"
    text = "".join(str(part.text) for part in event.artifact.parts if isinstance(part.text, str))
    return f"{head}artifact {event.artifact.name or event.artifact.artifact_id}: {text}"
