"""The options that name the agent a command talks to, and how it talks to it."""

import functools
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import click
import msgspec

from ..client import ApiKey, Bearer, Budget, Client, ClientCert, Retry, connect
from ..model import (
    IDEMPOTENT,
    RESUME,
    AgentCard,
    ExtensionSupportRequired,
    Unauthenticated,
    VersionNotSupported,
)
from ..net import Guard, client_tls, may_be_set
from ..protocol import PREVIEW_NUMBERS, SPOKEN, is_old
from .advice import RETRY_MAX_TIME, retry_for
from .amount import SOME_SECONDS
from .catalog import CATALOG, resolve_reference
from .login import login_at
from .progress import transfer_line
from .settings import CONFIG, OutputForm, Setting, look_up
from .terminal import secho
from .wire import wire_shown

__all__ = ["METADATA", "STREAM", "AgentTarget", "agent_options", "agent_words", "parse_object"]

_BINDINGS = {
    "jsonrpc": "JSONRPC",
    "json-rpc": "JSONRPC",
    "rest": "HTTP+JSON",
    "http+json": "HTTP+JSON",
    "http_json": "HTTP+JSON",
    "http-json": "HTTP+JSON",
    "grpc": "GRPC",
}


class AgentTarget(msgspec.Struct):
    """An agent and how to talk to it, as typed."""

    url: str = ""
    transports: tuple[str, ...] = ()
    previews: tuple[str, ...] = ()
    version: str = ""
    output: str = "answer"
    bearer: str = ""
    api_key: str = ""
    headers: dict[str, str] = {}
    extensions: tuple[str, ...] = ()
    certificate: tuple[str, str | None] | None = None
    ca: str | None = None
    insecure: bool = False
    debug: bool = False
    verbose: bool = False
    timeout_s: float | None = None
    poll_s: float | None = None
    retry_max_time: float | None = None
    catalog: str = ""  # where catalog:NAME is looked up
    guard: Guard | None = None  # for addresses that a stranger's catalog gave
    named: str = ""  # the agent as it was typed, if that was not its address
    typed_card: bool = False  # with --agent-card; else the address is the first word
    from_folder: tuple[str, ...] = ()  # what the nearest .env decides of where credentials go
    binding: str = ""  # the one in use, once that is known

    @property
    def words(self) -> list[str]:
        """Return the words that named the agent, to be typed again."""
        name = self.named or self.url
        found = ["--agent-card", name] if self.typed_card else [name]
        return [*found, "--catalog", self.catalog] if self.named else found

    @property
    def has_credential(self) -> bool:
        return bool(self.bearer or self.api_key or self.certificate)

    @asynccontextmanager
    async def connected(
        self, retry: Retry | None = None, *, checks: bool = True
    ) -> AsyncIterator[Client]:
        """The client of this agent, over the interface that was asked for; `checks` what its card
        requires.
        """
        with self.watched():
            client = await self._connect(retry)
            try:
                self.binding = client.binding
                self._say_whose_card(client)
                if checks:
                    self._check(client.card)
                yield client
            finally:
                await client.close()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Warn of what is not safe; with --debug, show what goes over the wire."""
        self._warn()
        with wire_shown(self.debug, [self.bearer, self.api_key, *self.headers.values()]):
            yield

    def _say_whose_card(self, client: Client) -> None:
        """Say so if the card is that of the host, and not of the path that was typed, which may be
        a typing error.
        """
        for note in client.notes:
            place = note.rpartition("; found at ")[2] if note.startswith("no card at ") else ""
            if place and not place.startswith(self.url.rstrip("/")):
                secho(f"{note}, the card of {client.card.name}", err=True, dim=True)

    async def _connect(self, retry: Retry | None) -> Client:
        row = SPOKEN.get(self.version)
        if row is not None and row.is_preview and self.version not in self.previews:
            raise click.UsageError(
                f"A2A {self.version} is not released: add --preview {self.version}"
            )
        client = await self._client(retry)
        try:
            wanted = self._interface(client)
            if wanted == (client.binding, client.version):
                return client
        except BaseException:
            await client.close()
            raise
        await client.close()
        return await self._client(retry, binding=wanted[0], version=wanted[1])

    def _client(self, retry: Retry | None, **options: Any) -> Client:
        return connect(
            self.url,
            retry=retry or retry_for(self.retry_max_time),
            budget=Budget(poll_s=self.poll_s),
            on_upload=transfer_line("uploading"),
            **self.connect_options(),
            **options,
        )

    def connect_options(self) -> dict[str, Any]:
        """The options of `connect` that say how the agent is reached."""
        auth: Any = [
            *([Bearer(self.bearer)] if self.bearer else []),
            *([ApiKey(self.api_key)] if self.api_key else []),
            *([ClientCert(*self.certificate)] if self.certificate else []),
        ]
        if self.insecure and self.certificate:
            raise click.UsageError("--insecure can't be used with --client-cert")
        tls = self.tls() if self.insecure else None
        return {
            "auth": auth or login_at(self.url),
            "public_card": bool(auth),
            "headers": self.headers or None,
            "extensions": self.extensions,
            "ca": self.ca if tls is None else None,
            "ssl": tls,
            "previews": self.previews,
            "guard": self.guard,
        }

    def tls(self) -> ssl.SSLContext | None:
        """Return how servers are verified; None for the system's way."""
        if self.insecure:
            tls = ssl.create_default_context()
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
            return tls
        return client_tls(self.ca) if self.ca is not None else None

    def _interface(self, client: Client) -> tuple[str, str]:
        """The binding and version to use: the first wish that the card offers, else its order."""
        offered = [
            (one.protocol_binding, one.protocol_version)
            for one in client.connection.found.interfaces
        ]
        if self.version:
            fitting = [one for one in offered if one[1] == self.version]
        else:
            fitting = [one for one in offered if not is_old(one[1])] or offered
            if is_old(fitting[0][1]):
                secho(f"{client.card.name} speaks A2A {fitting[0][1]}, so that is used", err=True)
        if not fitting and not is_old(self.version):
            have = ", ".join(sorted({version for _, version in offered}))
            raise VersionNotSupported(
                f"{client.card.name}: the card does not offer A2A {self.version}, but {have}"
            )
        fitting = fitting or [("JSONRPC", self.version)]  # often served without being listed
        for wish in self.transports:
            for one in fitting:
                if one[0] == wish:
                    return one
        return fitting[0]

    def _check(self, card: AgentCard) -> None:
        """Refuse a card that asks for something we do not have, before anything is sent."""
        for extension in card.capabilities.extensions:
            known = (*self.extensions, IDEMPOTENT, RESUME)
            if extension.required and extension.uri not in known:
                raise ExtensionSupportRequired(
                    f"{card.name} requires the extension {extension.uri}; "
                    f"if you can do without it here, say --extension {extension.uri}"
                )
        needs = card.security_requirements
        is_open = not needs or any(not requirement.schemes for requirement in needs)
        is_known = self.has_credential or login_at(self.url) is not None or self.headers
        if not is_open and not is_known:
            wanted = " or ".join(" with ".join(one.schemes) for one in needs)
            raise Unauthenticated(f"{card.name} needs credentials: {wanted}")
        if self.bearer and not needs and not card.security_schemes:
            _warn("the card declares no authentication; the token is sent all the same")

    def _warn(self) -> None:
        if self.from_folder and (self.has_credential or login_at(self.url) is not None):
            names = " and ".join(f"--{name}" for name in self.from_folder)
            _warn(f"{names} set by the .env of this folder; your credentials go where it says")
        if self.insecure:
            _warn("the server's certificate is not verified (--insecure)")
            if self.has_credential or self.headers:
                _warn("CREDENTIALS ARE SENT OVER A CONNECTION THAT IS NOT VERIFIED")


