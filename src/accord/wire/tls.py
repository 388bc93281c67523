"""Whose certificate a server shows, and whose it asks for. The same for HTTP and gRPC."""

from pathlib import Path

import msgspec

__all__ = ["Tls"]


class Tls(msgspec.Struct, frozen=True):
    """The certificate a server shows, and its key: files in PEM.

    With a client authority, only clients with a certificate it signed are let in (mutual TLS).
    """

    certificate: Path
    key: Path
    client_authority: Path | None = None
