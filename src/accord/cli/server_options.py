"""Options that `accord serve`, `accord run` and `accord hub` share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ..engine.runs import Retention
from ..model import Limits
from ..protocol import PREVIEW_NUMBERS
from ..push import PushSettings
from ..server.process import LOG_FORMATS, LOG_LEVELS
from ..server.transport import Tls
from .amount import DAYS
from .structs import read_struct

__all__ = ["agent_options", "app_settings", "local_address", "port_options", "server_options"]

_PEM = click.Path(exists=True, dir_okay=False, path_type=Path)
_T = TypeVar("_T", bound=Callable[..., object])

_PORT_OPTIONS = (
    click.option(
        "--grpc-port",
        type=click.IntRange(0, 65535),
        help="Serve gRPC too, on this port. Needs the extra grpc.",
    ),
    click.option("--tls-cert", type=_PEM, help="The server's certificate (PEM)."),
    click.option("--tls-key", type=_PEM, help="Its private key (PEM)."),
    click.option(
        "--key-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The file with the keys to encrypt and sign with. By default the keys in "
        "ACCORD_KEY, or a file beside the SQLite file.",
    ),
    click.option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus on this port. Without HOST only this machine can read "
        "them. Needs the extra metrics.",
    ),
    click.option(
        "--files",
        "files_url",
        default="",
        metavar="URL",
        help="Where the bytes of files are: file:///folder, s3://bucket/prefix, gs://…, az://… "
        "(needs the extra files). By default beside the SQLite file, or in PostgreSQL.",
    ),
    click.option(
        "--trusted-proxy",
        multiple=True,
        metavar="NETWORK",
        help="The address or network of a proxy in front of this server, like 10.0.0.0/8. Its "
        "X-Forwarded-For or Forwarded header is trusted. May be repeated.",
    ),
)
_PROCESS_OPTIONS = (
    click.option("--no-console", is_flag=True, help="Leave out the web console at /console."),
    click.option(
        "--log-level",
        type=click.Choice(LOG_LEVELS),
        default="warning",
        show_default=True,
        help="The level of the log.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        default="text",
        show_default=True,
        help="The form of the log: lines for people, or a JSON object per line for programs.",
    ),
)
_AGENT_OPTIONS = (
    click.option(
        "--url",
        metavar="URL",
        help="The address at which clients reach this server, if it is not the one it listens on.",
    ),
    click.option(
        "--versions",
        help="Protocol versions to serve, like 1.0 or 1.0,0.3. By default all of them.",
    ),
    click.option(
        "--preview",
        "previews",
        multiple=True,
        metavar="VERSION",
        help="Also serve a version of A2A that is not released yet "
        f"({', '.join(PREVIEW_NUMBERS)}). It may change. May be repeated.",
    ),
    click.option(
        "--grpc-host",
        help="Address for gRPC to listen on. By default that of --host; with accord run, this "
        "machine only.",
    ),
    click.option(
        "--tls-client-ca",
        type=_PEM,
        help="Accept only clients with a certificate from this authority (PEM).",
    ),
    click.option(
        "--keep-days",
        type=DAYS,
        default=30.0,
        show_default=True,
        help="How many days a finished task is kept.",
    ),
    click.option(
        "--retention",
        multiple=True,
        metavar="NAME=SECONDS",
        help="How long other things are kept, like events_s=1h. May be repeated.",
    ),
    click.option(
        "--limits",
        multiple=True,
        metavar="NAME=VALUE",
        help="Limits per caller, like body=8MiB,tasks=500. May be repeated.",
    ),
    click.option(
        "--sign-card",
        is_flag=True,
        help="Sign the agent card with the server's key (see --key-file).",
    ),
    click.option(
        "--allow-host",
        "allow_hosts",
        multiple=True,
        metavar="HOST",
        help="A private host or network that may be called if a caller names it, for example as "
        "a webhook: 10.0.0.0/8. May be repeated.",
    ),
    click.option(
        "--egress-proxy",
        default="",
        metavar="URL",
        help="An HTTP proxy for calls to addresses that others name (webhooks, keys, files, "
        "cards). The proxy decides what may be reached.",
    ),
    click.option("--no-push", is_flag=True, help="Send no push notifications."),
    click.option(
        "--push",
        "push_settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="How push notifications are sent, like challenge=on,timeout_s=5. May be repeated.",
    ),
    click.option(
        "--cors-origin",
        multiple=True,
        metavar="ORIGIN",
        help="Allow web pages of this origin to use the agent, like https://app.example.com. May "
        "be repeated.",
    ),
    click.option(
        "--otel",
        is_flag=True,
        help="Send traces with OpenTelemetry, to where the OTEL_* variables say. Needs the extra "
        "otel.",
    ),
)


def port_options(command: _T) -> _T:
    """Give a command the options of the ports that are opened, and of who calls there."""
    return _with(_PORT_OPTIONS, command)


def server_options(command: _T) -> _T:
    """Give a command the options of a process that serves."""
    return _with((*_PORT_OPTIONS, *_PROCESS_OPTIONS), command)


def agent_options(command: _T) -> _T:
    """Give a command the options of agents that are served: `app_settings` reads them."""
    return _with(_AGENT_OPTIONS, command)


def _with(options: Sequence[Callable[[_T], _T]], command: _T) -> _T:
    for option in reversed(options):
        command = option(command)
    return command


def app_settings(
    *,
    url: str | None,
    versions: str | None,
    previews: Sequence[str],
    grpc_port: int | None,
    grpc_host: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    keep_days: float,
    retention: Sequence[str],
    limits: Sequence[str],
    key_file: Path | None,
    sign_card: bool,
    allow_hosts: Sequence[str],
    egress_proxy: str,
    trusted_proxy: Sequence[str],
    no_push: bool,
    push_settings: Sequence[str],
    cors_origin: Sequence[str],
    otel: bool,
    metrics: str | None,
    files_url: str,
) -> dict[str, Any]:
    """Return the keywords of `Agent.app` that the options stand for.

    Raises:
        ClickException: They don't go together, or one is wrong.
    """
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.ClickException(
            f"--url {url} is not an address that clients can use; write it like "
            "https://agents.example.com/trip"
        )
    if no_push and push_settings:
        raise click.UsageError("--no-push can't be used with --push")
    kept_s = keep_days * 24 * 3600
    return {
        "url": url,
        "versions": versions.split(",") if versions else None,
        "previews": previews,
        "grpc_port": grpc_port,
        "grpc_host": grpc_host,
        "limits": read_struct(Limits, limits, "--limits"),
        "tls": _tls(tls_cert, tls_key, tls_client_ca),
        "retention": read_struct(Retention, retention, "--retention", tasks_s=kept_s),
        "key_file": key_file,
        "allow_hosts": allow_hosts,
        "sign_card": sign_card,
        "egress_proxy": egress_proxy,
        "trusted_proxies": trusted_proxy,
        "push": read_struct(PushSettings, push_settings, "--push") if not no_push else False,
        "cors_origins": cors_origin,
        "telemetry": True if otel else None,
        "metrics": metrics,
        "files": files_url,
    }


def _tls(certificate: Path | None, key: Path | None, client_authority: Path | None) -> Tls | None:
    if certificate is None and key is None and client_authority is None:
        return None
    if certificate is None or key is None:
        raise click.ClickException("TLS needs both --tls-cert and --tls-key")
    return Tls(certificate, key, client_authority)


def local_address(bound: str) -> str:
    """Return where this machine reaches a server. `0.0.0.0` and `[::]` mean every address of it,
    and are none that a browser or another system can call.
    """
    return bound.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
