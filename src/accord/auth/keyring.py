"""The keys of a server: to seal what is stored, and to sign what is sent.

A key is 32 random bytes, written as 43 letters; a sealing key (AES-256-GCM) and a signing key
(ES256) are derived from it (HKDF, RFC 5869). A keyring has one or more, the newest first: that one
is used. The others are kept for what was sealed before, and the last of them is still published.
"""

import contextlib
import logging
import os
import secrets
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from joserfc.jwk import ECKey

from ..private import private_folder, private_opener
from .jose import (
    InvalidSignature,
    SigningKey,
    base64url,
    from_base64url,
    public_keys,
    verify,
)

__all__ = ["Keyring", "KeyringError", "key_file_of", "new_key"]

_log = logging.getLogger("accord.auth")

_SEALED = b"\x01"
_ID_BYTES = 8
_NONCE_BYTES = 12
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_HEAD = """\
# Keys of Accord, the newest first. Whoever reads them can read what is sealed, and sign in the name
# of this server. Keep a copy: what was sealed with a key that is lost is lost too.
"""


class KeyringError(RuntimeError):
    """Raised when keys can't be read, or the one that is needed is missing. The text says what to
    do."""


class _Key(msgspec.Struct, frozen=True):
    secret: bytes
    made: str
    id: str
    sealing: AESGCM
    signing: SigningKey

    @classmethod
    def of(cls, secret: bytes, made: str) -> "_Key":
        key_id = _derive(secret, b"id", _ID_BYTES).hex()
        number = int.from_bytes(_derive(secret, b"sign", 48), "big") % (_P256_ORDER - 1) + 1
        private = ec.derive_private_key(number, ec.SECP256R1())
        signing = SigningKey(key_id, "ES256", ECKey(private, private, {"kid": key_id}))
        return cls(secret, made, key_id, AESGCM(_derive(secret, b"seal", 32)), signing)

    def __repr__(self) -> str:
        return f"_Key({self.id!r})"


def _derive(secret: bytes, purpose: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt=None, info=b"accord keyring 1: " + purpose).derive(secret)


def new_key() -> str:
    """Return a new key, as it is written in a file or in `ACCORD_KEY`."""
    return base64url(secrets.token_bytes(32))


def key_file_of(database: Path) -> Path:
    """Return the default file for the keys of an SQLite store."""
    return database.with_name(database.name + ".keys")


