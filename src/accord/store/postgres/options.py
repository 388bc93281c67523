"""The options in the URL of a store: where the database is, and how a replica shows that it lives.

    postgresql://user:password@host/database?schema=accord&beat_s=5&lease_s=15

What is not ours in the query (`sslmode`, `host`, ...) is PostgreSQL's.
"""

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from ..sql import place_of

__all__ = ["Lease", "PostgresOptions", "parse"]

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_OURS = ("schema", "beat_s", "lease_s", "listen", "pooler", "notify")
_YES, _NO = ("1", "on", "true", "yes"), ("0", "off", "false", "no")


class Lease(msgspec.Struct, frozen=True):
    """Set how often a replica shows that it lives, and how long it may be silent before the others
    declare it dead.
    """

    beat_s: float = 5.0
    lease_s: float = 15.0

    def __post_init__(self) -> None:
        if not 0 < self.beat_s <= self.lease_s / 3:
            raise ValueError(
                f"a lease of {self.lease_s:g} s with a heartbeat every {self.beat_s:g} s: "
                "the lease must be at least three heartbeats"
            )


class PostgresOptions(msgspec.Struct, frozen=True):
    """Hold the options of the URL of a store."""

    dsn: str  # as PostgreSQL's own clients take it
    schema: str = "accord"
    lease: Lease = Lease()
    listen: str = ""  # another address for the listener and the heartbeat: past a pooler
    is_pooled: bool | None = None  # a pooler is in between; None: find out
    has_notify: bool = True  # else changes elsewhere are found by polling alone

    @property
    def direct(self) -> str:
        """Return the address at which the database gives us a session of our own."""
        return self.listen or self.dsn

    @property
    def place(self) -> str:
        """The database without its password, for messages."""
        return place_of(self.dsn)


def parse(url: str) -> PostgresOptions:
    """Return what the URL of a store says.

    Raises:
        ValueError: Something in it is not as it should be.
    """
    parts = urlsplit(url)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in asked if name in _OURS}
    rest = urlencode([(name, value) for name, value in asked if name not in _OURS])
    schema = ours.get("schema", "accord")
    if not _SCHEMA.fullmatch(schema):
        raise ValueError(
            f"schema={schema!r}: use lower-case letters, digits and _, no more than 40, "
            "a letter first"
        )
    usual = Lease()
    return PostgresOptions(
        dsn=urlunsplit(parts._replace(query=rest)),
        schema=schema,
        lease=Lease(
            _seconds(ours, "beat_s", usual.beat_s), _seconds(ours, "lease_s", usual.lease_s)
        ),
        listen=ours.get("listen", ""),
        is_pooled=_yes_or_no(ours, "pooler"),
        has_notify=_yes_or_no(ours, "notify") is not False,
    )


def _seconds(ours: dict[str, str], name: str, usual: float) -> float:
    try:
        return float(ours.get(name, usual))
    except ValueError:
        raise ValueError(f"{name}={ours[name]!r}: give a number of seconds") from None


def _yes_or_no(ours: dict[str, str], name: str) -> bool | None:
    value = ours.get(name, "").lower()
    if value in _YES or value in _NO:
        return value in _YES
    if not value:
        return None
    raise ValueError(f"{name}={value!r}: give on or off")
