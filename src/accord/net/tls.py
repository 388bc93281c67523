"""TLS for connections we make: whom we trust, and how we prove who we are."""

import functools
import ssl
from pathlib import Path

__all__ = ["client_tls"]


@functools.cache
def _default() -> ssl.SSLContext:
    """The system's authorities (`SSL_CERT_FILE` and `SSL_CERT_DIR` count). Made once, because
    loading them is slow.
    """
    tls = ssl.create_default_context()
    tls.set_alpn_protocols(["http/1.1"])
    return tls


def client_tls(
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
    password: str | None = None,
) -> ssl.SSLContext:
    """Return a context that checks certificates and names.

    Args:
        ca: A file or a folder of the authorities to trust instead of the system's.
        cert: A client certificate, as a PEM file; `key` and `password` belong to it.

    Raises:
        OSError: A file can't be read, or is no certificate (`ssl.SSLError`). The text names the
          file.
    """
    if ca is None and cert is None:
        return _default()
    tls = _with_authorities(Path(ca)) if ca is not None else ssl.create_default_context()
    tls.set_alpn_protocols(["http/1.1"])
    if cert is not None:
        tls.load_cert_chain(cert, key, password)
    return tls


def _with_authorities(ca: Path) -> ssl.SSLContext:
    try:
        if ca.is_dir():
            return ssl.create_default_context(capath=str(ca))
        return ssl.create_default_context(cafile=str(ca))
    except OSError as error:  # of which ssl.SSLError is one; neither names the file
        raise type(error)(
            error.errno or 0,
            f"can't read the certificate authorities in {ca}: {error.strerror or error}",
        ) from None
