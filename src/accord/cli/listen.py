"""accord listen: receive push notifications in the terminal."""

import asyncio
import contextlib
import json
import logging
import os

import click
import msgspec

from ..model import Event, Message, StatusUpdate, Task
from ..push import Notified, Receiver, listening
from .table import OUTPUT, is_json
from .terminal import echo

__all__ = ["listen"]

_ANY = ("0.0.0.0", "::", "")  # all addresses: none of them is the webhook's


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=9000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on.",
)
@click.option(
    "--signed-by",
    "agent",
    default="",
    metavar="URL",
    help="Accept only notifications signed by the agent at this URL.",
)
@click.option(
    "--url",
    default="",
    metavar="URL",
    help="The address at which the agent reaches this webhook, if it is not the one it listens on.",
)
@click.option(
    "--secret", default="", help="Accept only notifications signed with this secret (whsec_...)."
)
@click.option(
    "--hook-token",
    "token",
    default="",
    metavar="TOKEN",
    help="Accept only notifications with this token of the webhook, as its push config sets it.",
)
@click.option(
    "--auth-credentials",
    "credentials",
    default="",
    metavar="TEXT",
    help="Accept only notifications with these credentials in Authorization, as the push config "
    "sets them.",
)
@OUTPUT
def listen(
    host: str,
    port: int,
    agent: str,
    url: str,
    secret: str,
    token: str,
    credentials: str,
    output: str,
) -> None:
    """Receive push notifications and print them, until Ctrl-C. With -o json, each is one line.

    \b
    accord serve hello.py --allow-host 127.0.0.1
    accord listen --signed-by http://localhost:8000
    accord send http://localhost:8000 "Ada" --webhook http://127.0.0.1:9000/
    """
    logging.basicConfig(level="WARNING", format="%(levelname)s: %(message)s")
    is_unverified = not (agent or secret or token or credentials)

    def show(notified: Notified) -> None:
        echo(_json_line(notified) if is_json(output) else _text_line(notified))

    try:
        receiver = Receiver(
            show,
            agent=agent,
            url=url,
            secret=secret,
            token=token,
            credentials=credentials,
            is_unverified=is_unverified,
        )
    except ValueError as error:
        raise click.ClickException(str(error)) from None

    async def run() -> None:
        async with listening(receiver, host, port) as bound:
            if agent and not url and host not in _ANY:
                receiver.url = bound
            echo(f"listening at {bound}   (Ctrl-C stops it)", err=True)
            if is_unverified:
                echo(
                    "notifications are not verified; use --signed-by, --secret, --hook-token or "
                    "--auth-credentials",
                    err=True,
                )
            elif agent and not receiver.url:
                echo("the webhook they were signed for is not verified; use --url", err=True)
            await asyncio.Event().wait()  # never set: runs until Ctrl-C

    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run())
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise click.ClickException(
            f"can't listen on {host}, port {port}: {why}; give others with --host and --port"
        ) from error
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _json_line(notified: Notified) -> str:
    event = msgspec.to_builtins(notified.event)
    return json.dumps({"taskId": notified.task_id, "event": event})


def _text_line(notified: Notified) -> str:
    """Return one line for people: the event's number if it has one, the task's id, the event."""
    number = f"{notified.number:>4} " if notified.number is not None else ""
    return f"{number}{notified.task_id}  {_event_text(notified.event)}"


def _event_text(event: Event | Message) -> str:
    if isinstance(event, Task | StatusUpdate):
        kind = "task, " if isinstance(event, Task) else ""
        message = event.status.message.text if event.status.message is not None else ""
        return f"{kind}{event.status.state.word}" + (f": {message}" if message else "")
    if isinstance(event, Message):
        return f"message: {event.text}"
    text = "".join(str(part.text) for part in event.artifact.parts if isinstance(part.text, str))
    return f"artifact {event.artifact.name or event.artifact.artifact_id}: {text}"