class Keyring:
    """Seals and signs; made by `open`, `parse` or `in_memory`.

    A file that was rotated by another process is read again when that matters.
    """

    def __init__(self, keys: list[_Key], file: Path | None = None, stamp: tuple[int, ...] = ()):
        self._keys = keys
        self._file = file
        self._stamp = stamp

    @classmethod
    def open(cls, file: str | Path, *, make: bool = True) -> "Keyring":
        """Return the keyring in a file; made, for nobody else to read, if there is none.

        Raises:
            KeyringError: The file can't be read or made, or holds something else.
        """
        file = Path(file).expanduser()
        try:
            if make and not file.exists():
                _create(file)
            stamp = _stamp(file)
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            what = getattr(error, "strerror", None) or "not a text"
            raise KeyringError(f"can't use the key file {file}: {what}") from None
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
            _log.warning("others may read the keys in %s; type: chmod 600 %s", file, file)
        return cls(_parse(text.splitlines(), str(file)), file, stamp)

    @classmethod
    def parse(cls, text: str, *, where: str = "ACCORD_KEY") -> "Keyring":
        """Return the keyring in a text: keys separated by commas, the newest first."""
        return cls(_parse(text.split(","), where))

    @classmethod
    def in_memory(cls) -> "Keyring":
        """Return a keyring that ends with the process."""
        return cls.parse(new_key())

    @classmethod
    def find(
        cls,
        *,
        file: str | Path | None = None,
        database: Path | None = None,
        is_volatile: bool = False,
        environment: Mapping[str, str] = os.environ,
    ) -> "Keyring":
        """Return the keyring of a server: from `file`, else from `ACCORD_KEY`, else from a file
        beside its SQLite database; in memory if nothing else is kept either.

        Raises:
            KeyringError: There is none, and nowhere to make one.
        """
        if file is not None:
            return cls.open(file)
        text = environment.get("ACCORD_KEY", "")
        if text:
            return cls.parse(text)
        if database is not None:
            return cls.open(key_file_of(database))
        if is_volatile:
            return cls.in_memory()
        raise KeyringError(
            "there is no key to encrypt and sign with. This store is shared, so every replica "
            "needs the same key: make one with `accord keyring new`, and give it to each replica "
            "as ACCORD_KEY=..., or as a file with --key-file FILE"
        )

    @property
    def file(self) -> Path | None:
        """The file with the keys; None if they are in no file."""
        return self._file

    @property
    def ids(self) -> list[tuple[str, str]]:
        """The id of every key, and when it was made; the newest first."""
        return [(key.id, key.made) for key in self._fresh()]

    def seal(self, data: bytes, *, context: str) -> bytes:
        """Return `data` encrypted, with the id of the key. It can be unsealed only with the same
        `context`: name there what it is and whose, so that it can't be put elsewhere.
        """
        key = self._fresh()[0]
        nonce = secrets.token_bytes(_NONCE_BYTES)
        head = _SEALED + bytes.fromhex(key.id)
        return head + nonce + key.sealing.encrypt(nonce, data, head + context.encode())

    def unseal(self, data: bytes, *, context: str) -> bytes:
        """Return what was sealed.

        Raises:
            KeyringError: Its key is not here, it was sealed for another context, or it was altered.
        """
        head, rest = data[: 1 + _ID_BYTES], data[1 + _ID_BYTES :]
        if head[:1] != _SEALED or len(rest) < _NONCE_BYTES + 16:
            raise KeyringError("this was not encrypted by a keyring")
        key_id = head[1:].hex()
        key = next((key for key in self._keys if key.id == key_id), None) or next(
            (key for key in self._fresh() if key.id == key_id), None
        )
        if key is None:
            raise KeyringError(
                f"this was encrypted with the key {key_id}, which is not in {self._where()}"
            )
        try:
            return key.sealing.decrypt(
                rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], head + context.encode()
            )
        except InvalidTag:
            raise KeyringError("this was changed, or encrypted for something else") from None

    def sign(self, payload: dict[str, Any], *, header: Mapping[str, Any] | None = None) -> str:
        """Return a JWS in compact form (ES256; the header names the key) over the payload."""
        return self.signing_key.sign(msgspec.json.encode(payload), header)

    def verify(self, token: str) -> dict[str, Any]:
        """Return what this keyring has signed, with any of its keys.

        Raises:
            KeyringError: None of these keys signed it.
        """
        keys = public_keys({"keys": [key.signing.public() for key in self._fresh()]})
        try:
            _, payload, _ = verify(token, keys)
        except InvalidSignature as error:
            raise KeyringError(f"no key of this keyring signed this: {error}") from None
        return msgspec.json.decode(payload, type=dict[str, Any])

    @property
    def signing_key(self) -> SigningKey:
        return self._fresh()[0].signing

    def jwks(self) -> dict[str, Any]:
        """The public keys, as others get them to verify what is signed: the current one, and the
        one before.
        """
        return {"keys": [key.signing.public() for key in self._fresh()[:2]]}

    def rotate(self) -> str:
        """Make a new key the current one; return its id.

        Raises:
            KeyringError: The keys are in no file.
        """
        if self._file is None:
            raise KeyringError(
                "these keys are not in a file: make a new key with `accord keyring new` and put "
                "it before the others, as in ACCORD_KEY=NEW,OLD"
            )
        keys = self._fresh()
        new = _Key.of(secrets.token_bytes(32), _now())
        temporary = self._file.with_name(f"{self._file.name}.{os.getpid()}.new")
        try:
            _write(temporary, [new, *keys])
            os.replace(temporary, self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise KeyringError(f"can't write the key file {self._file}: {error.strerror}") from None
        self._fresh()
        return new.id

    def _fresh(self) -> list[_Key]:
        """The keys, as the file has them now. A file that is gone or broken changes nothing."""
        if self._file is None:
            return self._keys
        with contextlib.suppress(OSError):
            stamp = _stamp(self._file)
            if stamp != self._stamp:
                try:
                    self._keys = _parse(self._file.read_text().splitlines(), str(self._file))
                except (KeyringError, UnicodeDecodeError) as error:
                    _log.error("new keys can't be read, so the old ones stay in use: %s", error)
                self._stamp = stamp
        return self._keys

    def _where(self) -> str:
        return str(self._file) if self._file is not None else "ACCORD_KEY"

    def __repr__(self) -> str:
        return f"Keyring({[key.id for key in self._keys]})"


def _parse(lines: list[str], where: str) -> list[_Key]:
    keys = []
    for line in lines:
        text, _, made = line.strip().partition(" ")
        if not text or text.startswith("#"):
            continue
        try:
            secret = from_base64url(text)
        except ValueError:
            secret = b""
        if len(secret) != 32:
            raise KeyringError(
                f"{where} holds something that is not a key; make a key with `accord keyring new`"
            )
        keys.append(_Key.of(secret, made.strip()))
    if not keys:
        raise KeyringError(f"{where} holds no key; make one with `accord keyring new`")
    return keys


def _create(file: Path) -> None:
    """Make a key file; if another process is quicker, its file counts."""
    private_folder(file.parent)
    temporary = file.with_name(f"{file.name}.{os.getpid()}.new")
    _write(temporary, [_Key.of(secrets.token_bytes(32), _now())])
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, file)
    finally:
        temporary.unlink()


def _write(file: Path, keys: list[_Key]) -> None:
    text = _HEAD + "".join(f"{base64url(key.secret)} {key.made}".rstrip() + "\n" for key in keys)
    with open(file, "w", opener=private_opener) as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _stamp(file: Path) -> tuple[int, ...]:
    found = file.stat()
    return found.st_mtime_ns, found.st_ino, found.st_size
