"""Sign deliveries, and verify their signatures.

- A JWT per delivery, with a key that the agent publishes: who, when, which task, and the SHA-256
  of the body.
- Standard Webhooks (HMAC-SHA256 over id, time and body), where the client gave a secret.
"""

import base64
import binascii
import functools
import hashlib
import hmac
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

__all__ = [
    "HMAC_SCHEME",
    "delivery_id",
    "digest",
    "hmac_signature",
    "is_signed",
    "read_delivery_id",
    "secrets_of",
]

HMAC_SCHEME = (
    "standard-webhooks"  # `authentication.scheme` of a config whose credentials are secrets
)

_PREFIX = "whsec_"
_SECRET_BYTES = range(24, 65)
_VERSION = "v1"


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def delivery_id(task_id: str, number: int, config_id: str) -> str:
    """Return the id of a delivery, the same for every attempt: task, event number and config.

    Standard Webhooks signs `id.time.body`, so an id holds no full stop.
    """
    return f"{_quoted(task_id)}/{number}/{_quoted(config_id)}"


def read_delivery_id(text: str) -> tuple[str, int, str] | None:
    """Return task, number and config of an id; None if it is none of ours."""
    match = re.fullmatch(r"([^/]+)/([0-9]{1,15})/([^/]+)", text)
    return (unquote(match[1]), int(match[2]), unquote(match[3])) if match else None


@functools.lru_cache(maxsize=256)  # a task and its config come with each of its events
def _quoted(text: str) -> str:
    return quote(text, safe="").replace(".", "%2E")


def secrets_of(credentials: str) -> list[bytes]:
    """Return the secrets in a config's credentials: one or two (while it is changed), separated by
    spaces, each `whsec_` and 24 to 64 bytes in base64.

    Raises:
        ValueError: They are not that. The text does not repeat them.
    """
    found = []
    for text in credentials.split():
        try:
            secret = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise ValueError("a secret must be written in base64, after whsec_") from None
        if len(secret) not in _SECRET_BYTES:
            raise ValueError(f"a secret has 24 to 64 bytes, not {len(secret)}")
        found.append(secret)
    if not 1 <= len(found) <= 2:
        raise ValueError("one secret is needed, or two while it is changed")
    return found


def hmac_signature(secrets: Iterable[bytes], id: str, at_s: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: a signature for each secret."""
    return " ".join(f"{_VERSION},{_mac(secret, id, str(at_s), body)}" for secret in secrets)


def is_signed(secrets: Iterable[bytes], id: str, at: str, body: bytes, signature: str) -> bool:
    """Whether one of these secrets made one of the signatures."""
    given = [
        text
        for part in signature.split()[:8]
        for kind, _, text in (part.partition(","),)
        if kind == _VERSION
    ]
    return any(
        hmac.compare_digest(_mac(secret, id, at, body).encode(), text.encode())
        for secret in secrets
        for text in given
    )


def _mac(secret: bytes, id: str, at: str, body: bytes) -> str:
    signed = f"{id}.{at}.".encode() + body
    return base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
