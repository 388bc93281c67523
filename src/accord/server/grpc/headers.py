"""What the headers of a gRPC call say: checked as HTTP/2 wants it, read as gRPC means it."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .call import GrpcMethod

from ...model import whole_number

__all__ = ["ENCODINGS", "CallHeaders", "Malformed", "Pair", "check_trailers", "read", "size_of"]

Pair = tuple[bytes, bytes]

ENTRY_BYTES = 32  # what each header counts beside its name and value (RFC 9113, 6.5.2)
ENCODINGS = ("identity", "deflate", "gzip")

YEAR_S = 365 * 86_400.0  # a deadline after that is none

_PSEUDO = {b":method", b":scheme", b":path", b":authority"}
_HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_BAD_VALUE = re.compile(rb"[\0\r\n]")
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNIT_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


class Malformed(Exception):
    """Headers that no request may have: the end of its stream (RFC 9113, 8.1.1)."""


class CallHeaders:
    """The head of one call."""

    __slots__ = (
        "authority",
        "encoding",
        "length",
        "metadata",
        "method",
        "path",
        "problem",
        "status",
        "timeout_s",
    )

    def __init__(self) -> None:
        self.path = ""
        self.authority = ""  # the host and port the client dialled
        self.metadata: list[tuple[str, str]] = []
        self.timeout_s: float | None = None
        self.encoding = "identity"
        self.length: int | None = None  # of all data, if the client said it
        self.status = 0  # of HTTP, for what is no gRPC at all
        self.problem: tuple[str, str] | None = (
            None  # gRPC's status, for what is, and can't be served
        )
        self.method: GrpcMethod | None = None


def size_of(pairs: Iterable[Pair]) -> int:
    """What a list of headers counts against the limit of whoever reads it."""
    return sum(ENTRY_BYTES + len(name) + len(value) for name, value in pairs)


def check_trailers(pairs: Iterable[Pair]) -> None:
    """Nothing in them matters to us, but what must not be there makes the request malformed. Raises
    Malformed.
    """
    for name, value in pairs:
        _check(name, value)


def _check(name: bytes, value: bytes) -> None:
    if not _NAME.fullmatch(name) or name in _HOP_BY_HOP or (name == b"te" and value != b"trailers"):
        raise Malformed("a header name that is not allowed")
    if _BAD_VALUE.search(value):
        raise Malformed("a header value that is not allowed")


def read(pairs: Iterable[Pair]) -> CallHeaders:
    """Return what the headers say.

    Raises:
        Malformed: They break a rule of HTTP/2.
    """
    head = CallHeaders()
    pseudo: dict[bytes, bytes] = {}
    plain: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name.startswith(b":"):
            if plain or name in pseudo or name not in _PSEUDO or _BAD_VALUE.search(value):
                raise Malformed("pseudo-headers must come first, and each only once")
            pseudo[name] = value
            continue
        _check(name, value)
        plain[name] = value
        if not name.startswith(b"grpc-"):
            # gRPC's clients may leave blanks.
            head.metadata.append((name.decode("ascii"), value.strip(b" \t").decode("latin-1")))
    if not (pseudo.get(b":method") and pseudo.get(b":scheme") and pseudo.get(b":path")):
        raise Malformed("a request needs a method, a scheme and a path")
    head.path = pseudo[b":path"].decode("latin-1")
    head.authority = pseudo.get(b":authority", b"").decode("latin-1")
    length = plain.get(b"content-length")
    if length is not None:
        head.length = whole_number(length)
        if head.length is None:
            raise Malformed("its content-length is not a number")
    if pseudo[b":method"] != b"POST":
        head.status = 405
    elif not _is_grpc(plain.get(b"content-type", b"")):
        head.status = 415
    else:
        _read_options(head, plain)
    return head


def _is_grpc(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() in (
        b"application/grpc",
        b"application/grpc+proto",
    )


def _read_options(head: CallHeaders, plain: dict[bytes, bytes]) -> None:
    timeout = plain.get(b"grpc-timeout")
    if timeout is not None:
        found = _TIMEOUT.fullmatch(timeout.decode("latin-1"))
        if found is None:
            head.problem = "INVALID_ARGUMENT", f"grpc-timeout {timeout[:40]!r} is not a time"
        else:
            head.timeout_s = min(int(found[1]) * _UNIT_S[found[2]], YEAR_S)
    head.encoding = plain.get(b"grpc-encoding", b"identity").decode("latin-1")
    if head.encoding not in ENCODINGS:
        head.problem = (
            "UNIMPLEMENTED",
            f"messages in {head.encoding!r:.40} is not supported; send {', '.join(ENCODINGS)}",
        )
