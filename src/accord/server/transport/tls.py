"""Whose certificate a server shows, and whose it asks for. The same for HTTP and gRPC."""

import ssl
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
    is_optional: bool = False  # whether a client may also come without a certificate

    def context(self, protocol: str) -> ssl.SSLContext:
        """Return the SSL context of a server that speaks `protocol`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols([protocol])
        if self.client_authority is not None:
            context.load_verify_locations(self.client_authority)
            context.verify_mode = ssl.CERT_OPTIONAL if self.is_optional else ssl.CERT_REQUIRED
        return context
