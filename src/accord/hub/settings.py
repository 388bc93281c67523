"""Settings of a hub: from flags, else from `ACCORD_HUB_*`."""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..server.transport import Tls

__all__ = ["HubSettings"]

PREFIX = "ACCORD_HUB_"
_NAMES = {"allow": "ALLOW_HOST", "approve": "APPROVE_ORIGIN"}  # as the options are called
_OTHERS = frozenset({"KEY"})  # read by the commands that call a hub
# Kubernetes gives every pod variables like these for a Service that is called accord-hub.
_SERVICE_LINK = re.compile(r"SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?")
_LISTS = ("allow", "approve", "trusted_proxy")


class HubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a hub is set up. Every field can come from the environment: `ACCORD_HUB_PORT=9000`.

    Raises:
        ValueError: A number is out of its range.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    store: str = "sqlite:///.accord/hub.db"
    tasks: str = ""  # where tasks are kept; by default beside `store`
    url: str = ""  # where clients reach it, if not at the address it listens on
    name: str = "Hub"
    folder: str = ".accord"  # for the key of the local admin
    key_file: str = ""
    tls_cert: str = ""  # PEM files, for HTTP and gRPC
    tls_key: str = ""
    grpc_port: int | None = None
    metrics: str = ""  # [HOST:]PORT for Prometheus
    # What callers without a login may do with public agents. By default they may call them if
    # only this machine can reach the hub (by `host`, and by `url`), else nothing.
    guests: Literal["", "off", "see", "call"] = ""
    oidc: str = ""  # the issuer of tokens
    oidc_audience: str = ""
    team_claim: str = "groups"  # the claim that names a caller's teams
    allow: tuple[str, ...] = ()  # private hosts and networks that agents may be in
    approve: tuple[str, ...] = ()  # origins whose agents need no approval
    trusted_proxy: tuple[str, ...] = ()  # networks of proxies that say where requests come from
    trust: Literal["off", "if-present", "require"] = "if-present"
    # Vectors for search: a folder with a model2vec model, or the URL of an embeddings endpoint.
    meaning: str = ""
    meaning_model: str = ""  # which model the endpoint is asked for
    meaning_key: str = ""
    beat_s: float = 10.0  # between two signs of life of an agent that registered itself
    missed_beats: int = 3  # after which it is down
    # Seconds between two rounds of probes (see hub/probe/rounds.py); 0: no rounds.
    tick_s: float = 1.0
    card_s: float = 300.0
    reach_s: float = 60.0
    message_s: float = 86_400.0
    check_s: float = 7 * 86_400.0
    open_s: float = 5.0  # for which calls to an agent that does not answer are refused
    calls_per_minute: int = 6_000  # of one caller, to all agents together; 0 for no limit
    poll_s: float = 1.0  # between two looks for changes of other replicas
    # Of the process that serves the hub
    no_console: bool = False
    log_level: Literal["critical", "error", "warning", "info", "debug"] = "warning"
    log_format: Literal["text", "json"] = "text"

    def __post_init__(self) -> None:
        for name in ("port", "grpc_port"):
            if not 0 <= (getattr(self, name) or 0) <= 65_535:
                raise ValueError(f"{name}={getattr(self, name)} is no port")
        for name in ("beat_s", "missed_beats", "poll_s", "open_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} has to be more than 0")
        for name in ("tick_s", "card_s", "reach_s", "message_s", "check_s", "calls_per_minute"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}={getattr(self, name)} can't be less than 0")

    @property
    def tls(self) -> Tls | None:
        """The certificate its ports show; None if they are plain.

        Raises:
            ValueError: Half of it is missing.
        """
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("TLS needs both --tls-cert and --tls-key")
        return Tls(Path(self.tls_cert), Path(self.tls_key)) if self.tls_cert else None

    @property
    def task_store(self) -> str:
        """Where tasks are kept: a file beside the registry, or the schema beside it."""
        if self.tasks:
            return self.tasks
        if self.store.startswith("sqlite:///"):
            path = Path(self.store.removeprefix("sqlite:///"))
            return f"sqlite:///{path.with_name(f'{path.stem}-tasks.db')}"
        return self.store

    @classmethod
    def of(
        cls, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ
    ) -> "HubSettings":
        """Return settings: those given, else those of the environment, else the usual ones.

        Raises:
            ValueError: One of them is not what it should be, or the environment names one that
              there is not.
        """
        names = {_NAMES.get(name, name.upper()): name for name in cls.__struct_fields__}
        found: dict[str, Any] = {}
        for variable, text in environment.items():
            word = variable.removeprefix(PREFIX)
            if word == variable or word in _OTHERS or _is_service_link(word, text):
                continue
            if word not in names:
                near = difflib.get_close_matches(word, [*names, *_OTHERS], n=1, cutoff=0.5)
                hint = f"; do you mean {PREFIX}{near[0]}?" if near else ""
                raise ValueError(f"the hub has no setting {variable}{hint}")
            if text:
                name = names[word]
                words = [one.strip() for one in text.split(",") if one.strip()]
                found[name] = words if name in _LISTS else text
        found |= {name: value for name, value in given.items() if value not in (None, ())}
        try:
            return msgspec.convert(found, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"settings of the hub: {error}") from None


def _is_service_link(word: str, text: str) -> bool:
    is_address = word == "PORT" and text.startswith(("tcp://", "udp://", "sctp://"))
    return is_address or _SERVICE_LINK.fullmatch(word) is not None
