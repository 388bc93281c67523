"""An issuer in a few lines, for tests: keys, tokens, and the attacks on them."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import rfc8785
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from jwt import PyJWK
from jwt.api_jws import PyJWS
from jwt.exceptions import InvalidSignatureError

from accord.auth import SigningKey, private_key

ISSUER = "https://id.example"
AUDIENCE = "hr"


def pem(key: Any) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(key: SigningKey) -> bytes:
    return key.key.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def made(tmp_path, kind: str, kid: str = "") -> SigningKey:
    """A private key of a kind, by way of a PEM file."""
    generated: Any = {
        "RS256": lambda: rsa.generate_private_key(65537, 2048),
        "weak": lambda: rsa.generate_private_key(65537, 1024),
        "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate,
    }[kind]()
    file = tmp_path / f"{kind}-{kid}.pem"
    file.write_bytes(pem(generated))
    return private_key(file, kid=kid)


def jwks(*keys: SigningKey) -> dict[str, Any]:
    return {"keys": [key.public() for key in keys]}


def holds_as_received(card: dict[str, Any], keys: dict[str, Any]) -> bool:
    """Whether a signature holds for a reader who canonicalizes the JSON they got (8.4.3)."""
    payload = b64(rfc8785.dumps({name: card[name] for name in card if name != "signatures"}))
    for one in card["signatures"]:
        token = f"{one['protected']}.{payload}.{one['signature']}"
        for key in keys["keys"]:
            try:
                PyJWS().decode(token, PyJWK(key), algorithms=["ES256"])
            except InvalidSignatureError:
                continue
            return True
    return False


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "mia",
        "iat": now,
        "exp": now + 600,
        "scope": "hr.read",
    }
    return {name: value for name, value in (usual | changes).items() if value is not None}


def token(key: SigningKey, header: dict[str, Any] | None = None, **changes: Any) -> str:
    return key.sign(json.dumps(claims(**changes)).encode(), header)


def b64(data: bytes | dict[str, Any]) -> str:
    raw = json.dumps(data).encode() if isinstance(data, dict) else data
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forged(header: dict[str, Any], signature: bytes = b"", **changes: Any) -> str:
    """A token that nobody has signed."""
    return f"{b64(header)}.{b64(claims(**changes))}.{b64(signature)}"


def hmac_signed(secret: bytes, kid: str, **changes: Any) -> str:
    """A token signed with what everybody knows."""
    text = f"{b64({'alg': 'HS256', 'kid': kid})}.{b64(claims(**changes))}"
    return f"{text}.{b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def hand_signed(key: SigningKey, header: dict[str, Any], **changes: Any) -> str:
    """A token of an RSA key, signed without a library that would refuse its header."""
    text = f"{b64({'alg': 'RS256', 'kid': key.id} | header)}.{b64(claims(**changes))}"
    private: Any = key.key.private_key
    signature = private.sign(text.encode(), padding.PKCS1v15(), SHA256())
    return f"{text}.{b64(signature)}"
