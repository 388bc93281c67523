"""Signatures (JWS, RFC 7515) by joserfc, with the choices an attacker must not make taken away.

The algorithm of a signature is decided by the key, not by the header of what is signed. Symmetric
keys and `none` do not exist here. A key comes from a set that was trusted before: what a header
says about keys (`jku`, `jwk`, `x5u`, `x5c`) is not read.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

__all__ = [
    "ALGORITHMS",
    "InvalidSignature",
    "PublicKey",
    "SigningKey",
    "UnknownKey",
    "base64url",
    "from_base64url",
    "header_of",
    "private_key",
    "public_jwk",
    "public_keys",
    "verify",
]

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA"}
_RSA_BITS = 2048
_NO_PRIVATE_KEY = (
    "that is no key to sign with: give a private one, as PEM without a password or as JWK, of RSA "
    "(2048 bits or more), P-256, P-384, P-521 or Ed25519"
)
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")

_json = msgspec.json.Decoder()


class InvalidSignature(Exception):
    """A signature does not hold; the text says why."""


class UnknownKey(InvalidSignature):
    """Signed with a key that is not in the set; a newer set may have it."""


class PublicKey(msgspec.Struct, frozen=True):
    """A key that signatures are verified with, and the one algorithm it is for."""

    id: str
    algorithm: str
    key: Key

    @property
    def thumbprint(self) -> str:
        """Return the hash that identifies the key, whatever its id (RFC 7638)."""
        return self.key.thumbprint()


class SigningKey(msgspec.Struct, frozen=True):
    """A private key, and the one algorithm it is for."""

    id: str
    algorithm: str
    key: Key

    def sign(self, payload: bytes, header: Mapping[str, Any] | None = None) -> str:
        """Return the compact form of a signature over `payload`."""
        protected = {"alg": self.algorithm, "kid": self.id, **(header or {})}
        signed = f"{base64url(msgspec.json.encode(protected))}.{base64url(payload)}"
        algorithm = _Registry.algorithms[self.algorithm]
        return f"{signed}.{base64url(algorithm.sign(signed.encode(), self.key))}"

    def public(self) -> dict[str, Any]:
        """The key as others may see it (a JWK)."""
        shown = self.key.as_dict(private=False)
        return {**shown, "kid": self.id, "alg": self.algorithm, "use": "sig"}

    def __repr__(self) -> str:
        return f"SigningKey({self.id!r}, {self.algorithm!r})"


class _Registry(jws.JWSRegistry):
    """joserfc's rules, for one algorithm."""

    max_header_length = 8 << 10
    max_payload_length = 4 << 20
    max_signature_length = 4 << 10

    def __init__(self, algorithm: str) -> None:
        super().__init__(algorithms=[algorithm])

    def check_header(self, header: dict[str, Any]) -> None:
        """`verify` has looked at what counts. Members that mean nothing to us may be anything: some
        write `"jku": null`.
        """

    def get_alg(self, name: str) -> Any:
        if self.allowed is None or name not in self.allowed:
            raise JoseError(f"algorithm {name} is not that of the key")
        return self.algorithms[name]  # without joserfc's warning that EdDSA has a new name


def public_keys(jwks: Any) -> list[PublicKey]:
    """Return the keys of a JWK set that signatures can be verified with; others are left out.

    Raises:
        ValueError: It is no JWK set.
    """
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    if not isinstance(keys, list):
        raise ValueError("not a JWK set: it has no list of keys")
    found = (_public_key(item) for item in keys[:256] if isinstance(item, dict))
    return [key for key in found if key is not None]


def _public_key(item: dict[str, Any]) -> PublicKey | None:
    operations = item.get("key_ops")
    if item.get("use", "sig") != "sig" or (
        isinstance(operations, list) and "verify" not in operations
    ):
        return None
    members = {name: value for name, value in item.items() if name not in ("alg", "key_ops", "use")}
    try:
        key = _imported(members)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    algorithm = _algorithm(key, item.get("alg"))
    if algorithm is None:
        return None
    kid = item.get("kid")
    return PublicKey(kid if isinstance(kid, str) else "", algorithm, key)


def _imported(item: dict[str, Any]) -> Key:
    """Raises ValueError or JoseError: no key of ours, or one that is too weak."""
    if item.get("kty") not in ("RSA", "EC", "OKP"):
        raise ValueError("the key has another type")
    modulus = item.get("n")
    if item.get("kty") == "RSA" and (
        not isinstance(modulus, str) or len(from_base64url(modulus).lstrip(b"\0")) * 8 < _RSA_BITS
    ):
        raise ValueError("a weak key")
    return import_key(item)


