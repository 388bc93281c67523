"""Options that `accord serve` and `accord hub` share."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from ..server.process import LOG_FORMATS

__all__ = ["PEM", "server_options"]

PEM = click.Path(exists=True, dir_okay=False, path_type=Path)
_T = TypeVar("_T", bound=Callable[..., object])

_OPTIONS = (
    click.option(
        "--grpc-port",
        type=click.IntRange(0, 65535),
        help="Serve gRPC too, on this port. Needs the extra grpc.",
    ),
    click.option("--tls-cert", type=PEM, help="Certificate (PEM), for HTTP and gRPC."),
    click.option("--tls-key", type=PEM, help="Its private key (PEM)."),
    click.option(
        "--key-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Keys to seal and sign with. By default in ACCORD_KEY, or beside the SQLite file.",
    ),
    click.option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus here; to this machine alone, if no HOST is named. "
        "Needs the extra metrics.",
    ),
    click.option(
        "--trusted-proxy",
        multiple=True,
        metavar="NETWORK",
        help="A proxy in front of this server, like 10.0.0.0/8: its X-Forwarded-For or Forwarded "
        "says where a request comes from. May be repeated.",
    ),
    click.option("--no-console", is_flag=True, help="Leave out the web console at /console."),
    click.option(
        "--log-level",
        type=click.Choice(["critical", "error", "warning", "info", "debug"]),
        default="warning",
        show_default=True,
        help="The level of the log.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        default="text",
        show_default=True,
        help="Lines for people, or an object per line for programs.",
    ),
)


def server_options(command: _T) -> _T:
    """Give a command the options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
