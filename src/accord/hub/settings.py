"""Settings of a hub: from flags, else from `ACCORD_HUB_*`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..server.transport import Tls

__all__ = ["HubSettings"]

PREFIX = "ACCORD_HUB_"


class HubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a hub is set up. Every field can come from the environment: `ACCORD_HUB_PORT=9000`."""

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
            ValueError: One of them is not what it should be.
        """
        found: dict[str, Any] = {}
        for name in cls.__struct_fields__:
            text = environment.get(PREFIX + name.upper())
            if text is not None:
                is_list = name in ("allow", "approve", "trusted_proxy")
                found[name] = [w.strip() for w in text.split(",") if w.strip()] if is_list else text
        found |= {name: value for name, value in given.items() if value not in (None, ())}
        try:
            return msgspec.convert(found, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"settings of the hub: {error}") from None