def _algorithm(key: Key, named: Any) -> str | None:
    """The algorithm a key is for; None if it is for none of ours."""
    match key:
        case RSAKey():
            if named is None:
                return "RS256"
            return named if named in ALGORITHMS and named.startswith(("RS", "PS")) else None
        case ECKey() | OKPKey():
            by_curve = _CURVES.get(key.curve_name)
            is_same = named in (None, by_curve) or (by_curve, named) == ("EdDSA", "Ed25519")
            return (named or by_curve) if is_same else None
    return None


def private_key(where: Path | str | Mapping[str, Any], *, kid: str = "") -> SigningKey:
    """Return a private key from a PEM file, a JWK file, or a JWK.

    Raises:
        ValueError: It holds none that can sign here.
    """
    try:
        if isinstance(where, Mapping):
            data: Any = dict(where)
        else:
            raw = Path(where).read_bytes()
            data = _json.decode(raw) if raw.lstrip().startswith(b"{") else raw
        if isinstance(data, dict):
            named = data.get("alg")
            key = _imported(data)
        else:
            named, key = None, _from_pem(data)
    except OSError as error:
        raise ValueError(f"can't read the key {where}: {error.strerror}") from None
    except (JoseError, ValueError, TypeError, KeyError):
        raise ValueError(_NO_PRIVATE_KEY) from None
    algorithm = _algorithm(key, named)
    if algorithm is None or not key.is_private:
        raise ValueError(_NO_PRIVATE_KEY)
    return SigningKey(kid or key.kid or key.thumbprint(), algorithm, key)


def _from_pem(data: bytes) -> Key:
    key = load_pem_private_key(data, None)
    match key:
        case rsa.RSAPrivateKey() if key.key_size >= _RSA_BITS:
            return RSAKey(key, key)
        case ec.EllipticCurvePrivateKey():
            return ECKey(key, key)
        case ed25519.Ed25519PrivateKey():
            return OKPKey(key, key)
    raise ValueError("the key is not one of this server")


def public_jwk(pem: str, *, kid: str = "") -> dict[str, Any]:
    """Return a public key, given as PEM, as a JWK. Raises ValueError."""
    for kind in (ECKey, RSAKey, OKPKey):
        try:
            key = kind.import_key(pem)
        except (JoseError, ValueError, TypeError):
            continue
        return {**key.as_dict(private=False), "kid": kid or key.thumbprint()}
    raise ValueError("this is not a public key in PEM")


def header_of(token: str) -> dict[str, Any]:
    """Return the protected header of a signature, not verified. Raises InvalidSignature."""
    return _header(token.partition(".")[0])


def _header(text: str) -> dict[str, Any]:
    try:
        header = _json.decode(from_base64url(text))
    except (ValueError, RecursionError):
        raise InvalidSignature("the header is not JSON in base64url") from None
    if not isinstance(header, dict) or not isinstance(header.get("alg"), str):
        raise InvalidSignature("the header names no algorithm")
    return header


def verify(token: str, keys: Iterable[PublicKey]) -> tuple[dict[str, Any], bytes, PublicKey]:
    """Return the header and the payload of a compact signature, and the key it was made with.

    Raises:
        UnknownKey: None of the keys has its `kid`.
        InvalidSignature: It does not hold.
    """
    if token.count(".") != 2:
        raise InvalidSignature("not a signature: it does not have three parts")
    header = header_of(token)
    if "crit" in header or "b64" in header:
        raise InvalidSignature("the header requires extensions that are not supported (crit)")
    if header["alg"] not in ALGORITHMS:
        raise InvalidSignature("the algorithm is not one that is accepted")
    key = _chosen(header, list(keys))
    if header["alg"] != key.algorithm:
        raise InvalidSignature(f"the algorithm is not that of the key, {key.algorithm}")
    try:
        found = jws.deserialize_compact(token, key.key, registry=_Registry(key.algorithm))
    except (JoseError, ValueError, TypeError):
        raise InvalidSignature("the signature is not valid") from None
    return header, found.payload, key


def _chosen(header: dict[str, Any], keys: list[PublicKey]) -> PublicKey:
    kid = header.get("kid")
    if kid is None:
        fitting = [key for key in keys if key.algorithm == header["alg"]]
        if len(fitting) == 1:
            return fitting[0]
        raise InvalidSignature("the header does not say with which key (kid)")
    for key in keys:
        if key.id == kid and key.id:
            return key
    raise UnknownKey("signed with a key that is not known")


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """Raises ValueError: other characters, padding, or bits that mean nothing."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not base64url")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise ValueError("not base64url") from None
    if base64url(data) != text:
        raise ValueError("not base64url")
    return data
