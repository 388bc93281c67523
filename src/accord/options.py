"""The keywords of `Agent.app`, `Agent.serve` and `Agent.run`, each once."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from .model import Limits, LogFormat, LogLevel
from .protocol import PreviewNumber, VersionNumber

if TYPE_CHECKING:
    from pathlib import Path

    from .engine.runs import Retention
    from .engine.skills import Agent
    from .push import PushSettings
    from .server.transport import Tls
    from .store import Store

__all__ = ["AppOptions", "AppPart", "RunOptions", "ServeOptions", "takes"]

P = ParamSpec("P")
O = TypeVar("O")  # noqa: E741 - options
S = TypeVar("S")
R = TypeVar("R")


class AppPart(Protocol):
    """Something that lives as long as an app: a registry beside its agent, a sign of life."""

    async def open(self) -> None:
        """Called when the store is open, before the first request."""

    async def drain(self) -> None:
        """Called when the app takes no new work; what runs may still go on for a while."""

    async def settle(self) -> None:
        """Called when the work has ended that is waited for, while the store is still open."""

    async def close(self) -> None:
        """Called when all work has ended, and the store is closed."""

    @property
    def trouble(self) -> str:
        """Return why no new work should come; empty if it may."""


@dataclass(frozen=True, kw_only=True)
class AppOptions:
    """What an app is made with.

    Args:
        beside: Other agents to serve on the same port, with the same store. Each agent then has a
          path made from its name, and `/` lists them.
        store: Where tasks are stored: `sqlite:///file`, `postgresql://...`, `memory://` to lose
          them when the server stops, or a store of your own. By default `app` stores them in
          memory; `run` and `serve` use a file in `./.accord/` named after the agent, `agents.db`
          for several agents.
        url: The address of the agent in its card. By default the address that the client used.
        rpc: The path of the JSON-RPC binding.
        rest: The base path of the HTTP+JSON binding.
        limits: The limits for each caller.
        versions: The protocol versions to serve, like `["1.0"]`; by default all of them.
        previews: Protocol versions to serve that are not released yet, like `["1.1"]`. They may
          change.
        grpc_port: Serve gRPC too, on this port; 0 for any free one. Needs `accord[grpc]`.
        grpc_host: The address for gRPC to listen on. By default that of HTTP; for an app, this
          machine only.
        grpc_domain: A domain below which each of several agents has a name on gRPC, as
          `hr.agents.example` with `agents.example`. For clients of A2A 0.3, which have no other
          way to name an agent there.
        tls: The certificate of the server, and the authority whose client certificates it accepts.
          An app uses it for gRPC; TLS for HTTP is set up in the server that runs the app.
        retention: How long tasks, their logs and idempotency keys are kept.
        key_file: The file with the keys that this server encrypts and signs with. By default the
          keys in `ACCORD_KEY`, or a file beside the SQLite database, which is created when it is
          first needed.
        allow_hosts: Private hosts and networks that may be called although others name them, for
          example as a webhook. For tests, and for networks of your own.
        sign_card: Sign the agent card with these keys, and publish the public ones at
          `/.well-known/jwks.json`.
        egress_proxy: An HTTP proxy for calls to addresses that others name: webhooks, keys of
          issuers, files, addresses in cards. The proxy decides what may be reached. Without it only
          public addresses are called.
        trusted_proxies: Addresses and networks of proxies in front of this server. Their
          X-Forwarded-For or Forwarded header is trusted. Without it, the address of a caller is
          that of the connection.
        cors_origins: Origins whose web pages may use the agent, like `https://app.example.com`.
        push: Whether to send push notifications, or the settings for them.
        telemetry: Whether to send traces with OpenTelemetry (`accord[otel]`). By default yes if the
          environment says where to (`OTEL_EXPORTER_OTLP_ENDPOINT`).
        metrics: The port for Prometheus metrics (`accord[metrics]`), readable from this machine
          only; or `"HOST:PORT"`.
        files: Where the bytes of files are: `file:///folder`, `s3://bucket/prefix`, `gs://...` or
          `az://...` (`accord[files]`). By default in a folder beside the SQLite file, or in the
          PostgreSQL database.
    """

    beside: "Sequence[Agent]" = ()
    store: "str | Store | None" = None
    url: str | None = None
    rpc: str = "/"
    rest: str = "/"
    limits: Limits | None = None
    versions: Sequence[VersionNumber] | None = None
    previews: Sequence[PreviewNumber] = ()
    grpc_port: int | None = None
    grpc_host: str | None = None
    grpc_domain: str = ""
    tls: "Tls | None" = None
    retention: "Retention | None" = None
    key_file: "str | Path | None" = None
    allow_hosts: Sequence[str] = ()
    sign_card: bool = False
    egress_proxy: str = ""
    trusted_proxies: Sequence[str] = ()
    cors_origins: Sequence[str] = ()
    push: "bool | PushSettings" = True
    telemetry: bool | None = None
    metrics: int | str | None = None
    files: str = ""


@dataclass(frozen=True)
class _Address(AppOptions):
    """Where an app is served.

    Args:
        host: The address to listen on. An address that other machines can reach needs an agent with
          `auth`, or `no_auth`. The same holds for `url`.
        port: The port to listen on; 0 for any free one.
    """

    host: str = "127.0.0.1"
    port: int = 8000


@dataclass(frozen=True, kw_only=True)
class ServeOptions(_Address):
    """Where and to whom an app is served.

    Args:
        on_start: A function that is called with the address when the agent is served. By default
          the address is printed.
        grace_s: How long running work may take to finish after SIGTERM. Ctrl-C interrupts it at
          once.
        no_auth: Serve an agent without `auth` to other machines: everyone who can reach it may use
          it.
        console: Whether to serve the web console at `/console`. Its link is printed; give a
          function to get it instead, which you must if you give `on_start`. Only on loopback or
          with `auth`.
    """

    on_start: Callable[[str], None] | None = None
    grace_s: float = 20.0
    no_auth: bool = False
    console: bool | Callable[[str], None] = True


@dataclass(frozen=True, kw_only=True)
class RunOptions(ServeOptions):
    """How a process of its own serves an app.

    Args:
        log_level: The level of the logger `accord`, if it has none yet: `critical`, `error`,
          `warning`, `info` or `debug`.
        log_format: `text`, or `json` for a JSON object per line. Ignored if your program has set up
          `logging` itself.
        workers: How many processes serve the port. More than one need a store that they can share:
          `postgresql://...`. A worker that dies is started again.
        parts: Other things to open and close with the server.
    """

    log_level: LogLevel = "warning"
    log_format: LogFormat = "text"
    workers: int = 1
    parts: "Sequence[AppPart]" = ()


def takes(
    options: Callable[P, O],
) -> Callable[[Callable[[S, O], R]], Callable[Concatenate[S, P], R]]:
    """Give a method the keywords of an options type; it gets them as one value."""

    def decorate(method: Callable[[S, O], R]) -> Callable[Concatenate[S, P], R]:
        @functools.wraps(method)
        def call(self: S, /, *given: P.args, **named: P.kwargs) -> R:
            try:
                made = options(*given, **named)
            except TypeError as error:  # it names the type's own function
                said = str(error).partition("() ")[2]
                raise TypeError(f"{method.__qualname__}() {said}") from None
            return method(self, made)

        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        parameters = inspect.signature(options).parameters.values()
        signature = inspect.signature(method).replace(parameters=[itself, *parameters])
        call.__signature__ = signature  # type: ignore[attr-defined]  # `inspect` reads it
        call.__doc__ = _documented(method.__doc__ or "", options)
        return call

    return decorate


def _documented(text: str, options: Callable[..., object]) -> str:
    """Return the docstring of a method with what its keywords mean."""
    arguments = [
        part.partition("Args:\n")[2].rstrip()
        for type_ in inspect.getmro(options if isinstance(options, type) else object)
        if "Args:\n" in (part := inspect.cleandoc(type_.__doc__ or ""))
    ]
    before, raises, after = inspect.cleandoc(text).partition("\nRaises:\n")
    return before.rstrip() + "\n\nArgs:\n" + "\n".join(arguments) + "\n" + raises + after