def _warn(text: str) -> None:
    secho(f"Warning: {text}", err=True)


def _transports(_: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
    for word in value:
        if word.lower() not in _BINDINGS:
            raise click.BadParameter(f"{word} is not one of jsonrpc, rest, grpc", param=param)
    return tuple(_BINDINGS[word.lower()] for word in value)


def _headers(_: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
    found = {}
    for line in value:
        name, is_split, text = line.partition(":" if ":" in line else "=")
        name, text = name.strip(), text.strip()
        if not is_split or not may_be_set(name) or not text.isprintable():
            raise click.BadParameter("write NAME: VALUE, without line breaks", param=param)
        if name.lower() == "a2a-version":
            raise click.BadParameter("use --a2a-version", param=param)
        found[name] = text
    return found


_OUTPUT = click.option("-o", "--output", cls=Setting,
                       type=OutputForm(["answer", "text", "json"]), default="answer",
                       show_default=True, help="answer prints the answer, and the state of the "
                                               "task on stderr; text prints every field as "
                                               "`Label: value`; json prints JSON.")  # fmt: skip

_OPTIONS: list[Callable[[Any], Any]] = [
    click.option("-a", "--agent-card", cls=Setting, metavar="URL|FILE", default="",
                 help="The agent, instead of URL: its address, the address of its card, or a "
                      "card file."),
    click.option("--catalog", cls=Setting, metavar="URL|FILE", default="",
                 help="The AI Catalog in which to look up an agent given as catalog:NAME."),
    click.option("--transport", "transports", cls=Setting, multiple=True, callback=_transports,
                 metavar="BINDING", help="The binding to use: jsonrpc, rest or grpc. Repeat it "
                                         "for several, the preferred one first. Default: the "
                                         "card's order."),
    click.option("--a2a-version", "version", cls=Setting, default="", metavar="VERSION",
                 help="The version of A2A to use. Default: the highest in the card."),
    click.option("--preview", "previews", multiple=True, metavar="VERSION",
                 help="Use a version of A2A that is not released yet "
                      f"({', '.join(PREVIEW_NUMBERS)}), with agents that offer it. It may "
                      "change. May be repeated."),
    click.option("--bearer", cls=Setting, default="", metavar="TOKEN",
                 help="Bearer token. Other users of this machine can see it in the process list, "
                      "and it stays in your shell's history: A2ACLI_BEARER or accord auth login "
                      "are safer."),
    click.option("--api-key", cls=Setting, default="", metavar="KEY",
                 help="API key, sent as the card says. A2ACLI_API_KEY is safer, as with --bearer."),
    click.option("-H", "--svc-param", "--header", "headers", cls=Setting, multiple=True,
                 callback=_headers, metavar="'NAME: VALUE'", help="A header to send, or metadata "
                                                                  "with gRPC. May be repeated."),
    click.option("--extension", "extensions", multiple=True, metavar="URI",
                 help="An extension of the protocol to activate. May be repeated."),
    click.option("--client-cert", cls=Setting, type=click.Path(exists=True, dir_okay=False),
                 help="Certificate for mutual TLS (PEM)."),
    click.option("--client-key", cls=Setting, type=click.Path(exists=True, dir_okay=False),
                 help="Its private key (PEM), if not in the same file."),
    click.option("--ca-cert", cls=Setting, type=click.Path(exists=True),
                 help="Certificate authorities (PEM) to trust instead of the system's."),
    click.option("--insecure/--no-insecure", cls=Setting, default=False,
                 help="Do not verify the server's certificate. For development."),
    click.option("--timeout", cls=Setting, type=SOME_SECONDS, metavar="DURATION",
                 help="The longest time to wait in total, like 30, 5s or 1m30s. Default: no "
                      "limit."),
    click.option("--poll-interval", cls=Setting, type=SOME_SECONDS, metavar="DURATION",
                 help="How often to ask for a task if the agent does not stream. Default: first "
                      "after 0.1 s, later every 2 s."),
    RETRY_MAX_TIME,
    CONFIG,
    click.option("--verbose/--no-verbose", cls=Setting, default=False,
                 help="With -o text: also print ids, names, media types and history."),
    click.option("--debug/--no-debug", cls=Setting, default=False,
                 help="Print requests and answers on stderr, without credentials."),
]  # fmt: skip


def agent_options(
    function: Callable[..., Any], output: Callable[[Any], Any] = _OUTPUT
) -> Callable[..., Any]:
    """Give a command the options of `AgentTarget`, and the target as its first argument.

    `output` is the option -o, for a command with forms of its own.
    """

    @functools.wraps(function)
    def run(
        *,
        agent_card: str,
        catalog: str,
        transports: tuple[str, ...],
        version: str,
        previews: tuple[str, ...],
        output: str,
        bearer: str,
        api_key: str,
        headers: dict[str, str],
        extensions: tuple[str, ...],
        client_cert: str | None,
        client_key: str | None,
        ca_cert: str | None,
        insecure: bool,
        timeout: float | None,
        poll_interval: float | None,
        retry_max_time: float | None,
        verbose: bool,
        debug: bool,
        **others: Any,
    ) -> Any:
        for secret in (bearer, api_key):
            if not secret.isprintable():
                raise click.UsageError("a credential must not have control characters")
        target = AgentTarget(
            url=agent_card,
            transports=transports,
            version=version,
            previews=previews,
            output=output,
            bearer=bearer,
            api_key=api_key,
            headers=headers,
            extensions=extensions,
            certificate=(client_cert, client_key) if client_cert else None,
            ca=ca_cert,
            insecure=insecure,
            debug=debug,
            verbose=verbose,
            timeout_s=timeout,
            poll_s=poll_interval,
            retry_max_time=retry_max_time,
            typed_card=bool(agent_card),
            catalog=catalog,
            from_folder=_from_folder(),
        )
        return function(target, **others)

    for option in reversed([*_OPTIONS[:4], output, *_OPTIONS[4:]]):
        run = option(run)
    return run


def _from_folder() -> tuple[str, ...]:
    """Return the settings that come from the folder's .env, but that a stranger's folder should not
    decide.
    """
    ctx = click.get_current_context()
    names = {"agent-card": "agent_card", "insecure": "insecure"}
    return tuple(
        name
        for name, parameter in names.items()
        if ctx.get_parameter_source(parameter) is click.core.ParameterSource.ENVIRONMENT
        and (found := look_up(name)) is not None
        and found.source == "local file"
    )


def agent_words(target: AgentTarget, words: tuple[str, ...], most: int, what: str) -> list[str]:
    """Return the words of a command behind the agent's address, which is the first unless
    --agent-card names it. `most` is how many there can be, `what` how they are called in help.
    """
    source = click.get_current_context().get_parameter_source("agent_card")
    is_typed = source is click.core.ParameterSource.COMMANDLINE
    rest = list(words)
    if rest and not is_typed and (not target.url or len(rest) > most):
        target.url, target.typed_card = rest.pop(0), False
        target.from_folder = tuple(name for name in target.from_folder if name != "agent-card")
    if not target.url:
        raise click.UsageError("say which agent: its URL, or --agent-card")
    if target.url.startswith(CATALOG):
        target.named = target.url
        entry = resolve_reference(target.url, target.catalog, target.ca)
        target.url, target.guard = entry.place, entry.guard
    if len(rest) > most:
        raise click.UsageError(f"one word too many: {rest[most]!r}; {what}")
    return rest


def parse_object(text: str, name: str) -> dict[str, Any]:
    """Return the JSON object of an option."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise click.UsageError(f"""{name} must be a JSON object, like '{{"key": "value"}}'""")
    return value


METADATA = click.option(
    "--metadata", cls=Setting, default="", metavar="JSON", help="Metadata of the request."
)

STREAM = click.option(
    "--stream",
    "is_stream",
    is_flag=True,
    help="Show what the agent does as it happens. With -o json: one object per line.",
)
