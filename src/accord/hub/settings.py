"""Settings of a hub: from flags, else from `ACCORD_HUB_*`."""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from ..model import LogFormat, LogLevel
from ..protocol import PreviewNumber, lenient
from ..server.transport import Tls

__all__ = ["HubSettings", "variable_of", "why_wrong"]

PREFIX = "ACCORD_HUB_"
WORKERS = 64  # at most
MOST = 100_000_000  # of seconds, about three years, and of calls
# As the options are called.
_NAMES = {
    "allow": "ALLOW_HOST",
    "approve": "APPROVE_ORIGIN",
    "files_url": "FILES",
}
_OTHERS = frozenset({"KEY"})  # read by the commands that call a hub
# Kubernetes gives every pod variables like these for a Service that is called accord-hub.
_SERVICE_LINK = re.compile(r"SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?")
_LISTS = ("allow", "approve", "trusted_proxy", "map_role", "preview")
# Whoever asks for a token chooses these.
_NO_ROLES = ("scope", "scp", "scopes")
_ROLES = ("admin", "publisher", "user", "guest")


class HubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Set up a hub. Every field can come from the environment: `ACCORD_HUB_PORT=9000`.

    Raises:
        ValueError: A number is out of its range.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1  # processes that serve the port, each a hub on the same database
    store: str = "sqlite:///.accord/hub.db"  # of the entries and of the tasks
    files_url: str = ""  # where the bytes of files are; by default beside the database
    url: str = ""  # where clients reach it, if not at the address it listens on
    name: str = "Hub"  # of the hub as an agent, in its card
    # Where the key of the local admin is kept, and the end of the audit log that the hub has seen.
    folder: str = ".accord"
    key_file: str = ""
    tls_cert: str = ""  # PEM files, for HTTP and gRPC
    tls_key: str = ""
    grpc_port: int | None = None
    grpc_domain: str = ""  # below it each agent has a name on gRPC, for clients of A2A 0.3
    metrics: str = ""  # [HOST:]PORT for Prometheus
    # What callers without a login may do with public agents. By default they may call them if
    # only this machine can reach the hub (by `host`, and by `url`), else nothing.
    guests: Literal["", "off", "see", "call"] = ""
    oidc: str = ""  # the issuer of tokens
    oidc_audience: str = ""
    oidc_client: str = ""  # the hub's id at the issuer: with it people log in to the console
    oidc_secret: str = ""  # the secret of that client; none for a public client
    team_claim: str = "groups"  # the claim that names a caller's teams
    role_claim: str = "groups"  # the claim that gives people a role, by `map_role`
    map_role: tuple[str, ...] = ()  # ROLE=VALUE: who has VALUE in that claim has ROLE
    allow: tuple[str, ...] = ()  # private hosts and networks that agents may be in
    approve: tuple[str, ...] = ()  # origins whose agents need no approval
    trusted_proxy: tuple[str, ...] = ()  # networks of proxies that say where requests come from
    preview: tuple[PreviewNumber, ...] = ()  # versions not released yet, to serve and to speak
    trust: Literal["off", "if-present", "require"] = "if-present"
    # Vectors for search: a folder with a model2vec model, or the URL of an embeddings endpoint.
    meaning: str = ""
    meaning_model: str = ""  # which model the endpoint is asked for
    meaning_key: str = ""  # the key that is shown to the endpoint
    heartbeat_s: float = 10.0  # seconds between two heartbeats of an agent that registered itself
    missed_heartbeats: int = 3  # heartbeats that are missing, after which it is down
    tick_s: float = 1.0  # seconds between two looks for probes that are due; 0: no probes
    card_s: float = 300.0  # seconds between two fetches of a card
    reach_s: float = 60.0  # seconds between two free probes of an agent
    message_s: float = 86_400.0  # seconds between two real messages to an agent
    check_s: float = 7 * 86_400.0  # seconds between two runs of all checks on an agent
    # Seconds for which calls to an agent that does not answer are refused; later twice as long.
    open_s: float = 5.0
    # Calls of one caller, to all agents together; 0 for no limit. Admins have none.
    calls_per_minute: int = 6_000
    poll_s: float = 1.0  # seconds between two looks for changes of other hubs
    # Of the process that serves the hub
    no_console: bool = False
    log_level: LogLevel = "warning"
    log_format: LogFormat = "text"

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str) and not value.isprintable():
                raise ValueError(
                    f"{field.name}={value!r:.80}: a setting has no line breaks or other characters "
                    "that can't be seen"
                )
        if not self.name.strip():
            raise ValueError(f"name={self.name!r}: give the hub a name, like Hub")
        if self.oidc_client and not self.oidc:
            raise ValueError("--oidc-client is the hub's id at an issuer: name it with --oidc")
        if self.role_claim in _NO_ROLES:
            raise ValueError(
                f"role_claim={self.role_claim}: whoever asks for a token chooses this claim, so it "
                "can't give roles"
            )
        for given in self.map_role:
            role, _, value = given.partition("=")
            if role not in _ROLES or not value:
                raise ValueError(
                    f"--map-role {given}: write it as ROLE=VALUE, with one of {', '.join(_ROLES)}"
                )
        for name in ("port", "grpc_port"):
            if not 0 <= (getattr(self, name) or 0) <= 65_535:
                raise ValueError(f"{name}={getattr(self, name)} is not a port")
        if not 1 <= self.workers <= WORKERS:
            raise ValueError(f"workers={self.workers} is a number from 1 to {WORKERS}")
        for name in ("heartbeat_s", "missed_heartbeats", "poll_s", "open_s"):
            if not 0 < getattr(self, name) <= MOST:
                raise ValueError(f"{name}={getattr(self, name)}: give more than 0, up to {MOST:,}")
        for name in ("tick_s", "card_s", "reach_s", "message_s", "check_s", "calls_per_minute"):
            if not 0 <= getattr(self, name) <= MOST:
                raise ValueError(f"{name}={getattr(self, name)}: give 0 or more, up to {MOST:,}")

    @property
    def tls(self) -> Tls | None:
        """The certificate its ports show; None if they are plain.

        Raises:
            ValueError: Half of it is missing.
        """
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("TLS needs both --tls-cert and --tls-key")
        return Tls(Path(self.tls_cert), Path(self.tls_key)) if self.tls_cert else None

    @classmethod
    def of(
        cls, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ
    ) -> "HubSettings":
        """Return settings: those given, else those of the environment, else the usual ones.

        Raises:
            ValueError: One of them is not what it should be, or the environment names one that
              there is not.
        """
        names = {variable_of(name)[len(PREFIX) :]: name for name in cls.__struct_fields__}
        found: dict[str, Any] = {}
        for variable, text in environment.items():
            word = variable.removeprefix(PREFIX)
            if word == variable or word in _OTHERS or _is_service_link(word, text):
                continue
            if word not in names:
                near = difflib.get_close_matches(word, [*names, *_OTHERS], n=1, cutoff=0.5)
                hint = f"; did you mean '{PREFIX}{near[0]}'?" if near else ""
                raise ValueError(f"the hub has no setting {variable}{hint}")
            if text:
                name = names[word]
                words = [one.strip() for one in text.split(",") if one.strip()]
                found[name] = words if name in _LISTS else text
        found |= {name: value for name, value in given.items() if value not in (None, ())}
        try:
            return msgspec.convert(found, cls, strict=False)
        except msgspec.ValidationError as error:
            [(_, wrong)] = lenient.bad_field(error).violations
            raise ValueError(why_wrong(cls, found) or wrong) from None


def why_wrong(settings: type[msgspec.Struct], found: Mapping[str, Any]) -> str:
    """Return which setting has a value that it does not take, and what it takes."""
    for field in msgspec.structs.fields(settings):
        if field.name not in found:
            continue
        try:
            msgspec.convert(found[field.name], field.type, strict=False)
        except msgspec.ValidationError as error:
            given = found[field.name]
            words = ", ".join(map(str, given)) if isinstance(given, list | tuple) else given
            choices = [one for one in _choices(field.type) if one]
            [(_, wrong)] = lenient.bad_field(error).violations
            why = f"choose from {', '.join(choices)}" if choices else wrong
            return f"{field.name}={words}: {why}"
    return ""


def _choices(type_: Any) -> tuple[str, ...]:
    """Return the values of a `Literal`, or of a tuple of them; none for other types."""
    if get_origin(type_) is tuple:
        type_ = get_args(type_)[0]
    return get_args(type_) if get_origin(type_) is Literal else ()


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + _NAMES.get(name, name.upper())


def _is_service_link(word: str, text: str) -> bool:
    is_address = word == "PORT" and text.startswith(("tcp://", "udp://", "sctp://"))
    return is_address or _SERVICE_LINK.fullmatch(word) is not None
